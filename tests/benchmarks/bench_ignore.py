"""A thousand generated repositories: what our walk leaves out beside what git leaves out.

`python -m tests.benchmarks ignore -- [--trees 1000] [--seed N]`. Exits with 1 where they disagree.
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
import time
from pathlib import Path

from tests.agents.ignore_trees import differences, empty_repository


def main(trees: int = 1000, seed: int | None = None) -> int:
    """Print every disagreement; 1 if there is one."""
    first = random.randrange(1_000_000) if seed is None else seed
    begun = time.perf_counter()
    found: list[str] = []
    with tempfile.TemporaryDirectory(prefix="bench-ignore-") as temporary:
        folder = Path(temporary)
        template = empty_repository(folder)
        for number in range(first, first + trees):
            found += differences(template, folder, number)
            shutil.rmtree(folder / f"tree{number}")
    seconds = time.perf_counter() - begun
    print("\n".join(found[:20]))
    print(f"{trees} trees from seed {first}, {len(found)} disagreements, {seconds:.1f} s")
    return 1 if found else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trees", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    raise SystemExit(main(options.trees, options.seed))

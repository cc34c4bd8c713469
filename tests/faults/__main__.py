"""`python -m tests.faults --rounds 200 --seed 1`: many random rounds, each told by its seed."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import trio

from tests.faults.lab import NAMED, play_all, random_kills


def main() -> int:
    """Play the rounds and print what went wrong; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1, help="of the first round; each has the next number")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--named", action="store_true", help="play the named steps as well")
    chosen = parser.parse_args()
    rounds: dict[str, Sequence[dict[str, Any]]] = dict(NAMED) if chosen.named else {}
    seeds = range(chosen.seed, chosen.seed + chosen.rounds)
    rounds |= {f"seed {seed}": random_kills(seed) for seed in seeds}
    root = Path(tempfile.mkdtemp(prefix="faults-"))
    began = time.monotonic()
    wrong = trio.run(play_all, root, rounds, chosen.workers)
    print(*wrong, f"{len(rounds)} rounds, {len(wrong)} failed, {time.monotonic() - began:.0f} s", sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

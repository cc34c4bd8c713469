"""`python -m tests.benchmarks [NAME…] [options]`: every benchmark here, each in a process of its own.

NAME is a part of a file's name (`search`, `store`). Options after `--` go to each script.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def scripts(wanted: list[str]) -> list[str]:
    """The modules to run: those whose names hold one of `wanted`, or all."""
    found = sorted(path.stem for path in HERE.glob("bench_*.py"))
    return [name for name in found if not wanted or any(part in name for part in wanted)]


def main(arguments: list[str]) -> int:
    """The number of benchmarks that failed."""
    split = arguments.index("--") if "--" in arguments else len(arguments)
    chosen = scripts(arguments[:split])
    if not chosen:
        print(f"No benchmark is called so; there are {', '.join(scripts([]))}.", file=sys.stderr)
        return 2
    failed = 0
    for name in chosen:
        print(f"\n== {name.removeprefix('bench_')}", flush=True)
        command = [sys.executable, "-m", f"tests.benchmarks.{name}", *arguments[split + 1 :]]
        failed += subprocess.run(command, cwd=HERE.parent.parent, check=False).returncode != 0
    return failed


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

"""Reading the end of a file of several GiB, in a process of its own whose memory is measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import attrs
import trio

from agents.tools.read import ReadTool
from tests.agents.tools.context import make_context, result

LINE = b"2026-01-01T00:00:00Z INFO worker=%07d " + b"x" * 60 + b"\n"
BLOCK_LINES = 10_000


@attrs.frozen
class LargeRead:
    """Seconds and MiB."""

    first_page: float
    later_page: float
    memory_mib: float


def read_large(folder: Path, gib: float) -> LargeRead:
    """Make the file, read it in a child process, remove it."""
    root = folder / "large" / "repo"
    root.mkdir(parents=True)
    path = root / "big.log"
    lines = _fill(path, int(gib * (1 << 30)))
    command = [sys.executable, "-m", "tests.benchmarks.large_read", str(root.parent), str(lines)]
    try:
        done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr.decode())
        return LargeRead(**json.loads(done.stdout))
    finally:
        path.unlink()


def _fill(path: Path, size: int) -> int:
    """Write at least `size` bytes of lines, none of them a hole; how many lines."""
    count = 0
    with path.open("wb") as file:
        while file.tell() < size:
            file.write(b"".join(LINE % (count + number) for number in range(BLOCK_LINES)))
            count += BLOCK_LINES
    return count


async def _read(folder: Path, lines: int) -> LargeRead:
    tool, context = ReadTool(), make_context(folder)
    (folder / "repo" / "small.txt").write_text("x\n" * 100)
    await result(tool, context, path="small.txt")  # what every first call loads
    before = _peak_mib()
    begun = time.perf_counter()
    page = await result(tool, context, path="big.log", offset=lines - 49, limit=50)
    first = time.perf_counter() - begun
    assert page.total_lines == lines
    assert page.content.splitlines()[-1].startswith(f"{lines}:")
    later = []
    for offset in (1, lines // 2, lines - 500, lines // 3):
        begun = time.perf_counter()
        page = await result(tool, context, path="big.log", offset=offset, limit=50)
        later.append(time.perf_counter() - begun)
        assert page.content.splitlines()[1].startswith(f"{offset}:")
    return LargeRead(first, max(later), _peak_mib() - before)


def _peak_mib() -> float:
    """The most memory this process had so far. (`ru_maxrss` starts with that of the parent.)"""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


if __name__ == "__main__":
    measured = trio.run(_read, Path(sys.argv[1]), int(sys.argv[2]))
    os.write(1, json.dumps(attrs.asdict(measured)).encode())

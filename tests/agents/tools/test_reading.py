"""Reading the files of a search: what a slow disk changes, and what happens to descriptors."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from agents.tools.search import reading
from agents.tools.search.lines import Text
from agents.tools.search.patterns import parse_pattern
from agents.tools.search.reading import read_texts
from agents.tools.search.sieve import SMALL_BYTES, Sieve
from agents.tools.search.walk import Tally, Walk
from agents.tools.search.worker import Clock, OutOfTime
from agents.workspace import Workspace
from tests.agents.tools.context import make_workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path)


def tree(workspace: Workspace) -> list[str]:
    """Files of every kind in several directories; gives the paths of those with the word."""
    for number in range(300):
        path = workspace.root / f"d{number % 7}" / f"f{number:03}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"needle\r\n" if number % 3 == 0 else b"hay\n")
    (workspace.root / "d3" / "large.txt").write_bytes(b"hay\n" * SMALL_BYTES + b"needle\n")
    (workspace.root / "d3" / "exact.txt").write_bytes(b"needle\n" + b"h" * (SMALL_BYTES - 7))
    (workspace.root / "d3" / "one-more.txt").write_bytes(b"needle\n" + b"h" * (SMALL_BYTES - 6))
    (workspace.root / "d4" / "empty.txt").touch()
    (workspace.root / "d4" / "zero.txt").write_bytes(b"needle\0")
    (workspace.root / "d4" / "image.png").write_bytes(b"needle")
    os.mkfifo(workspace.root / "d5" / "pipe")
    some = [f"d{number % 7}/f{number:03}.txt" for number in range(0, 300, 3)]
    return sorted([*some, "d3/large.txt", "d3/exact.txt", "d3/one-more.txt"])


def everything(_: str, names: list[str]) -> list[str]:
    """Nobody else reads any of them."""
    return names


def search(workspace: Workspace, *, seconds: float = 60) -> tuple[list[str], int, Tally]:
    """Paths that came, how many files did not, and what was passed over."""
    walk = Walk(
        workspace, workspace.resolve("."), Clock(time.monotonic() + seconds, threading.Event()), Tally()
    )
    came: list[Text] = []
    passed = 0
    for others, text in read_texts(walk, Sieve(parse_pattern("needle")), walk.tally, everything):
        passed += others
        if text is not None:
            assert b"needle" in text.data()
            came.append(text)
    return [text.path for text in came], passed, walk.tally


def test_every_file_is_searched_whatever_its_size(workspace: Workspace) -> None:
    expected = tree(workspace)
    paths, passed, tally = search(workspace)
    assert paths == expected
    assert passed == 200 + 1
    assert (tally.binary, tally.special, tally.unreadable) == (2, 1, 0)


def test_where_reading_waits_for_the_disk_files_are_fetched_ahead_and_the_answer_is_the_same(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(workspace)
    plain = search(workspace)
    fetched: list[int] = []
    slow_read = os.readv
    monkeypatch.setattr(reading, "_fetch", fetched.append)
    monkeypatch.setattr(os, "readv", lambda *given: (time.sleep(0.001), slow_read(*given))[1])
    open_before = len(os.listdir("/proc/self/fd"))
    assert search(workspace) == plain
    assert len(fetched) > 250
    assert len(os.listdir("/proc/self/fd")) == open_before


def test_a_warm_cache_needs_no_fetching_ahead(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(workspace)
    fetched: list[int] = []
    monkeypatch.setattr(reading, "_fetch", fetched.append)
    monkeypatch.setattr(time, "monotonic", time.thread_time)  # a busy machine makes anything wait
    search(workspace)
    assert fetched == []


def test_a_slow_search_ends_at_its_time_with_every_descriptor_closed(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(workspace)
    slow_read = os.readv
    monkeypatch.setattr(os, "readv", lambda *given: (time.sleep(0.005), slow_read(*given))[1])
    open_before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OutOfTime):
        search(workspace, seconds=0.2)
    assert len(os.listdir("/proc/self/fd")) == open_before


def test_a_file_that_grows_or_shrinks_while_it_is_opened_is_searched_as_it_is_read(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace.root / "grows.txt").write_bytes(b"hay\n")
    (workspace.root / "shrinks.txt").write_bytes(b"hay\n" * 100)
    plain_open = reading.descriptors.open_listed

    def changed(parent: int, name: str) -> tuple[int, os.stat_result] | None:
        opened = plain_open(parent, name)
        (workspace.root / name).write_bytes(b"hay\n" * 5 + b"needle\n")
        return opened

    monkeypatch.setattr(reading.descriptors, "open_listed", changed)
    assert search(workspace)[0] == ["grows.txt", "shrinks.txt"]


def test_what_the_system_calls_empty_is_read_all_the_same(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path)
    root = workspace.resolve("/proc/self/task")
    walk = Walk(workspace, root, Clock(time.monotonic() + 60, threading.Event()), Tally())
    texts = read_texts(walk, Sieve(parse_pattern("^Name:")), walk.tally, everything)
    paths = [text.path for _, text in texts if text is not None]
    assert any(path.endswith("/status") for path in paths)

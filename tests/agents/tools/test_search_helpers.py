"""Search helpers: the same answer as alone, whatever becomes of them, and none of them outlives its session."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.rules.edits import tag_of_digest
from agents.rules.hidden import hidden_by
from agents.rules.permission_rules import Rule
from agents.tools.search import helpers as module
from agents.tools.search import sharing, walk
from agents.tools.search.content import Found, grep
from agents.tools.search.globs import parse_include
from agents.tools.search.helpers import Helper, SearchHelpers
from agents.tools.search.patterns import parse_pattern
from agents.tools.search.query import Mode, Query
from agents.tools.search.rows import FileHits
from agents.tools.search.shares import Part
from agents.tools.search.worker import Clock, GivenUp
from agents.workspace import Workspace
from tests.agents.tools.context import make_workspace

EVERYTHING = 1 << 40


def made_ready(helpers: SearchHelpers, most: int) -> SearchHelpers:
    """Wait until all of them are."""
    taken: list[Helper] = []
    deadline = time.monotonic() + 30
    while len(taken) < most and time.monotonic() < deadline:
        taken += helpers.take()
        time.sleep(0.01)
    for helper in taken:
        helpers.give_back(helper, done=True)
    assert len(taken) == most
    return helpers


def started(most: int) -> SearchHelpers:
    return made_ready(SearchHelpers(most), most)


@pytest.fixture(scope="module")
def shared_helpers() -> Iterator[SearchHelpers]:
    helpers = started(2)
    yield helpers
    helpers.close()


@pytest.fixture
def helpers() -> Iterator[SearchHelpers]:
    """Of one test alone: it may do them harm."""
    found = started(1)
    yield found
    found.close()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small trees are shared as well."""
    monkeypatch.setattr(sharing, "FIRST_FILES", 3)
    monkeypatch.setattr(sharing, "START_FILES", 3)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    workspace = make_workspace(tmp_path)
    for number in range(120):
        path = workspace.root / f"d{number % 5}" / f"f{number:03}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"needle {number}\nhay\nneedle\n" if number % 2 else "hay\n")
    (workspace.root / "d1" / "binary.txt").write_bytes(b"needle\0")
    (workspace.root / "d1" / "odd.txt").write_bytes(b"needle" + b"\x01" * 40)
    return workspace


def search(
    workspace: Workspace,
    helpers: SearchHelpers | None,
    mode: Mode = "content",
    *,
    limit: int = EVERYTHING,
    clock: Clock | None = None,
    query: Query | None = None,
) -> tuple[Found, list[tuple[str, bytes | None, list[int]]]]:
    """What was found, and what was recorded as seen."""
    seen: list[tuple[str, bytes | None, list[int]]] = []

    def record(canonical: str, hits: FileHits) -> str:
        seen.append((canonical, hits.data, list(hits.seen())))
        return tag_of_digest(hits.digest)

    found = grep(
        workspace,
        workspace.resolve("."),
        query or Query(parse_pattern("needle"), mode, limit, EVERYTHING),
        clock=clock or Clock(time.monotonic() + 60, threading.Event()),
        record=record,
        helpers=helpers,
    )
    return found, seen


def same(workspace: Workspace, helpers: SearchHelpers, mode: Mode, *, limit: int = EVERYTHING) -> None:
    alone, helped = search(workspace, None, mode, limit=limit), search(workspace, helpers, mode, limit=limit)
    assert helped[1] == alone[1]
    if alone[0].full:  # how much was looked at in vain is nobody's business
        assert helped[0].hits == alone[0].hits
        assert helped[0].full
    else:
        assert helped[0] == alone[0]


def pids(helpers: SearchHelpers) -> list[int]:
    return [helper.process.pid for helper in (*helpers._idle, *helpers._busy)]


def until(true: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# the same answer


@pytest.mark.parametrize("mode", ["content", "filesWithMatches", "count"])
@pytest.mark.parametrize("limit", [EVERYTHING, 1000, 60, 7, 1])
def test_an_answer_with_helpers_is_the_one_without(
    workspace: Workspace, shared_helpers: SearchHelpers, mode: Mode, limit: int
) -> None:
    same(workspace, made_ready(shared_helpers, 2), mode, limit=limit)


def test_helpers_do_take_a_share(
    workspace: Workspace, helpers: SearchHelpers, monkeypatch: pytest.MonkeyPatch
) -> None:
    own: list[str] = []
    plain = Part.names

    def noted(part: Part, prefix: str, names: list[str]) -> list[str]:
        own.extend(plain(part, prefix, names))
        return plain(part, prefix, names)

    monkeypatch.setattr(Part, "names", noted)
    found, _ = search(workspace, helpers, "count")
    assert found.searched == 120
    assert 20 < len(own) < 100


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    files=st.dictionaries(
        st.lists(
            st.sampled_from(["a", "b", "a-b", "A", "é", "c.py", ".env", "build"]), min_size=1, max_size=3
        ).map("/".join),
        st.sampled_from(
            [b"needle\n", b"x\r\nneedle\r\n", b"hay\n", b"", b"needle\0", "needle\n".encode("utf-16")]
        ),
        max_size=25,
    ),
    source=st.sampled_from(["needle", "needle$", "NEEDLE|hay", "\\Aneedle", "^$"]),
    ignore_case=st.booleans(),
    include=st.sampled_from([None, "*.py", "[ab]"]),
    deny=st.sampled_from([(), ("Read(b/**)",), ("Read(*.py)",)]),
    rules=st.sampled_from([b"", b"a/\n!a-b\n", b"/a/b\n*.py\n"]),
    mode=st.sampled_from(["content", "filesWithMatches", "count"]),
)
def test_any_tree_is_searched_alike(
    tmp_path_factory: pytest.TempPathFactory,
    shared_helpers: SearchHelpers,
    files: dict[str, bytes],
    source: str,
    ignore_case: bool,
    include: str | None,
    deny: tuple[str, ...],
    rules: bytes,
    mode: Mode,
) -> None:
    workspace = make_workspace(tmp_path_factory.mktemp("tree"))
    (workspace.root / ".gitignore").write_bytes(rules)
    for name, data in files.items():
        path = workspace.root / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        except (FileExistsError, NotADirectoryError, IsADirectoryError):  # the name stands for both
            continue
    query = Query(
        parse_pattern(source, ignore_case=ignore_case),
        mode,
        EVERYTHING,
        EVERYTHING,
        include=None if include is None else parse_include(include),
        hidden=hidden_by(
            [Rule.parse(rule) for rule in deny], "Grep", workspace=str(workspace.root), home=None
        ),
    )
    made_ready(shared_helpers, 2)
    assert search(workspace, shared_helpers, query=query) == search(workspace, None, query=query)


@given(name=st.text(min_size=1), places=st.integers(1, 4))
def test_each_file_is_in_exactly_one_share(name: str, places: int) -> None:
    if name.encode("utf-8", "replace") == name.encode("utf-8", "surrogatepass"):
        assert sum(Part(at, places).names("d/", [name]) == [name] for at in range(places)) == 1


# whatever becomes of them


def test_a_job_that_is_too_large_leaves_its_helper_in_peace(
    workspace: Workspace, helpers: SearchHelpers
) -> None:
    rules = [Rule.parse(f"Read(none-{number}/**)") for number in range(3000)]
    hidden = hidden_by(rules, "Grep", workspace=str(workspace.root), home=None)
    query = Query(parse_pattern("needle"), "count", EVERYTHING, EVERYTHING, hidden=hidden)
    before = pids(helpers)
    assert search(workspace, helpers, query=query) == search(workspace, None, query=query)
    assert pids(helpers) == before


@pytest.mark.parametrize("mode", ["content", "filesWithMatches", "count"])
def test_a_tree_with_too_many_entries_loses_nothing_that_was_found(
    workspace: Workspace, helpers: SearchHelpers, monkeypatch: pytest.MonkeyPatch, mode: Mode
) -> None:
    made_ready(helpers, 1)
    monkeypatch.setattr(walk, "MAX_ENTRIES", 110)
    alone, _ = search(workspace, None, mode)
    helped, _ = search(workspace, helpers, mode)  # its own limit is the usual one
    assert alone.stopped
    assert helped.stopped == alone.stopped
    assert {hit.path for hit in alone.hits} <= {hit.path for hit in helped.hits}


def test_lines_that_one_helper_had_no_room_for_are_not_skipped(
    tmp_path: Path, shared_helpers: SearchHelpers
) -> None:
    workspace = make_workspace(tmp_path)
    for number in range(90):
        (workspace.root / f"f{number:02}").write_text(
            f"needle {'y' * 1700}\n" * 60 if number % 9 == 5 else "needle\n"
        )
    made_ready(shared_helpers, 2)
    for size in (3_000, 20_000, 47_104, 200_000):
        query = Query(parse_pattern("needle"), "content", 1000, size)
        alone, helped = (search(workspace, some, query=query) for some in (None, shared_helpers))
        made_ready(shared_helpers, 2)
        assert helped[0].hits == alone[0].hits
        assert helped[1] == alone[1]
        assert helped[0].full
        assert alone[0].full


@pytest.mark.parametrize("mode", ["content", "count"])
@pytest.mark.parametrize("size", range(300, 2300, 90))
def test_rows_are_the_first_in_path_order_wherever_their_size_cuts_them(
    tmp_path: Path, shared_helpers: SearchHelpers, mode: Mode, size: int
) -> None:
    workspace = make_workspace(tmp_path)
    for number in range(40):
        (workspace.root / f"{'n' * (number % 7 * 20)}{number:02}").write_text(
            "needle" + "y" * (number % 5 * 60) + "\n"
        )
    made_ready(shared_helpers, 2)
    query = Query(parse_pattern("needle"), mode, EVERYTHING, size)
    alone, helped = (search(workspace, some, query=query)[0] for some in (None, shared_helpers))
    assert alone.full
    assert helped.hits == alone.hits
    assert (helped.full, helped.lines) == (alone.full, alone.lines)


def test_a_small_tree_starts_no_process(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "START_FILES", 1000)
    helpers = SearchHelpers(1)
    same(workspace, helpers, "count")
    assert pids(helpers) == []


def test_the_first_search_starts_them_and_waits_for_none(workspace: Workspace) -> None:
    helpers = SearchHelpers(1)
    try:
        alone = search(workspace, None)
        assert search(workspace, helpers) == alone
        assert len(pids(helpers)) == 1
    finally:
        helpers.close()


@pytest.mark.parametrize("mode", ["content", "filesWithMatches", "count"])
@pytest.mark.parametrize("death", [signal.SIGKILL, signal.SIGSTOP])
def test_a_helper_that_dies_or_hangs_costs_nothing_but_time(
    workspace: Workspace,
    helpers: SearchHelpers,
    monkeypatch: pytest.MonkeyPatch,
    mode: Mode,
    death: signal.Signals,
) -> None:
    (victim,) = pids(helpers)
    asked = Helper.ask

    def ask(helper: Helper, job: bytes) -> bool:
        os.kill(helper.process.pid, death)
        return asked(helper, job)

    monkeypatch.setattr(Helper, "ask", ask)
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.2)
    same(workspace, helpers, mode)
    with pytest.raises(ProcessLookupError):
        os.kill(victim, 0)


def test_a_helper_that_dies_after_some_answers_is_not_asked_twice_for_the_same(
    workspace: Workspace, helpers: SearchHelpers, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = search(workspace, None, "count")
    plain = Helper._message
    heard = 0

    def message(helper: Helper, clock: Clock) -> object:
        nonlocal heard
        heard += 1
        if heard == 1:
            found = plain(helper, clock)
            assert found.hits
            return found
        raise module.HelperLost

    monkeypatch.setattr(Helper, "_message", message)
    assert search(workspace, helpers, "count") == alone
    assert heard == 2


READY = "import sys; sys.stdout.write('R'); sys.stdout.flush(); "


@pytest.mark.parametrize(
    "program",
    [
        "sys.stdin.read(1); print('x' * 99)",
        "sys.stdin.read(1)",
        "sys.stdout.write('\\4\\0\\0\\0abcd'); sys.stdout.flush(); sys.stdin.read()",
    ],
)
def test_nonsense_for_an_answer_is_no_answer(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setattr(module, "COMMAND", (sys.executable, "-c", READY + program))
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.2)
    helpers = started(1)
    try:
        same(workspace, helpers, "content")
    finally:
        helpers.close()


def test_where_no_process_can_be_started_a_search_goes_on_alone(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "COMMAND", ("/nonexistent/python",))
    helpers = SearchHelpers(2)
    same(workspace, helpers, "content")
    assert pids(helpers) == []


def test_helpers_that_do_not_start_are_not_tried_for_ever(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "COMMAND", (sys.executable, "-c", "import no_such_module"))
    helpers = SearchHelpers(1)
    tried: set[int] = set()
    try:
        for _ in range(8):
            same(workspace, helpers, "count")
            tried.update(pids(helpers))
            until(lambda: not any(helper.is_alive() for helper in helpers._idle))
    finally:
        helpers.close()
    assert len(tried) == module.MOST_FAILURES


def test_a_helper_that_has_left_is_replaced(workspace: Workspace, helpers: SearchHelpers) -> None:
    (first,) = pids(helpers)
    os.kill(first, signal.SIGTERM)
    until(lambda: not helpers._idle[0].is_alive())
    same(workspace, helpers, "content")
    (second,) = pids(helpers)
    assert second != first


def test_a_job_that_does_not_fit_into_the_pipe_is_not_waited_for(helpers: SearchHelpers) -> None:
    (helper,) = helpers.take()
    os.kill(helper.process.pid, signal.SIGSTOP)
    assert not helper.ask(b"x" * (1 << 20))  # more than the pipe holds, and nobody reads
    helpers.give_back(helper, done=False)


def test_a_search_that_is_given_up_ends_its_helpers_work(
    workspace: Workspace, helpers: SearchHelpers, monkeypatch: pytest.MonkeyPatch
) -> None:
    (victim,) = pids(helpers)
    given_up = threading.Event()
    asked = Helper.ask

    def ask(helper: Helper, job: bytes) -> bool:
        given_up.set()
        return asked(helper, job)

    monkeypatch.setattr(Helper, "ask", ask)
    with pytest.raises(GivenUp):
        search(workspace, helpers, clock=Clock(time.monotonic() + 60, given_up))
    with pytest.raises(ProcessLookupError):
        os.kill(victim, 0)


def test_a_search_whose_time_is_over_says_so(
    workspace: Workspace, helpers: SearchHelpers, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Helper.ask

    def ask(helper: Helper, job: bytes) -> bool:
        os.kill(helper.process.pid, signal.SIGSTOP)
        return asked(helper, job)

    monkeypatch.setattr(Helper, "ask", ask)
    found, _ = search(workspace, helpers, clock=Clock(time.monotonic() + 0.3, threading.Event()))
    assert found.timed_out


def test_what_helpers_have_counted_when_the_time_is_over_is_in_the_answer(
    workspace: Workspace, helpers: SearchHelpers, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = os.readv
    monkeypatch.setattr(os, "readv", lambda *given: (time.sleep(0.03), plain(*given))[1])
    found, _ = search(workspace, helpers, "count", clock=Clock(time.monotonic() + 1.8, threading.Event()))
    assert found.timed_out
    # In that time this process reads at most 60 files, half of them with a match.
    assert len(found.hits) > 35


# what a helper is


def test_closing_ends_every_helper_at_work_or_not(workspace: Workspace) -> None:
    helpers = started(2)
    working, idle = helpers.take()
    helpers.give_back(idle, done=True)
    victims = pids(helpers)
    helpers.close()
    for victim in victims:
        with pytest.raises(ProcessLookupError):
            os.kill(victim, 0)
    helpers.give_back(working, done=True)
    assert helpers.take() == []
    same(workspace, helpers, "content")


def test_a_helper_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    program = (
        "import time\n"
        "from agents.tools.search.helpers import SearchHelpers\n"
        "helpers = SearchHelpers(1)\n"
        "helpers.take()\n"
        "print(helpers._idle[0].process.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    helper = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    until(lambda: not _runs(helper))


def _runs(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def test_a_helper_that_is_not_asked_leaves_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    program = "from agents.tools.search import helper; helper.IDLE_SECONDS = 0.1; helper.main()"
    monkeypatch.setattr(module, "COMMAND", (sys.executable, "-c", program))
    helpers = started(1)
    try:
        until(lambda: not helpers._idle[0].is_alive())
    finally:
        helpers.close()


def test_a_helper_imports_nothing_from_the_workspace_and_knows_no_secrets(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace.root / "agents").mkdir()
    (workspace.root / "agents" / "__init__.py").write_text("open('trap', 'w')\n")
    (workspace.root / "re2.py").write_text("open('trap', 'w')\n")
    monkeypatch.chdir(workspace.root)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    helpers = started(1)
    try:
        same(workspace, helpers, "content")
        (pid,) = pids(helpers)
        assert b"sk-secret" not in Path(f"/proc/{pid}/environ").read_bytes()
        assert os.readlink(f"/proc/{pid}/cwd") == "/"
    finally:
        helpers.close()
    assert not (workspace.root / "trap").exists()

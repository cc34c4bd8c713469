"""Answers and orders from other processes reach a session; what comes too late changes nothing."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from agents.errors import ErrorCode, Failure
from agents.events import PermissionResolved, ToolFinished
from agents.requests import Answer, Decision, PermissionRequest
from agents.spec import AgentSpec, OperatingMode, PermissionMode
from orchestrator.opening import Extras, open_settings
from orchestrator.session import Session
from orchestrator.settings import Settings
from orchestrator.store.base import RequestRow, Store
from orchestrator.store.mail import AnswerRequest, StopSession, StopTask
from orchestrator.store.memory import open_memory_store
from orchestrator.store.sqlite import open_sqlite_store
from tests.harness import call, calls, edit, events_of, say, scripted, spans_named, spans_of
from tests.orchestrator.holder import ROOT, holding

YES = Answer(decision=Decision.ALLOW_ONCE, source="inbox", by="alice")
NO = Answer(decision=Decision.DENY, source="inbox", by="alice", feedback="not this one")


def write(path: str) -> dict[str, Any]:
    return call("Write", path=path, content="x\n")


def task(prompt: str = "Do it", agent: str = "fixer") -> dict[str, Any]:
    return call("Task", subagent_type=agent, prompt=prompt)


async def requests_of(store: Store, session_id: str, count: int) -> tuple[RequestRow, ...]:
    """The open requests, once there are so many."""
    with trio.fail_after(30):
        while len(found := await store.requests(session_id, only_open=True)) < count:
            await trio.sleep(0.02)
    return found


def by_label(rows: Sequence[RequestRow]) -> dict[str, PermissionRequest]:
    return {row.request.agent_label: row.request for row in rows}


def answer(request: PermissionRequest, given: Answer) -> AnswerRequest:
    return AnswerRequest(session_id=request.session_id, request_id=request.id, answer=given)


async def refused(store: Store, letter: Any) -> ErrorCode:
    with pytest.raises(Failure) as caught:
        await store.post(letter)
    return caught.value.error.code


async def test_seven_delegates_ask_at_once_and_each_gets_its_own_answer(tmp_path: Path) -> None:
    labels = [f"fixer#{number}" for number in range(1, 8)]
    agents: dict[str, Any] = {
        label: [calls(write(f"{number}.txt")), say(f"{label} is done")]
        for number, label in enumerate(labels, 1)
    }
    agents["main"] = [calls(*(task() for _ in labels)), calls(call("TaskWait")), say("All told.")]
    async with holding(tmp_path, agents, settings={"permission_timeout": 3.0}) as holder:
        async with open_sqlite_store(holder.store_path) as store:
            asked = by_label(await requests_of(store, holder.session_id, 7))
            for label in reversed(labels):  # 7 yes, 6 no, 5 yes, 4 no, 3 yes, 2 stopped, 1 times out
                number = int(label[-1])
                if number >= 3:
                    await store.post(answer(asked[label], YES if number % 2 else NO))
                elif number == 2:
                    assert asked[label].task_id is not None
                    await store.post(StopTask(session_id=holder.session_id, task_id=asked[label].task_id))
            with trio.fail_after(20):
                told = await holder.result()
            assert told["status"] == "completed"
            rows = {row.request.agent_label: row for row in await store.requests(holder.session_id)}
            assert {label: row.decision for label, row in rows.items()} == {
                "fixer#1": "timeout",
                "fixer#2": "cancelled",
                "fixer#3": "allow-once",
                "fixer#4": "deny",
                "fixer#5": "allow-once",
                "fixer#6": "deny",
                "fixer#7": "allow-once",
            }
            assert {row.decided_by for label, row in rows.items() if int(label[-1]) > 2} == {"alice"}
            assert all(row.closed is not None and row.wait_ms is not None for row in rows.values())
            assert 2500 < (rows["fixer#1"].wait_ms or 0) < 6000
            statuses = {row.label: row.status for row in await store.tasks(holder.session_id)}
            assert statuses == dict.fromkeys(labels, "completed") | {"fixer#2": "stopped"}
            spans = [span for span in await store.spans(holder.session_id) if span.name == "permission wait"]
            decisions = sorted(str(span.attributes["orchestrator.permission.decision"]) for span in spans)
            assert decisions == sorted(str(row.decision) for row in rows.values())
            assert await refused(store, answer(asked["fixer#1"], YES)) is ErrorCode.CONFLICT
    assert sorted(path.name for path in (tmp_path / "repo").glob("*.txt")) == ["3.txt", "5.txt", "7.txt"]
    assert sorted(told["denials"]) == [
        ["fixer#1", "timeout"],
        ["fixer#2", "cancelled"],
        ["fixer#4", "user"],
        ["fixer#6", "user"],
    ]


async def test_a_killed_holder_s_requests_are_not_answerable_and_closed_at_the_next_start(
    tmp_path: Path,
) -> None:
    agents = {"main": [calls(write("a.txt")), say("Done.")]}
    async with holding(tmp_path, agents) as holder, open_sqlite_store(holder.store_path) as store:
        (row,) = await requests_of(store, holder.session_id, 1)
        holder.process.kill()
        await holder.process.wait()
        assert await store.holder(holder.session_id) is None
        assert await refused(store, answer(row.request, YES)) is ErrorCode.CONFLICT
        assert await refused(store, StopSession(session_id=holder.session_id)) is ErrorCode.CONFLICT
        settings = Settings(workspace=tmp_path / "repo", data_dir=tmp_path / "data")
        extras = Extras(model=scripted(agents), store=store)
        async with open_settings(settings, extras, resume=holder.session_id):
            (closed,) = await store.requests(holder.session_id)
    assert (closed.decision, closed.source) == ("cancelled", "process died")
    assert closed.closed is not None
    assert not (tmp_path / "repo/a.txt").exists()


async def test_a_stopped_session_ends_its_open_turn_and_denies_what_waits(tmp_path: Path) -> None:
    agents = {
        "main": [calls(task()), calls(call("TaskWait")), say("Never.")],
        "fixer": [calls(write("a.txt")), say("Never.")],
    }
    async with holding(tmp_path, agents) as holder, open_sqlite_store(holder.store_path) as store:
        await requests_of(store, holder.session_id, 1)
        await store.post(StopSession(session_id=holder.session_id))
        with trio.fail_after(20):
            told = await holder.result()
        (row,) = await store.requests(holder.session_id)
        (settled,) = await store.tasks(holder.session_id)
    assert (told["status"], settled.status, row.decision) == ("stopped", "aborted", "cancelled")


# in one process


class Screen:
    """A terminal that is never answered, and notes what it shows and takes back."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.withdrawn: list[str] = []

    async def show(self, request: PermissionRequest, queue: tuple[PermissionRequest, ...]) -> Answer:
        self.shown.append(request.id)
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            self.withdrawn.append(request.id)
            raise


@pytest.fixture(params=["sqlite", "memory"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    opened = open_memory_store() if request.param == "memory" else open_sqlite_store(tmp_path / "s.sqlite3")
    async with opened as one:
        yield one


@asynccontextmanager
async def opened(
    root: Path, agents: dict[str, Any], store: Store | None = None, *, mode: str = "ask", **extras: Any
) -> AsyncIterator[Session]:
    (root / "repo").mkdir(exist_ok=True)
    settings = Settings(
        workspace=root / "repo",
        data_dir=root / "data",
        permission_mode=PermissionMode(mode),
        home=root,
        max_depth=2,
    )
    given = Extras(model=scripted(agents), store=store, **{"inbox": True, **extras})
    async with open_settings(settings, given) as session:
        yield session


async def run_beside(session: Session, meanwhile: Callable[[], Any]) -> Any:
    """The outcome of a turn during which something else happens."""
    outcomes = []

    async def work() -> None:
        outcomes.append(await session.run("Go"))

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(work)
            await meanwhile()
    return outcomes[0]


async def test_a_request_on_the_screen_is_answered_from_elsewhere(tmp_path: Path, store: Store) -> None:
    screen = Screen()
    agents = {"main": [calls(write("a.txt")), say("Done.")]}
    async with opened(tmp_path, agents, store, surface=screen, inbox=False) as session:

        async def reply() -> None:
            (row,) = await requests_of(store, session.id, 1)
            await store.post(answer(row.request, YES))

        outcome = await run_beside(session, reply)
        (row,) = await store.requests(session.id)
    assert (outcome.status, outcome.denials) == ("completed", ())
    assert screen.shown == screen.withdrawn == [row.request.id]
    assert (row.decision, row.source, row.decided_by) == ("allow-once", "inbox", "alice")
    assert (tmp_path / "repo/a.txt").read_text() == "x\n"


async def test_who_decided_is_on_the_span_and_in_the_event(tmp_path: Path, store: Store) -> None:
    agents = {"main": [calls(write("a.txt")), say("Done.")]}
    async with opened(tmp_path, agents, store) as session:

        async def reply() -> None:
            (row,) = await requests_of(store, session.id, 1)
            await store.post(answer(row.request, NO))

        await run_beside(session, reply)
        (told,) = await events_of(session, "permission.resolved")
        (span,) = spans_named(await spans_of(session), "permission wait")
    assert isinstance(told.payload, PermissionResolved)
    assert (told.payload.by, told.payload.source) == ("alice", "inbox")
    assert span.attributes["orchestrator.permission.decided_by"] == "alice"


async def test_without_a_screen_and_an_inbox_a_call_is_denied_at_once(tmp_path: Path, store: Store) -> None:
    agents = {"main": [calls(write("a.txt")), say("Done.")]}
    async with opened(tmp_path, agents, store, inbox=False) as session:
        with trio.fail_after(5):
            outcome = await session.run("Go")
        (finished,) = await events_of(session, "tool.finished")
    assert [one.reason for one in outcome.denials] == ["no-approver"]
    assert isinstance(finished.payload, ToolFinished)
    assert finished.payload.error is not None
    assert "--permission-prompts inbox" in finished.payload.error.message


async def test_a_task_is_stopped_from_elsewhere_and_its_siblings_are_not(
    tmp_path: Path, store: Store
) -> None:
    agents = {
        "main": [calls(task(), task()), calls(call("TaskWait")), say("Told.")],
        "fixer#1": [calls(write("a.txt")), say("Never.")],
        "fixer#2": [calls(write("b.txt")), say("Fixed.")],
    }
    async with opened(tmp_path, agents, store) as session:

        async def reply() -> None:
            asked = by_label(await requests_of(store, session.id, 2))
            task_id = asked["fixer#1"].task_id
            assert task_id is not None
            await store.post(StopTask(session_id=session.id, task_id=task_id))
            await store.post(answer(asked["fixer#2"], YES))

        outcome = await run_beside(session, reply)
        statuses = {row.label: row.status for row in await store.tasks(session.id)}
    assert (outcome.status, statuses) == ("completed", {"fixer#1": "stopped", "fixer#2": "completed"})


async def test_nothing_of_the_inbox_is_left_after_the_session(tmp_path: Path, store: Store) -> None:
    async with opened(tmp_path, {"main": [say("Done.")]}, store) as session:
        await session.run("Go")
        session_id = session.id
    assert await store.holder(session_id) is None
    assert await refused(store, StopSession(session_id=session_id)) is ErrorCode.CONFLICT


NESTED = {
    "main": [calls(task(agent="builder")), calls(call("TaskWait")), say("Told.")],
    "builder": [calls(task()), calls(call("TaskList")), calls(call("TaskWait")), say("Built.")],
}


def asks_outside(root: Path, **expect: str) -> dict[str, Any]:
    """A delegate's delegate that reads a file outside the workspace."""
    (root / "secret.txt").write_text("s\n")
    end = {**say("Read."), **({"expect": expect} if expect else {})}
    return {**NESTED, "fixer": [calls(call("Read", path=str(root / "secret.txt"))), end]}


async def test_a_nested_delegate_s_question_is_asked_with_its_chain_and_real_path(
    tmp_path: Path, store: Store
) -> None:
    async with opened(tmp_path, asks_outside(tmp_path), store, definitions=(BUILDER,)) as session:

        async def reply() -> None:
            (row,) = await requests_of(store, session.id, 1)
            assert row.request.agent_chain == ("main", "builder#1", "fixer#1")
            assert row.request.external_path == str((tmp_path / "secret.txt").resolve())
            waiting = {run.label: run.live().waiting_for_permission for run in session.crew.running}
            assert waiting == {"builder#1": False, "fixer#1": True}
            await store.post(answer(row.request, YES))

        outcome = await run_beside(session, reply)
    assert (outcome.status, outcome.denials) == ("completed", ())


async def test_a_nested_delegate_s_question_without_anybody_to_ask_is_denied_at_once(
    tmp_path: Path, store: Store
) -> None:
    agents = asks_outside(tmp_path, code="TOOL_DENIED")
    async with opened(tmp_path, agents, store, inbox=False, definitions=(BUILDER,)) as session:
        with trio.fail_after(10):
            outcome = await session.run("Go")
    assert [(one.agent, one.reason) for one in outcome.denials] == [("fixer#1", "no-approver")]
    assert outcome.status == "completed"


async def test_in_auto_a_nested_delegate_is_not_asked_about_the_outside(tmp_path: Path, store: Store) -> None:
    async with opened(
        tmp_path, asks_outside(tmp_path), store, mode="auto", definitions=(BUILDER,)
    ) as session:
        outcome = await session.run("Go")
        assert (outcome.status, await store.requests(session.id)) == ("completed", ())


# modes


BUILDER = AgentSpec(
    name="builder", description="Builds.", prompt="Build.", tools=("Read", "Write", "Edit", "Bash", "Task")
)


async def test_a_change_to_plan_binds_running_delegates_from_their_next_call(
    tmp_path: Path, store: Store
) -> None:
    """The delegate waits for an answer; the yes comes after the change, and nothing is written any more."""
    agents = {
        "main": [calls(task(agent="builder")), calls(call("TaskWait")), say("Told.")],
        "builder": [
            calls(call("Read", path="seen.txt")),
            calls(write("a.txt")),
            calls(edit("seen.txt", {"op": "append", "text": "2"})),
            calls(call("Bash", command="true; apply_patch x")),
            calls(task()),
            calls(call("Bash", command="touch x")),
            calls(call("Read", path="seen.txt")),
            say("Planned."),
        ],
    }
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo/seen.txt").write_text("1\n")
    async with opened(tmp_path, agents, store, definitions=(BUILDER,)) as session:

        async def reply() -> None:
            (row,) = await requests_of(store, session.id, 1)
            await session.set_mode(OperatingMode.PLAN)
            await session.set_permission_mode(PermissionMode.AUTO)  # plan asks for commands in every mode
            await store.post(answer(row.request, YES))
            while (row := (await requests_of(store, session.id, 1))[0]).request.tool != "Bash":
                await trio.sleep(0.02)
            await store.post(answer(row.request, NO))

        await run_beside(session, reply)
        finished = [e for e in await events_of(session, "tool.finished") if e.task_id is not None]
        codes = [e.payload.error and e.payload.error.code for e in finished]  # type: ignore[union-attr]
        row = await store.session(session.id)
    assert codes == [
        None,
        "WRITE_DISABLED_IN_PLAN",
        "EDIT_DISABLED_IN_PLAN",
        "TOOL_DISABLED_IN_PLAN",
        "TOOL_DISABLED_IN_PLAN",
        "TOOL_DENIED",
        None,
    ]
    assert [path.name for path in (tmp_path / "repo").iterdir()] == ["seen.txt"]
    assert (tmp_path / "repo/seen.txt").read_text() == "1\n"
    assert row is not None
    assert (row.mode, row.permission_mode) == ("plan", "auto")


async def test_a_change_of_the_permission_mode_binds_the_next_call(tmp_path: Path, store: Store) -> None:
    agents = {"main": [calls(write("a.txt")), calls(write("b.txt")), say("Done.")]}
    async with opened(tmp_path, agents, store) as session:

        async def reply() -> None:
            (row,) = await requests_of(store, session.id, 1)
            await session.set_permission_mode(PermissionMode.ACCEPT_EDITS)
            await store.post(answer(row.request, NO))

        outcome = await run_beside(session, reply)
        assert len(await store.requests(session.id)) == 1
    assert [one.reason for one in outcome.denials] == ["user"]
    assert [path.name for path in (tmp_path / "repo").iterdir()] == ["b.txt"]


def careful(mode: PermissionMode | None) -> AgentSpec:
    return AgentSpec(
        name="careful",
        description="Writes.",
        prompt="Write.",
        tools=("Read", "Write"),
        permission_mode=mode,
        source="careful.md",
    )


@pytest.mark.parametrize(
    ("session_mode", "own", "asks"),
    [
        ("auto", PermissionMode.ASK, True),
        ("auto", None, False),
        ("accept-edits", PermissionMode.ASK, True),
        ("ask", PermissionMode.AUTO, True),
        ("accept-edits", PermissionMode.AUTO, False),
    ],
)
async def test_a_definition_only_narrows_the_session_s_permission_mode(
    tmp_path: Path, session_mode: str, own: PermissionMode | None, asks: bool
) -> None:
    agents = {
        "main": [calls(task(agent="careful")), calls(call("TaskWait")), say("Told.")],
        "careful": [calls(write("a.txt")), say("Done.")],
    }
    async with (
        open_memory_store() as store,
        opened(
            tmp_path, agents, store, mode=session_mode, inbox=False, definitions=(careful(own),)
        ) as session,
    ):
        await session.run("Go")
        assert len(await store.requests(session.id)) == int(asks)
        warned = [text for text in session.warnings if "wider" in text]
        wider = own is not None and own.reach > PermissionMode(session_mode).reach
        assert len(warned) == int(wider)
        assert all("careful.md" in text and session_mode in text for text in warned)


async def test_a_definition_that_becomes_too_wide_by_a_change_is_warned_of_once(tmp_path: Path) -> None:
    definitions = (careful(PermissionMode.AUTO),)
    agents = {"main": [say("Done.")]}
    async with opened(tmp_path, agents, mode="auto", definitions=definitions) as session:
        assert session.warnings == ()
        await session.set_permission_mode(PermissionMode.ASK)
        await session.set_permission_mode(PermissionMode.ASK)
        assert len(session.warnings) == 1


# no self-approval

SNEAK = """
import sys, trio
from pathlib import Path
from agents.errors import Failure
from agents.requests import Answer, Decision
from orchestrator.store.mail import AnswerRequest
from orchestrator.store.sqlite import open_sqlite_store

async def main():
    async with open_sqlite_store(Path(sys.argv[1])) as store:
        rows = ()
        while not rows:
            rows = await store.requests(only_open=True)
            await trio.sleep(0.02)
        request = rows[0].request
        yes = Answer(decision=Decision.ALLOW_ONCE, source="sneak")
        try:
            await store.post(AnswerRequest(session_id=request.session_id, request_id=request.id, answer=yes))
            said = "accepted"
        except Failure as failed:
            said = failed.error.code
    Path(sys.argv[2]).write_text(said)

trio.run(main)
"""


@pytest.mark.parametrize(
    "disguise",
    [
        "{sneak}",
        "env -i {sneak}",
        "setsid --wait env -i {sneak}",
        "( env -i {sneak} & )",
        "( setsid env -i {sneak} & ) ; ( setsid env -i true & )",
        "( setsid env -i sh -c '( {sneak} & ) ; sleep 0.1' & )",
    ],
)
async def test_what_a_tool_runs_never_answers(tmp_path: Path, disguise: str) -> None:
    """A protected write waits in one delegate; a command of another one tries to allow it."""
    said = tmp_path / "said"
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo/sneak.py").write_text(SNEAK)
    line = disguise.replace("env -i", f"env -i PYTHONPATH={ROOT}").format(
        sneak=f"{sys.executable} {tmp_path}/repo/sneak.py {tmp_path}/data/store.sqlite3 {said}"
    )
    (tmp_path / "repo/harmless.sh").write_text(
        f"export PYTHONPATH={ROOT}\n{line}\n"
        f"for i in $(seq 200); do [ -s {said} ] && break; sleep 0.05; done\n"
    )
    agents = {
        "main": [calls(task(), task()), calls(call("TaskWait")), say("Told.")],
        "fixer#1": [calls(write(".git/hooks/pre-commit")), say("Done.")],
        "fixer#2": [calls(call("Bash", command="sh harmless.sh", timeoutSeconds=20)), say("Done.")],
    }
    settings = {"permission_mode": "auto", "permission_timeout": 15.0}
    async with holding(tmp_path, agents, settings=settings) as holder:
        async with open_sqlite_store(holder.store_path) as store:
            (row,) = await requests_of(store, holder.session_id, 1)
            with trio.fail_after(20):
                while not said.exists() or not said.read_text():
                    await trio.sleep(0.02)
            assert said.read_text() == "TOOL_DENIED"
            await store.post(answer(row.request, NO))
            with trio.fail_after(20):
                await holder.result()
            (row,) = await store.requests(holder.session_id)
    assert (row.decision, row.decided_by) == ("deny", "alice")
    assert not (tmp_path / "repo/.git/hooks/pre-commit").exists()


async def test_a_person_s_process_is_not_taken_for_a_tool_s(tmp_path: Path) -> None:
    agents = {"main": [calls(write("a.txt")), say("Done.")]}
    async with holding(tmp_path, agents) as holder, open_sqlite_store(holder.store_path) as store:
        (row,) = await requests_of(store, holder.session_id, 1)
        await store.post(answer(row.request, YES))
        with trio.fail_after(20):
            assert (await holder.result())["status"] == "completed"

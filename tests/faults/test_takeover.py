"""Two processes and one session: one works, the other is told who does, and death hands over."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from agents.errors import ErrorCode, Failure
from agents.results import TaskStatus
from agents.tools.family import carries, snapshot
from orchestrator.planning import open_effects_of, plan_stored
from orchestrator.resume import ResumePlan
from orchestrator.store.sqlite import open_sqlite_store
from tests.faults.forks import ROOT
from tests.faults.lab import SESSION
from tests.faults.worker import lay_out
from tests.harness import call, calls, edit, say, scripted, session_on
from tests.orchestrator.holder import Holder, holding


@asynccontextmanager
async def program(root: Path, kill: dict[str, Any] | None = None) -> AsyncIterator[trio.Process]:
    """The program of the lab, in a process of its own."""
    order = json.dumps({"root": str(root), "session": SESSION, "kill": kill})
    process = await trio.lowlevel.open_process(
        [sys.executable, "-m", "tests.faults.program", order], cwd=ROOT, stdout=subprocess.PIPE
    )
    try:
        yield process
    finally:
        with trio.CancelScope(shield=True):
            if process.returncode is None:
                process.kill()
            await process.wait()
            assert process.stdout is not None
            await trio.aclose_forcefully(process.stdout)


async def lines(process: trio.Process, *, until: str = "") -> list[str]:
    """What it prints, up to a line that starts with `until`, or to its end."""
    assert process.stdout is not None
    found: list[str] = []
    rest = b""
    with trio.fail_after(60):
        while data := await process.stdout.receive_some(1 if until else None):
            *whole, rest = (rest + data).split(b"\n")
            found += [line.decode() for line in whole]
            if until and found and found[-1].startswith(until):
                break
    return found


async def test_of_two_that_resume_one_session_one_works_and_a_third_takes_over_from_the_dead(
    tmp_path: Path,
) -> None:
    lay_out(tmp_path / "repo")
    async with program(tmp_path, {"step": "finish", "side": "before", "nth": 15}) as first:
        await lines(first)
        assert await first.wait() == -signal.SIGKILL
    async with program(tmp_path) as holder:
        await lines(holder, until="open")
        holder.send_signal(signal.SIGSTOP)  # a stopped process is not a dead one
        await trio.sleep(0.1)
        async with program(tmp_path) as other:
            told = await lines(other)
            assert await other.wait() == 1
        refused = json.loads(told[-1].removeprefix("failure "))
        assert refused["code"] == "CHAIN_LOCKED"
        assert f"process {holder.pid}" in refused["message"]
        holder.kill()
        await holder.wait()
    async with program(tmp_path) as third:
        told = await lines(third)
    assert json.loads(told[-1].removeprefix("turn "))["status"] == "completed"


SLEEPING = [calls(call("Bash", command="echo $$ > pid; setsid sleep 100 & sleep 100")), say("Never.")]


async def eventually(true: Callable[[], Awaitable[bool]]) -> None:
    with trio.fail_after(20):
        for _ in itertools.count():
            if await true():
                return
            await trio.sleep(0.02)


async def until_written(path: Path) -> None:
    async def written() -> bool:
        return await trio.Path(path).exists() and bool(await trio.Path(path).read_text())

    await eventually(written)


async def die(holder: Holder) -> None:
    holder.process.kill()
    await holder.process.wait()


def marked(session_id: str) -> list[int]:
    """The living processes of the session's tools."""
    marks = {"ORCHESTRATOR_SESSION_ID": session_id}
    return [pid for pid, one in snapshot().items() if not one.dead and carries(pid, marks)]


async def test_what_a_dead_process_left_running_is_ended_before_anything_else_runs(tmp_path: Path) -> None:
    async with holding(tmp_path, {"main": SLEEPING}, settings={"permission_mode": "auto"}) as holder:
        await until_written(tmp_path / "repo/pid")
        await trio.sleep(0.1)
        await die(holder)
        assert len(marked(holder.session_id)) >= 2
    async with session_on(tmp_path, scripted({"main": SLEEPING}), resume=holder.session_id):
        assert marked(holder.session_id) == []


async def test_a_command_that_was_running_is_told_as_unknown_once_and_is_never_run_again(
    tmp_path: Path,
) -> None:
    async with holding(tmp_path, {"main": SLEEPING}, settings={"permission_mode": "auto"}) as holder:
        await until_written(tmp_path / "repo/pid")
        await die(holder)
    pid = (tmp_path / "repo/pid").read_text()
    model = scripted({"main": [*SLEEPING[:1], say("I see."), say("Still."), say("Again.")]})
    async with session_on(tmp_path, model, resume=holder.session_id) as session:
        plan = await session.plan()
        assert not hasattr(plan, "code")
        assert [effect.startswith("Bash `echo $$ > pid") for effect in plan.open_effects] == [True]
        assert "unknown whether it ran; look before you repeat it" in plan.open_effects[0]
        await session.resume()
        again = await session.plan("More")
        assert again.open_effects == ()
        await session.run("More")
        messages = await session.store.messages(session.id, None)
    roles = ["user", "assistant", "tool", "user", "assistant", "user", "assistant"]
    assert [message.role for message in messages] == roles
    (result,) = messages[2].results
    assert '"INTERRUPTED"' in result.text
    assert "not known whether the command ran" in result.text
    assert [
        message.text.count("unknown whether it ran") for message in messages if message.role == "user"
    ] == [
        0,
        1,
        0,
    ]
    assert (tmp_path / "repo/pid").read_text() == pid


THREE = [
    calls(call("Read", path="a.txt")),
    calls(
        call("Bash", command="echo x >> log"),
        edit("a.txt", {"op": "append", "text": "two"}),
        call("Bash", command="echo $$ > pid; sleep 100"),
    ),
]


async def test_calls_that_had_ended_keep_their_results_and_only_the_open_one_is_interrupted(
    tmp_path: Path,
) -> None:
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo/a.txt").write_text("one\n")
    async with holding(tmp_path, {"main": THREE}, settings={"permission_mode": "auto"}) as holder:
        await until_written(tmp_path / "repo/pid")
        await die(holder)
    model = scripted({"main": [*THREE, say("I see what was done.")]})
    async with session_on(tmp_path, model, resume=holder.session_id) as session:
        outcome = await session.resume()
        assert outcome.status == "completed"
        messages = await session.store.messages(session.id, None)
    echoed, edited, sleeping = messages[4].results
    assert (echoed.ok, edited.ok, sleeping.ok) == (True, True, False)
    assert '"exitCode":0' in echoed.text
    assert '"path":"a.txt"' in edited.text
    assert '"INTERRUPTED"' in sleeping.text
    assert (tmp_path / "repo/log").read_text() == "x\n"
    assert (tmp_path / "repo/a.txt").read_text() == "one\ntwo\n"


ASKING = [calls(call("Bash", command="touch asked")), say("Never.")]


async def test_a_permission_wait_that_died_is_answered_as_interrupted_and_its_request_is_closed(
    tmp_path: Path,
) -> None:
    async with holding(tmp_path, {"main": ASKING}) as holder:
        async with open_sqlite_store(holder.store_path) as store:

            async def asked() -> bool:
                return bool(await store.requests(holder.session_id, only_open=True))

            await eventually(asked)
        await die(holder)
    model = scripted({"main": [*ASKING[:1], {**say("I see."), "expect": {"code": "INTERRUPTED"}}]})
    for _ in range(2):  # a second start adds no second answer
        async with session_on(tmp_path, model, resume=holder.session_id) as session:
            messages = await session.store.messages(session.id, None)
            assert [message.role for message in messages] == ["user", "assistant", "tool"]
            (request,) = await session.store.requests(session.id)
            assert request.decision == "cancelled"
    async with session_on(tmp_path, model, resume=holder.session_id) as session:
        outcome = await session.resume()
    assert outcome.status == "completed"
    assert "The command had not been started" in messages[2].results[0].text
    assert not (tmp_path / "repo/asked").exists()


async def test_a_settled_child_whose_report_was_not_yet_read_is_handed_over_and_not_run_again(
    tmp_path: Path,
) -> None:
    lay_out(tmp_path / "repo")
    async with program(tmp_path, {"step": "event", "type": "tool.finished", "tool": "TaskWait"}) as first:
        await lines(first)
    asked = (tmp_path / "calls.txt").read_text().splitlines()
    async with program(tmp_path) as second:
        await lines(second)
    more = (tmp_path / "calls.txt").read_text().splitlines()[len(asked) :]
    async with open_sqlite_store(tmp_path / "data/store.sqlite3") as store:
        statuses: dict[str, TaskStatus | str] = {}
        for row in await store.tasks(SESSION):
            if row.task_id not in {other.resumes for other in await store.tasks(SESSION)}:
                statuses[row.label] = row.status
        settled = {
            row.label
            for row in await store.tasks(SESSION)
            if row.resumes is None and row.status == "completed"
        }
    assert set(statuses.values()) == {"completed"}
    assert settled.isdisjoint(more)
    assert "main" in more


async def test_a_plan_of_what_nobody_has_opened_yet_names_what_each_task_was_in(tmp_path: Path) -> None:
    lay_out(tmp_path / "repo")
    async with program(tmp_path, {"step": "intend", "kind": "file", "nth": 20}) as first:
        await lines(first)
    async with open_sqlite_store(tmp_path / "data/store.sqlite3") as store:
        plan = await plan_stored(store, SESSION, "", failed=False)
        assert isinstance(plan, ResumePlan)
        assert len(plan.chains) >= 5
        assert any(" in Edit" in chain.why or " in Write" in chain.why for chain in plan.chains)
        assert plan.open_effects
        assert all(
            "compared when the session is resumed" in text or "unknown" in text for text in plan.open_effects
        )
        per_chain = [await open_effects_of(store, row) for row in await store.tasks(SESSION)]
        assert sorted(text for texts in per_chain for text in texts) == sorted(plan.open_effects)
        assert [row.status for row in await store.turns(SESSION)] == ["running"]  # nothing was written


async def test_one_that_never_got_to_work_is_refused_by_name_when_nothing_is_stored(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    with pytest.raises(Failure) as unknown:
        async with session_on(tmp_path, scripted({"main": [say("ok")]}), resume="ses-none"):
            pass
    assert unknown.value.error.code is ErrorCode.TASK_UNKNOWN
    assert os.listdir(tmp_path / "repo") == []

"""Cancelling a parent reaches fifty delegates at depth 2, and everything they hold settles."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import trio

from agents.spec import AgentSpec
from agents.tools.family import carries, snapshot
from telemetry.check import check_trace
from tests.harness import call, calls, events_of, say, scripted, session_on, spans_of

LEADS, LEAVES = 5, 9
LEAD = AgentSpec(
    name="lead",
    description="Delegates further.",
    prompt="Delegate.",
    tools=("Read", "Task", "TaskWait", "TaskList", "TaskStop"),
)


def leaf(number: int) -> dict[str, object]:
    return call("Task", subagent_type="tester", prompt=f"Leaf {number}")


def script() -> object:
    """Half of the leaves wait in a command, half in a model that does not answer."""
    sleeping = {f"tester#{n}": [calls(call("Bash", command="sleep 100"))] for n in range(1, 46, 2)}
    return scripted(
        {
            "main": [
                calls(*(call("Task", subagent_type="lead", prompt="Go") for _ in range(LEADS))),
                calls(call("TaskWait")),
                say("never"),
            ],
            "lead": [calls(*(leaf(n) for n in range(LEAVES))), calls(call("TaskWait")), say("never")],
            **sleeping,
            "tester": [say("never")],
        },
        faults=[{"agent": f"tester#{n}", "turn": 1, "delay_ms": 100_000} for n in range(2, 46, 2)],
    )


async def test_fifty_delegates_at_depth_2_settle_and_leave_nothing(tmp_path: Path) -> None:
    threads = set(threading.enumerate())
    async with session_on(tmp_path, script(), definitions=[LEAD], max_depth=2, max_delegates=60) as session:
        took: list[float] = []

        async def stop_when_all_work() -> None:
            while True:
                told = await events_of(session, "model.requested", "tool.started")
                busy = {event.agent.label for event in told if event.agent and event.agent.depth == 2}
                if len(busy) == LEADS * LEAVES and len(session.crew.running) == LEADS * (LEAVES + 1):
                    break
                await trio.sleep(0.05)
            await trio.sleep(0.3)
            marks = {"ORCHESTRATOR_SESSION_ID": session.id}
            assert sum(one.name == "sleep" and carries(pid, marks) for pid, one in snapshot().items()) > 20
            took.append(time.monotonic())
            session.stop()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop_when_all_work)
            with trio.fail_after(60):
                outcome = await session.run("Go")
        elapsed = time.monotonic() - took[0]
        assert outcome.status == "stopped"
        rows = await session.store.tasks(session.id)
        assert [row.status for row in rows] == ["aborted"] * 50
        assert check_trace(await spans_of(session)) == ()
        assert all(row.ok is not None for row in await session.store.calls(session.id))
        assert session.assembly.recovery.is_empty
        assert session.assembly.locks.held == 0
        marks = {"ORCHESTRATOR_SESSION_ID": session.id}
        assert not [str(one) for pid, one in snapshot().items() if not one.dead and carries(pid, marks)]
        assert elapsed < 10  # measured: well below 1 s; the bound only tells a hang from a slow machine
    left = [one for one in threading.enumerate() if one not in threads and "Trio thread" not in one.name]
    assert [one.name for one in left if not one.name.startswith("Trio")] == []

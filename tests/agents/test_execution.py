"""One batch of tool calls: every call ends in one result, in call order, whatever happens around it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from agents.events import PermissionResolved, ToolFinished
from agents.requests import Answer, PermissionRequest
from agents.tools.base import CallGroup, Target, ToolOutput
from orchestrator.session import Session
from tests.harness import (
    bad_edit,
    call,
    calls,
    edit,
    events_of,
    say,
    scripted,
    session_on,
    spans_named,
    spans_of,
)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    (tmp_path / "repo").mkdir()
    for name in ("a.txt", "b.txt"):
        (tmp_path / "repo" / name).write_text("".join(f"line {n}\n" for n in range(1, 11)))
    return tmp_path


class NeverAnswers:
    async def approve(self, request: PermissionRequest) -> Answer:
        await trio.sleep_forever()
        raise AssertionError


@contextlib.contextmanager
def no_wait(_kind: str) -> Iterator[None]:
    yield


async def results(session: Session) -> list[str]:
    """The codes of the newest tool message's results; `ok` where there is none."""
    finished = {
        event.payload.call_id: event.payload
        for event in await events_of(session, "tool.finished")
        if isinstance(event.payload, ToolFinished)
    }
    messages = [m for m in await session.store.messages(session.id, None) if m.role == "tool"]
    answers = [finished[result.call_id] for result in messages[-1].results]
    return [str(answer.error.code) if answer.error else "ok" for answer in answers]


async def test_results_come_back_in_the_order_of_the_calls(repo: Path) -> None:
    batch = calls(
        call("Bash", command="sleep 0.1; echo slow"),
        call("Read", path="a.txt"),
        call("Read", path="nothing.txt"),
        call("Nothing"),
    )
    async with session_on(repo, scripted({"main": [batch, say("done")]})) as session:
        await session.run("Go")
        assert await results(session) == ["ok", "ok", "NOT_FOUND", "TOOL_NOT_FOUND"]


async def test_malformed_arguments_are_an_error_with_the_schemas_complaint(repo: Path) -> None:
    batch = calls(call("Read"), call("Read", path=7), call("Read", path="a.txt", offest=1))
    async with session_on(repo, scripted({"main": [batch, say("done")]})) as session:
        await session.run("Go")
        assert await results(session) == ["INVALID_ARGUMENT"] * 3
        texts = [r.text for r in (await session.store.messages(session.id, None))[2].results]
        assert "path" in texts[0]
        assert "offest" in texts[2]


async def test_broken_json_from_the_model_is_an_error_result_not_an_exception(repo: Path) -> None:
    model = scripted(
        {"main": [calls(call("Read", path="a.txt")), say("done")]},
        faults=[{"agent": "main", "turn": 1, "malformed": True}],
    )
    async with session_on(repo, model) as session:
        outcome = await session.run("Go")
        assert outcome.status == "completed"
        assert await results(session) == ["INVALID_ARGUMENT"]


class BrokenTool:
    """A tool with a fault that nobody foresaw."""

    name = "Broken"
    description = "Breaks."
    risk = "low"
    group = CallGroup.ALONE
    input = msgspec.defstruct("BrokenInput", [], frozen=True)
    timeout_seconds = None

    def targets(self, arguments: Any) -> tuple[Target, ...]:
        return ()

    async def check(self, *_: Any) -> None:
        return None

    async def run(self, *_: Any) -> ToolOutput:
        async with trio.open_nursery():
            raise RuntimeError("SENTINEL in the exception")


async def test_a_fault_of_ours_is_internal_with_an_incident_and_without_a_traceback(
    repo: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = scripted(
        {
            "main": [
                calls(call("ToolSearch", query="Broken")),
                calls(call("Broken"), call("Read", path="a.txt")),
                say("done"),
            ]
        }
    )
    async with session_on(repo, model, tools=[BrokenTool()]) as session:
        outcome = await session.run("Go")
        assert outcome.status == "completed"
        assert await results(session) == ["INTERNAL", "ok"]
        text = (await session.store.messages(session.id, None))[4].results[0].text
        assert "Traceback" not in text
        assert "SENTINEL" not in text
        (span,) = spans_named(await spans_of(session), "execute_tool Broken")
        assert span.events[0].attributes["exception.type"] == "RuntimeError"
        incident = span.events[0].attributes["orchestrator.incident"]
        assert incident in text
        assert any(incident in record.message for record in caplog.records)


async def test_a_termination_closes_a_siblings_permission_request_as_cancelled(repo: Path) -> None:
    batch = calls(
        call("Write", path="c.txt", content="asks and is never answered"),
        bad_edit("a.txt"),
        bad_edit("a.txt"),
        bad_edit("a.txt"),
    )
    model = scripted({"main": [calls(call("Read", path="a.txt")), batch]})
    async with session_on(repo, model, permission_mode="ask", approver=NeverAnswers()) as session:
        with trio.fail_after(10):
            outcome = await session.run("Go")
        assert outcome.error is not None
        assert outcome.error.code == "MUTATION_RETRY_BUDGET_EXHAUSTED"
        assert await results(session) == ["TOOL_DENIED"] + ["EDIT_RANGE_INVALID"] * 3
        (resolved,) = await events_of(session, "permission.resolved")
        assert isinstance(resolved.payload, PermissionResolved)
        assert resolved.payload.decision == "cancelled"
        assert not (repo / "repo/c.txt").exists()


async def test_a_termination_ends_a_siblings_wait_for_a_lock_without_executing_it(repo: Path) -> None:
    batch = calls(
        edit("b.txt", {"op": "replace", "start": 1, "text": "changed"}),
        bad_edit("a.txt"),
        bad_edit("a.txt"),
        bad_edit("a.txt"),
    )
    model = scripted({"main": [calls(call("Read", path="a.txt"), call("Read", path="b.txt")), batch]})
    async with session_on(repo, model) as session:
        held = session.assembly.workspace.resolve("b.txt")
        key = session.assembly.workspace.lock_key(held)
        async with session.assembly.locks.hold(key, no_wait):
            with trio.fail_after(10):
                await session.run("Go")
        assert await results(session) == ["TOOL_ABORTED"] + ["EDIT_RANGE_INVALID"] * 3
        assert (repo / "repo/b.txt").read_text().startswith("line 1\n")


async def test_other_spellings_of_a_file_keep_their_order(repo: Path) -> None:
    spellings = ("a.txt", "./a.txt", "sub/../a.txt", str(repo / "repo" / "a.txt"))
    (repo / "repo" / "sub").mkdir(parents=True, exist_ok=True)
    batch = calls(*(call("Write", path=path, content=f"{number}\n") for number, path in enumerate(spellings)))
    model = scripted({"main": [calls(call("Read", path="a.txt")), batch, say("done")]})
    async with session_on(repo, model) as session:
        await session.run("Go")
        assert await results(session) == ["ok"] * 4
    assert (repo / "repo" / "a.txt").read_text() == "3\n"


async def test_an_edit_of_what_a_call_before_it_moves_sees_it_moved(repo: Path) -> None:
    change = {"op": "replace", "start": 1, "text": "changed"}
    for number in range(4):
        source, target = f"from{number}.txt", f"to{number}.txt"
        (repo / "repo").mkdir(exist_ok=True)
        (repo / "repo" / source).write_text("line 1\n")
        batch = calls(
            edit(source, {"op": "moveFile", "to": target}), edit(target, change, tag=f"${{tag:{source}}}")
        )
        model = scripted({"main": [calls(call("Read", path=source)), batch, say("done")]})
        async with session_on(repo, model) as session:
            await session.run("Go")
        assert (repo / "repo" / target).read_text() == "changed\n"


async def test_three_failed_patch_commands_end_the_run(repo: Path) -> None:
    patch = calls(call("Bash", command="git apply nothing.patch"))
    async with session_on(repo, scripted({"main": [patch] * 5})) as session:
        outcome = await session.run("Go")
        assert outcome.error is not None
        assert outcome.error.code == "MUTATION_RETRY_BUDGET_EXHAUSTED"
        assert outcome.error.details["kind"] == "patch-command"
        spans = spans_named(await spans_of(session), "execute_tool Bash")
        assert [span.status for span in spans] == ["ERROR"] * 3


async def test_a_users_commands_own_exit_is_a_result_and_leaves_the_span_unset(repo: Path) -> None:
    model = scripted({"main": [calls(call("Bash", command="exit 3")), say("done")]})
    async with session_on(repo, model) as session:
        await session.run("Go")
        assert await results(session) == ["TOOL_FAILED"]
        (span,) = spans_named(await spans_of(session), "execute_tool Bash")
        assert span.status == "UNSET"
        assert span.attributes["orchestrator.tool.exit_code"] == 3


async def test_a_successful_write_clears_the_paths_edit_count(repo: Path) -> None:
    model = scripted(
        {
            "main": [
                calls(call("Read", path="a.txt")),
                calls(bad_edit("a.txt")),
                calls(bad_edit("a.txt")),
                calls(call("Write", path="a.txt", content="new\n")),
                calls(bad_edit("a.txt")),
                calls(bad_edit("a.txt")),
                say("Still here."),
            ]
        }
    )
    async with session_on(repo, model) as session:
        outcome = await session.run("Go")
        assert outcome.text == "Still here."


async def test_the_first_mismatch_and_the_first_unseen_are_graces(repo: Path) -> None:
    unseen = edit("a.txt", {"op": "replace", "start": 9, "text": "nine"})
    model = scripted(
        {
            "main": [
                calls(call("Read", path="a.txt", offset=1, limit=2)),
                calls(unseen),
                calls(unseen),
                say("Done."),
            ]
        }
    )
    async with session_on(repo, model) as session:
        outcome = await session.run("Go")
        assert outcome.status == "completed"
        assert [e.type for e in await events_of(session, "recovery.grace", "recovery.counted")] == [
            "recovery.grace"
        ]
        assert (repo / "repo/a.txt").read_text().splitlines()[8] == "nine"


async def test_a_cancelled_batch_still_stores_a_result_for_every_call(repo: Path) -> None:
    batch = calls(call("Bash", command="sleep 100"), call("Read", path="a.txt"))
    async with (
        session_on(repo, scripted({"main": [batch]})) as session,
        trio.open_nursery() as nursery,
    ):

        async def stop_soon() -> None:
            while not await events_of(session, "tool.started"):
                await trio.sleep(0.01)
            session.stop()

        nursery.start_soon(stop_soon)
        with trio.fail_after(10):
            outcome = await session.run("Go")
        assert outcome.status == "stopped"
        assert await results(session) == ["TOOL_ABORTED", "TOOL_ABORTED"]
        spans = spans_named(await spans_of(session), "execute_tool Bash")
        assert spans[0].attributes["orchestrator.tool.outcome"] == "cancelled"
        assert spans[0].status == "UNSET"


async def test_calls_of_one_batch_see_the_edits_before_them(repo: Path) -> None:
    model = scripted(
        {
            "main": [
                calls(call("Read", path="a.txt")),
                calls(
                    edit("a.txt", {"op": "replace", "start": 1, "text": "edited"}),
                    call("Bash", command="head -1 a.txt"),
                    call("Read", path="a.txt", limit=1),
                ),
                say("done"),
            ]
        }
    )
    async with session_on(repo, model) as session:
        await session.run("Go")
        texts = [r.text for r in (await session.store.messages(session.id, None))[4].results]
        assert "edited" in texts[1]
        assert "1:edited" in texts[2]


async def test_a_call_cancelled_while_it_waits_for_a_permission_says_that_it_was_not_executed(
    repo: Path,
) -> None:
    model = scripted({"main": [calls(call("Write", path="c.txt", content="x"))]})
    async with (
        session_on(repo, model, permission_mode="ask", approver=NeverAnswers()) as session,
        trio.open_nursery() as nursery,
    ):

        async def stop_soon() -> None:
            while not await events_of(session, "permission.requested"):
                await trio.sleep(0.01)
            session.stop()

        nursery.start_soon(stop_soon)
        with trio.fail_after(10):
            await session.run("Go")
        messages = await session.store.messages(session.id, None)
        assert "Not executed" in messages[-1].results[0].text
        assert not (repo / "repo/c.txt").exists()


async def test_in_plan_a_tool_that_was_taken_away_says_so(repo: Path) -> None:
    batch = calls(
        call("Write", path="c.txt", content="x"),
        call("Edit", path="a.txt", tag="0000", ops=[]),
        call("Task", subagent_type="fixer", prompt="x"),
        call("mcp__server__tool"),
    )
    async with session_on(repo, scripted({"main": [batch, say("A plan.")]}), mode="plan") as session:
        await session.run("Go")
        assert await results(session) == [
            "WRITE_DISABLED_IN_PLAN",
            "EDIT_DISABLED_IN_PLAN",
            "TOOL_DISABLED_IN_PLAN",
            "PLUGIN_DISABLED_IN_PLAN",
        ]

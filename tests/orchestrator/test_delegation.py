"""One turn with delegates, end to end in one process: real files, real store, scripted model."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from agents.events import (
    AgentFinished,
    RecoveryCounted,
    RecoveryExhausted,
    RecoveryReleased,
    TaskFinished,
    ToolFinished,
)
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

TEN_LINES = "".join(f"line {n}\n" for n in range(1, 11))


def task(prompt: str = "Do it", agent: str = "fixer") -> dict[str, object]:
    return call("Task", subagent_type=agent, prompt=prompt)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo/a.txt").write_text(TEN_LINES)
    return tmp_path


EXHAUSTING = [
    calls(call("Read", path="a.txt"), text="I will look first."),
    calls(bad_edit("a.txt")),
    calls(bad_edit("a.txt")),
    calls(bad_edit("./a.txt")),
    say("Never reached before a resume."),
]


async def test_three_counted_failures_end_the_delegate_and_its_task_says_so(repo: Path) -> None:
    model = scripted(
        {
            "main": [calls(task()), calls(call("TaskWait")), say("It failed.")],
            "fixer": EXHAUSTING,
        }
    )
    async with session_on(repo, model) as session:
        outcome = await session.run("Fix it")
        assert outcome.status == "completed"
        (finished,) = await events_of(session, "task.finished")
        assert isinstance(finished.payload, TaskFinished)
        result = finished.payload.result
        assert result.status == "failed"
        assert result.error is not None
        assert result.error.code == "MUTATION_RETRY_BUDGET_EXHAUSTED"
        assert result.error.details["lastCode"] == "EDIT_RANGE_INVALID"
        assert result.report == "I will look first."
        assert result.resumable


async def test_the_third_failure_terminates_and_the_first_two_carry_attempt_and_limit(repo: Path) -> None:
    model = scripted({"main": [calls(task()), say("ok")], "fixer": EXHAUSTING})
    async with session_on(repo, model) as session:
        await session.run("Fix it")
        edits = [
            event.payload
            for event in await events_of(session, "tool.finished")
            if isinstance(event.payload, ToolFinished) and event.payload.tool == "Edit"
        ]
        errors = [edit.error for edit in edits if edit.error is not None]
        assert [error.details["attempt"] for error in errors] == [1, 2, 3]
        assert [error.details["limit"] for error in errors] == [3, 3, 3]
        assert [edit.terminate for edit in edits] == [False, False, True]
        counted = [e.payload for e in await events_of(session, "recovery.counted")]
        assert [c.attempt for c in counted if isinstance(c, RecoveryCounted)] == [1, 2, 3]
        (exhausted,) = await events_of(session, "recovery.exhausted")
        assert isinstance(exhausted.payload, RecoveryExhausted)


async def test_a_siblings_success_on_the_same_file_is_untouched_by_the_exhausted_one(repo: Path) -> None:
    good = [
        calls(call("Read", path="a.txt")),
        calls(edit("a.txt", {"op": "replace", "start": 2, "text": "LINE 2"})),
        say("Done."),
    ]
    model = scripted(
        {
            "main": [calls(task("bad"), task("good")), calls(call("TaskWait")), say("One of two.")],
            "fixer#1": EXHAUSTING,
            "fixer#2": good,
        }
    )
    async with session_on(repo, model) as session:
        outcome = await session.run("Fix it")
        finished = {
            e.payload.result.label: e.payload.result
            for e in await events_of(session, "task.finished")
            if isinstance(e.payload, TaskFinished)
        }
        assert finished["fixer#1"].status == "failed"
        assert finished["fixer#2"].status == "completed"
        assert [change.path for change in outcome.files_changed] == ["a.txt"]
        assert (repo / "repo/a.txt").read_text().splitlines()[1] == "LINE 2"


async def test_every_owners_keys_are_released_and_nothing_is_held_after_the_turn(repo: Path) -> None:
    model = scripted({"main": [calls(task()), say("ok")], "fixer": EXHAUSTING})
    async with session_on(repo, model) as session:
        outcome = await session.run("Fix it")
        released = [e.payload for e in await events_of(session, "recovery.released")]
        owners = [r.owner for r in released if isinstance(r, RecoveryReleased)]
        (task_row,) = await session.store.tasks(session.id)
        assert sorted(owners) == sorted([task_row.run_id, outcome.turn_id])
        (delegates,) = [r for r in released if isinstance(r, RecoveryReleased) and r.owner == task_row.run_id]
        assert [key.attempts for key in delegates.keys] == [3]
        assert session.assembly.recovery.is_empty
        assert session.assembly.locks.held == 0


async def test_the_parents_own_exhaustion_fails_the_turn_with_the_code(repo: Path) -> None:
    model = scripted({"main": EXHAUSTING})
    async with session_on(repo, model) as session:
        outcome = await session.run("Fix it")
        assert outcome.status == "failed"
        assert outcome.error is not None
        assert outcome.error.code == "MUTATION_RETRY_BUDGET_EXHAUSTED"


async def test_calls_behind_the_terminating_one_are_not_executed_and_still_get_a_result(repo: Path) -> None:
    batch = calls(
        bad_edit("a.txt"),
        bad_edit("a.txt"),
        bad_edit("a.txt"),
        call("Bash", command="touch ran"),
        call("Write", path="b.txt", content="x"),
    )
    model = scripted({"main": [calls(call("Read", path="a.txt")), batch]})
    async with session_on(repo, model) as session:
        await session.run("Go")
        messages = await session.store.messages(session.id, None)
        assert [result.ok for result in messages[-1].results] == [False] * 5
        assert [call.call_id for call in messages[-2].calls] == [r.call_id for r in messages[-1].results]
        assert '"TOOL_ABORTED"' in messages[-1].results[3].text
        assert not (repo / "repo/ran").exists()
        assert not (repo / "repo/b.txt").exists()


async def test_unread_results_are_handed_to_a_parent_that_ended_its_loop(repo: Path) -> None:
    model = scripted(
        {
            "main": [calls(task()), say("I started it."), say("Now I know how it ended.")],
            "fixer": [calls(call("Read", path="a.txt")), say("The file has ten lines.")],
        }
    )
    async with session_on(repo, model) as session:
        outcome = await session.run("Look")
        assert outcome.text == "Now I know how it ended."
        messages = await session.store.messages(session.id, None)
        assert "The file has ten lines." in messages[-2].text
        (row,) = await session.store.tasks(session.id)
        assert row.delivered


async def test_a_resumed_chain_goes_on_with_its_transcript_in_a_new_session_process(repo: Path) -> None:
    fixer = [
        *EXHAUSTING[:-1],
        calls(call("Read", path="a.txt")),
        calls(edit("a.txt", {"op": "replace", "start": 1, "text": "first"})),
        say("Fixed now."),
    ]
    model = scripted({"main": [calls(task()), calls(call("TaskWait")), say("Failed.")], "fixer": fixer})
    async with session_on(repo, model) as session:
        await session.run("Fix it")
        (first,) = await session.store.tasks(session.id)
        identity = session.id
    async with session_on(repo, model, resume=identity) as session:
        outcome = await session.resume_task(first.task_id, "Try again")
        assert outcome.status == "completed"
        chain = await session.store.chain(first.chain_id)
        assert [row.status for row in chain] == ["failed", "completed"]
        assert [row.label for row in chain] == ["fixer#1", "fixer#1"]
        messages = await session.store.messages(session.id, [chain[1].task_id])
        assert "MUTATION_RETRY_BUDGET_EXHAUSTED" in messages[0].text
        assert "Try again" in messages[0].text
    assert (repo / "repo/a.txt").read_text().startswith("first\n")


async def test_a_completed_chain_is_resumed_by_the_model(repo: Path) -> None:
    model = scripted(
        {
            "main": [
                calls(task()),
                calls(call("TaskWait")),
                calls(call("Task", subagent_type="fixer", prompt="More", resume="${task:1}")),
                calls(call("TaskWait")),
                say("Both parts are done."),
            ],
            "fixer": [say("Part one."), say("Part two.")],
        }
    )
    async with session_on(repo, model) as session:
        outcome = await session.run("Go")
        assert outcome.status == "completed"
        rows = await session.store.tasks(session.id)
        assert [row.label for row in rows] == ["fixer#1", "fixer#1"]
        assert rows[1].resumes == rows[0].task_id
        assert [row.result.report for row in rows if row.result] == ["Part one.", "Part two."]


async def test_an_unknown_agent_and_an_unknown_task_are_errors_for_the_model_only(repo: Path) -> None:
    model = scripted(
        {
            "main": [
                calls(task(agent="nobody"), call("TaskWait", taskIds=["task-x"])),
                say("Neither exists."),
            ]
        }
    )
    async with session_on(repo, model) as session:
        outcome = await session.run("Go")
        assert outcome.status == "completed"
        messages = await session.store.messages(session.id, None)
        assert "AGENT_UNKNOWN" in messages[2].results[0].text
        assert "TASK_UNKNOWN" in messages[2].results[1].text


async def test_one_failing_delegate_never_touches_a_sibling(repo: Path) -> None:
    model = scripted(
        {
            "main": [calls(task(), task(), task()), calls(call("TaskWait")), say("Two of three.")],
            "fixer#1": [say("one")],
            "fixer#2": [calls(call("Read", path="a.txt"))],  # then its script runs out
            "fixer#3": [say("three")],
        }
    )
    async with session_on(repo, model) as session:
        await session.run("Go")
        rows = await session.store.tasks(session.id)
        assert [row.status for row in rows] == ["completed", "failed", "completed"]
        assert rows[1].result is not None
        assert rows[1].result.error is not None
        assert rows[1].result.error.code == "PROVIDER_ERROR"


async def test_labels_are_numbered_in_call_order(repo: Path) -> None:
    model = scripted(
        {
            "main": [calls(*(task(f"number {n}") for n in range(1, 8))), say("ok"), say("all")],
            "fixer": [say("done")],
        }
    )
    async with session_on(repo, model) as session:
        await session.run("Go")
        rows = await session.store.tasks(session.id)
        assert [(row.label, row.prompt) for row in rows] == [
            (f"fixer#{n}", f"number {n}") for n in range(1, 8)
        ]


async def test_the_limit_of_running_delegates_names_wait_and_stop(repo: Path) -> None:
    model = scripted(
        {
            "main": [calls(task(), task(), task()), say("ok"), say("all")],
            "fixer": [calls(call("Bash", command="sleep 0.3")), say("done")],
        }
    )
    async with session_on(repo, model, max_delegates=2) as session:
        await session.run("Go")
        messages = await session.store.messages(session.id, None)
        refused = messages[2].results[2].text
        assert "DELEGATION_LIMIT" in refused
        assert "TaskWait" in refused
        assert "TaskStop" in refused


async def test_taskstop_stops_a_delegate_with_its_processes_before_it_returns(repo: Path) -> None:
    model = scripted(
        {
            "main": [
                calls(task()),
                calls(call("TaskWait", timeoutSeconds=0.5)),
                calls(call("TaskStop")),
                say("Stopped."),
                say("And I have read how it stood."),
            ],
            "fixer": [calls(call("Bash", command="echo $$ > pid; sleep 100")), say("never")],
        }
    )
    async with session_on(repo, model) as session:
        with trio.fail_after(10):
            outcome = await session.run("Go")
        assert outcome.status == "completed"
        (row,) = await session.store.tasks(session.id)
        assert row.status == "stopped"
        pid = int((repo / "repo/pid").read_text())
        assert not Path(f"/proc/{pid}").exists()


async def test_stopping_the_session_ends_the_turn_as_stopped_and_its_delegates_as_aborted(repo: Path) -> None:
    model = scripted(
        {
            "main": [calls(task(), task()), calls(call("TaskWait")), say("never")],
            "fixer": [calls(call("Bash", command="sleep 100")), say("never")],
        }
    )
    async with session_on(repo, model) as session, trio.open_nursery() as nursery:

        async def stop_soon() -> None:
            while len([e for e in await events_of(session, "tool.started") if e.task_id]) < 2:
                await trio.sleep(0.02)
            session.stop()

        nursery.start_soon(stop_soon)
        with trio.fail_after(10):
            outcome = await session.run("Go")
        assert outcome.status == "stopped"
        assert [row.status for row in await session.store.tasks(session.id)] == ["aborted", "aborted"]
        finished = [e.payload for e in await events_of(session, "agent.finished")]
        assert sorted(f.status for f in finished if isinstance(f, AgentFinished)) == [
            "aborted",
            "aborted",
            "stopped",
        ]
        calls_ = await session.store.calls(session.id)
        assert all(row.ok is not None for row in calls_)


async def test_the_trace_of_a_turn_has_one_root_and_the_right_parents(repo: Path) -> None:
    model = scripted({"main": [calls(task()), calls(call("TaskWait")), say("ok")], "fixer": EXHAUSTING})
    async with session_on(repo, model) as session:
        await session.run("Go")
        spans = await spans_of(session)
        by_id = {span.span_id: span for span in spans}
        assert len(by_id) == len(spans)
        assert len({span.trace_id for span in spans}) == 1
        roots = [span for span in spans if span.parent_span_id is None]
        assert [root.name for root in roots] == ["invoke_workflow turn"]
        assert all(span.parent_span_id in by_id for span in spans if span.parent_span_id)
        (task_span,) = spans_named(spans, "execute_tool Task")
        (agent_span,) = spans_named(spans, "invoke_agent fixer")
        assert agent_span.parent_span_id == task_span.span_id
        assert agent_span.service == "fixer"
        for span in (task_span, agent_span):
            assert span.status == "ERROR"
            assert span.attributes["error.type"] == "MUTATION_RETRY_BUDGET_EXHAUSTED"
        edits = spans_named(spans, "execute_tool Edit")
        assert [span.attributes["error.type"] for span in edits] == ["EDIT_RANGE_INVALID"] * 3
        (wait_span,) = spans_named(spans, "execute_tool TaskWait")
        assert wait_span.end_ns == task_span.end_ns == agent_span.end_ns


async def test_a_turn_counts_every_model_call_once(repo: Path) -> None:
    usage = {"inputTokens": 10, "outputTokens": 5}
    model = scripted(
        {
            "main": [
                {**calls(task(), task()), "usage": usage},
                {**calls(call("TaskWait")), "usage": usage},
                {**say("ok"), "usage": usage},
            ],
            "fixer#1": [{**say("one"), "usage": usage}],
            "fixer#2": [{**calls(call("Read", path="a.txt")), "usage": usage}],
        }
    )
    async with session_on(repo, model) as session:
        outcome = await session.run("Go")
        assert outcome.usage.input_tokens == 50
        assert outcome.usage.output_tokens == 25


async def test_a_delegate_whose_answer_was_cut_is_truncated_and_keeps_what_it_said(repo: Path) -> None:
    model = scripted(
        {
            "main": [calls(task()), calls(call("TaskWait")), say("It was cut.")],
            "fixer": [{"text": "I will now fix the bug in pars", "finish": "length"}, say("Whole.")],
        }
    )
    async with session_on(repo, model) as session:
        await session.run("Go")
        (row,) = await session.store.tasks(session.id)
        assert row.result is not None
        assert (row.status, row.result.report) == ("truncated", "I will now fix the bug in pars")
        assert row.result.error is not None
        assert row.result.error.code == "BUDGET_LIMIT"
        outcome = await session.resume_task("fixer#1")
        assert outcome.text == "Whole."

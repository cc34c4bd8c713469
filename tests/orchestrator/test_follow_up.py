"""A follow-up prompt: a new turn, while the earlier turn's delegates run on."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
import trio.lowlevel
import trio.testing

from agents.events import RecoveryReleased, TurnFinished
from orchestrator.session import Session
from orchestrator.turn import TurnOutcome
from telemetry.check import check_trace
from tests.harness import call, calls, events_of, say, scripted, session_on, spans_named, spans_of


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    (tmp_path / "repo").mkdir()
    return tmp_path


SLOW = [calls(call("Bash", command="while [ ! -e go ]; do sleep 0.02; done")), say("Slow, but done.")]
MODEL = {
    "main": [
        calls(call("Task", subagent_type="tester", prompt="Take your time")),
        say("I have started it."),
        say("The second question is answered."),
        say("And the slow one has come in, too."),
    ],
    "tester": SLOW,
}


async def until_handing_over(session: Session) -> None:
    """The parent's loop has ended for now; its delegate runs."""
    while True:
        said = [m.text for m in await session.store.messages(session.id, None) if m.role == "assistant"]
        if "I have started it." in said and session.crew.running:
            return
        await trio.sleep(0.01)


async def both_turns(session: Session, root: Path) -> list[TurnOutcome]:
    """The first prompt, a follow-up while its delegate runs, then the delegate's end."""
    ended: list[TurnOutcome] = []

    async def first() -> None:
        ended.append(await session.run("Start something slow"))
        (root / "repo/go").touch()  # the delegate may end only after the first turn has

    async with trio.open_nursery() as nursery:
        nursery.start_soon(first)
        await until_handing_over(session)
        ended.append(await session.run("And another question"))
    return ended


async def test_a_follow_up_closes_the_earlier_turn_for_the_parent_with_the_text_so_far(repo: Path) -> None:
    async with session_on(repo, scripted(MODEL)) as session:
        with trio.fail_after(15):
            first, second = await both_turns(session, repo)
        assert (first.status, first.text) == ("completed", "I have started it.")
        assert (second.status, second.text) == ("completed", "And the slow one has come in, too.")
        assert first.turn_id != second.turn_id
        assert first.trace_id != second.trace_id
        released = [e.payload for e in await events_of(session, "recovery.released")]
        owners = [r.owner for r in released if isinstance(r, RecoveryReleased)]
        assert {first.turn_id, second.turn_id} <= set(owners)


async def test_the_results_of_the_earlier_turns_delegates_go_to_the_newest_turn(repo: Path) -> None:
    async with session_on(repo, scripted(MODEL)) as session:
        with trio.fail_after(15):
            await both_turns(session, repo)
        messages = await session.store.messages(session.id, None)
        assert [m.text for m in messages if m.role == "user"][1] == "And another question"
        assert "Slow, but done." in [m.text for m in messages if m.role == "user"][2]
        (row,) = await session.store.tasks(session.id)
        assert row.delivered


async def test_only_the_root_span_of_the_earlier_turn_stays_open_for_its_delegates(repo: Path) -> None:
    async with session_on(repo, scripted(MODEL)) as session:
        with trio.fail_after(15):
            first, second = await both_turns(session, repo)
            while not await events_of(session, "turn.closed"):
                await trio.sleep(0.01)
        spans = await spans_of(session)
        early = [span for span in spans if span.trace_id == first.trace_id]
        assert check_trace(early) == ()
        (root,) = spans_named(early, "invoke_workflow turn")
        (task,) = spans_named(early, "execute_tool Task")
        (main,) = spans_named(early, "invoke_agent main")
        assert root.end_ns >= task.end_ns > main.end_ns
        assert check_trace([span for span in spans if span.trace_id == second.trace_id]) == ()


async def test_usage_of_a_delegate_that_outlived_its_turn_is_counted_once(repo: Path) -> None:
    usage = {"inputTokens": 10, "outputTokens": 1}
    model = {name: [{**turn, "usage": usage} for turn in turns] for name, turns in MODEL.items()}
    async with session_on(repo, scripted(model)) as session:
        with trio.fail_after(15):
            await both_turns(session, repo)
        finished = [e.payload for e in await events_of(session, "turn.finished")]
        counted = [f.usage.input_tokens for f in finished if isinstance(f, TurnFinished)]
        assert counted == [20, 40]


async def test_stopping_the_session_ends_what_the_earlier_turn_left_running(repo: Path) -> None:
    model = {**MODEL, "main": [*MODEL["main"][:2], calls(call("Bash", command="sleep 100"))]}
    async with session_on(repo, scripted(model)) as session, trio.open_nursery() as nursery:
        nursery.start_soon(session.run, "Start something slow")
        await until_handing_over(session)

        async def stop_soon() -> None:
            while len(await events_of(session, "turn.started")) < 2:
                await trio.sleep(0.01)
            session.stop()

        nursery.start_soon(stop_soon)
        with trio.fail_after(15):
            second = await session.run("Now something else")
        assert second.status == "stopped"
        assert [row.status for row in await session.store.tasks(session.id)] == ["aborted"]


async def test_prompts_that_come_together_are_answered_in_their_order(repo: Path) -> None:
    model = scripted({"main": [say("one"), say("two"), say("three")]})
    async with session_on(repo, model) as session, trio.open_nursery() as nursery:
        for prompt in ("first", "second", "third"):
            nursery.start_soon(session.run, prompt)
            await trio.lowlevel.checkpoint()
            await trio.testing.wait_all_tasks_blocked(0.001)
        while len(await events_of(session, "turn.finished")) < 3:
            await trio.sleep(0.01)
        messages = await session.store.messages(session.id, None)
        assert [m.text for m in messages] == ["first", "one", "second", "two", "third", "three"]

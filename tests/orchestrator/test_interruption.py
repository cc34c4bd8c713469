"""After a crash the next start closes what was open and completes the traces, wherever the process died."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from agents.events import (
    AgentFinished,
    Event,
    MessageAppended,
    ModelResponded,
    PermissionResolved,
    TaskFinished,
    ToolFinished,
    TurnFinished,
    nanoseconds,
    timestamp,
)
from agents.requests import Answer, Decision, PermissionRequest
from orchestrator.interruption import close_interrupted
from orchestrator.store.memory import MemoryStore, open_memory_store
from telemetry.check import check_trace
from telemetry.records import SpanRecord
from tests.harness import bad_edit, call, calls, edit, say, scripted, session_on

SESSION = "ses-1"
Transaction = tuple[Event, ...]
TEN_LINES = "".join(f"line {n}\n" for n in range(1, 11))


class Anna:
    """Allows the first call after a moment and denies the second one."""

    def __init__(self) -> None:
        self.asked = 0

    async def approve(self, request: PermissionRequest) -> Answer:
        self.asked += 1
        await trio.sleep(0.02)
        decision = Decision.ALLOW_ONCE if self.asked == 1 else Decision.DENY
        return Answer(decision=decision, source="api", by="anna")


async def play(root: Path) -> list[Transaction]:
    """One turn with two delegates, a failed model call, waits and an exhausted guard, as transactions."""
    usage = {"inputTokens": 10, "outputTokens": 5}
    model = scripted(
        {
            "main": [
                {
                    **calls(
                        call("Task", subagent_type="fixer", prompt="good"),
                        call("Task", subagent_type="fixer", prompt="bad", description="the bad one"),
                        text="Two delegates.",
                    ),
                    "usage": usage,
                },
                calls(call("TaskWait")),
                say("One of two."),
            ],
            "fixer#1": [
                {**calls(call("Read", path="a.txt")), "usage": usage},
                calls(
                    edit("a.txt", {"op": "replace", "start": 2, "text": "LINE 2"}), call("Bash", command="ls")
                ),
                calls(call("Bash", command="rm a.txt")),
                say("Done."),
            ],
            "fixer#2": [
                calls(call("Read", path="b.txt"), text="I look."),
                calls(bad_edit("b.txt")),
                calls(bad_edit("b.txt")),
                calls(bad_edit("b.txt")),
            ],
        },
        faults=[{"agent": "fixer#1", "turn": 3, "error": 503, "times": 1, "retry_after": 0.01}],
    )
    (root / "repo").mkdir()
    for name in ("a.txt", "b.txt"):
        (root / "repo" / name).write_text(TEN_LINES)
    transactions: list[Transaction] = []
    async with open_memory_store() as store:
        store.listen(lambda events: transactions.append(tuple(events)))
        options: dict[str, Any] = {"permission_mode": "accept-edits", "approver": Anna()}
        async with session_on(root, model, store=store, session_id=SESSION, **options) as session:
            outcome = await session.run("Fix both")
            assert outcome.status == "completed"
    return transactions


async def play_follow_up(root: Path) -> list[Transaction]:
    """Two prompts: the second one is given and answered while the first one's delegate runs."""
    model = scripted(
        {
            "main": [
                calls(call("Task", subagent_type="tester", prompt="Take your time")),
                say("Started."),
                say("The second one."),
                say("And the slow one."),
            ],
            "tester": [calls(call("Bash", command="while [ ! -e go ]; do sleep 0.02; done")), say("Done.")],
        }
    )
    transactions: list[Transaction] = []
    async with open_memory_store() as store:
        store.listen(lambda events: transactions.append(tuple(events)))
        async with session_on(root, model, store=store, session_id=SESSION) as session:
            async with trio.open_nursery() as nursery:

                async def first() -> None:
                    await session.run("Start something slow")
                    (root / "repo/go").touch()

                nursery.start_soon(first)
                for _ in range(500):
                    messages = await store.messages(SESSION, None)
                    if any(message.text == "Started." for message in messages) and session.crew.running:
                        break
                    await trio.sleep(0.01)
                await session.run("And something else")
    assert [event.type for events in transactions for event in events].count("turn.closed") == 1
    return transactions


async def crashed_after(transactions: Sequence[Transaction]) -> MemoryStore:
    """A store in which only these transactions were committed."""
    store = MemoryStore()
    for events in transactions:
        await store.append([msgspec.structs.replace(event, seq=0) for event in events])
    return store


async def spans_after_recovery(store: MemoryStore) -> list[SpanRecord]:
    await close_interrupted(store, SESSION)
    return list(await store.spans(SESSION))


@pytest.fixture(scope="module", params=[play, play_follow_up], ids=["one turn", "a follow-up"])
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Transaction]:
    transactions: list[Transaction] = trio.run(request.param, tmp_path_factory.mktemp("played"))
    return transactions


@pytest.fixture(scope="module")
def one_turn(tmp_path_factory: pytest.TempPathFactory) -> list[Transaction]:
    return trio.run(play, tmp_path_factory.mktemp("one_turn"))


def open_ids(transactions: Sequence[Transaction]) -> set[str]:
    """Spans that the events mention as their own and that nobody ended."""
    events = [event for events in transactions for event in events]
    ended = {event.span.span_id for event in events if event.span is not None}
    return {event.span_id for event in events if event.span_id is not None} - ended


async def test_wherever_the_process_dies_the_trace_is_whole_after_the_next_start(
    played: list[Transaction],
) -> None:
    whole = {event.span.span_id: event.span for events in played for event in events if event.span}
    for cut in range(1, len(played) + 1):
        left_open = open_ids(played[:cut])
        store = await crashed_after(played[:cut])
        spans = await spans_after_recovery(store)
        assert check_trace(spans) == (), cut
        closed = {span.span_id: span for span in spans if span.status_description == "process died"}
        assert set(closed) == left_open, cut
        for span_id, span in closed.items():
            live = whole[span_id]
            assert (span.name, span.service, span.kind, span.parent_span_id, span.instance_id) == (
                live.name,
                live.service,
                live.kind,
                live.parent_span_id,
                live.instance_id,
            )
            assert span.status == "ERROR"
            assert span.attributes["error.type"] == "INTERRUPTED"
            assert 0 <= span.start_ns - (live.start_ns // 1_000_000 * 1_000_000) < 5_000_000_000


async def test_a_completed_span_says_what_its_process_would_have_said_so_far(
    played: list[Transaction],
) -> None:
    whole = {event.span.span_id: event.span for events in played for event in events if event.span}
    for cut in range(1, len(played), 5):
        for span in await spans_after_recovery(await crashed_after(played[:cut])):
            if span.status_description != "process died":
                continue
            live = whole[span.span_id].attributes
            missing = {key for key in live if key not in span.attributes}
            assert missing <= LATER_ONLY, span.name
            for key in set(span.attributes) & STEADY:
                assert span.attributes[key] == live[key], (span.name, key)


STEADY = {
    "gen_ai.operation.name",
    "gen_ai.provider.name",
    "gen_ai.request.model",
    "gen_ai.agent.name",
    "gen_ai.agent.id",
    "gen_ai.tool.name",
    "gen_ai.tool.call.id",
    "gen_ai.conversation.id",
    "session.id",
    "peer.service",
    "orchestrator.turn.id",
    "orchestrator.turn.index",
    "orchestrator.agent.depth",
    "orchestrator.owner.id",
    "orchestrator.run.id",
    "orchestrator.chain.id",
    "orchestrator.permission.request_id",
    "orchestrator.permission.tool",
    "orchestrator.permission.mode",
    "orchestrator.permission.external",
}
"""What does not change while a span is open."""
LATER_ONLY = {
    "orchestrator.tool.terminate",
    "error.type",
    "gen_ai.agent.description",
    "gen_ai.response.finish_reasons",
    "gen_ai.response.id",
    "gen_ai.response.model",
    "gen_ai.response.time_to_first_chunk",
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.reasoning.output_tokens",
    "orchestrator.agent.label",
    "orchestrator.denials",
    "orchestrator.error.origin_span_id",
    "orchestrator.files_changed",
    "orchestrator.model.retries",
    "orchestrator.permission.decided_by",
    "orchestrator.permission.queue_position",
    "orchestrator.permission.scope",
    "orchestrator.permission.why",
    "orchestrator.recovery.kind",
    "orchestrator.recovery.target",
    "orchestrator.task.id",
    "orchestrator.run.id",
    "orchestrator.chain.id",
    "orchestrator.task.description",
    "orchestrator.task.status",
    "orchestrator.tool.bytes",
    "orchestrator.tool.exit_code",
    "orchestrator.tool.root",
    "orchestrator.tool.truncated",
}
"""What only the end of the work tells."""


def last_seen(events: Sequence[Event], trace_id: str) -> int:
    """The last moment of a trace that its own process must have written."""
    theirs = [
        event
        for event in events
        if event.trace_id == trace_id
        and event.type not in ("results.delivered", "recovery.released")
        and not (isinstance(event.payload, MessageAppended) and event.payload.message.role == "tool")
    ]
    return max(max(nanoseconds(e.ts), e.span.end_ns if e.span else 0) for e in theirs)


async def test_open_spans_end_when_the_process_was_last_seen_alive(played: list[Transaction]) -> None:
    for cut in range(2, len(played)):
        events = [event for events in played[:cut] for event in events if event.trace_id is not None]
        spans = await spans_after_recovery(await crashed_after(played[:cut]))
        died = [span for span in spans if span.status_description == "process died"]
        for span in died:
            assert span.end_ns == last_seen(events, span.trace_id)
        ends = {span.span_id: span.end_ns for span in died}
        for span in spans:
            assert span.end_ns <= ends.get(span.parent_span_id or "", span.end_ns)


async def test_nothing_is_closed_twice(played: list[Transaction]) -> None:
    for cut in range(1, len(played), 4):
        store = await crashed_after(played[:cut])
        await close_interrupted(store, SESSION)
        before = await store.events(SESSION)
        assert await close_interrupted(store, SESSION) == 0
        assert await store.events(SESSION) == before


async def test_a_recovery_that_dies_itself_is_finished_by_the_next_one(played: list[Transaction]) -> None:
    for cut in range(3, len(played), 6):
        base = await crashed_after(played[:cut])
        parts: list[Transaction] = []
        base.listen(lambda events, parts=parts: parts.append(tuple(events)))
        at_once = await spans_after_recovery(base)
        for broken_off in range(len(parts)):
            store = await crashed_after([*played[:cut], *parts[:broken_off]])
            twice = await spans_after_recovery(store)
            assert sorted(map(repr, twice)) == sorted(map(repr, at_once)), (cut, broken_off)
            closed = [e for e in await store.events(SESSION) if isinstance(e.payload, TaskFinished)]
            assert len({e.payload.task_id for e in closed}) == len(closed)  # type: ignore[union-attr]


async def test_every_kind_of_open_work_ends_with_the_event_that_always_ends_it(
    one_turn: list[Transaction],
) -> None:
    seen: set[type] = set()
    for cut in range(1, len(one_turn)):
        store = await crashed_after(one_turn[:cut])
        last = len(await store.events(SESSION))
        await close_interrupted(store, SESSION)
        for event in await store.events(SESSION, last):
            if event.span is not None:
                seen.add(type(event.payload))
                assert event.span_id == event.span.span_id
                assert event.trace_id == event.span.trace_id
            if isinstance(event.payload, ToolFinished):
                assert event.payload.error is not None
                assert event.payload.error.code == "INTERRUPTED"
    assert seen == {
        PermissionResolved,
        ToolFinished,
        ModelResponded,
        AgentFinished,
        TaskFinished,
        TurnFinished,
    }


async def test_the_interrupted_result_tells_what_the_run_had_done(one_turn: list[Transaction]) -> None:
    last_bash = max(
        index
        for index, events in enumerate(one_turn)
        if any(e.type == "tool.started" and e.payload.tool == "Bash" for e in events)  # type: ignore[union-attr]
    )
    store = await crashed_after(one_turn[: last_bash + 1])
    await close_interrupted(store, SESSION)
    rows = {row.label: row for row in await store.tasks(SESSION)}
    result = rows["fixer#1"].result
    assert result is not None
    assert (result.status, result.turns, result.usage.input_tokens) == ("interrupted", 3, 10)
    assert result.tool_calls == 4
    (turn,) = await store.turns(SESSION)
    assert (turn.status, turn.text) == ("interrupted", "Two delegates.")


async def test_a_session_that_ended_well_is_left_alone(played: list[Transaction]) -> None:
    store = await crashed_after(played)
    before = await store.events(SESSION)
    assert await close_interrupted(store, SESSION) == 0
    assert await store.events(SESSION) == before


def test_a_time_is_read_back_to_the_millisecond() -> None:
    for ns in (0, 1_700_000_000_123_000_000, 1_700_000_000_999_999_999):
        assert nanoseconds(timestamp(ns)) == ns // 1_000_000 * 1_000_000

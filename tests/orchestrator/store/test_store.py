"""What every store does, over both implementations."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.errors import ErrorCode, Failure
from agents.events import (
    KNOWN_TYPES,
    Event,
    PermissionRequested,
    PermissionResolved,
    ResultsDelivered,
    SessionStarted,
    TextDelta,
    TurnStarted,
)
from agents.rules.effects import EffectResult, Verdict
from orchestrator.store.base import Store
from orchestrator.store.memory import open_memory_store
from orchestrator.store.sqlite import open_sqlite_store
from tests.orchestrator.store.stories import (
    at,
    bare,
    event,
    intent,
    request,
    said,
    story,
    task_finished,
    task_started,
)

Opener = Callable[[], AbstractAsyncContextManager[Store]]


@pytest.fixture(params=["sqlite", "memory"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    if request.param == "memory":
        return open_memory_store
    return lambda: open_sqlite_store(tmp_path / "store.sqlite3")


@pytest.fixture
async def store(opener: Opener) -> AsyncIterator[Store]:
    async with opener() as opened:
        yield opened


def unstored(events: Sequence[Event]) -> list[Event]:
    return [msgspec.structs.replace(one, seq=0) for one in events]


async def test_events_come_back_as_they_were_with_their_seq(store: Store) -> None:
    told = story()
    assert {one.type for one in told} == KNOWN_TYPES - {"text.delta", "tool.progress"}
    returned = await store.append(told)
    stored = await store.events("s1")
    assert stored == returned
    assert unstored(stored) == told
    assert [one.seq for one in stored] == list(range(1, len(told) + 1))


async def test_seq_counts_per_session_without_gaps_under_concurrent_appends(store: Store) -> None:
    seen: dict[str, list[int]] = {"s1": [], "s2": []}

    async def agent(session: str) -> None:
        for number in range(5):
            for stored in await store.append((bare(number, session), bare(number, session))):
                seen[session].append(stored.seq)

    async with trio.open_nursery() as nursery:
        for session in ("s1", "s2") * 10:
            nursery.start_soon(agent, session)
    for session, numbers in seen.items():
        assert sorted(numbers) == list(range(1, 101))
        assert [one.seq for one in await store.events(session)] == list(range(1, 101))


async def test_a_group_is_stored_side_by_side(store: Store) -> None:
    async def agent(name: str) -> None:
        await store.append([said(f"{name}-{part}") for part in range(3)])

    async with trio.open_nursery() as nursery:
        for name in "abcdefgh":
            nursery.start_soon(agent, name)
    texts = [message.text for message in await store.messages("s1", None)]
    groups = [texts[start : start + 3] for start in range(0, 24, 3)]
    assert all([text[2] for text in group] == ["0", "1", "2"] for group in groups)
    assert all(len({text[0] for text in group}) == 1 for group in groups)


async def test_a_group_that_cannot_be_stored_stores_nothing(store: Store) -> None:
    with pytest.raises(ValueError, match="never stored"):
        await store.append((bare(), event(TextDelta(text="x"))))
    assert await store.events("s1") == ()


async def test_no_events_are_a_group_too(store: Store) -> None:
    assert await store.append(()) == ()


async def test_listeners_hear_a_commit_in_order_before_anybody_s_append_returns(store: Store) -> None:
    heard: list[int] = []
    store.listen(lambda events: heard.extend(one.seq for one in events))

    async def agent() -> None:
        for number in range(10):
            (stored,) = await store.append((bare(number),))
            assert stored.seq in heard

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(agent)
    assert heard == list(range(1, 101))


async def test_a_listener_s_bug_costs_nobody_the_acknowledgement(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[int] = []

    def broken(_events: Sequence[Event]) -> None:
        raise RuntimeError("bug")

    store.listen(broken)
    store.listen(lambda events: heard.extend(one.seq for one in events))
    (stored,) = await store.append((bare(),))
    assert (stored.seq, heard) == (1, [1])
    assert "a commit listener raised" in caplog.text


async def test_cancelling_the_wait_does_not_cancel_the_write(store: Store) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await store.append((bare(),))
    assert scope.cancelled_caught
    await store.append((bare(),))
    assert [one.seq for one in await store.events("s1")] == [1, 2]


async def test_events_after_a_seq(store: Store) -> None:
    await store.append([bare(number) for number in range(5)])
    assert [one.seq for one in await store.events("s1", after=3)] == [4, 5]
    assert await store.events("nobody") == ()


async def test_a_lone_surrogate_is_stored_as_a_question_mark(store: Store) -> None:
    await store.append((event(TurnStarted(prompt="a\ud800b", index=0)),))
    (turn,) = await store.turns("s1")
    (stored,) = await store.events("s1")
    assert turn.prompt == "a?b"
    assert stored.payload == TurnStarted(prompt="a?b", index=0)


async def test_a_session_is_as_of_its_newest_event(store: Store) -> None:
    await store.append(story())
    row = await store.session("s1")
    assert row is not None
    assert (row.title, row.agent, row.turns, row.status) == ("Fix it", "lead", 1, "failed")
    assert (row.created, row.updated, row.last_seq) == (at(0), at(24), 25)
    assert await store.session("nobody") is None


async def test_a_resumed_session_keeps_its_birth_and_takes_its_new_settings(store: Store) -> None:
    first = SessionStarted(workspace="/w", mode="agent", permission_mode="ask", model="a:x", resumed=False)
    again = SessionStarted(
        workspace="/w", mode="plan", permission_mode="auto", model="b:y", resumed=True, base_url="http://x"
    )
    await store.append((event(first, turn=None), event(again, second=9, turn=None)))
    row = await store.session("s1")
    assert row is not None
    assert (row.created, row.updated, row.title, row.status) == (at(0), at(9), "", "running")
    assert (row.mode, row.permission_mode, row.model, row.base_url) == ("plan", "auto", "b:y", "http://x")


async def test_sessions_are_listed_newest_first(store: Store) -> None:
    started = SessionStarted(workspace="/w", mode="agent", permission_mode="ask", model="a:x", resumed=False)
    for second, session in enumerate(("s1", "s2", "s3")):
        await store.append((event(started, session, second),))
    await store.append((event(TurnStarted(prompt="p", index=0), "s1", 9),))
    assert [row.session_id for row in await store.sessions()] == ["s1", "s3", "s2"]
    assert [row.session_id for row in await store.sessions(limit=2)] == ["s1", "s3"]


async def test_a_turn_ends_with_its_status_and_text(store: Store) -> None:
    told = story()
    await store.append(told[:2])
    assert [(row.status, row.finished) for row in await store.turns("s1")] == [("running", None)]
    await store.append(told[2:])
    (row,) = await store.turns("s1")
    assert (row.index, row.prompt, row.status, row.error_code) == (
        0,
        "Fix it\nplease",
        "failed",
        "TOOL_DENIED",
    )
    assert (row.text, row.finished, row.trace_id, row.span_id) == (
        "It failed.",
        at(21),
        "a" * 32,
        f"{1:016x}",
    )


async def test_a_task_runs_settles_and_is_delivered(store: Store) -> None:
    await store.append((task_started(1),))
    row = await store.task("t1")
    assert row is not None
    assert (row.status, row.label, row.depth, row.result, row.delivered) == (
        "running",
        "fixer#1",
        1,
        None,
        False,
    )
    await store.append((task_finished(1, status="truncated"),))
    row = await store.task("t1")
    assert row is not None
    assert row.result is not None
    assert (row.status, row.result.status, row.finished, row.delivered) == (
        "truncated",
        "truncated",
        at(31),
        False,
    )
    await store.append((event(ResultsDelivered(task_ids=("t1", "unknown"))),))
    row = await store.task("t1")
    assert row is not None
    assert row.delivered
    assert await store.task("unknown") is None


async def test_a_chain_is_its_runs_in_order_and_its_label_names_the_newest(store: Store) -> None:
    await store.append((task_started(1), task_finished(1), task_started(2), task_started(3, chain=1)))
    assert [row.task_id for row in await store.chain("c1")] == ["t1", "t3"]
    named = await store.find_label("fixer#1", "s1")
    assert named is not None
    assert (named.task_id, named.resumes) == ("t3", "t1")
    assert await store.find_label("fixer#1", "s2") is None
    assert [row.task_id for row in await store.tasks("s1")] == ["t1", "t2", "t3"]
    assert [row.task_id for row in await store.tasks("s1", limit=2)] == ["t2", "t3"]
    assert [row.task_id for row in await store.tasks()] == ["t3", "t2", "t1"]


async def test_a_session_with_many_tasks_lists_them_all(store: Store) -> None:
    await store.append([task_started(number, chain=1) for number in range(10, 60)])
    await store.append([task_started(number, "s2", chain=1) for number in range(1000, 1250)])
    assert len(await store.tasks("s2")) == 250
    assert len(await store.tasks()) == 200


async def test_find_prefers_exact_ids_and_else_takes_every_beginning(store: Store) -> None:
    await store.append(story("s1") + story("s12", prefix="x-"))
    assert [(found.kind, found.id) for found in await store.find("s1")] == [("session", "s1")]
    assert [(found.kind, found.id) for found in await store.find("s")] == [
        ("session", "s1"),
        ("session", "s12"),
    ]
    assert [(found.kind, found.id, found.session_id) for found in await store.find("x-")] == [
        ("turn", "x-turn-1", "s12"),
        ("task", "x-t1", "s12"),
        ("run", "x-r1", "s12"),
        ("chain", "x-c1", "s12"),
    ]
    assert await store.find("") == ()
    assert await store.find("%") == ()


async def test_find_answers_with_at_most_twenty(store: Store) -> None:
    await store.append([task_started(number, chain=1) for number in range(10, 40)])
    assert len(await store.find("t")) == 20


async def test_messages_are_of_the_main_agent_or_of_a_chain(store: Store) -> None:
    await store.append(
        (said("a"), said("b", task="t1"), said("c"), said("d", task="t2"), said("e", task="t3"))
    )
    assert [message.text for message in await store.messages("s1", None)] == ["a", "c"]
    assert [message.text for message in await store.messages("s1", ("t3", "t1"))] == ["b", "e"]
    assert await store.messages("s1", ()) == ()


async def test_the_same_message_may_stand_in_a_conversation_twice(store: Store) -> None:
    await store.append((said("again"), said("again")))
    assert [message.text for message in await store.messages("s1", None)] == ["again", "again"]


async def test_spans_are_kept_whole_and_found_by_trace(store: Store) -> None:
    told = story()
    await store.append(told)
    expected = tuple(one.span for one in told if one.span is not None)
    assert await store.spans("s1") == expected
    assert await store.spans("s1", "a" * 32) == expected
    assert await store.spans("s1", "f" * 32) == ()


async def test_requests_are_open_until_they_are_resolved(store: Store) -> None:
    for second, (identifier, session) in enumerate((("q1", "s1"), ("q2", "s2"), ("q3", "s1"))):
        await store.append(
            (event(PermissionRequested(request=request(identifier, session)), session, second),)
        )
    closed = PermissionResolved(request_id="q1", decision="deny", source="inbox", wait_ms=5)
    await store.append((event(closed, second=9),))
    assert [(row.request.id, row.decision) for row in await store.requests()] == [
        ("q1", "deny"),
        ("q2", None),
        ("q3", None),
    ]
    assert [row.request.id for row in await store.requests(only_open=True)] == ["q2", "q3"]
    (first, second_row) = await store.requests("s1")
    assert (first.source, first.wait_ms, first.request) == ("inbox", 5, request("q1"))
    assert second_row.request.id == "q3"
    assert [row.request.id for row in await store.requests("s1", only_open=True)] == ["q3"]


async def test_a_call_is_open_until_it_is_finished(store: Store) -> None:
    told = story()
    await store.append(told[:7])
    (row,) = await store.calls("s1")
    assert (row.call_id, row.tool, row.owner, row.ok, row.finished) == (
        "call-1",
        "Bash",
        "turn-1",
        None,
        None,
    )
    await store.append(told[7:])
    (row,) = await store.calls("s1")
    assert (row.ok, row.error_code, row.finished) == (False, "TOOL_DENIED", at(10))


async def test_an_effect_is_open_until_its_result_or_the_verdict_over_it(store: Store) -> None:
    for identifier in ("e1", "e2", "e3"):
        await store.intend(intent(identifier))
    await store.finish(EffectResult(effect_id="e1", ok=True, after_hash="2" * 64))
    await store.judge("e2", Verdict.NOT_APPLIED)
    rows = await store.effects("s1")
    assert [(row.intent.effect_id, row.verdict) for row in rows] == [
        ("e1", None),
        ("e2", "not applied"),
        ("e3", None),
    ]
    assert rows[0].result == EffectResult(effect_id="e1", ok=True, after_hash="2" * 64)
    assert rows[0].intent == msgspec.structs.replace(intent("e1"), before_image=None)
    assert [row.intent.effect_id for row in await store.effects("s1", only_open=True)] == ["e3"]
    assert await store.effects("s2") == ()


async def test_the_bytes_before_an_effect_are_kept(store: Store) -> None:
    await store.intend(intent("e1", image=b"\x00old"))
    await store.intend(intent("e2", image=None))
    await store.intend(intent("e3", image=b""))
    images = [await store.before_image(identifier) for identifier in ("e1", "e2", "e3", "unknown")]
    assert images == [b"\x00old", None, b"", None]


async def test_the_result_of_an_unknown_effect_is_refused(store: Store) -> None:
    with pytest.raises(Failure, match="journal its intent first"):
        await store.finish(EffectResult(effect_id="nowhere", ok=True))


async def test_a_held_session_is_locked_for_everybody_else(store: Store) -> None:
    async with store.lease("s1") as lease:
        assert lease.session_id == "s1"
        with pytest.raises(Failure) as caught:
            async with store.lease("s1"):
                pytest.fail("two holders")
        assert caught.value.error.code is ErrorCode.CHAIN_LOCKED
        assert "orchestrator stop s1" in caught.value.error.message
        assert caught.value.error.details["pid"] > 0
        async with store.lease("s2"):
            await store.append((bare(1, "s1"), bare(1, "s2")))
    async with store.lease("s1") as again:
        assert again.epoch == lease.epoch + 1


async def test_an_exception_leaves_the_lease_and_the_store_as_it_is(opener: Opener) -> None:
    with pytest.raises(ValueError, match="body"):
        async with opener() as opened, opened.lease("s1"):
            raise ValueError("body")


async def test_a_lease_ends_with_a_cancelled_block(store: Store) -> None:
    with trio.CancelScope() as scope:
        async with store.lease("s1"):
            scope.cancel()
            await trio.sleep_forever()
    async with store.lease("s1") as lease:
        assert lease.epoch == 2


everything = st.lists(st.sampled_from(story() + story("s2", "x-") + [task_started(7, chain=1)]), max_size=40)


async def answers(store: Store) -> list[Any]:
    """All that a store can be asked."""
    collected: list[Any] = [await store.sessions(), await store.tasks(), await store.requests()]
    collected += [await store.find(prefix) for prefix in ("s", "t", "x-", "c1")]
    for session in ("s1", "s2"):
        collected += [await store.session(session), await store.turns(session), await store.tasks(session)]
        collected += [await store.events(session), await store.spans(session), await store.calls(session)]
        collected += [
            await store.requests(session, only_open=True),
            await store.find_label("fixer#1", session),
        ]
        collected += [await store.messages(session, None), await store.messages(session, ("t1", "x-t1"))]
    return collected


@given(everything)
@settings(max_examples=15, deadline=None)
async def test_both_stores_give_the_same_answers_whatever_happens(events: list[Event]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with contextlib.AsyncExitStack() as stack:
            sqlite = await stack.enter_async_context(open_sqlite_store(Path(folder) / "store.sqlite3"))
            memory = await stack.enter_async_context(open_memory_store())
            half = len(events) // 2
            for store in (sqlite, memory):
                await store.append(events[:half])
                for one in events[half:]:
                    await store.append((one,))
            assert await answers(sqlite) == await answers(memory)
            before = await answers(sqlite)
            assert await sqlite.rebuild() == len(events)
            assert await answers(sqlite) == before

"""Letters to a session's holder: which are kept, which come too late, over both stores."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
import trio

from agents.errors import ErrorCode, Failure
from agents.events import PermissionRequested, PermissionResolved, SessionStarted, TurnStarted
from agents.requests import Answer, Decision
from orchestrator.store.base import Store
from orchestrator.store.callers import MARKER
from orchestrator.store.mail import AnswerRequest, Letter, StopSession, StopTask
from orchestrator.store.memory import open_memory_store
from orchestrator.store.sqlite import open_sqlite_store
from tests.orchestrator.store.stories import event, request, task_finished, task_started

ROOT = Path(__file__).parents[3]
YES = Answer(decision=Decision.ALLOW_ONCE, source="inbox", by="alice")
NO = Answer(decision=Decision.DENY, source="inbox", feedback="use b.txt")

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


def answer(identifier: str = "q1", session: str = "s1", given: Answer = YES) -> AnswerRequest:
    return AnswerRequest(session_id=session, request_id=identifier, answer=given)


async def begin(store: Store, *requests: str, session: str = "s1") -> None:
    started = SessionStarted(
        workspace="/w", mode="agent", permission_mode="ask", model="m", resumed=False, main_agent="main"
    )
    await store.append(
        [
            event(started, session),
            event(TurnStarted(prompt="Go", index=0), session, turn=f"{session}-turn"),
            *(event(PermissionRequested(request=request(one, session)), session) for one in requests),
        ]
    )


def closed(identifier: str = "q1", session: str = "s1", decision: str = "timeout") -> PermissionResolved:
    return PermissionResolved(request_id=identifier, decision=decision, source="deadline", wait_ms=5)


async def refused(store: Store, letter: Letter) -> str:
    with pytest.raises(Failure) as caught:
        await store.post(letter)
    assert caught.value.error.code is ErrorCode.CONFLICT
    return caught.value.error.message


async def test_a_letter_is_given_out_once_and_in_order(store: Store) -> None:
    async with store.lease("s1"):
        await begin(store, "q1", "q2")
        letters = [answer("q2", given=NO), answer("q1"), StopSession(session_id="s1")]
        for letter in letters:
            await store.post(letter)
        assert await store.take("s1") == tuple(letters)
        assert await store.take("s1") == ()


async def test_letters_are_for_their_session_alone(store: Store) -> None:
    async with store.lease("s1"), store.lease("s2"):
        await begin(store, "q1")
        await begin(store, "q2", session="s2")
        await store.post(answer("q2", "s2"))
        assert await store.take("s1") == ()
        assert await store.take("s2") == (answer("q2", "s2"),)


async def test_only_the_first_answer_to_a_request_is_ever_accepted(store: Store) -> None:
    async with store.lease("s1"):
        await begin(store, "q1")
        await store.post(answer())
        assert "has been answered already" in await refused(store, answer(given=NO))
        assert await store.take("s1") == (answer(),)
        assert "has been answered already" in await refused(store, answer(given=NO))
        assert await store.take("s1") == ()


async def test_an_answer_to_a_closed_request_is_a_conflict_and_changes_nothing(store: Store) -> None:
    async with store.lease("s1"):
        await begin(store, "q1")
        await store.append([event(closed())])
        before = await store.requests()
        assert "is closed" in await refused(store, answer())
        assert await store.requests() == before
        assert await store.take("s1") == ()


async def test_an_answer_to_an_unknown_request_is_a_conflict(store: Store) -> None:
    async with store.lease("s1"), store.lease("s2"):
        await begin(store, "q1")
        assert "does not exist" in await refused(store, answer("q9"))
        assert "does not exist" in await refused(store, answer("q1", "s2"))


async def test_an_answer_where_nobody_holds_the_session_is_a_conflict(store: Store) -> None:
    async with store.lease("s1"):
        await begin(store, "q1")
    told = await refused(store, answer())
    assert "has ended" in told
    assert "`orchestrator resume s1`" in told
    async with store.lease("s1"):
        assert await store.take("s1") == ()


async def test_letters_to_an_earlier_holder_are_not_for_the_next_one(store: Store) -> None:
    async with store.lease("s1"):
        await begin(store, "q1")
        await store.post(answer())
    async with store.lease("s1"):
        assert await store.take("s1") == ()


async def test_a_task_is_stopped_only_while_it_runs(store: Store) -> None:
    async with store.lease("s1"):
        await begin(store)
        await store.append([task_started(1), task_started(2), task_finished(2)])
        stop = StopTask(session_id="s1", task_id="t1")
        await store.post(stop)
        assert "has ended already" in await refused(store, StopTask(session_id="s1", task_id="t2"))
        assert "does not exist" in await refused(store, StopTask(session_id="s1", task_id="t3"))
        assert await store.take("s1") == (stop,)


async def test_a_session_is_stopped_only_while_a_turn_runs(store: Store) -> None:
    stop = StopSession(session_id="s1")
    async with store.lease("s1"):
        assert "does not exist" in await refused(store, stop)
        await begin(store)
        await store.post(stop)
        await store.post(stop)
        assert await store.take("s1") == (stop, stop)
    assert "has ended" in await refused(store, stop)


async def test_the_holder_is_known_while_it_holds(store: Store) -> None:
    assert await store.holder("s1") is None
    async with store.lease("s1"):
        assert await store.holder("s1") is not None
    assert await store.holder("s1") is None


async def test_who_decided_and_when_is_kept(store: Store) -> None:
    async with store.lease("s1"):
        await begin(store, "q1")
        told = PermissionResolved(request_id="q1", decision="deny", source="inbox", wait_ms=5, by="alice")
        await store.append([event(told, second=9)])
    (row,) = await store.requests("s1")
    assert (row.decision, row.decided_by, row.closed) == ("deny", "alice", "2026-01-01T00:00:09.000Z")


async def test_a_tool_s_process_leaves_no_letter(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async with store.lease("s1"):
        await begin(store, "q1")
        monkeypatch.setenv(MARKER, "call-1")
        with pytest.raises(Failure) as caught:
            await store.post(answer())
        assert caught.value.error.code is ErrorCode.TOOL_DENIED
        monkeypatch.delenv(MARKER)
        assert await store.take("s1") == ()


async def test_an_answer_to_a_killed_holder_is_a_conflict(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite3"
    async with open_sqlite_store(path) as store:
        await begin(store, "q1", "q2")
        process = await trio.lowlevel.open_process(
            [sys.executable, "-m", "tests.orchestrator.store.worker", "hold", str(path), "s1"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        async with process.stdout:
            assert (await process.stdout.receive_some()).startswith(b"held")
            assert await store.holder("s1") is not None
            await store.post(answer())
            process.kill()
            await process.wait()
            assert await store.holder("s1") is None
            assert "has been answered already" in await refused(store, answer())
            assert "has ended" in await refused(store, answer("q2"))
        async with store.lease("s1"):
            assert await store.take("s1") == ()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("select count(*) from mail").fetchone() == (0,)


async def test_of_two_answers_of_the_same_instant_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite3"
    outcomes: list[str] = []
    async with open_sqlite_store(path) as holder, holder.lease("s1"):
        await begin(holder, "q1")
        async with open_sqlite_store(path) as one, open_sqlite_store(path) as other:

            async def post(store: Store, given: Answer) -> None:
                try:
                    await store.post(answer(given=given))
                    outcomes.append("kept")
                except Failure as late:
                    outcomes.append(late.error.code)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(post, one, YES)
                nursery.start_soon(post, other, NO)
        assert sorted(outcomes) == ["CONFLICT", "kept"]
        assert len(await holder.take("s1")) == 1

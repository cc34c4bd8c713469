"""Spans go exactly where their turn's spans go, also when an earlier process could not get them through."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from agents.errors import ErrorCode, failure
from agents.events import SessionStarted, TurnStarted
from orchestrator import sending
from orchestrator.session import Session
from orchestrator.store.memory import MemoryStore
from telemetry.check import check_trace
from telemetry.records import SpanRecord
from telemetry.testing import OtlpReceiver
from telemetry.tracefile import read_trace_file
from tests.harness import call, calls, events_of, say, scripted, session_on

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo/a.txt").write_text("a\n")
    return tmp_path


@asynccontextmanager
async def one_session(
    repo: Path, store: MemoryStore, *, resume: str | None = None, trace_file: Path | None = None
) -> AsyncIterator[Session]:
    model = scripted({"main": [calls(call("Read", path="a.txt")), say("one"), say("two"), say("three")]})
    async with session_on(
        repo, model, store=store, resume=resume, trace_file=trace_file, warn=lambda _: None
    ) as session:
        yield session


def same(records: list[SpanRecord]) -> list[str]:
    return sorted(map(repr, records))


async def test_a_turn_stores_every_place_its_spans_go_to(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = repo / "trace.jsonl"
    store = MemoryStore()
    with OtlpReceiver() as receiver:
        monkeypatch.setenv(ENDPOINT, receiver.endpoint.replace("//", "//user:sentinel@"))
        async with one_session(repo, store, trace_file=file) as session:
            await session.run("Look")
            (turn,) = await events_of(session, "turn.started")
            (opened,) = await events_of(session, "session.started")
    assert isinstance(turn.payload, TurnStarted)
    assert isinstance(opened.payload, SessionStarted)
    url = f"{receiver.endpoint}/v1/traces"
    assert turn.payload.trace_targets == (url, f"file:{file}")
    assert opened.payload.trace_target == url
    spans = await store.spans(session.id)
    assert opened.payload.instance_id == spans[0].instance_id
    assert same(list(read_trace_file(file))) == same(list(receiver.spans)) == same(list(spans))


async def test_what_a_dead_collector_missed_arrives_with_the_next_start_of_the_session(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    with OtlpReceiver("refuse") as receiver:
        monkeypatch.setenv(ENDPOINT, receiver.endpoint)
        async with one_session(repo, store) as session:
            await session.run("Look")
        assert receiver.spans == ()
        receiver.mode = "ok"
        async with one_session(repo, store, resume=session.id) as again:
            await again.run("And again")
        assert same(list(receiver.spans)) == same(list(await store.spans(session.id)))
        assert check_trace(receiver.spans) == ()


async def test_what_was_acknowledged_is_not_sent_again(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    with OtlpReceiver() as receiver:
        monkeypatch.setenv(ENDPOINT, receiver.endpoint)
        async with one_session(repo, store) as session:
            await session.run("Look")
        arrived = len(receiver.spans)
        last = max(event.seq for event in await store.events(session.id) if event.span is not None)
        assert await store.watermark(session.id, f"{receiver.endpoint}/v1/traces") == last
        async with one_session(repo, store, resume=session.id):
            pass
        assert len(receiver.spans) == arrived


async def test_a_turn_recorded_without_export_is_never_exported(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    async with one_session(repo, store) as session:
        silent = await session.run("Look")
    with OtlpReceiver() as receiver:
        monkeypatch.setenv(ENDPOINT, receiver.endpoint)
        async with one_session(repo, store, resume=session.id, trace_file=repo / "t.jsonl") as again:
            loud = await again.run("And again")
        assert {span.trace_id for span in receiver.spans} == {loud.trace_id}
    assert {span.trace_id for span in read_trace_file(repo / "t.jsonl")} == {loud.trace_id}
    assert silent.trace_id in {span.trace_id for span in await store.spans(session.id)}


async def test_spans_go_to_no_other_place_than_their_turns(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    with OtlpReceiver("refuse") as first, OtlpReceiver() as second:
        monkeypatch.setenv(ENDPOINT, first.endpoint)
        async with one_session(repo, store) as session:
            missed = await session.run("Look")
        monkeypatch.setenv(ENDPOINT, second.endpoint)
        async with one_session(repo, store, resume=session.id) as again:
            other = await again.run("And again")
        assert {span.trace_id for span in second.spans} == {other.trace_id}
        first.mode = "ok"
        monkeypatch.setenv(ENDPOINT, first.endpoint)
        async with one_session(repo, store, resume=session.id):
            pass
        assert {span.trace_id for span in first.spans} == {missed.trace_id}


async def test_the_watermark_is_written_while_the_session_runs(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "WATERMARK_SECONDS", 0.05)
    store = MemoryStore()
    with OtlpReceiver() as receiver:
        monkeypatch.setenv(ENDPOINT, receiver.endpoint)
        async with one_session(repo, store) as session:
            await session.run("Look")
            for _ in range(200):
                if await store.watermark(session.id, f"{receiver.endpoint}/v1/traces"):
                    break
                await trio.sleep(0.05)
            else:
                pytest.fail("no watermark was written within 10 s")


async def test_a_store_that_takes_no_watermark_ends_no_session(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(MemoryStore):
        async def acknowledge(self, session_id: str, target: str, seq: int) -> None:
            await super().append([])
            raise failure(ErrorCode.STORE_WRITE_FAILED, "The disk is full. Make room.")

    with OtlpReceiver() as receiver:
        monkeypatch.setenv(ENDPOINT, receiver.endpoint)
        async with one_session(repo, Full()) as session:
            outcome = await session.run("Look")
    assert outcome.status == "completed"

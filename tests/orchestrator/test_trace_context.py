"""Trace context across the borders of the process: commands, the environment, the model's provider."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

from agents.events import ToolFinished
from orchestrator.opening import Extras, open_settings
from orchestrator.session import Session
from orchestrator.settings import Settings
from orchestrator.store.memory import MemoryStore
from telemetry.check import check_trace
from telemetry.spans import start_span, traceparent
from tests.fakes.chat_server import ChatServer
from tests.harness import call, calls, events_of, say, scripted, session_on, spans_named, spans_of

OUTER = start_span("deploy", parent=None).ref


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    (tmp_path / "repo").mkdir()
    return tmp_path


async def test_a_commands_traceparent_is_its_own_span_and_our_settings_stay_ours(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=SENTINEL-3")
    monkeypatch.setenv("OPENAI_API_KEY", "SENTINEL-4")
    monkeypatch.setenv("TRACEPARENT", traceparent(OUTER))
    monkeypatch.setenv("OWN_VALUE", "kept")
    agents = {
        "main": [calls(call("Bash", command="env"), call("Bash", command="env")), say("ok")],
    }
    async with session_on(repo, scripted(agents), store=MemoryStore()) as session:
        await session.run("Go")
        spans = {
            span.attributes["gen_ai.tool.call.id"]: span
            for span in spans_named(await spans_of(session), "execute_tool Bash")
        }
        finished = [event.payload for event in await events_of(session, "tool.finished")]
    assert len(finished) == 2
    for payload in finished:
        assert isinstance(payload, ToolFinished)
        assert payload.result is not None
        printed = payload.result["stdout"]
        span = spans[payload.call_id]
        assert f"TRACEPARENT=00-{span.trace_id}-{span.span_id}-01\n" in printed
        assert "OWN_VALUE=kept" in printed
        assert re.search(r"^OTEL_|SENTINEL", printed, re.MULTILINE) is None


@asynccontextmanager
async def opened(repo: Path, agents: dict[str, Any], **settings: Any) -> AsyncIterator[Session]:
    chosen = attrs.evolve(
        Settings(workspace=repo / "repo", data_dir=repo / "data", environment={"PATH": "/usr/bin:/bin"}),
        **settings,
    )
    extras = Extras(model=scripted(agents), store=MemoryStore())
    async with open_settings(chosen, extras) as session:
        yield session


@pytest.mark.parametrize("headless", [True, False])
async def test_an_outer_trace_is_joined_where_nobody_is_at_the_terminal(repo: Path, headless: bool) -> None:
    environment = {"PATH": "/usr/bin:/bin", "TRACEPARENT": traceparent(OUTER)}
    async with opened(repo, {"main": [say("ok")]}, environment=environment, headless=headless) as session:
        await session.run("Go")
        (root,) = spans_named(await spans_of(session), "invoke_workflow turn")
    assert (root.trace_id == OUTER.trace_id) is headless
    assert root.parent_span_id == (OUTER.span_id if headless else None)


async def test_turns_below_one_outer_span_are_a_sound_trace_and_a_resume_has_no_link_into_it(
    repo: Path,
) -> None:
    environment = {"PATH": "/usr/bin:/bin", "TRACEPARENT": traceparent(OUTER)}
    agents = {"main": [say("one"), say("two")]}
    async with opened(repo, agents, environment=environment) as session:
        await session.run("Go")
        await session.resume("And on")
        spans = await spans_of(session)
    assert check_trace(spans) == ()
    first, second = spans_named(spans, "invoke_workflow turn")
    assert (first.trace_id, second.links) == (second.trace_id, ())
    assert second.attributes["orchestrator.resume.of_trace_id"] == first.trace_id


@pytest.mark.parametrize("tell", [True, False])
async def test_a_provider_is_told_the_span_only_where_that_is_switched_on(repo: Path, tell: bool) -> None:
    with ChatServer({"agents": {"main": [say("ok")]}}) as server:
        settings = Settings(
            workspace=repo / "repo",
            data_dir=repo / "data",
            environment={"PATH": "/usr/bin:/bin", "OPENAI_API_KEY": "k"},
            model="openai-chat:test",
            base_url=server.url,
            trace_model_requests=tell,
        )
        async with open_settings(settings, Extras(store=MemoryStore())) as session:
            await session.run("Go")
            (chat,) = spans_named(await spans_of(session), "chat test")
        (request,) = server.requests
    told = {name.lower(): value for name, value in request.headers.items()}.get("traceparent")
    assert told == (f"00-{chat.trace_id}-{chat.span_id}-01" if tell else None)

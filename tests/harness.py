"""Sessions for tests: a scripted model, a real workspace, a real store, and what happened as a list."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agents.events import Event
from agents.models.script import read_script
from agents.models.scripted import ScriptedModel
from orchestrator.api import open_session
from orchestrator.session import Session
from telemetry.records import SpanRecord


def scripted(agents: dict[str, Any], faults: Sequence[dict[str, Any]] = ()) -> ScriptedModel:
    """A model that plays `agents` (label or name → turns)."""
    return ScriptedModel(read_script({"agents": agents, "faults": list(faults)}, "test"))


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"tool": tool, "arguments": arguments}


def calls(*given: dict[str, Any], text: str = "") -> dict[str, Any]:
    """One turn of a script with tool calls."""
    return {"calls": list(given), **({"text": text} if text else {})}


def say(text: str) -> dict[str, Any]:
    return {"text": text}


def edit(path: str, *ops: dict[str, Any], tag: str | None = None) -> dict[str, Any]:
    return call("Edit", path=path, tag=tag or f"${{tag:{path}}}", ops=list(ops))


def bad_edit(path: str, line: int = 9999) -> dict[str, Any]:
    """An Edit that counts at once: EDIT_RANGE_INVALID."""
    return edit(path, {"op": "replace", "start": line, "text": "x"})


@asynccontextmanager
async def session_on(root: Path, model: Any, **options: Any) -> AsyncIterator[Session]:
    """A session on `root/repo`, its store and data in `root/data`, everything allowed unless told otherwise."""
    workspace = root / "repo"
    workspace.mkdir(exist_ok=True)
    options.setdefault("permission_mode", "auto")
    options.setdefault("data_dir", root / "data")
    async with open_session(workspace, model=model, **options) as session:
        yield session


async def events_of(session: Session, *types: str) -> list[Event]:
    """The stored events, of these types if any are named."""
    stored = await session.store.events(session.id)
    return [event for event in stored if not types or event.type in types]


async def spans_of(session: Session) -> list[SpanRecord]:
    return list(await session.store.spans(session.id))


def spans_named(spans: Sequence[SpanRecord], name: str) -> list[SpanRecord]:
    return [span for span in spans if span.name == name]

"""One session as JSON for programs, or as one page for people that needs nothing but itself."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import attrs
import msgspec

from agents.errors import ErrorCode, failure
from agents.events import (
    AgentFinished,
    AgentRef,
    AgentStarted,
    Event,
    MessageAppended,
    PermissionRequested,
    PermissionResolved,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
    to_wire,
)
from agents.messages import Message
from agents.rules.preview import visible
from orchestrator.cli.card import card
from orchestrator.cli.words import DECISIONS, counted, elapsed, seconds, subject_of, told
from orchestrator.store.base import SessionRow, Store, TaskRow, TurnRow

EXPORT_VERSION = 1


async def export_json(store: Store, session_id: str) -> dict[str, Any]:
    """The session as plain values: its row, turns, tasks with results, conversations, and every event.

    Raises `Failure` NOT_FOUND.
    """
    row = await _session(store, session_id)
    tasks = await store.tasks(session_id)
    conversations = [_conversation("main", None, await store.messages(session_id, None))]
    for chain_id in dict.fromkeys(task.chain_id for task in tasks):
        runs = [task for task in tasks if task.chain_id == chain_id]
        messages = await store.messages(session_id, [run.task_id for run in runs])
        conversations.append(_conversation(runs[0].label, chain_id, messages))
    return {
        "v": EXPORT_VERSION,
        "session": plain(row),
        "turns": [plain(turn) for turn in await store.turns(session_id)],
        "tasks": [plain(task) for task in tasks],
        "conversations": conversations,
        "events": [to_wire(event) for event in await store.events(session_id)],
    }


async def export_html(store: Store, session_id: str) -> str:
    """The session's transcript as a page: agents, their messages and calls, and how each turn ended.

    It loads nothing and runs nothing. Raises `Failure` NOT_FOUND.
    """
    row = await _session(store, session_id)
    turns = _read_turns(await store.events(session_id))
    body = "\n".join(_turn_html(turn, session_id) for turn in turns)
    title = _text(row.title or row.session_id)
    facts = " · ".join((row.session_id, row.workspace, row.model, row.created))
    return _PAGE.format(title=title, facts=_text(facts), body=body, style=_STYLE)


def plain(row: SessionRow | TurnRow | TaskRow) -> dict[str, Any]:
    """A stored row with the names of the wire."""
    values: dict[str, Any] = {}
    for field in attrs.fields(type(row)):
        first, *rest = field.name.split("_")
        name = first + "".join(word.title() for word in rest)
        values[name] = msgspec.to_builtins(getattr(row, field.name))
    return values


def _conversation(label: str, chain_id: str | None, messages: Sequence[Message]) -> dict[str, Any]:
    return {"label": label, "chainId": chain_id, "messages": msgspec.to_builtins(messages)}


async def _session(store: Store, session_id: str) -> SessionRow:
    row = await store.session(session_id)
    if row is None:
        raise failure(
            ErrorCode.NOT_FOUND,
            f"There is no session {session_id!r} in {store.location}. "
            "List them with `orchestrator sessions`.",
        )
    return row


# ── what the page shows, from the events ───────────────────────────────────────────────────────────────


@attrs.define
class _Call:
    """One tool row."""

    started: ToolStarted
    finished: ToolFinished | None = None


@attrs.define
class _Section:
    """One agent's part in a turn: its rows, in order."""

    ref: AgentRef
    begun: str
    rows: list[Message | _Call | str] = attrs.field(factory=list)
    """Messages, calls, and what happened to a request, in words."""
    end: AgentFinished | None = None
    ended: str | None = None

    @property
    def calls(self) -> int:
        return sum(isinstance(row, _Call) for row in self.rows)


@attrs.define
class _Turn:
    id: str
    started: TurnStarted
    begun: str
    sections: dict[str, _Section] = attrs.field(factory=dict)
    """By owner id, in order of start."""
    end: TurnFinished | None = None


def _read_turns(events: Sequence[Event]) -> list[_Turn]:
    turns: dict[str, _Turn] = {}
    calls: dict[str, _Call] = {}
    for event in events:
        if event.turn_id is None:
            continue
        if isinstance(event.payload, TurnStarted):
            turns[event.turn_id] = _Turn(event.turn_id, event.payload, event.ts)
        turn = turns.get(event.turn_id)
        if turn is not None:
            _take(turn, event, calls)
    return list(turns.values())


def _take(turn: _Turn, event: Event, calls: dict[str, _Call]) -> None:
    payload = event.payload
    if isinstance(payload, TurnFinished):
        turn.end = payload
    if event.agent is None:
        return
    section = turn.sections.get(event.agent.id)
    if section is None:
        if not isinstance(payload, AgentStarted | MessageAppended):
            return
        section = turn.sections[event.agent.id] = _Section(event.agent, event.ts)
    match payload:
        case MessageAppended() if payload.message.role != "tool":
            section.rows.append(payload.message)
        case ToolStarted():
            calls[payload.call_id] = _Call(payload)
            section.rows.append(calls[payload.call_id])
        case ToolFinished() if payload.call_id in calls:
            calls[payload.call_id].finished = payload
        case PermissionRequested():
            section.rows.append(f"{payload.request.tool} waits for an answer: {payload.request.reason}")
        case PermissionResolved():
            how = DECISIONS.get(payload.decision, payload.decision)
            who = payload.source if payload.by is None else f"{payload.source}, {payload.by}"
            section.rows.append(f"{how} ({who}, {seconds(payload.wait_ms)})")
        case AgentFinished():
            section.end, section.ended = payload, event.ts


# ── as HTML ────────────────────────────────────────────────────────────────────────────────────────────


def _turn_html(turn: _Turn, session_id: str) -> str:
    what = "resume of a task" if turn.started.resumes_task else "turn"
    parts = [
        f'<section class="turn" id="{_text(turn.id)}">',
        f"<h2>{what} {turn.started.index} <small>{_text(turn.begun)}</small></h2>",
        f'<pre class="prompt">{_text(turn.started.prompt)}</pre>',
        *(_section_html(section) for section in turn.sections.values()),
        _card_html(turn, session_id),
        "</section>",
    ]
    return "\n".join(parts)


def _section_html(section: _Section) -> str:
    took = elapsed(section.begun, section.ended)
    facts = " · ".join(part for part in (counted(section.calls, "call"), took) if part)
    rows = "\n".join(_row_html(row) for row in section.rows)
    return (
        f'<details class="agent depth{min(section.ref.depth, 3)}" open id="{_text(section.ref.id)}">\n'
        f"<summary><b>{_text(section.ref.label)}</b> <small>{_text(facts)}</small></summary>\n"
        f"{rows}\n{_end_html(section)}\n</details>"
    )


def _row_html(row: Message | _Call | str) -> str:
    match row:
        case str():
            return f'<p class="asked">{_text(row)}</p>'
        case _Call():
            return _call_html(row)
        case Message():
            return f'<pre class="{row.role}">{_text(row.text)}</pre>' if row.text.strip() else ""


def _call_html(call: _Call) -> str:
    """One tool row: open where the call failed, with what it asked for and what came of it."""
    finished, started = call.finished, call.started
    head = f"{started.tool} {subject_of(started.arguments)}".strip()
    if finished is None:
        return f'<p class="call">… {_text(head)} · has no result</p>'
    head = f"{head} · {seconds(finished.duration_ms)}"
    details = f"<pre>{_json(started.arguments)}</pre>\n<pre>{_json(finished.result)}</pre>"
    if finished.error is None:
        return f'<details class="call"><summary>✓ {_text(head)}</summary>\n{details}\n</details>'
    ends = " <strong>ends this run</strong>" if finished.terminate else ""
    kind = "call failed terminating" if finished.terminate else "call failed"
    summary = f"✗ {_text(head)} · {_text(told(finished.error))}{ends}"
    return f'<details class="{kind}" open><summary>{summary}</summary>\n{details}\n</details>'


def _end_html(section: _Section) -> str:
    """How the agent ended; an error of its own is the last row, whatever became of its calls."""
    if section.end is None:
        return '<p class="end">has not ended</p>'
    if section.end.error is None:
        return f'<p class="end">{_text(section.end.status)}</p>'
    return f'<p class="end failed">✗ {_text(section.end.status)} · {_text(told(section.end.error))}</p>'


def _card_html(turn: _Turn, session_id: str) -> str:
    if turn.end is None:
        return '<p class="card">This turn has not ended.</p>'
    rows = "".join(
        f"<dt>{_text(name)}</dt><dd>{html.escape(value)}</dd>"
        for name, value in card(turn.end, session_id, turn.id)
    )
    return f'<dl class="card {_text(turn.end.status)}">{rows}</dl>'


def _json(value: Any) -> str:
    if value is None:
        return ""
    return _text(msgspec.json.format(msgspec.json.encode(value)).decode("utf-8"))


def _text(text: str) -> str:
    """Text for the page: what would act instead of being seen is shown as an escape, markup as itself."""
    return html.escape(visible(text))


_STYLE = """
:root { color-scheme: light dark; --line: #8884; --bad: #c0392b; --good: #2e8b57; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
pre { font: 13px/1.45 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; }
pre { margin: .4rem 0; }
small { opacity: .7; font-weight: normal; }
.turn { border-top: 1px solid var(--line); margin-top: 2rem; }
.prompt, .user { border-left: 3px solid var(--line); padding-left: .7rem; }
.agent { margin: .8rem 0; padding-left: .8rem; border-left: 2px solid var(--line); }
.depth1 { margin-left: 1.5rem; } .depth2 { margin-left: 3rem; } .depth3 { margin-left: 4.5rem; }
.call { margin: .15rem 0; } .call > summary { font: 13px ui-monospace, monospace; cursor: pointer; }
.call.failed > summary, .end.failed { color: var(--bad); }
.call.terminating { border: 1px solid var(--bad); padding: .2rem .4rem; }
.asked { opacity: .8; font-size: 13px; margin: .15rem 0; }
.card { border: 1px solid var(--line); padding: .6rem .8rem; display: grid; grid-template-columns: 6rem 1fr; }
.card.completed { border-color: var(--good); } .card.failed, .card.truncated { border-color: var(--bad); }
.card dt { opacity: .7; } .card dd { margin: 0; overflow-wrap: anywhere; }
"""

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<h1>{title}</h1>
<p><small>{facts}</small></p>
{body}
</body>
</html>
"""

"""A stored stretch of events as a person reads it afterwards: rows, words, changes, results. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from agents.events import (
    Event,
    MessageAppended,
    SessionStarted,
    TaskFinished,
    ToolFinished,
    TurnFinished,
    TurnStarted,
)
from agents.rules.preview import visible
from orchestrator.cli.audit import COLUMNS, decisions
from orchestrator.cli.card import GO_ON, Hints, card
from orchestrator.cli.last_words import output_end
from orchestrator.cli.listing import table
from orchestrator.cli.narration import Narrator
from orchestrator.cli.printers import card_lines
from orchestrator.cli.tally import Tally
from orchestrator.cli.wrapping import wrapped

DIFF_LINES = 40
"""Of one call's changes, where not all was asked for."""
OUTPUT_LINES = 10
"""The last ones, of a command that failed."""
BAR = "      │ "


@attrs.frozen(kw_only=True)
class Transcript:
    """How stored events are shown."""

    changes: Mapping[str, Sequence[str]] = attrs.field(factory=dict)
    """Lines of diffs by call id."""
    full: bool = False
    """Whether changes and the output of failed commands are shown whole."""
    width: int | None = None
    """Columns of the terminal; None: lines stay whole."""
    hints: Hints = attrs.field(factory=Hints)
    _tally: Tally = attrs.field(factory=Tally)
    _narrator: Narrator = attrs.field(factory=Narrator)
    _prompts: set[str] = attrs.field(factory=set)
    """Prompts of turns so far: the brief of a resumed task is the same text."""

    def lines(self, events: Sequence[Event]) -> list[str]:
        """Every row, and the audit of what was decided below them."""
        lines: list[str] = []
        ends = [event for event in events if isinstance(event.payload, TurnFinished)]
        for event in events:
            self._tally.take(event)
            for line in self._narrator.lines(event):
                lines += wrapped(line.text, self.width)
            lines += self._told_afterwards(event, newest=event in ends[-1:])
        audit = decisions(events)
        if audit:
            lines += ["", *table(COLUMNS, audit, width=self.width, drop=("WHEN", "WAITED"), cut=("BY",))]
        return lines

    def _told_afterwards(self, event: Event, *, newest: bool) -> list[str]:
        """What only a reader of the past needs to be told: prompts, changes, last words, results."""
        payload = event.payload
        match payload:
            case SessionStarted():
                return [f"  started {event.ts}"]
            case TurnStarted():
                self._prompts.add(payload.prompt)
                head = f"turn {payload.index} · {event.turn_id} · {event.ts}"
                return ["", *self._block(head, payload.prompt)]
            case ToolFinished():
                return self._result(payload)
            case MessageAppended() if payload.message.role == "user" and event.task_id is not None:
                if payload.message.text in self._prompts:
                    return []
                return self._block(f"  brief for {_label(event)}", payload.message.text)
            case MessageAppended() if payload.message.role == "assistant" and not payload.message.calls:
                return self._block(f"  {_label(event)} says", payload.message.text)
            case TaskFinished():
                return self._task(payload)
            case TurnFinished():
                rows = card(payload, event.session_id, event.turn_id, self._tally, self.hints)
                kept = [(f"  {name}", value) for name, value in rows if newest or name != GO_ON]
                return card_lines(kept, self.width)
            case _:
                return []

    def _task(self, finished: TaskFinished) -> list[str]:
        result = finished.result
        files = ", ".join(f"{change.path} ({change.change})" for change in result.files_changed) or "none"
        return wrapped(visible(f"  {result.label} changed files: {files} · {result.task_id}"), self.width)

    def _result(self, finished: ToolFinished) -> list[str]:
        """The diff of a call that changed files, or the end of what a failed command wrote."""
        lines = list(self.changes.get(finished.call_id, ()))
        if not self.full and len(lines) > DIFF_LINES:
            hidden = len(lines) - DIFF_LINES
            lines = [*lines[:DIFF_LINES], f"⟨{hidden} more lines; --full shows them⟩"]
        lines = lines or output_end(finished, None if self.full else OUTPUT_LINES)
        room = None if self.width is None else max(1, self.width - len(BAR))
        return [f"{BAR}{part}" for line in lines for part in wrapped(visible(line), room)]

    def _block(self, head: str, text: str) -> list[str]:
        body = [
            part
            for line in visible(text).rstrip().split("\n")
            for part in wrapped(f"    {line}".rstrip(), self.width, hang=4)
        ]
        return [*wrapped(visible(head), self.width), *body]


def _label(event: Event) -> str:
    return "session" if event.agent is None else event.agent.label

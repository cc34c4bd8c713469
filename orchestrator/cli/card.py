"""The one card at a turn's end: how it ended, what became of its delegates, and how to go on. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from agents.events import TurnFinished
from agents.results import TaskResult
from agents.rules.preview import visible
from orchestrator.cli.denials import denial_rows
from orchestrator.cli.tally import Tally
from orchestrator.cli.words import seconds, split, tokens, told

GO_ON = "go on"
"""The row that holds a command."""
CONTINUABLE = ("failed", "truncated", "aborted", "interrupted")

Row = tuple[str, str]


@attrs.frozen
class Hints:
    """How a command is written that works where this one did."""

    program: str = "orchestrator"
    options: tuple[str, ...] = ()
    """Options that every further command needs, as they are typed: the store, if one was named."""
    resume_options: tuple[str, ...] = ()
    """Further ones that a resume needs to run as this did."""

    def resume(self, name: str, *arguments: str) -> str:
        """The command that continues what `name` names."""
        return " ".join([self.program, "resume", name, *arguments, *self.options, *self.resume_options])


def card(
    finished: TurnFinished,
    session_id: str,
    turn_id: str | None,
    tally: Tally | None = None,
    hints: Hints | None = None,
) -> list[Row]:
    """How a turn ended: names and values. Rows that go on with the one above have no name."""
    known = Tally() if tally is None else tally
    rows = [("outcome", f"{finished.status} in {seconds(finished.duration_ms)}")]
    if finished.error is not None:
        shown = known.shown_error == finished.error
        rows.append(("error", finished.error.code.value if shown else told(finished.error)))
    if known.results:
        rows.append(("delegates", _delegates(list(known.results.values()))))
    rows += [("tokens", tokens(finished.usage)), ("time", split(finished.waits))]
    if finished.files_changed:
        rows.append(
            ("files", ", ".join(f"{change.path} ({change.change})" for change in finished.files_changed))
        )
    denied = denial_rows(finished.denials, known)
    rows += [("denied" if index == 0 else "", row) for index, row in enumerate(denied)]
    rows.append(("session", session_id))
    rows += _go_on(finished.status, session_id, known, hints or Hints())
    return [(name, visible(value)) for name, value in rows]


def _delegates(results: Sequence[TaskResult]) -> str:
    """How many ended how, and each that did not complete with its code."""
    counts: dict[str, int] = {}
    for result in results:
        counts[result.status] = counts.get(result.status, 0) + 1
    ended = ", ".join(f"{number} {status}" for status, number in counts.items())
    broken = [
        f"{result.label} {result.status if result.error is None else result.error.code.value}"
        for result in results
        if result.status != "completed"
    ]
    return f"{ended}: {', '.join(broken)}" if broken else ended


def _go_on(status: str, session_id: str, tally: Tally, hints: Hints) -> list[Row]:
    if status != "completed":
        return [(GO_ON, hints.resume(session_id))]
    broken = [one for one in tally.results.values() if one.status in CONTINUABLE and one.resumable]
    match broken:
        case []:
            return []
        case [one]:
            return [(GO_ON, hints.resume(one.task_id))]
        case _:
            return [(GO_ON, hints.resume(session_id, "--failed"))]

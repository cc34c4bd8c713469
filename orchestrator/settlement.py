"""`settle`: outcome, children and the guard's verdict become one TaskResult, exactly once per run. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from agents.errors import ErrorCode, ToolError
from agents.messages import Usage
from agents.outcome import AgentOutcome, Ending
from agents.results import FileChange, TaskResult, TaskStatus, merge_changes
from orchestrator.task import RESUMABLE_BY_MODEL

MAX_REPORT_CHARS = 12_000
IN_CONVERSATION = "the delegate's conversation has the whole text; resume the task to ask for a part of it"


@attrs.frozen
class RunFacts:
    """Which run is settled."""

    task_id: str
    run_id: str
    chain_id: str
    agent: str
    label: str
    duration_ms: int


def settle(
    run: RunFacts, outcome: AgentOutcome, children: Sequence[TaskResult], terminal: ToolError | None
) -> TaskResult:
    """What the run left behind. `terminal` is the guard's error if it ended the run, whatever came after."""
    status, error = judge(outcome, terminal, empty=EMPTY_RESULT)
    return TaskResult(
        task_id=run.task_id,
        run_id=run.run_id,
        chain_id=run.chain_id,
        agent=run.agent,
        label=run.label,
        status=status,
        error=error,
        report=bounded_report(outcome.text),
        turns=outcome.turns,
        tool_calls=outcome.tool_calls,
        usage=total_usage(outcome.usage, children),
        duration_ms=run.duration_ms,
        waits=outcome.waits,
        files_changed=total_changes(outcome.files_changed, children),
        resumable=status in RESUMABLE_BY_MODEL,
    )


EMPTY_RESULT = ToolError(
    code=ErrorCode.EMPTY_RESULT,
    message="The delegate ended without any visible text, so there is no result. Resume it and ask for its "
    "findings.",
    retriable=True,
)


def judge(
    outcome: AgentOutcome, terminal: ToolError | None, *, empty: ToolError
) -> tuple[TaskStatus, ToolError | None]:
    """Status and error where several things apply: terminal tool error, then stopped or aborted, then limits,
    then failures, then the empty result, then completed. A recovered tool error never counts."""
    if terminal is not None:
        return "failed", terminal
    match outcome.ending:
        case Ending.STOPPED:
            return "stopped", outcome.error
        case Ending.ABORTED:
            return "aborted", outcome.error
        case Ending.LIMIT:
            return "truncated", outcome.error
        case Ending.TERMINAL | Ending.ERROR:
            return "failed", _failure(outcome.error, empty)
        case Ending.FINISHED:
            return ("completed", None) if outcome.text.strip() else ("failed", empty)


def _failure(error: ToolError | None, empty: ToolError) -> ToolError:
    if error is None:
        return ToolError(
            code=ErrorCode.INTERNAL, message="The run failed without saying why. Look at its trace."
        )
    return empty if error.code is ErrorCode.EMPTY_MODEL_RESPONSE else error


def bounded_report(text: str, limit: int = MAX_REPORT_CHARS, pointer: str = IN_CONVERSATION) -> str:
    """`text`, or its head and tail with a mark between them that says how much was left out, and where the
    whole is."""
    if len(text) <= limit:
        return text
    mark = f"\n… [{len(text) - limit} characters left out: {pointer}] …\n"
    room = limit - len(mark)
    return f"{text[: room // 3]}{mark}{text[len(text) - (room - room // 3) :]}"


def total_usage(own: Usage, children: Sequence[TaskResult]) -> Usage:
    """Every model call once: the run's own and those of its delegates."""
    for child in children:
        own += child.usage
    return own


def total_changes(own: Sequence[FileChange], children: Sequence[TaskResult]) -> tuple[FileChange, ...]:
    """One change per file, the delegates' included, ordered by path."""
    merged: dict[str, FileChange] = {}
    for change in (*own, *(change for child in children for change in child.files_changed)):
        earlier = merged.get(change.path)
        if earlier is None:
            merged[change.path] = change
        elif earlier.after == change.before:
            merged[change.path] = merge_changes(earlier, change)
        elif change.after == earlier.before:
            merged[change.path] = merge_changes(change, earlier)
    return tuple(merged[path] for path in sorted(merged))

"""How the spans of a settled run or turn end: one timestamp, one status rule."""

from __future__ import annotations

from agents.agent import Agent
from agents.errors import ToolError
from agents.events import RecoveryKey, ResumedTrace
from agents.exchange import usage_attributes
from agents.results import TaskResult, Waits
from agents.rules.recovery import RecoveryBook
from telemetry import attributes as names
from telemetry.facts import resume_facts
from telemetry.records import SpanRecord, SpanRef
from telemetry.spans import Span

ERROR_STATUSES = frozenset({"failed", "truncated", "interrupted"})


def set_status(span: Span, status: str, error: ToolError | None) -> None:
    """ERROR with our code for failed, truncated and interrupted; UNSET for completed, stopped and aborted."""
    if status in ERROR_STATUSES:
        code = "INTERNAL" if error is None else error.code.value
        span.set_error(code, f"{status}: {code}")


def refer_to_resumed(span: Span, resumed: ResumedTrace) -> None:
    """Link a turn's root to the earlier turn's. Within one trace (both began below the same outer span) only
    in attributes: viewers take a root's link into its own trace for its parent."""
    span.set_attributes(resume_facts(resumed.trace_id, resumed.attempt, resumed.reason))
    if resumed.trace_id != span.trace_id:
        span.add_link(SpanRef(resumed.trace_id, resumed.span_id), {names.LINK_KIND: "resumes"})


def wait_attributes(waits: Waits) -> dict[str, int]:
    return {
        names.WAIT_MODEL: waits.model,
        names.WAIT_TOOL: waits.tool,
        names.WAIT_PERMISSION: waits.permission,
        names.WAIT_LOCK: waits.lock,
    }


def released_keys(book: RecoveryBook, owner: str) -> tuple[RecoveryKey, ...]:
    """The guard's keys that `owner` holds, as its `recovery.released` names them."""
    counts = book.ledger.counts
    return tuple(
        RecoveryKey(
            kind=key.kind,
            target=key.target,
            attempts=counts[key].attempts,
            graces=tuple(sorted(code.value for code in counts[key].graces)),
        )
        for key in book.ledger.keys(owner)
    )


def close_agent_span(
    agent: Agent, status: str, error: ToolError | None, keys: tuple[RecoveryKey, ...], at_ns: int
) -> SpanRecord:
    """End `invoke_agent` with its totals."""
    tally, span = agent.tally, agent.span
    span.add_event(names.RECOVERY_RELEASED, {names.RECOVERY_KEYS: len(keys)}, at_ns=at_ns)
    span.set_attributes(
        {
            names.OUTCOME: status,
            names.TURNS: tally.turns,
            names.TOOL_CALLS: tally.tool_calls,
            names.RECOVERY_GRACES: tally.graces,
            names.RECOVERY_FAILURES: tally.counted,
            names.FILES_CHANGED: len(tally.files),
            **usage_attributes(tally.usage),
            **wait_attributes(tally.waits),
        }
    )
    _point_to_origin(span, tally.error_span, error)
    set_status(span, status, error)
    return span.end(at_ns)


def close_task_span(
    span: Span | None, result: TaskResult, origin: SpanRef | None, at_ns: int
) -> SpanRecord | None:
    """End the Task tool's span at settlement, with the delegate's terminal error if it has one."""
    if span is None:
        return None
    span.set_attributes({names.TASK_STATUS: result.status, names.TOOL_OUTCOME: _tool_outcome(result)})
    _point_to_origin(span, origin, result.error)
    set_status(span, result.status, result.error)
    return span.end(at_ns)


def close_settle_span(span: Span, result: TaskResult, at_ns: int) -> SpanRecord:
    span.set_attributes({names.TASK_STATUS: result.status, names.FILES_CHANGED: len(result.files_changed)})
    return span.end(at_ns)


def _tool_outcome(result: TaskResult) -> str:
    if result.status in ERROR_STATUSES:
        return "error"
    return "ok" if result.status == "completed" else "cancelled"


def _point_to_origin(span: Span, origin: SpanRef | None, error: ToolError | None) -> None:
    """Where the run's error arose, if it ended by one: an error that it recovered from is no origin."""
    if origin is not None and error is not None:
        span.set_attributes({names.ORIGIN_SPAN: origin.span_id})
        span.add_link(origin, {names.LINK_KIND: "origin"})

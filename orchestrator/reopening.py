"""`interrupted_span`: a span that its process left open, put together from the stored events.

Same ids, same start, and whatever its attributes would have said as far as the events tell it; no content, as
nobody knows any more whether it was to be captured.
"""

from __future__ import annotations

from collections.abc import Mapping

from agents.events import (
    AgentRef,
    AgentStarted,
    Event,
    ModelRequested,
    PermissionRequested,
    RecoveryCounted,
    RecoveryExhausted,
    RecoveryGrace,
    TaskStartedEvent,
    ToolStarted,
    TurnStarted,
    nanoseconds,
)
from agents.exchange import usage_attributes
from agents.models.base import model_part
from agents.requests import Decision
from orchestrator.closing import refer_to_resumed, wait_attributes
from orchestrator.remains import Remains
from telemetry import attributes as names
from telemetry.facts import agent_facts, chat_facts, permission_facts, task_facts, tool_facts, turn_facts
from telemetry.records import PERSON, SERVICE, SpanKind, SpanRecord, SpanRef
from telemetry.spans import Span, end_interrupted, reopened_span

GUARD_EVENTS: Mapping[type[object], str] = {
    RecoveryGrace: names.RECOVERY_GRACE,
    RecoveryCounted: names.RECOVERY_COUNTED,
    RecoveryExhausted: names.RECOVERY_EXHAUSTED,
}
OUTSIDE = "(outside)"
INTERRUPTED = "interrupted"


def interrupted_span(event: Event, remains: Remains) -> SpanRecord | None:
    """The span that `event` began, ended for the process that died.

    None where the event names no span, or where its span has been ended.
    """
    if event.trace_id is None or event.span_id is None or remains.opened.get(event.span_id) is not event:
        return None
    span = _reopen(event, remains)
    instance = remains.instances.get(event.turn_id or "")
    return None if span is None else end_interrupted(span, remains.end_of(event), instance)


def _reopen(event: Event, remains: Remains) -> Span | None:
    match event.payload:
        case TurnStarted() as started:
            return _turn(event, started, remains)
        case AgentStarted() as started:
            return _agent(event, started, remains)
        case ModelRequested():
            return _chat(event, remains)
        case ToolStarted() as started:
            return _tool(event, started, remains)
        case PermissionRequested() as asked:
            return _permission(event, asked)
        case _:
            return None


def _turn(event: Event, started: TurnStarted, remains: Remains) -> Span:
    turn_id = event.turn_id or ""
    facts = turn_facts(
        session_id=event.session_id,
        turn_id=turn_id,
        index=started.index,
        resumes_task=started.resumes_task,
    )
    usage = remains.usage_with_delegates(turn_id)
    waits = remains.story(turn_id).waits
    span = _span(
        event,
        names.TURN_SPAN,
        {
            **facts,
            names.OUTCOME: remains.story(turn_id).status or INTERRUPTED,
            **usage_attributes(usage),
            **wait_attributes(waits),
        },
    )
    if started.resumes_trace is not None:
        refer_to_resumed(span, started.resumes_trace)
    return span


def _agent(event: Event, started: AgentStarted, remains: Remains) -> Span:
    agent = _speaker(event)
    story = remains.story(agent.id)
    counted = [one for one in story.guard if isinstance(one.payload, RecoveryCounted)]
    span = _span(
        event,
        names.agent_span(started.name),
        {
            **agent_facts(
                session_id=event.session_id,
                owner=agent.id,
                name=started.name,
                label=agent.label,
                depth=agent.depth,
                provider=started.provider,
                model=model_part(started.model),
            ),
            **_task_facts(story.task),
            names.OUTCOME: INTERRUPTED,
            names.TURNS: story.turns,
            names.TOOL_CALLS: story.tool_calls,
            names.RECOVERY_GRACES: sum(isinstance(one.payload, RecoveryGrace) for one in story.guard),
            names.RECOVERY_FAILURES: len(counted),
            **usage_attributes(story.usage),
            **wait_attributes(story.waits),
        },
        service=_service(agent),
    )
    for one in story.guard:
        _add_guard_event(span, one)
    return span


def _add_guard_event(span: Span, event: Event) -> None:
    payload = event.payload
    assert isinstance(payload, RecoveryGrace | RecoveryCounted | RecoveryExhausted)
    # a path outside the roots is shown from the root on, and is content
    target = OUTSIDE if payload.target.startswith(("/", "~")) else payload.target
    span.add_event(
        GUARD_EVENTS[type(payload)],
        {
            names.RECOVERY_TARGET: target,
            names.RECOVERY_KIND: payload.kind,
            names.RECOVERY_ATTEMPT: payload.attempt,
            names.RECOVERY_LIMIT: payload.limit,
            names.ERROR_TYPE: payload.code,
        },
        at_ns=nanoseconds(event.ts),
    )


def _chat(event: Event, remains: Remains) -> Span:
    agent = _speaker(event)
    begun = remains.story(agent.id).started
    started = begun.payload if begun is not None else None
    model = model_part(started.model) if isinstance(started, AgentStarted) else "unknown"
    repeated = remains.attempts.get(event.span_id or "", ())
    span = _span(
        event,
        names.chat_span(model),
        {
            **chat_facts(
                session_id=event.session_id,
                agent=started.name if isinstance(started, AgentStarted) else agent.name,
                label=agent.label,
                provider=started.provider if isinstance(started, AgentStarted) else None,
                model=model,
            ),
            names.OUTCOME: INTERRUPTED,
            names.RETRIES: len(repeated) or None,
        },
        service=_service(agent),
        kind="CLIENT",
    )
    for one in repeated:
        assert isinstance(one.payload, ModelRequested)
        failed = {names.RETRY_ATTEMPT: one.payload.attempt - 1}
        span.add_event(names.RETRY, failed, at_ns=nanoseconds(one.ts))
    return span


def _tool(event: Event, started: ToolStarted, remains: Remains) -> Span:
    agent = _speaker(event)
    facts = tool_facts(tool=started.tool, call_id=started.call_id, label=agent.label)
    if started.tool != "Task":
        return _span(
            event,
            names.tool_span(started.tool),
            {**facts, names.TOOL_OUTCOME: "error"},
            service=_service(agent),
        )
    tasks = (story.task for story in remains.stories.values() if story.task is not None)
    task = next((one for one in tasks if one.span_id == event.span_id), None)
    about: dict[str, object] = {}
    if task is not None and isinstance(task.payload, TaskStartedEvent):
        about = {
            **_task_facts(task),
            names.AGENT_LABEL: _speaker(task).label,
            names.TASK_DESCRIPTION: task.payload.description or None,
            names.TASK_STATUS: INTERRUPTED,
        }
    return _span(event, names.TASK_SPAN, {**facts, **about, names.TOOL_OUTCOME: "error"})


def _permission(event: Event, asked: PermissionRequested) -> Span:
    request = asked.request
    facts = permission_facts(
        session_id=event.session_id,
        request_id=request.id,
        tool=request.tool,
        mode=asked.mode,
        external=request.external_path is not None,
        label=request.agent_label,
        call_id=request.call_id,
    )
    closed = {
        names.PERMISSION_DECISION: Decision.CANCELLED.value,
        names.PERMISSION_SOURCE: names.PROCESS_DIED,
    }
    return _span(event, names.PERMISSION_SPAN, {**facts, **closed}, service=PERSON)


def _span(
    event: Event,
    name: str,
    attributes: Mapping[str, object],
    *,
    service: str = SERVICE,
    kind: SpanKind = "INTERNAL",
) -> Span:
    assert event.trace_id is not None
    assert event.span_id is not None
    return reopened_span(
        name,
        attributes,
        ref=SpanRef(event.trace_id, event.span_id),
        parent_span_id=event.parent_span_id,
        start_ns=nanoseconds(event.ts),
        service=service,
        kind=kind,
    )


def _task_facts(task: Event | None) -> Mapping[str, object]:
    if task is None or not isinstance(task.payload, TaskStartedEvent):
        return {}
    started = task.payload
    return task_facts(
        task_id=started.task_id,
        run_id=started.run_id,
        chain_id=started.chain_id,
        resumes=started.resumes,
    )


def _speaker(event: Event) -> AgentRef:
    return event.agent or AgentRef(id=event.turn_id or "", name="main", label="main", depth=0)


def _service(agent: AgentRef) -> str:
    return SERVICE if agent.depth == 0 else names.service_of_agent(agent.name)

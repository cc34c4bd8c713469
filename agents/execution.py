"""One batch of tool calls: prepare, run, finish. Every call ends in exactly one result, in call order."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import msgspec
import trio

from agents.agent import Agent, Transcript
from agents.counting import count
from agents.errors import ErrorCode, Failure, ToolError, failure
from agents.events import (
    AnyPayload,
    Event,
    LockWaited,
    ResultsDelivered,
    ToolFinished,
    ToolProgress,
    ToolStarted,
)
from agents.incidents import incident
from agents.messages import Message, ToolCall, ToolResult
from agents.results import Waits, model_text
from agents.rules.batches import PlannedCall, cut
from agents.shielding import shielded
from agents.tools.active import not_active
from agents.tools.base import CallGroup, Tool, ToolContext, ToolOutput, WaitKind
from agents.tools.schema import decode_arguments
from telemetry import attributes as names
from telemetry.content import captured
from telemetry.facts import tool_facts
from telemetry.records import SERVICE, SpanRecord, SpanRef
from telemetry.spans import Span, use

TRY_ANOTHER_WAY = "Try another way, or report the incident."
LOCK_SPAN_MS = 1.0
"""Shorter waits for a lock get no span."""
DENIED = frozenset(
    {
        ErrorCode.TOOL_DENIED,
        ErrorCode.WRITE_DISABLED_IN_PLAN,
        ErrorCode.EDIT_DISABLED_IN_PLAN,
        ErrorCode.PLUGIN_DISABLED_IN_PLAN,
        ErrorCode.TOOL_DISABLED_IN_PLAN,
    }
)


async def run_tool_calls(agent: Agent, transcript: Transcript, calls: Sequence[ToolCall]) -> ToolError | None:
    """Run a batch and append its tool message; the terminal error if the mutation guard ended the run.

    Whatever happens, cancellation too, each call gets a result and the message is stored.
    """
    batch = _Batch(agent, tuple(calls))
    try:
        await batch.run()
    finally:
        with shielded("The results of a batch"):
            await batch.skip_the_rest()
            await transcript.append(batch.message(), *batch.deliveries())
    return batch.terminal


@attrs.define(eq=False)
class _Batch:
    """The state that the calls of one batch share."""

    agent: Agent
    calls: tuple[ToolCall, ...]
    results: dict[int, ToolResult] = attrs.field(factory=dict)
    delivered: list[str] = attrs.field(factory=list)
    terminal: ToolError | None = None
    cuttable: set[trio.CancelScope] = attrs.field(factory=set)
    """Waits for a permission or a lock that a termination ends."""

    async def run(self) -> None:
        for lanes in cut([self._plan(index, call) for index, call in enumerate(self.calls)]):
            if self.terminal is not None:
                return
            async with trio.open_nursery() as nursery:
                for lane in lanes:
                    nursery.start_soon(self._run_lane, lane)

    async def _run_lane(self, lane: tuple[int, ...]) -> None:
        for index in lane:
            if self.terminal is not None:
                return
            await _Call(self, index, self.calls[index]).perform()

    def _plan(self, index: int, call: ToolCall) -> PlannedCall:
        tool = self.agent.tools.get(call.tool)
        if tool is None:
            return PlannedCall(index, CallGroup.TOGETHER, None)
        if call.tool == "Task":
            return PlannedCall(index, tool.group, "Task")  # labels are numbered in call order
        target = call.arguments.get("path") if isinstance(call.arguments, dict) else None
        if tool.group is CallGroup.MUTATION and _moves(call.arguments):
            return PlannedCall(index, CallGroup.ALONE, None)  # it changes two places
        if tool.group is CallGroup.MUTATION and isinstance(target, str):
            with contextlib.suppress(Failure):  # an unusable path gets its error when the call is prepared
                return PlannedCall(index, tool.group, self._canonical(target))
        return PlannedCall(index, tool.group, None)

    def _canonical(self, path: str) -> str:
        return self.agent.workspace.lock_key(self.agent.workspace.resolve(path))

    def terminate(self, error: ToolError, origin: SpanRef) -> None:
        """The budget is spent: calls that run finish, calls that wait are cut, the rest never starts."""
        if self.terminal is None:
            self.terminal = error
            self.agent.tally.terminal = error
            self.agent.tally.error_span = origin
        for scope in list(self.cuttable):
            scope.cancel()

    async def skip_the_rest(self) -> None:
        for index, call in enumerate(self.calls):
            if index not in self.results:
                await _Call(self, index, call).skip()

    def message(self) -> Message:
        ordered = tuple(self.results[index] for index in range(len(self.calls)))
        return Message(id=f"msg-{uuid.uuid4().hex[:12]}", role="tool", parts=ordered)

    def deliveries(self) -> tuple[AnyPayload, ...]:
        return (ResultsDelivered(task_ids=tuple(self.delivered)),) if self.delivered else ()


@attrs.define(eq=False)
class _Call:
    """One call on its way through the three acts."""

    batch: _Batch
    index: int
    call: ToolCall
    span: Span = attrs.field(init=False)
    started_ns: int = attrs.field(factory=time.time_ns)
    admitted: bool = False
    """Whether the gate has let it through: from then on it may have had an effect."""
    waited: dict[WaitKind, float] = attrs.field(factory=dict)
    """Milliseconds by kind."""
    lock_spans: list[SpanRecord] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.span = self.agent.span.child(
            names.tool_span(self.call.tool),
            {
                **tool_facts(tool=self.call.tool, call_id=self.call.call_id, label=self.agent.ref.label),
                names.TOOL_ARGUMENTS: captured(self.call.arguments, self.agent.capture_content),
            },
            # a Task belongs to the orchestrator, whoever calls it: its delegate has a service of its own
            service=SERVICE if self.call.tool == "Task" else None,
            start_ns=self.started_ns,
        )

    @property
    def agent(self) -> Agent:
        return self.batch.agent

    async def perform(self) -> None:
        """All three acts. Cancellation goes on after the call's result has been recorded."""
        self.agent.tally.last_tool = self.call.tool
        try:
            await self._announce()
            output = await self._prepare_and_run()
        except Failure as failed:
            output = ToolOutput(None, failed.error)
        except Exception as unforeseen:
            output = ToolOutput(None, incident(unforeseen, self.span, self.call.tool, TRY_ANOTHER_WAY))
        except BaseException:
            with shielded("A call's result"):
                await self._finish(ToolOutput(None, self._cancelled()), cancelled=True)
            raise
        with shielded("A call's result"):
            await self._finish(output)

    def _cancelled(self) -> ToolError:
        if not self.admitted:
            return _aborted("it was cancelled before it could start")
        tool = self.agent.tools.get(self.call.tool)
        reads_only = tool is not None and tool.risk == "low"
        return _CANCELLED_READING if reads_only else _CANCELLED_WHILE_RUNNING

    async def skip(self) -> None:
        """A call that never started: no effect, but a result."""
        await self._announce()
        why = "an earlier call of the batch ended the run" if self.batch.terminal else "the run was cancelled"
        await self._finish(ToolOutput(None, _aborted(f"{why} before it started")), cancelled=True)

    async def _announce(self) -> None:
        started = ToolStarted(call_id=self.call.call_id, tool=self.call.tool, arguments=self.call.arguments)
        await self.agent.emitter.emit(started, self.span)

    async def _prepare_and_run(self) -> ToolOutput:
        tool = self.agent.tools.get(self.call.tool)
        if tool is None:
            refused = self.agent.gate.refusal_of_absent(self.call.tool)
            raise Failure(refused) if refused else failure(ErrorCode.TOOL_NOT_FOUND, self._unknown_tool())
        if self.call.tool not in self.agent.active:
            raise Failure(not_active(self.call.tool))
        arguments = decode_arguments(tool, self.call.arguments)
        if isinstance(arguments, ToolError):
            raise Failure(arguments)
        context = self._context()
        with use(self.span):
            permit = await self.agent.gate.admit(self.call, tool, arguments, context)
            if isinstance(permit, ToolError):
                return ToolOutput(None, permit)
            if permit.paths:
                self.span.set_attributes({names.PATH_ROOT: permit.paths[0].root.value})
            self.admitted = True
            return await self._run(tool, arguments, permit, context)

    async def _run(
        self, tool: Tool, arguments: msgspec.Struct, permit: Any, context: ToolContext
    ) -> ToolOutput:
        if tool.timeout_seconds is None:
            return await tool.run(arguments, permit, context)
        with trio.move_on_after(tool.timeout_seconds) as bound:
            return await tool.run(arguments, permit, context)
        assert bound.cancelled_caught
        raise failure(
            ErrorCode.TOOL_TIMEOUT,
            f"{tool.name} did not end within {tool.timeout_seconds:g} s. "
            f"Narrow the call: a smaller path or a simpler pattern.",
            retriable=True,
        )

    def _unknown_tool(self) -> str:
        return f"There is no tool {self.call.tool!r}. This agent has: {', '.join(self.agent.tools)}."

    def _context(self) -> ToolContext:
        agent = self.agent
        return ToolContext(
            call_id=self.call.call_id,
            session_id=agent.emitter.session_id,
            agent=agent.ref,
            workspace=agent.workspace,
            snapshots=agent.snapshots,
            locks=agent.locks,
            journal=agent.journal,
            span=self.span,
            waiting=self._waiting,
            progress=self._progress,
            environment=agent.child_environment(self.call.call_id, self.span),
            delegator=agent.delegator,
            helpers=agent.helpers,
            active=agent.active,
        )

    def _progress(self, stream: str, text: str) -> None:
        shown = ToolProgress(call_id=self.call.call_id, stream=stream, text=text)
        self.agent.emitter.show(shown, self.span)

    @contextlib.contextmanager
    def _waiting(self, kind: WaitKind) -> Iterator[None]:
        scope = trio.CancelScope()
        if self.batch.terminal is not None:
            scope.cancel()
        self.batch.cuttable.add(scope)
        start = time.time_ns()
        cut_short = True
        try:
            with scope, self.agent.asking() if kind == "permission" else contextlib.nullcontext():
                yield
            cut_short = scope.cancelled_caught
        finally:
            self.batch.cuttable.discard(scope)
            self._note_wait(kind, start, time.time_ns(), cut_short)
        if scope.cancelled_caught:
            raise Failure(
                _aborted(f"an earlier call of the batch ended the run while it waited for a {kind}")
            )

    def _note_wait(self, kind: WaitKind, start_ns: int, end_ns: int, cut_short: bool) -> None:
        waited = max(0, end_ns - start_ns) / 1e6
        self.waited[kind] = self.waited.get(kind, 0.0) + waited
        if kind == "lock" and waited > LOCK_SPAN_MS:
            facts = {names.OUTCOME: "cancelled" if cut_short else None}
            self.lock_spans.append(self.span.child(names.LOCK_SPAN, facts, start_ns=start_ns).end(end_ns))

    async def _finish(self, output: ToolOutput, *, cancelled: bool = False) -> None:
        """Count, store, keep: the one place where a call's result comes to be."""
        counted = count(self.agent, self.call, self.span, output)
        error = counted.error
        if counted.terminal is not None:
            self.batch.terminate(counted.terminal, self.span.ref)
        terminate = error is not None and error.terminate
        self._tally(output)
        self._describe(output, error, cancelled, terminate)
        ended = None if output.keep_span_open and error is None else self.span.end(output.ended_ns)
        finished = ToolFinished(
            call_id=self.call.call_id,
            tool=self.call.tool,
            ok=error is None,
            terminate=terminate,
            duration_ms=round((time.time_ns() - self.started_ns) / 1e6),
            waits=self._waits(),
            result=None if output.result is None else msgspec.to_builtins(output.result),
            error=error,
        )
        await self.agent.emitter.sink.emit(
            [
                *self._lock_events(),
                *(self.agent.emitter.event(payload, self.agent.span) for payload in counted.payloads),
                self.agent.emitter.event(finished, self.span, ended=ended),
            ]
        )
        text = model_text(output.result, error, terminate=terminate)
        self.batch.results[self.index] = ToolResult(call_id=self.call.call_id, ok=error is None, text=text)
        self.batch.delivered.extend(output.delivers)

    def _tally(self, output: ToolOutput) -> None:
        self.agent.tally.tool_calls += 1
        self.agent.tally.waits += self._waits()
        for change in output.files_changed:
            self.agent.tally.changed(change)

    def _waits(self) -> Waits:
        permission = round(self.waited.get("permission", 0.0))
        lock = round(self.waited.get("lock", 0.0))
        whole = round((time.time_ns() - self.started_ns) / 1e6)
        return Waits(tool=max(0, whole - permission - lock), permission=permission, lock=lock)

    def _lock_events(self) -> list[Event]:
        events = []
        for record in self.lock_spans:
            waited = LockWaited(
                call_id=self.call.call_id, wait_ms=round((record.end_ns - record.start_ns) / 1e6)
            )
            event = self.agent.emitter.event(waited, self.span, ended=record)
            events.append(
                msgspec.structs.replace(event, span_id=record.span_id, parent_span_id=self.span.span_id)
            )
        return events

    def _describe(
        self, output: ToolOutput, error: ToolError | None, cancelled: bool, terminate: bool
    ) -> None:
        span = self.span
        span.set_attributes(output.attributes)
        span.set_attributes({names.TERMINATED: True if terminate else None})
        span.set_attributes({names.TOOL_RESULT: captured(output.result, self.agent.capture_content)})
        if cancelled:
            span.set_attributes({names.TOOL_OUTCOME: "cancelled"})
        elif error is None:
            span.set_attributes({names.TOOL_OUTCOME: "ok"})
        elif error.code in DENIED:
            span.set_attributes({names.TOOL_OUTCOME: "denied"})
        elif error.code is ErrorCode.TOOL_ABORTED:
            span.set_attributes({names.TOOL_OUTCOME: "cancelled"})
        else:
            span.set_attributes({names.TOOL_OUTCOME: "error"})
            if not self._is_a_commands_own_exit(output, error):
                span.set_error(error.code.value, f"{self.call.tool}: {error.code.value}")

    def _is_a_commands_own_exit(self, output: ToolOutput, error: ToolError) -> bool:
        """A user command's non-zero exit is a result; that of a recognised patch (it is counted) is not."""
        counted = "attempt" in error.details
        return self.call.tool == "Bash" and error.code is ErrorCode.TOOL_FAILED and not counted


def _moves(arguments: Any) -> bool:
    """Whether a call's arguments, not yet checked, move a file."""
    ops = arguments.get("ops") if isinstance(arguments, dict) else None
    return isinstance(ops, list) and any(isinstance(op, dict) and op.get("op") == "moveFile" for op in ops)


_CANCELLED_WHILE_RUNNING = ToolError(
    code=ErrorCode.TOOL_ABORTED,
    message="Cancelled while it ran: it may have had an effect. Look before you repeat it.",
    retriable=True,
)
_CANCELLED_READING = ToolError(
    code=ErrorCode.TOOL_ABORTED,
    message="Cancelled while it ran: it has no result and changed nothing. If it is still wanted, make the call again.",
    retriable=True,
)


def _aborted(why: str) -> ToolError:
    return ToolError(
        code=ErrorCode.TOOL_ABORTED,
        message=f"Not executed: {why}. If it is still wanted, make the call again.",
        retriable=True,
    )

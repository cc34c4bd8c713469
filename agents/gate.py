"""The gate: a tool call becomes a `Permit` or a `ToolError`. Nothing else makes a `Permit`.

What was decided is bound to what was shown: after an answer every path is resolved again, and a call whose
paths no longer mean the same is asked again, never executed.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import time
from collections.abc import Callable
from typing import Protocol

import attrs
import msgspec
import trio

from agents.emitter import Emitter
from agents.errors import ErrorCode, Failure, ToolError, failure
from agents.events import PermissionRequested, PermissionResolved, timestamp
from agents.messages import ToolCall
from agents.permit import Permit
from agents.ports import Approver
from agents.requests import Answer, Decision, Denial, DenialReason, PermissionRequest
from agents.rules.advice import CHANGED
from agents.rules.audit import rule_behind, why
from agents.rules.hidden import hidden_by
from agents.rules.paths import ResolvedPath
from agents.rules.permissions import (
    Allow,
    Ask,
    CallFacts,
    CallKind,
    Deny,
    Grant,
    PathFact,
    Policy,
    decide,
    grantable,
    kind_of,
    refused_in_plan,
)
from agents.rules.preview import (
    MAX_COMMAND_BYTES,
    MAX_PREVIEW_BYTES,
    one_line,
    preview_of,
    shown_command,
    shown_diff,
)
from agents.rules.refusals import KEEPS_CHANGING, REASONS, refusal
from agents.rules.shell import (
    ShellLine,
    WriteTarget,
    calls_own_command,
    parse_line,
    patch_command,
    write_targets,
)
from agents.tools.base import Tool, ToolContext
from agents.workspace import Workspace
from telemetry import attributes as names
from telemetry.facts import permission_facts
from telemetry.records import PERSON, SpanRecord
from telemetry.spans import Span

log = logging.getLogger("orchestrator")

STORE_SECONDS = 10.0
"""How long a shielded write of a request's opening or closing may take."""
GRACE_SECONDS = 1.0
"""How much longer than the deadline an approver that does not keep it is waited for."""
MAX_QUESTIONS = 3
"""How often one call is asked when its paths keep changing."""


class GrantBook(Protocol):
    """The session's grants, shared by the gates of all its agents."""

    def add(self, grant: Grant) -> None:
        """Remember a grant for the rest of the session."""
        ...

    def all(self) -> frozenset[Grant]:
        """Every grant so far."""
        ...


@attrs.frozen
class _Question:
    """One request with everything that closing it needs."""

    request: PermissionRequest
    ask: Ask
    mode: str
    """The permission mode that made it ask."""
    span: Span
    since: float
    """`trio.current_time()` when it was opened."""


class Gate:
    """One agent's gate. Policy and grants are read anew for every call: a change of mode binds at once."""

    def __init__(
        self,
        *,
        policy: Callable[[], Policy],
        workspace: Workspace,
        approver: Approver,
        emitter: Emitter,
        agent_chain: tuple[str, ...],
        grants: GrantBook,
        permission_timeout: float = 120,
        on_denied: Callable[[Denial], None],
    ) -> None:
        self._policy = policy
        self._workspace = workspace
        self._approver = approver
        self._emitter = emitter
        self._chain = agent_chain
        self._grants = grants
        self._timeout = permission_timeout
        self._on_denied = on_denied

    async def admit(
        self, call: ToolCall, tool: Tool, arguments: msgspec.Struct, context: ToolContext
    ) -> Permit | ToolError:
        """Decide one call, asking where the policy says so.

        Raises `Failure` STORE_WRITE_FAILED when a request cannot be stored (then nobody is asked), and lets
        cancellation through after the open request has been closed.
        """
        try:
            return await self._admit(call, tool, arguments, context)
        except _Unusable as unusable:
            return unusable.error

    async def _admit(
        self, call: ToolCall, tool: Tool, arguments: msgspec.Struct, context: ToolContext
    ) -> Permit | ToolError:
        facts = self._facts(tool, arguments)
        decided = decide(facts, self._now())
        answer: Answer | None = None
        asked = 0
        while isinstance(decided, Ask):
            if asked == MAX_QUESTIONS:
                return KEEPS_CHANGING
            question = await self._question(call, tool, arguments, context, facts, decided)
            answer = await self._ask(question, context)
            asked += 1
            if not answer.decision.allowed:
                return self._refused(question, answer)
            self._remember(question, answer)
            before, facts = facts, self._facts(tool, arguments)
            decided = self._after(before, facts)
        self._explain(context, facts, decided, answer)
        if isinstance(decided, Deny):
            return self._denied(call, decided)
        hidden = hidden_by(self._now().deny, tool.name, workspace=facts.workspace, home=facts.home)
        return Permit._create(call.call_id, tool.name, arguments, _paths(facts), answer, hidden)

    def _explain(
        self, context: ToolContext, facts: CallFacts, decided: Allow | Deny, answer: Answer | None
    ) -> None:
        """Say on the call's span what let it run or forbade it; the model is not told."""
        asked = answer is not None and isinstance(decided, Allow)
        context.span.set_attributes(
            {
                names.PERMISSION_WHY: "answer" if asked else why(decided),
                names.PERMISSION_RULE: None if asked else rule_behind(facts, self._now(), decided),
            }
        )

    def refusal_of_absent(self, tool: str) -> ToolError | None:
        """Why a tool that the agent does not have is refused now: plan has taken it away. None: it has not."""
        deny = refused_in_plan(tool, self._now())
        return None if deny is None else ToolError(code=deny.code, message=deny.message)

    def _now(self) -> Policy:
        policy = self._policy()
        return attrs.evolve(policy, grants=policy.grants | self._grants.all())

    def _after(self, before: CallFacts, now: CallFacts) -> Allow | Ask | Deny:
        """What an allowed call may do now: a denial that came up stands, a changed place is asked again."""
        decided = decide(now, self._now())
        if isinstance(decided, Deny):
            return decided
        if _meaning(before) == _meaning(now):
            return Allow("grant")
        if isinstance(decided, Ask):
            return attrs.evolve(decided, reason=f"{CHANGED}. {decided.reason}", grant_scope=None)
        outside = any(fact.path.outside for fact in now.paths)
        return Ask(f"{CHANGED}: it is now {_where(now)}.", None, outside)

    # facts

    def _facts(self, tool: Tool, arguments: msgspec.Struct) -> CallFacts:
        kind = kind_of(tool.name)
        try:
            paths = tuple(
                PathFact(self._workspace.resolve(target.path), target.use.value, target.explicit)
                for target in tool.targets(arguments)
            )
        except Failure as unusable:
            raise _Unusable(unusable.error) from unusable
        facts = CallFacts(
            tool=tool.name,
            kind=kind,
            workspace=str(self._workspace.root),
            home=_home(self._workspace),
            paths=paths,
        )
        if kind is not CallKind.BASH:
            return facts
        line = parse_line(str(getattr(arguments, "command", "")))
        return attrs.evolve(
            facts,
            shell=line,
            patch=patch_command(line),
            own_command=calls_own_command(line),
            places=self._places(line),
        )

    def _places(self, line: ShellLine) -> tuple[PathFact | None, ...]:
        places: dict[PathFact | None, None] = {}
        for target in write_targets(line):
            place = self._place(target)
            if place is not None or target.write:
                places[place] = None
        return tuple(places)

    def _place(self, target: WriteTarget) -> PathFact | None:
        """Where one word of a command line leads; None where only the run can tell."""
        if target.path is None or target.directory is None:
            return None
        try:
            spelled = target.path
            if not spelled.startswith(("/", "~")):
                start = self._workspace.resolve(target.directory or ".")
                spelled = f"{start.canonical}/{spelled}"
            found = self._workspace.resolve(spelled)
        except Failure:  # a spelling that no path can have
            return None
        place = attrs.evolve(found, given=target.path)
        return PathFact(place, "write" if target.write else "read", removes=target.removes)

    # asking

    async def _question(
        self,
        call: ToolCall,
        tool: Tool,
        arguments: msgspec.Struct,
        context: ToolContext,
        facts: CallFacts,
        ask: Ask,
    ) -> _Question:
        diff = await self._checked(tool, arguments, context, facts)
        request = self._request(call, tool, arguments, facts, ask, diff)
        mode = self._policy().permission_mode.value
        span = context.span.child(
            names.PERMISSION_SPAN,
            permission_facts(
                session_id=context.session_id,
                request_id=request.id,
                tool=tool.name,
                mode=mode,
                external=ask.external,
                label=context.agent.label,
                call_id=call.call_id,
            ),
            service=PERSON,
        )
        return _Question(request, ask, mode, span, trio.current_time())

    async def _checked(
        self, tool: Tool, arguments: msgspec.Struct, context: ToolContext, facts: CallFacts
    ) -> str | None:
        """The tool's own checks: nobody is asked about a call that cannot work. Nothing outside is read."""
        if any(path.outside for path in _paths(facts)):
            return None
        try:
            preview = await tool.check(arguments, _paths(facts), context)
        except Failure as failed:
            raise _Unusable(failed.error) from failed
        return None if preview is None else shown_diff(preview.diff)

    def _request(
        self,
        call: ToolCall,
        tool: Tool,
        arguments: msgspec.Struct,
        facts: CallFacts,
        ask: Ask,
        diff: str | None,
    ) -> PermissionRequest:
        now = time.time_ns()
        commands = _grantable_commands(facts, ask)
        outside = [path for path in _everywhere(facts) if path is not None and path.outside]
        return PermissionRequest(
            id=f"req-{secrets.token_hex(6)}",
            session_id=self._emitter.session_id,
            owner=self._emitter.agent.id,
            agent_label=self._emitter.agent.label,
            agent_chain=self._chain,
            task_id=self._emitter.task_id,
            call_id=call.call_id,
            tool=tool.name,
            risk=tool.risk,
            reason=one_line(ask.reason),
            preview=preview_of(arguments),
            created=timestamp(now),
            deadline=timestamp(now + round(self._timeout * 1e9)),
            external_path=one_line(outside[0].canonical) if outside and ask.external else None,
            resolved_path=one_line(facts.paths[0].path.canonical) if facts.paths else None,
            diff=diff,
            grant=_grant_text(ask.grant_scope),
            grant_commands=commands,
            arguments=_long_command(arguments),
        )

    async def _ask(self, question: _Question, context: ToolContext) -> Answer:
        """Open, wait, close. Whatever happens after the opening, the request is closed exactly once."""
        opened = PermissionRequested(request=question.request, mode=question.mode)
        await self._store(opened, question.span)
        try:
            answer = await self._wait(question.request, context)
        except BaseException:
            # The wait was cancelled: that goes on, but the request does not stay open.
            with contextlib.suppress(Exception):
                await self._close(question, Answer(decision=Decision.CANCELLED, source="cancelled"))
            self._note(question.request.call_id, question.request.tool, "cancelled", question.request.id)
            raise
        await self._close(question, answer)
        return answer

    async def _wait(self, request: PermissionRequest, context: ToolContext) -> Answer:
        answer = Answer(decision=Decision.TIMEOUT, source="deadline")
        try:
            with context.waiting("permission"), trio.move_on_after(self._timeout + GRACE_SECONDS):
                answer = await self._answer(request)
        except Failure as cut:
            if cut.error.code is not ErrorCode.TOOL_ABORTED:
                raise
            return Answer(decision=Decision.CANCELLED, source="batch")
        return answer

    async def _answer(self, request: PermissionRequest) -> Answer:
        try:
            return await self._approver.ask(request)
        except Exception:  # an approver that fails must not open the gate
            log.exception("the approver failed on %s", request.id)
            return Answer(decision=Decision.DENY, source="approver failed")

    async def _close(self, question: _Question, answer: Answer) -> None:
        decision = answer.decision
        question.span.set_attributes(
            {
                names.PERMISSION_DECISION: decision.value,
                names.PERMISSION_SOURCE: answer.source,
                names.PERMISSION_BY: answer.by,
                names.PERMISSION_SCOPE: _scope_of(answer),
                names.PERMISSION_QUEUE: answer.queue_position,
            }
        )
        if decision is Decision.TIMEOUT:
            question.span.set_error(
                ErrorCode.TOOL_DENIED.value, f"timeout: nobody answered within {self._timeout:g} s"
            )
        resolved = PermissionResolved(
            request_id=question.request.id,
            decision=decision.value,
            source=answer.source,
            wait_ms=round((trio.current_time() - question.since) * 1000),
            by=answer.by,
        )
        await self._store(resolved, question.span, ended=question.span.end())

    async def _store(
        self,
        payload: PermissionRequested | PermissionResolved,
        span: Span,
        *,
        ended: SpanRecord | None = None,
    ) -> None:
        """Store one event even while the call is being cancelled, within `STORE_SECONDS`."""
        with trio.CancelScope(shield=True, deadline=trio.current_time() + STORE_SECONDS) as scope:
            await self._emitter.emit(payload, span, ended=ended)
        if scope.cancelled_caught:
            raise failure(
                ErrorCode.STORE_WRITE_FAILED,
                f"The store did not take a permission event within {STORE_SECONDS:g} s. "
                "Check the disk with `orchestrator doctor`, then run again.",
            )

    # after the answer

    def _remember(self, question: _Question, answer: Answer) -> None:
        scope = question.ask.grant_scope
        if answer.decision is not Decision.ALLOW_SESSION or scope is None:
            return
        if answer.scope == "commands":
            commands = question.request.grant_commands
            if not commands:
                return
            scope = attrs.evolve(scope, commands=commands)
        self._grants.add(scope)

    def _denied(self, call: ToolCall, deny: Deny) -> ToolError:
        if deny.reason is None:
            return ToolError(code=deny.code, message=deny.message)
        self._note(call.call_id, call.tool, deny.reason, None)
        return ToolError(code=deny.code, message=deny.message, details={"reason": deny.reason})

    def _refused(self, question: _Question, answer: Answer) -> ToolError:
        request, reason = question.request, REASONS[answer.decision]
        self._note(request.call_id, request.tool, reason, request.id)
        return refusal(reason, request, answer, self._timeout)

    def _note(self, call_id: str, tool: str, reason: DenialReason, request_id: str | None) -> None:
        self._on_denied(
            Denial(
                agent=self._emitter.agent.label,
                tool=tool,
                call_id=call_id,
                reason=reason,
                request_id=request_id,
            )
        )


def _home(workspace: Workspace) -> str | None:
    return None if workspace.home is None else os.path.realpath(workspace.home)


class _Unusable(Exception):
    """A call that cannot work whatever anybody answers: its error is returned, and nobody is asked."""

    def __init__(self, error: ToolError) -> None:
        super().__init__(error.code)
        self.error = error


def _paths(facts: CallFacts) -> tuple[ResolvedPath, ...]:
    return tuple(fact.path for fact in facts.paths)


def _everywhere(facts: CallFacts) -> tuple[ResolvedPath | None, ...]:
    return (*_paths(facts), *(None if place is None else place.path for place in facts.places))


def _meaning(facts: CallFacts) -> tuple[object, ...]:
    """What an answer was given for: places and verdicts, but not whether a file has come or gone there."""
    return tuple(
        None if path is None else (path.canonical, path.root, path.denied, path.protected)
        for path in _everywhere(facts)
    )


def _where(facts: CallFacts) -> str:
    places = dict.fromkeys(path.canonical for path in _everywhere(facts) if path is not None)
    return ", ".join(list(places)[:3]) or "somewhere that its words do not tell"


def _scope_of(answer: Answer) -> str | None:
    match answer.decision:
        case Decision.ALLOW_ONCE:
            return "once"
        case Decision.ALLOW_SESSION:
            return "commands" if answer.scope == "commands" else "session"
        case _:
            return None


def _grantable_commands(facts: CallFacts, ask: Ask) -> tuple[str, ...]:
    """The commands that the narrower grant of a Bash call would cover; none where a word is not literal."""
    if ask.grant_scope is None or facts.shell is None:
        return ()
    return grantable(facts.shell)


def _grant_text(scope: Grant | None) -> str:
    if scope is None:
        return ""
    if scope.outside:
        return f"every {scope.tool} outside the workspace, for this session and all its agents (inside not)"
    if kind_of(scope.tool) is CallKind.BASH:
        return "every Bash command, for this session and all its agents (never protected or outside places)"
    where = " inside the workspace" if kind_of(scope.tool) is CallKind.WRITE else ""
    return f"every {scope.tool}{where}, for this session and all its agents (outside paths not)"


def _long_command(arguments: msgspec.Struct) -> dict[str, str] | None:
    """A command that is too long for the preview, for surfaces with room for it."""
    command = getattr(arguments, "command", None)
    if not isinstance(command, str) or len(command.encode("utf-8", "replace")) <= MAX_PREVIEW_BYTES:
        return None
    return {"command": shown_command(command, MAX_COMMAND_BYTES)}

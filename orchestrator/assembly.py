"""`Assembly`: the session's shared parts, and how one agent is put together from them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

import attrs

from agents.agent import Agent, Tally
from agents.emitter import Emitter
from agents.events import AgentRef
from agents.gate import Gate
from agents.guidance import system_prompt
from agents.journal import Journal
from agents.locks import PathLocks
from agents.models.base import Model, model_part
from agents.ports import Approver
from agents.rules.hidden import hidden_by
from agents.rules.permission_rules import Rule
from agents.rules.permissions import Policy, effective_mode
from agents.rules.recovery import RecoveryBook
from agents.rules.tool_search import ToolCard
from agents.snapshots import SnapshotStore
from agents.spec import AgentSpec, OperatingMode, PermissionMode
from agents.tools.active import SEARCH, ActiveTools
from agents.tools.base import Tool
from agents.tools.environment import child_environment
from agents.tools.search.helpers import SearchHelpers
from agents.workspace import Workspace
from orchestrator.approvals import Grants
from orchestrator.feed import Feed
from orchestrator.store.base import Store
from orchestrator.task import DELEGATE_TURNS
from telemetry import attributes as names
from telemetry.facts import agent_facts
from telemetry.spans import Span, traceparent

TASK_FAMILY = ("Task", "TaskWait", "TaskList", "TaskStop")
CORE_TOOLS = frozenset({"Read", "Write", "Edit", "Bash", SEARCH, *TASK_FAMILY})
"""What the main agent's requests carry from the start of a prompt; the rest is activated on demand."""
PLAN_TOOLS = ("Read", "Glob", "Grep", "Bash")


@attrs.define
class Modes:
    """The session's two modes. A change binds running agents from their next call."""

    operating: OperatingMode
    permission: PermissionMode


@attrs.define(eq=False)
class Assembly:
    """What all agents of a session share."""

    session_id: str
    store: Store
    feed: Feed
    workspace: Workspace
    tools: Mapping[str, Tool]
    """Every tool there is, by name."""
    specs: Mapping[str, AgentSpec]
    """The definitions that may be delegated to."""
    modes: Modes
    allow: tuple[Rule, ...]
    deny: tuple[Rule, ...]
    grants: Grants
    approver: Approver
    permission_timeout: float
    max_depth: int
    environment: Mapping[str, str]
    """The orchestrator's own environment; children get a scrubbed copy."""
    login_path: tuple[str, ...]
    """PATH entries that only the login shell has."""
    capture_content: bool
    service_of: Callable[[str], str]
    defer_tools: bool = True
    """Whether the main agent activates all but the core tools on demand."""
    recovery: RecoveryBook = attrs.field(factory=RecoveryBook)
    locks: PathLocks = attrs.field(factory=PathLocks)
    helpers: SearchHelpers = attrs.field(factory=SearchHelpers)

    def __attrs_post_init__(self) -> None:
        self.workspace.hidden = self._hidden_from_reading

    def _hidden_from_reading(self, canonical: str, is_directory: bool) -> bool:
        """Whether the deny rules of now keep a name from Read, and so from its hints."""
        home = self.workspace.home
        hidden = hidden_by(
            self.deny,
            "Read",
            workspace=str(self.workspace.root),
            home=None if home is None else os.path.realpath(home),
        )
        return hidden is not None and hidden(canonical, is_directory)

    def service(self, spec: AgentSpec) -> str:
        """The telemetry service of a delegate's own spans."""
        return self.service_of(spec.name)

    def agent_attributes(self, ref: AgentRef, spec: AgentSpec, model: Model) -> dict[str, object]:
        """What an `invoke_agent` span says from its start."""
        facts = agent_facts(
            session_id=self.session_id,
            owner=ref.id,
            name=spec.name,
            label=ref.label,
            depth=ref.depth,
            provider=model.provider,
            model=model_part(model.name),
        )
        description = spec.description if spec.source == "built-in" else None
        return {**facts, names.AGENT_DESCRIPTION: description}

    def agent(
        self,
        *,
        spec: AgentSpec,
        ref: AgentRef,
        model: Model,
        span: Span,
        turn_id: str,
        task_id: str | None,
        chain_labels: tuple[str, ...],
        max_turns: int | None = None,
    ) -> Agent:
        """One agent, ready to run. `chain_labels` are the agents above it."""
        emitter = Emitter(self.feed, self.session_id, turn_id, ref, task_id)
        tools = self._tools_of(spec, ref.depth)
        deferred = self._deferred(tools, ref.depth)
        if deferred:
            tools[SEARCH] = self.tools[SEARCH]
        tally = Tally()
        return Agent(
            spec=spec,
            ref=ref,
            owner=ref.id,
            model=model,
            system=self._system(spec, ref, tuple(tools), deferred),
            tools=tools,
            active=ActiveTools(tuple(tools), deferred),
            gate=Gate(
                policy=lambda: self._policy(spec),
                workspace=self.workspace,
                approver=self.approver,
                emitter=emitter,
                agent_chain=(*chain_labels, ref.label),
                grants=self.grants,
                permission_timeout=self.permission_timeout,
                on_denied=tally.denials.append,
            ),
            recovery=self.recovery,
            emitter=emitter,
            workspace=self.workspace,
            snapshots=SnapshotStore(),
            locks=self.locks,
            journal=Journal(self.store, session_id=self.session_id, owner=ref.id),
            span=span,
            child_environment=lambda call_id, tool_span: self._child_environment(ref, call_id, tool_span),
            max_turns=max_turns or spec.max_turns or DELEGATE_TURNS,
            capture_content=self.capture_content,
            helpers=self.helpers,
            tally=tally,
        )

    def _tools_of(self, spec: AgentSpec, depth: int) -> dict[str, Tool]:
        chosen = {name: self.tools[name] for name in spec.tools if name in self.tools}
        if self.modes.operating is OperatingMode.PLAN:
            chosen = {name: tool for name, tool in chosen.items() if name in PLAN_TOOLS}
        delegates = (
            self.modes.operating is OperatingMode.AGENT and depth < self.max_depth and bool(self.specs)
        )
        if not delegates:
            return {name: tool for name, tool in chosen.items() if name not in TASK_FAMILY}
        if depth == 0 or "Task" in chosen:
            chosen.update({name: self.tools[name] for name in TASK_FAMILY})
        return chosen

    def _deferred(self, tools: Mapping[str, Tool], depth: int) -> tuple[ToolCard, ...]:
        """What the main agent activates on demand; nothing while planning, and nothing of a delegate's."""
        if depth > 0 or not self.defer_tools or self.modes.operating is OperatingMode.PLAN:
            return ()
        return tuple(
            ToolCard(tool.name, tool.description) for tool in tools.values() if tool.name not in CORE_TOOLS
        )

    def _system(
        self, spec: AgentSpec, ref: AgentRef, tools: tuple[str, ...], deferred: tuple[ToolCard, ...]
    ) -> str:
        return system_prompt(
            spec,
            label=ref.label,
            tools=tools,
            delegates=tuple(self.specs.values()),
            has_tool_search=bool(deferred),
            on_demand=deferred,
            workspace=str(self.workspace.root),
            scratch=str(self.workspace.scratch),
        )

    def _policy(self, spec: AgentSpec) -> Policy:
        return Policy(
            operating_mode=self.modes.operating,
            permission_mode=effective_mode(self.modes.permission, spec.permission_mode),
            allow=self.allow,
            deny=self.deny,
            grants=self.grants.all(),
        )

    def _child_environment(self, ref: AgentRef, call_id: str, span: Span) -> Mapping[str, str]:
        return child_environment(
            self.environment,
            markers={
                "ORCHESTRATOR_SESSION_ID": self.session_id,
                "ORCHESTRATOR_RUN_ID": ref.id,
                "ORCHESTRATOR_CALL_ID": call_id,
            },
            scratch=str(self.workspace.scratch),
            traceparent=traceparent(span.ref),
            login_path_entries=self.login_path,
        )

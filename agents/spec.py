"""What one agent is: role, prompt, tools and limits. Pure."""

from __future__ import annotations

import enum

import attrs


class OperatingMode(enum.StrEnum):
    """Which tools exist."""

    AGENT = "agent"
    PLAN = "plan"


class PermissionMode(enum.StrEnum):
    """How a call that exists is approved."""

    ASK = "ask"
    ACCEPT_EDITS = "accept-edits"
    AUTO = "auto"

    @property
    def reach(self) -> int:
        """0 is the strictest; a definition may only lower it."""
        return (PermissionMode.ASK, PermissionMode.ACCEPT_EDITS, PermissionMode.AUTO).index(self)


@attrs.frozen
class AgentSpec:
    """One definition, resolved: what an agent of this name may do and is told."""

    name: str
    """As it is offered: `fixer`, or `repo:fixer` where a repository's name was taken."""
    description: str
    """When to use it; shown to the parent's model."""
    prompt: str
    """The definition's body: the agent's own system prompt."""
    tools: tuple[str, ...]
    """Names of the tools it has, all active from its first request."""
    model: str | None = None
    """`provider:name`; None inherits the session's."""
    permission_mode: PermissionMode | None = None
    """None inherits; a value may only narrow the session's mode."""
    max_turns: int | None = None
    """Model turns per run; None: the session's default."""
    timeout_seconds: float | None = None
    """Wall-clock bound per run; None: the session's default."""
    source: str = "built-in"
    """Where the definition came from: a file's path or `built-in`."""
    effort: str | None = None

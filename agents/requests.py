"""Permission requests and their answers as values. Pure; also the shape on the wire and in the store."""

from __future__ import annotations

import enum
from typing import Any, Literal

import msgspec


class Decision(enum.StrEnum):
    """How a request was closed. Only the first two let the call run."""

    ALLOW_ONCE = "allow-once"
    ALLOW_SESSION = "allow-session"
    DENY = "deny"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    NO_APPROVER = "no-approver"

    @property
    def allowed(self) -> bool:
        return self in (Decision.ALLOW_ONCE, Decision.ALLOW_SESSION)


DenialReason = Literal["user", "timeout", "cancelled", "no-approver", "rule", "deny-list"]
"""`details.reason` of a TOOL_DENIED."""


class PermissionRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One question to the person: may this call run? The executed arguments are those shown here."""

    id: str
    session_id: str
    owner: str
    """runId of a delegate, turnId of a parent."""
    agent_label: str
    agent_chain: tuple[str, ...]
    """Labels from the main agent down to the one that asks."""
    task_id: str | None
    call_id: str
    tool: str
    risk: Literal["low", "high"]
    reason: str
    """Why it asks, in one sentence: the table row, the outside path, the protected path."""
    preview: str
    """What would run: redacted, hidden characters made visible, at most 2 KiB."""
    created: str
    """RFC 3339, UTC."""
    deadline: str
    """RFC 3339, UTC; counted from arrival, queued or not."""
    external_path: str | None = None
    """The canonical outside path, when that is what is asked for."""
    resolved_path: str | None = None
    diff: str | None = None
    """Unified diff of a Write or Edit inside the roots."""
    grant: str = ""
    """What `allow-session` would cover, in words; empty where it is not offered."""
    grant_commands: tuple[str, ...] = ()
    """The commands that the narrower session grant of a Bash call would cover; empty: it is not offered."""
    arguments: dict[str, Any] | None = None
    """Reserved for surfaces that draw arguments themselves; redacted like the preview."""


class Answer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What came back for a request, from whom."""

    decision: Decision
    source: str
    """`terminal`, `inbox`, `api`, `policy` …: who or what decided."""
    feedback: str | None = None
    """The person's words to the model, with a deny."""
    scope: Literal["tool", "commands"] = "tool"
    """What `allow-session` covers: the tool, or (Bash) only the request's `grant_commands`."""
    queue_position: int = 0
    """How many requests stood before this one when it arrived."""
    by: str | None = None
    """The person who decided, where one is known by name."""


class Denial(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One denied call, as the result of a turn lists it."""

    agent: str
    tool: str
    call_id: str
    reason: DenialReason
    request_id: str | None = None

"""Who holds a session: one process, named so that no other one is taken for it. Pure."""

from __future__ import annotations

import msgspec


class Holder(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One process of one boot in one pid namespace."""

    host: str
    """Machine id and node name; empty where unknown."""
    boot_id: str
    """Empty where there is no `/proc`."""
    pid_namespace: str
    pid: int
    started: int
    """Process start in clock ticks since boot."""
    since: str
    """When the lease was taken, RFC 3339, UTC; for people only."""

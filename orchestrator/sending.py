"""`Sending`: which of a session's stored spans have reached their targets, across processes.

A turn stores where its spans go. What a target has not acknowledged is sent there again, identical, by the
next start of the session that has that target; nothing of a turn goes anywhere else.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Mapping, Sequence

import attrs
import trio

from agents.errors import Failure
from agents.events import AgentFinished, AgentStarted, Event, TurnStarted
from orchestrator.store.base import Store
from telemetry.export import SpanExport

WATERMARK_SECONDS = 1.0
"""Pause between two writes of the watermarks."""
LAST_WRITE_SECONDS = 5.0
"""How long the write at the end may take."""


@attrs.define
class _Line:
    """What was handed over for one target and is not acknowledged yet, by `seq`, oldest first."""

    waiting: deque[int] = attrs.field(factory=deque)
    counted: int = 0
    """How many acknowledgements were taken off `waiting`."""
    written: int = 0
    """The watermark in the store."""
    reached: int = 0
    """The watermark as it should be."""

    def note(self, acknowledged: int) -> None:
        while self.counted < acknowledged and self.waiting:
            self.reached = self.waiting.popleft()
            self.counted += 1


@attrs.define(eq=False)
class Sending:
    """Hands committed spans to the export and keeps the watermarks. One per session."""

    store: Store
    session_id: str
    export: SpanExport = attrs.field(factory=SpanExport)
    """Set once it is open. A closed one still tells what was acknowledged."""
    _lines: dict[str, _Line] = attrs.field(factory=dict)
    _agents: set[str] = attrs.field(factory=set)

    @property
    def targets(self) -> tuple[str, ...]:
        """Every place that this process sends the session's spans to."""
        return self.export.targets

    def committed(self, events: Sequence[Event]) -> None:
        """Send the spans of events that are on disk now. Never raises or blocks."""
        ended = [event for event in events if event.span is not None]
        self.export.export([event.span for event in ended if event.span is not None])
        for target in self.targets:
            self._line(target).waiting.extend(event.seq for event in ended)
        for event in events:
            self._count(event)

    async def catch_up(self) -> int:
        """Send what earlier processes could not get through to the targets of this one; how many spans."""
        sent = 0
        for target in self.targets:
            line = self._line(target)
            line.written = line.reached = await self.store.watermark(self.session_id, target)
            ended = [
                event
                for event in await self.store.events(self.session_id, line.written)
                if event.span is not None
            ]
            if ended:
                targets = await self._targets_of_turns()
                owed = [event for event in ended if target in targets.get(event.turn_id or "", ())]
                self.export.send_again([event.span for event in owed if event.span is not None], target)
                line.waiting.extend(event.seq for event in owed)
                sent += len(owed)
        return sent

    async def keep(self, scope: trio.CancelScope) -> None:
        """Write the watermarks while the session runs, until `scope` is cancelled."""
        with scope:
            while True:
                await trio.sleep(WATERMARK_SECONDS)
                with contextlib.suppress(Failure):  # whoever writes an event next is told
                    await self._write()

    async def finish(self) -> None:
        """Write them once more, after the export has closed."""
        with trio.CancelScope(shield=True, deadline=trio.current_time() + LAST_WRITE_SECONDS):
            with contextlib.suppress(Failure):
                await self._write()

    async def _write(self) -> None:
        for target, line in self._lines.items():
            line.note(self.export.acknowledged_by(target))
            if line.reached > line.written:
                await self.store.acknowledge(self.session_id, target, line.reached)
                line.written = line.reached

    async def _targets_of_turns(self) -> Mapping[str, tuple[str, ...]]:
        return {
            event.turn_id: event.payload.trace_targets
            for event in await self.store.events(self.session_id)
            if event.turn_id is not None and isinstance(event.payload, TurnStarted)
        }

    def _line(self, target: str) -> _Line:
        return self._lines.setdefault(target, _Line())

    def _count(self, event: Event) -> None:
        if event.agent is None:
            return
        if isinstance(event.payload, AgentStarted):
            self._agents.add(event.agent.id)
        elif isinstance(event.payload, AgentFinished):
            self._agents.discard(event.agent.id)
        self.export.active_agents = len(self._agents)

"""The session's event feed: stored first, then exported and shown, in `seq` order."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import trio

from agents.events import Event, RunSettled
from orchestrator.sending import Sending
from orchestrator.store.base import Store


class Feed:
    """Implements `EventSink` on a store. One per session."""

    def __init__(self, store: Store, session_id: str, sending: Sending) -> None:
        self._store = store
        self._session_id = session_id
        self._sending = sending
        self._subscribers: set[trio.MemorySendChannel[Event]] = set()
        self._at_settlement: dict[str, Callable[[], None]] = {}
        store.listen(self._committed)

    @property
    def trace_targets(self) -> tuple[str, ...]:
        """Every place that spans go to."""
        return self._sending.targets

    async def emit(self, events: Sequence[Event]) -> tuple[Event, ...]:
        return await self._store.append(events)

    def show(self, event: Event) -> None:
        self._publish(event)

    def at_settlement(self, owner: str, action: Callable[[], None]) -> None:
        """Do `action` once `owner`'s settlement is on disk, before anybody is shown it. Must not raise."""
        self._at_settlement[owner] = action

    @asynccontextmanager
    async def subscribe(self) -> AsyncIterator[trio.MemoryReceiveChannel[Event]]:
        """Every event from now on. A slow reader costs memory, never the agents' time."""
        send, receive = trio.open_memory_channel[Event](math.inf)
        self._subscribers.add(send)
        try:
            async with receive:
                yield receive
        finally:
            self._subscribers.discard(send)
            send.close()

    def close(self) -> None:
        """End every subscription after what it has not read yet."""
        for send in self._subscribers:
            send.close()
        self._subscribers.clear()

    def _committed(self, events: Sequence[Event]) -> None:
        mine = [event for event in events if event.session_id == self._session_id]
        for event in mine:
            if isinstance(event.payload, RunSettled):
                self._at_settlement.pop(event.payload.owner, lambda: None)()
        self._sending.committed(mine)
        for event in mine:
            if event.payload.PRINTED:
                self._publish(event)

    def _publish(self, event: Event) -> None:
        for send in tuple(self._subscribers):
            try:
                send.send_nowait(event)
            except trio.BrokenResourceError:  # the reader left and has not been taken off the list yet
                self._subscribers.discard(send)

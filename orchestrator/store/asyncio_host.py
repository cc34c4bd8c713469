"""One asyncio loop in one daemon thread, called from trio: the room in which aiosqlite lives.

A call is one asyncio task. Cancelling the trio caller cancels that task once (asyncio's edge cancellation, so
that its `except`/`finally` may still await a rollback), and the call returns only when the task has unwound.
Exceptions arrive as they are; context variables (the current span among them) are the caller's.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar, TypeVarTuple

import attrs
import outcome
import trio

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


@attrs.define(eq=False)
class _Call:
    """One trio caller waiting for one asyncio task."""

    loop: asyncio.AbstractEventLoop
    token: trio.lowlevel.TrioToken
    caller: trio.lowlevel.Task
    task: asyncio.Task[Any] | None = None
    raise_cancel: Callable[[], Any] | None = None

    def start(self, work: Callable[[], Awaitable[Any]], context: contextvars.Context) -> None:
        """On the loop's thread."""

        async def main() -> Any:
            return await work()

        self.task = self.loop.create_task(main(), context=context)
        # A done callback and not a wrapper coroutine: a task that is cancelled before its first step
        # never runs its body, and the caller would wait for ever.
        self.task.add_done_callback(self.finished)

    def finished(self, task: asyncio.Task[Any]) -> None:
        """On the loop's thread."""
        self.token.run_sync_soon(self.wake, task)

    def wake(self, task: asyncio.Task[Any]) -> None:
        """On trio's thread."""
        trio.lowlevel.reschedule(self.caller, self.result(task))

    def result(self, task: asyncio.Task[Any]) -> outcome.Outcome[Any]:
        answer: outcome.Outcome[Any]
        if not task.cancelled():
            answer = outcome.capture(task.result)
        elif self.raise_cancel is not None:
            answer = outcome.capture(self.raise_cancel)
        else:
            answer = outcome.Error(RuntimeError("the asyncio task was cancelled from inside; report this"))
        return answer

    def abort(self, raise_cancel: Callable[[], Any]) -> trio.lowlevel.Abort:
        """On trio's thread, at most once: ask for the end, and stay until it has come."""
        self.raise_cancel = raise_cancel
        self.loop.call_soon_threadsafe(self.cancel)
        return trio.lowlevel.Abort.FAILED

    def cancel(self) -> None:
        """On the loop's thread, always after `start`: both are queued in order."""
        if self.task is not None:
            self.task.cancel()


@attrs.define(eq=False)
class AsyncioHost:
    """The running loop. Made by `open_asyncio_host` alone."""

    _loop: asyncio.AbstractEventLoop
    _token: trio.lowlevel.TrioToken

    async def call(self, afn: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T:
        """Run `afn(*args)` on the asyncio loop and return (or raise) what it does.

        An `afn` that swallows its cancellation returns its value; trio then raises at the next checkpoint.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        call = _Call(self._loop, self._token, trio.lowlevel.current_task())
        self._loop.call_soon_threadsafe(call.start, lambda: afn(*args), contextvars.copy_context())
        result: T = await trio.lowlevel.wait_task_rescheduled(call.abort)
        return result

    async def sleep(self, seconds: float) -> None:
        """Let so much real time pass, whatever trio's clock is: for what other processes do."""
        await self.call(asyncio.sleep, seconds)


@attrs.define(eq=False)
class _Thread:
    """The loop's thread, seen from trio."""

    token: trio.lowlevel.TrioToken
    ready: trio.Event = attrs.field(factory=trio.Event)
    ended: trio.Event = attrs.field(factory=trio.Event)
    loop: asyncio.AbstractEventLoop | None = None
    stop: asyncio.Event | None = None

    def main(self) -> None:
        try:
            with asyncio.Runner() as runner:
                runner.run(self.park())
        finally:
            self.token.run_sync_soon(self.ready.set)
            self.token.run_sync_soon(self.ended.set)

    async def park(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.stop = asyncio.Event()
        self.token.run_sync_soon(self.ready.set)
        await self.stop.wait()


@contextlib.asynccontextmanager
async def open_asyncio_host() -> AsyncIterator[AsyncioHost]:
    """Start the loop's thread for the block; on exit it has ended, whatever happened inside."""
    state = _Thread(trio.lowlevel.current_trio_token())
    thread = threading.Thread(target=state.main, name="orchestrator-asyncio", daemon=True)
    thread.start()
    try:
        with trio.CancelScope(shield=True):
            await state.ready.wait()
        if state.loop is None:
            raise RuntimeError("the asyncio loop did not start; look at the traceback of its thread above")
        yield AsyncioHost(state.loop, state.token)
    finally:
        with trio.CancelScope(shield=True):
            if state.loop is not None and state.stop is not None:
                state.loop.call_soon_threadsafe(state.stop.set)
            await state.ended.wait()
        thread.join()  # its last act was to wake us: microseconds

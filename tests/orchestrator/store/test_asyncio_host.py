"""Calls from trio into the asyncio loop, and their endings."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from pathlib import Path

import pytest
import trio

import orchestrator
from orchestrator.store.asyncio_host import open_asyncio_host

variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


def hosts() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "orchestrator-asyncio"]


async def test_a_call_returns_what_the_coroutine_returns_and_raises_what_it_raises() -> None:
    async def divide(a: int, b: int) -> float:
        await asyncio.sleep(0)
        return a / b

    async with open_asyncio_host() as host:
        assert await host.call(divide, 6, 3) == 2
        with pytest.raises(ZeroDivisionError):
            await host.call(divide, 1, 0)


async def test_the_callers_context_is_seen_inside() -> None:
    async def look() -> str:
        await asyncio.sleep(0)
        return variable.get()

    async with open_asyncio_host() as host:

        async def caller(value: str) -> None:
            variable.set(value)
            for _ in range(10):
                assert await host.call(look) == value

        async with trio.open_nursery() as nursery:
            for name in "abc":
                nursery.start_soon(caller, name)


async def test_a_cancelled_call_returns_only_when_the_other_side_has_unwound() -> None:
    unwound = []

    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)  # a rollback may still await
            unwound.append(True)

    async with open_asyncio_host() as host:
        with trio.move_on_after(0.02) as scope:
            await host.call(slow)
        assert scope.cancelled_caught
        assert unwound == [True]


async def test_a_coroutine_that_swallows_its_cancellation_returns_its_value() -> None:
    async def stubborn() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "stayed"
        return "slept"

    async with open_asyncio_host() as host:
        with trio.move_on_after(0.02) as scope:
            assert await host.call(stubborn) == "stayed"
            await trio.lowlevel.checkpoint()
        assert scope.cancelled_caught


async def test_five_hundred_cancellations_around_the_start_and_the_end_lose_no_caller() -> None:
    async def short() -> str:
        await asyncio.sleep(0.0002)
        return "done"

    outcomes = {"done": 0, "cancelled": 0}
    async with open_asyncio_host() as host:

        async def race(number: int) -> None:
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:

                    async def cancel() -> None:
                        for _ in range(number % 8):
                            await trio.lowlevel.checkpoint()
                        scope.cancel()

                    nursery.start_soon(cancel)
                    await host.call(short)
                    outcomes["done"] += 1
            outcomes["cancelled"] += scope.cancelled_caught

        with trio.fail_after(30):
            for _ in range(10):
                async with trio.open_nursery() as nursery:
                    for number in range(50):
                        nursery.start_soon(race, number)
    assert outcomes["cancelled"] > 0


async def test_a_task_that_is_cancelled_from_inside_is_an_error_and_not_a_cancellation() -> None:
    async def give_up() -> None:
        raise asyncio.CancelledError

    async with open_asyncio_host() as host:
        with pytest.raises(RuntimeError, match="cancelled from inside"):
            await host.call(give_up)


async def test_no_thread_is_left_whatever_ends_the_block() -> None:
    async with open_asyncio_host():
        assert len(hosts()) == 1
    assert hosts() == []
    with pytest.raises(KeyError):
        async with open_asyncio_host():
            raise KeyError("body")
    assert hosts() == []
    with trio.move_on_after(0.01):
        async with open_asyncio_host():
            await trio.sleep_forever()
    assert hosts() == []


def test_asyncio_is_imported_in_its_room_alone() -> None:
    package = Path(orchestrator.__file__).parent / "store"
    importers = {file.name for file in package.glob("*.py") if "import asyncio\n" in file.read_text()}
    assert importers == {"asyncio_host.py"}

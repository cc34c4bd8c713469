from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from agents.errors import ErrorCode, Failure, failure
from agents.locks import PathLocks


class Waits:
    def __init__(self) -> None:
        self.count = 0

    @contextlib.contextmanager
    def __call__(self, kind: str) -> Iterator[None]:
        assert kind == "lock"
        self.count += 1
        yield


async def test_one_path_is_held_by_one_at_a_time_in_order_of_arrival() -> None:
    locks, waits, order = PathLocks(), Waits(), []

    async def work(name: str) -> None:
        async with locks.hold("/f", waits):
            order.append(f"{name} in")
            await trio.testing.wait_all_tasks_blocked()
            order.append(f"{name} out")

    async with trio.open_nursery() as nursery:
        for name in "abc":
            nursery.start_soon(work, name)
            await trio.testing.wait_all_tasks_blocked()
    assert order == ["a in", "a out", "b in", "b out", "c in", "c out"]
    assert locks.held == 0


async def test_different_paths_never_wait_for_each_other() -> None:
    locks, waits = PathLocks(), Waits()
    async with locks.hold("/f", waits), locks.hold("/g", waits):
        assert locks.held == 2
    assert waits.count == 0


async def test_only_the_wait_itself_is_wrapped() -> None:
    locks, waits = PathLocks(), Waits()
    async with trio.open_nursery() as nursery:

        async def second() -> None:
            async with locks.hold("/f", waits):
                pass

        async with locks.hold("/f", waits):
            assert waits.count == 0
            nursery.start_soon(second)
            await trio.testing.wait_all_tasks_blocked()
            assert waits.count == 1


async def test_exclusive_waits_for_every_holder_and_lets_nobody_in() -> None:
    locks, waits, order = PathLocks(), Waits(), []

    async def shell() -> None:
        async with locks.exclusive(waits):
            order.append("shell in")
            await trio.testing.wait_all_tasks_blocked()
            order.append("shell out")

    async def edit(path: str) -> None:
        async with locks.hold(path, waits):
            order.append(path)

    async with trio.open_nursery() as nursery:
        async with locks.hold("/f", waits), locks.hold("/g", waits):
            nursery.start_soon(shell)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(edit, "/h")
            await trio.testing.wait_all_tasks_blocked()
            assert order == []
    assert order == ["shell in", "shell out", "/h"]
    assert locks.held == 0


async def test_a_cancelled_wait_leaves_the_queue_and_blocks_nobody() -> None:
    locks, waits, order = PathLocks(), Waits(), []

    async def wait_in(scope: trio.CancelScope) -> None:
        with scope:
            async with locks.exclusive(waits):
                order.append("never")

    async def edit() -> None:
        async with locks.hold("/g", waits):
            order.append("/g")

    async with trio.open_nursery() as nursery:
        async with locks.hold("/f", waits):
            scope = trio.CancelScope()
            nursery.start_soon(wait_in, scope)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(edit)
            await trio.testing.wait_all_tasks_blocked()
            assert order == []
            scope.cancel()
            await trio.testing.wait_all_tasks_blocked()
            assert order == ["/g"]
    assert locks.held == 0


async def test_a_claim_that_is_granted_while_its_wait_is_cancelled_is_given_back() -> None:
    locks, waits = PathLocks(), Waits()
    scope = trio.CancelScope()

    async def wait_in() -> None:
        with scope:
            async with locks.hold("/f", waits):
                await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        async with locks.hold("/f", waits):
            nursery.start_soon(wait_in)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert locks.held == 0
        async with locks.hold("/f", waits):
            assert locks.held == 1


async def test_a_wait_that_is_cut_from_outside_leaves_nothing_held() -> None:
    locks = PathLocks()

    @contextlib.contextmanager
    def cut(kind: str) -> Iterator[None]:
        with trio.CancelScope() as scope:
            scope.cancel()
            yield
        raise failure(ErrorCode.TOOL_ABORTED, "cut")

    async with locks.hold("/f", Waits()):
        with pytest.raises(Failure):
            async with locks.hold("/f", cut):
                raise AssertionError("never entered")
        assert locks.held == 1
    assert locks.held == 0


async def test_an_exception_in_the_block_releases_the_path() -> None:
    locks = PathLocks()
    with pytest.raises(KeyError):
        async with locks.hold("/f", Waits()):
            raise KeyError("x")
    assert locks.held == 0


async def test_several_paths_are_held_all_at_once_or_not_at_all() -> None:
    locks, waits, order = PathLocks(), Waits(), []

    async def both() -> None:
        async with locks.hold_all(["/a", "/b"], waits):
            order.append("both")

    async def other() -> None:
        async with locks.hold("/b", waits):
            order.append("other")

    async with trio.open_nursery() as nursery:
        async with locks.hold("/a", waits):
            nursery.start_soon(both)
            await trio.testing.wait_all_tasks_blocked()
            assert locks.held == 1
            nursery.start_soon(other)
            await trio.testing.wait_all_tasks_blocked()
    assert order == ["both", "other"]
    assert locks.held == 0


async def test_opposite_claims_on_two_paths_never_deadlock_not_even_around_an_exclusive_one() -> None:
    locks, waits = PathLocks(), Waits()

    async def hold(*paths: str) -> None:
        for _ in range(10):
            async with locks.hold_all(paths, waits):
                await trio.testing.wait_all_tasks_blocked()

    async def everything() -> None:
        for _ in range(10):
            async with locks.exclusive(waits):
                assert locks.held == 1
                await trio.lowlevel.checkpoint()

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hold, "/a", "/b")
            nursery.start_soon(everything)
            nursery.start_soon(hold, "/b", "/a")
            nursery.start_soon(hold, "/b")
    assert locks.held == 0


async def test_one_path_named_twice_is_one_path() -> None:
    locks, waits = PathLocks(), Waits()
    async with locks.hold_all(["/a", "/a"], waits):
        assert locks.held == 1

"""Who is dead and who is alive."""

from __future__ import annotations

import os
import subprocess
import sys

import msgspec
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from agents.errors import ErrorCode, Failure
from orchestrator.store.leases import (
    STILL_SECONDS,
    Holder,
    LeaseRecord,
    Life,
    ProcessFacts,
    current_holder,
    decode_holder,
    encode_holder,
    judge,
    look_up,
)
from orchestrator.store.memory import MemoryStore, open_memory_store

ME = Holder(
    host="m:n", boot_id="b1", pid_namespace="ns1", pid=10, started=100, since="2026-01-01T00:00:00.000Z"
)


def other(**fields: object) -> Holder:
    return msgspec.structs.replace(ME, pid=20, started=200, **fields)


seconds = st.floats(min_value=0, max_value=1e6)
states = st.sampled_from("RSDTtIZX")


@given(states, seconds)
def test_a_holder_in_sight_is_dead_exactly_when_its_process_is_gone(state: str, still: float) -> None:
    gone = state in "ZX"
    assert judge(other(), ME, ProcessFacts(200, state), still) is (Life.DEAD if gone else Life.ALIVE)
    assert judge(other(), ME, None, still) is Life.DEAD


@given(states, seconds)
def test_a_pid_that_was_given_to_another_process_is_no_sign_of_life(state: str, still: float) -> None:
    assert judge(other(), ME, ProcessFacts(201, state), still) is Life.DEAD


@given(seconds)
def test_a_holder_of_an_earlier_boot_of_this_host_is_dead_at_once(still: float) -> None:
    assert judge(other(boot_id="b0"), ME, None, still) is Life.DEAD


@given(
    st.sampled_from(
        [
            other(pid_namespace="ns2"),
            other(host="m:other", boot_id="b9"),
            other(host="", boot_id="b9"),
            other(boot_id="", pid_namespace=""),
        ]
    ),
    seconds,
)
def test_a_holder_from_elsewhere_is_dead_when_its_heart_stood_still_for_a_minute(
    holder: Holder, still: float
) -> None:
    assert judge(holder, ME, None, still) is (Life.DEAD if still >= STILL_SECONDS else Life.UNKNOWN)


def test_without_proc_nobody_is_in_sight() -> None:
    blind = Holder(host="", boot_id="", pid_namespace="", pid=10, started=0, since="")
    assert judge(msgspec.structs.replace(blind, pid=20), blind, None, 0) is Life.UNKNOWN


def test_this_process_sees_itself_alive() -> None:
    me = current_holder()
    assert me.pid == os.getpid()
    assert judge(me, me, look_up(me.pid), 0) is Life.ALIVE
    assert decode_holder(encode_holder(me)) == me


def test_a_process_that_ended_is_not_found_whatever_it_was_called() -> None:
    code = "import sys; open('/proc/self/comm', 'w').write(') R 1 (x'); print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        facts = look_up(child.pid)
        assert facts is not None
        assert facts.state in "RSD"
        assert facts.started > 0
    assert look_up(child.pid) is None


FOREIGN = other(host="m:elsewhere", boot_id="b9")


async def locked_by(store: MemoryStore, beat: int) -> None:
    store._leases["s1"] = LeaseRecord(3, FOREIGN, beat)


async def test_a_holder_from_elsewhere_is_watched_for_a_minute_and_then_taken_over(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_memory_store() as store:
        await locked_by(store, 5)
        begun = trio.current_time()
        async with store.lease("s1") as lease:
            assert lease.epoch == 4
            assert STILL_SECONDS <= trio.current_time() - begun < STILL_SECONDS + 2


async def test_a_heartbeat_seen_from_elsewhere_locks_the_session(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_memory_store() as store, trio.open_nursery() as nursery:

        async def beat() -> None:
            await locked_by(store, 5)
            await trio.sleep(9.5)
            await locked_by(store, 6)

        nursery.start_soon(beat)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(Failure) as caught:
            async with store.lease("s1"):
                pytest.fail("two holders")
        assert caught.value.error.code is ErrorCode.CHAIN_LOCKED
        assert trio.current_time() < 12


async def test_whoever_has_no_patience_does_not_watch(autojump_clock: trio.testing.MockClock) -> None:
    async with open_memory_store() as store:
        await locked_by(store, 5)
        begun = trio.current_time()
        with pytest.raises(Failure, match="is held by process 20"):
            async with store.lease("s1", patience=0):
                pytest.fail("two holders")
        assert trio.current_time() == begun

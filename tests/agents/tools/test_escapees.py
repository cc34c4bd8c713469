"""What a command leaves is found though it left its session, its environment and its parents; nobody else is."""

# ruff: noqa: ASYNC109, ASYNC220, ASYNC221 - what other processes do has no event, and a test may block for a file

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import trio

from agents.tools.brand import brand_of, branded_by, new_brand, put_brand
from agents.tools.family import PROC, snapshot
from agents.tools.processes import Ended, run_command
from agents.tools.strays import end_strays

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are branded on Linux only")

DOUBLE_FORK = """
import os
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve("/bin/sleep", ["sleep", "{0}"], {{}})
"""


async def bash(command: str, tmp_path: Path, *, timeout: float = 20) -> Ended:
    env = {"PATH": os.environ["PATH"], "ORCHESTRATOR_CALL_ID": f"call-{time.monotonic_ns()}"}
    return await run_command(["bash", "-c", command], cwd=tmp_path, env=env, timeout=timeout)


def sleeping(seconds: str) -> list[int]:
    """Living processes that sleep for so long."""
    found = []
    for member in snapshot().values():
        try:
            line = (PROC / str(member.pid) / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if line[:2] == [b"sleep", seconds.encode()] and not member.dead:
            found.append(member.pid)
    return found


@pytest.mark.parametrize(
    "command",
    [
        "setsid env -i sleep {0} >/dev/null 2>&1 & sleep .3; echo ok",
        "setsid env -i sleep {0} >/dev/null 2>&1 &",
        "(setsid env -i sleep {0} >/dev/null 2>&1 &)",
        "(exec -c setsid bash -c 'exec -c sleep {0}' >/dev/null 2>&1 &)",
        "python3 double_fork.py >/dev/null 2>&1",
    ],
)
async def test_a_command_without_session_environment_and_parent_is_killed_and_named(
    tmp_path: Path, command: str
) -> None:
    seconds = f"{60 + time.monotonic_ns() % 10**6 / 10**6:.6f}"
    (tmp_path / "double_fork.py").write_text(DOUBLE_FORK.format(seconds))
    ended = await bash(command.format(seconds), tmp_path)
    assert sleeping(seconds) == []
    assert ended.exit_code == 0
    # It may be killed before it has become the last of them.
    assert any(name.split()[1] in ("sleep", "setsid", "env", "bash", "python3") for name in ended.survivors)


async def test_an_escaped_command_ends_with_a_timeout_and_with_a_cancellation(tmp_path: Path) -> None:
    seconds = f"{61 + time.monotonic_ns() % 10**6 / 10**6:.6f}"
    command = f"setsid env -i sleep {seconds} >/dev/null 2>&1 & sleep 50"
    assert (await bash(command, tmp_path, timeout=0.3)).timed_out
    assert sleeping(seconds) == []
    with trio.move_on_after(0.3):
        await bash(command, tmp_path)
    assert sleeping(seconds) == []


async def test_children_of_the_program_around_live_on_whatever_their_session_and_environment(
    tmp_path: Path,
) -> None:
    """Also when they begin while a command runs, or come to us as orphans."""
    seconds = f"{62 + time.monotonic_ns() % 10**6 / 10**6:.6f}"

    async def command() -> None:
        await bash("sleep .6", tmp_path)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(command)
        await trio.sleep(0.2)
        own = subprocess.Popen(["sleep", seconds], env={}, start_new_session=True)
        subprocess.run([sys.executable, "-c", DOUBLE_FORK.format(seconds)], check=True)
        await trio.sleep(0.1)
    pids = sleeping(seconds)
    assert own.pid in pids
    assert len(pids) == 2
    for pid in pids:
        os.kill(pid, 9)
    own.wait()


async def test_another_running_calls_escapee_is_left_to_that_call(tmp_path: Path) -> None:
    seconds = f"{63 + time.monotonic_ns() % 10**6 / 10**6:.6f}"
    seen: list[Ended] = []

    async def other() -> None:
        seen.append(await bash(f"setsid env -i sleep {seconds} >/dev/null 2>&1 & sleep .8", tmp_path))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        await trio.sleep(0.3)
        assert (await bash("true", tmp_path)).survivors == ()
        assert len(sleeping(seconds)) == 1
    assert [name.split()[1] for name in seen[0].survivors] == ["sleep"]
    assert sleeping(seconds) == []


async def test_the_command_line_itself_is_as_it_was_given(tmp_path: Path) -> None:
    ended = await bash('echo "$0 $# $BASH_EXECUTION_STRING"; nosuch', tmp_path)
    assert ended.stdout.text == 'bash 0 echo "$0 $# $BASH_EXECUTION_STRING"; nosuch\n'
    assert ended.stderr.text.startswith("bash: line 1: nosuch")


def test_a_dead_sessions_escapee_is_found_without_its_environment() -> None:
    brand = new_brand("ses-x", "/nowhere/ses-x")
    process = subprocess.Popen(["sleep", "50"], env={}, start_new_session=True)
    put_brand(process.pid, brand)
    assert brand_of(process.pid) == brand
    assert end_strays("ses-y", Path("/nowhere/ses-x")) == ()
    assert process.poll() is None
    assert len(end_strays("ses-x", Path("/nowhere/ses-x"))) == 1
    assert process.wait(5) == -9


def test_a_brand_tells_its_session_and_no_other() -> None:
    brand = new_brand("ses-x", "/s")
    assert branded_by(brand, "ses-x", "/s")
    assert not branded_by(brand, "ses-x", "/t")
    assert not branded_by(None, "ses-x", "/s")
    assert 2**61 <= brand < 2**63
    assert brand_of(os.getpid()) is None

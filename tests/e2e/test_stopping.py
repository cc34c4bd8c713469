"""Stopping where nobody reads, where the terminal has gone, and before anything has begun."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.command import environment, objects, orc, script, started, until
from tests.harness import call, calls, say

LONG = "words " * 35_000
SLEEPER = [calls(call("Bash", command="echo $$ > pid; sleep 100"), text=LONG), say("Slept.")]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "repo").mkdir()
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def unread(
    home: Path, agents: dict[str, Any], *more: str, full: bool = False
) -> tuple[subprocess.Popen[str], int]:
    """A run whose standard output goes to a pipe that nobody reads, and the pipe's other end.

    `full`: standard error goes there too, and not one byte has room in it.
    """
    reading, writing = os.pipe()
    if full:
        os.set_blocking(writing, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writing, b"\n" * 4096)
        os.set_blocking(writing, True)
    options = ("-C", home.parent / "repo", "--model", script(home, agents), "--session-id", "unread", *more)
    running = started(
        "run",
        "Go",
        *options,
        "--allow",
        "Bash",
        env=environment(home),
        stdout=writing,
        stderr=writing if full else subprocess.PIPE,
    )
    os.close(writing)
    return running, reading


def stopped(running: subprocess.Popen[str]) -> float:
    """Seconds from one Ctrl-C to the end."""
    running.send_signal(signal.SIGINT)
    begun = time.monotonic()
    _, err = running.communicate(timeout=10)
    assert running.returncode == 130
    assert "Traceback" not in (err or "")
    return time.monotonic() - begun


def status(home: Path) -> list[str]:
    return [row["status"] for row in objects(orc("sessions", "--json", env=environment(home)).stdout)]


@pytest.mark.parametrize("output_format", ["text", "stream-json", "json"])
def test_one_ctrl_c_ends_a_finished_turn_whose_text_nobody_reads(home: Path, output_format: str) -> None:
    running, reading = unread(home, {"main": [say(LONG)]}, "--output-format", output_format)
    until(lambda: status(home) == ["completed"])
    with pytest.raises(subprocess.TimeoutExpired):
        running.wait(timeout=0.3)
    assert stopped(running) < 3
    os.close(reading)
    assert status(home) == ["completed"]


@pytest.mark.parametrize("output_format", ["text", "stream-json"])
def test_one_ctrl_c_ends_a_running_turn_whose_events_nobody_reads(home: Path, output_format: str) -> None:
    running, reading = unread(home, {"main": SLEEPER}, "--output-format", output_format)
    until(lambda: (home.parent / "repo/pid").exists())
    assert stopped(running) < 3
    os.close(reading)
    assert status(home) == ["stopped"]


def test_a_closed_terminal_that_says_so_many_times_still_lets_the_turn_settle(home: Path) -> None:
    running, reading = unread(home, {"main": SLEEPER})
    until(lambda: (home.parent / "repo/pid").exists())
    for _ in range(3):
        running.send_signal(signal.SIGHUP)
        time.sleep(0.005)
    running.communicate(timeout=10)
    os.close(reading)
    assert running.returncode == 130
    assert status(home) == ["stopped"]


def test_one_ctrl_c_ends_a_command_whose_first_line_nobody_reads(home: Path) -> None:
    running, reading = unread(home, {"main": SLEEPER}, full=True)
    until(lambda: len(status(home)) == 1)
    with pytest.raises(subprocess.TimeoutExpired):
        running.wait(timeout=0.3)
    assert stopped(running) < 3
    os.close(reading)
    assert not (home.parent / "repo/pid").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_command_is_imported_ends_it_without_a_traceback(
    home: Path, number: signal.Signals
) -> None:
    options = ("-C", home.parent / "repo", "--model", script(home, {"main": SLEEPER}), "--allow", "Bash")
    for moment in range(8):
        running = started("run", "Go", *options, env=environment(home))
        until(lambda running=running: are_caught(running.pid))
        time.sleep(moment * 0.05)
        running.send_signal(number)
        _, err = running.communicate(timeout=10)
        assert (running.returncode, "Traceback" in err) == (130, False), (moment, err)


def are_caught(pid: int) -> bool:
    """Whether the process has its handlers: that of SIGTERM is the last one."""
    words = Path(f"/proc/{pid}/status").read_text().split()
    return bool(int(words[words.index("SigCgt:") + 1], 16) >> (signal.SIGTERM - 1) & 1)

"""What a dead process's tools left running is ended; nobody else is."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.tools.strays import end_strays

ROOT = Path(__file__).parents[3]
SCRATCH = Path("/nowhere/scratch/ses-strays")


def started(*argv: str, session: str = "ses-strays", scratch: Path = SCRATCH) -> subprocess.Popen[bytes]:
    """A process as a tool of that session starts one."""
    marks = {"ORCHESTRATOR_SESSION_ID": session, "ORCHESTRATOR_SCRATCH_DIR": str(scratch)}
    process = subprocess.Popen(
        argv, env={**os.environ, **marks}, stdout=subprocess.PIPE, start_new_session=True, cwd=ROOT
    )
    time.sleep(0.1)  # until it is what it was started as
    return process


@pytest.fixture
def others() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes to be ended with the test."""
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def test_marked_processes_end_with_all_that_came_from_them() -> None:
    script = "env -i sleep 50 & setsid sleep 50 & echo $!; sleep 50"
    shell = started("bash", "-c", script)
    assert shell.stdout is not None
    escaped = int(shell.stdout.readline())
    ended = end_strays("ses-strays", SCRATCH)
    assert shell.wait(5) == -9
    shell.stdout.close()
    assert len(ended) == 3  # the shell has become its last command
    assert not Path(f"/proc/{escaped}").exists() or "Z" in Path(f"/proc/{escaped}/stat").read_text()


def test_what_another_session_or_another_store_has_started_lives_on(
    others: list[subprocess.Popen[bytes]],
) -> None:
    others.append(started("sleep", "50", session="ses-other"))
    others.append(started("sleep", "50", scratch=Path("/elsewhere/scratch/ses-strays")))
    assert end_strays("ses-strays", SCRATCH) == ()
    assert [process.poll() for process in others] == [None, None]


def test_a_process_that_descends_from_a_tool_does_not_end_itself_or_its_line() -> None:
    program = (
        "from pathlib import Path; from agents.tools.strays import end_strays\n"
        f"print(end_strays('ses-strays', Path({str(SCRATCH)!r})))"
    )
    shell = started("bash", "-c", f'"{sys.executable}" -c "$0"; echo still here', program)
    out, _ = shell.communicate(timeout=20)
    assert out.decode().splitlines() == ["()", "still here"]

"""Whoever starts next on a store brings to rest what a killed process left open there."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.store.base import Store
from orchestrator.store.memory import open_memory_store
from orchestrator.store.sqlite import open_sqlite_store
from telemetry.check import check_trace
from tests.command import environment, objects, orc, script, started, until
from tests.orchestrator.store.stories import story

SLEEPING = {
    "main": [{"calls": [{"tool": "Bash", "arguments": {"command": "echo $$ > pid; sleep 100"}}]}],
}
QUICK = {"main": [{"text": "Done."}]}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for folder in ("home", "one", "two"):
        (tmp_path / folder).mkdir()
    return tmp_path


@pytest.fixture
def killed(home: Path) -> Iterator[int]:
    """A run that was killed in the middle of a command; the command's process id."""
    model = script(home, SLEEPING, "sleeping.json")
    run = started(
        *("run", "--model", model, "--permission-mode", "auto", "-C", home / "one"),
        *("--session-id", "ses-killed", "Go"),
        env=environment(home / "home"),
    )
    pid = home / "one/pid"
    until(lambda: pid.exists() and pid.read_text().strip().isdigit())
    os.kill(run.pid, signal.SIGKILL)
    run.communicate()
    command = int(pid.read_text())
    yield command
    with contextlib.suppress(ProcessLookupError):
        os.kill(command, signal.SIGKILL)


def alive(pid: int) -> bool:
    """Whether the process runs. One that nobody has reaped yet (this process may adopt it) has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def start_another(home: Path) -> None:
    model = script(home, QUICK, "quick.json")
    done = orc("run", "--model", model, "-C", home / "two", "Go", env=environment(home / "home"))
    assert done.returncode == 0, done.stderr


def test_a_killed_session_is_listed_as_interrupted_and_its_stop_names_the_resume(
    home: Path, killed: int
) -> None:
    assert alive(killed)
    env = environment(home / "home")
    (row,) = objects(orc("sessions", "--json", env=env).stdout)
    assert row["status"] == "interrupted"
    late = orc("stop", "ses-killed", env=env)
    assert late.returncode == 4
    assert "`orchestrator resume ses-killed`" in late.stderr


async def test_the_next_start_settles_a_killed_session_and_ends_its_processes(
    home: Path, killed: int
) -> None:
    assert alive(killed)
    start_another(home)
    until(lambda: not alive(killed))
    async with open_sqlite_store(home / "home/data/store.sqlite3") as store:
        (turn,) = await store.turns("ses-killed")
        assert (turn.status, turn.error_code) == ("interrupted", "INTERRUPTED")
        assert await store.unsettled() == ()
        assert check_trace(await store.spans("ses-killed")) == ()
        assert all(call.ok is False for call in await store.calls("ses-killed"))


async def test_a_session_that_somebody_works_on_is_left_alone(home: Path) -> None:
    model = script(home, SLEEPING, "sleeping.json")
    run = started(
        *("run", "--model", model, "--permission-mode", "auto", "-C", home / "one"),
        *("--session-id", "ses-busy", "Go"),
        env=environment(home / "home"),
    )
    try:
        until(lambda: (home / "one/pid").exists())
        start_another(home)
        async with open_sqlite_store(home / "home/data/store.sqlite3") as store:
            assert await store.unsettled() == ("ses-busy",)
        assert run.poll() is None
    finally:
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=10)


@contextlib.asynccontextmanager
async def either(kind: str, folder: Path):  # type: ignore[no-untyped-def]
    if kind == "memory":
        async with open_memory_store() as store:
            yield store
    else:
        async with open_sqlite_store(folder / "s.sqlite3") as store:
            yield store


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_what_says_running_is_unsettled_and_what_has_ended_is_not(kind: str, tmp_path: Path) -> None:
    async with either(kind, tmp_path) as store:
        kept: Store = store
        whole = story("s1")
        await kept.append(whole[:2])
        assert await kept.unsettled() == ("s1",)
        await kept.append(whole[2:])
        assert await kept.unsettled() == ()

"""The process shell: one command in a session of its own, bounded in time and output, nothing left behind."""

from __future__ import annotations

import codecs
import contextlib
import errno
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import attrs
import trio

from agents.errors import ErrorCode, Failure, failure
from agents.tools.brand import branding, new_brand, put_brand
from agents.tools.capture import CHUNK_BYTES, STDERR_LIMITS, STDOUT_LIMITS, Capture, Captured, Limits
from agents.tools.environment import child_environment
from agents.tools.family import Member, family, send, snapshot
from agents.tools.linux import make_unreadable as make_unreadable
from agents.tools.process_table import PROCESSES, ProcessTable

GRACE_SECONDS = 0.5
"""Between SIGTERM and SIGKILL."""
DRAIN_SECONDS = 0.5
"""How long output is still taken after the shell has ended."""
CLEANUP_SECONDS = 5.0
"""Bound of everything that happens after the command's end, its limit or its cancellation."""
SWEEP_ROUNDS = 20
LOGIN_SECONDS = 2.0
MARKS = ("ORCHESTRATOR_SESSION_ID", "ORCHESTRATOR_RUN_ID", "ORCHESTRATOR_CALL_ID")
SCRATCH = "ORCHESTRATOR_SCRATCH_DIR"

OnOutput = Callable[[str, str], None]
"""`on_output(stream, text)`, with `stdout` or `stderr`; called in the event loop, must not block or raise."""


@attrs.frozen
class Ended:
    """How a command ended."""

    exit_code: int | None
    """None where a signal ended it."""
    signal: str | None
    """Name of that signal."""
    timed_out: bool
    stdout: Captured
    stderr: Captured
    survivors: tuple[str, ...]
    """`pid name` of what still ran after the shell's end, and was killed."""
    duration_ms: int


async def run_command(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout: float,  # noqa: ASYNC109 - the limit is a result here, not an exception
    scratch: Path | None = None,
    label: str = "command",
    stdout: Limits = STDOUT_LIMITS,
    stderr: Limits = STDERR_LIMITS,
    on_output: OnOutput | None = None,
    table: ProcessTable = PROCESSES,
) -> Ended:
    """Run `argv` without input and without a terminal, at most `timeout` seconds long.

    Returns when the command has ended plus at most `DRAIN_SECONDS`; what it left running is killed by then,
    also where it escaped into a session of its own (found by the variables `MARKS` of `env`, and by a brand
    that outlasts an emptied environment). A cancelled
    call kills the same processes first. `scratch` (must exist) takes the spill files, named after `label`.

    Raises `Failure`: SHELL_NOT_FOUND (no such program), NOT_FOUND (no such folder), INVALID_ARGUMENT (too
    long for the system), PROCESS_RESOURCE_EXHAUSTED, TOOL_FAILED (any other refusal to start).
    """
    began = time.monotonic()
    run = await _start(argv, cwd, env, table)
    out = Capture(stdout, _spill_path(scratch, label, "stdout"))
    err = Capture(stderr, _spill_path(scratch, label, "stderr"))
    timed_out = False
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_pump, run.process.stdout, out, "stdout", on_output)
            nursery.start_soon(_pump, run.process.stderr, err, "stderr", on_output)
            with trio.move_on_after(timeout):
                await run.process.wait()
            if run.process.returncode is None:
                timed_out = True
                await run.stop()
            nursery.cancel_scope.deadline = trio.current_time() + DRAIN_SECONDS
    finally:
        await run.clean_up()
        out.close()
        err.close()
    code = run.process.returncode
    return Ended(
        exit_code=code if code is not None and code >= 0 else None,
        signal=_signal_name(-code) if code is not None and code < 0 else None,
        timed_out=timed_out,
        stdout=out.result("stdout"),
        stderr=err.result("stderr"),
        survivors=tuple(str(member) for member in run.survivors),
        duration_ms=round((time.monotonic() - began) * 1000),
    )


def kill_all_groups() -> None:
    """SIGKILL to the group of every command that runs now, in all sessions. For the emergency exit."""
    PROCESSES.kill_all()


async def login_path_entries(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The PATH of the person's login shell (`$SHELL`), asked once with a bound of 2 s; empty on any failure.

    Not cached: ask once per process and keep the answer.
    """
    shell = environment.get("SHELL", "")
    if not os.path.isabs(shell) or not os.access(shell, os.X_OK):
        return ()
    marks = {MARKS[2]: f"login-{os.getpid()}-{time.monotonic_ns()}"}
    env = child_environment(environment, markers=marks, scratch="", traceparent=None)
    try:
        ended = await run_command([shell, "-l", "-c", "env"], cwd=Path("/"), env=env, timeout=LOGIN_SECONDS)
    except Failure:
        return ()
    lines = re.findall(r"^PATH=(.*)$", ended.stdout.text, re.MULTILINE)
    if ended.timed_out or not lines:
        return ()
    return tuple(dict.fromkeys(entry for entry in lines[-1].split(":") if os.path.isabs(entry)))


def find_bash(environment: Mapping[str, str]) -> str:
    """The bash of this PATH, or the system's. Raises `Failure` SHELL_NOT_FOUND."""
    found = shutil.which("bash", path=environment.get("PATH", "")) or shutil.which(
        "bash", path="/bin:/usr/bin"
    )
    if found is None:
        raise _no_shell("bash")
    return found


@attrs.define
class _Run:
    """One started command."""

    process: trio.Process
    marks: Mapping[str, str]
    table: ProcessTable
    brand: int
    known: list[Member] = attrs.field(factory=list)
    """Members found while the tree was still whole."""
    survivors: list[Member] = attrs.field(factory=list)

    async def stop(self) -> None:
        """End a command that still runs: SIGTERM to all of it, a grace, SIGKILL to the group."""
        self.known = await trio.to_thread.run_sync(self._family)
        self._group(signal.SIGTERM)
        for member in self.known:
            if member.group != self.process.pid and not member.dead:
                send(member, signal.SIGTERM)
        with trio.move_on_after(GRACE_SECONDS):
            await self.process.wait()
        if self.process.returncode is None:
            self._group(signal.SIGKILL)
            await self.process.wait()

    async def clean_up(self) -> None:
        """Leave nothing: no process, no descriptor, no entry in the table. Shielded, with a deadline."""
        try:
            with trio.move_on_after(CLEANUP_SECONDS, shield=True):
                if self.process.returncode is None:
                    await self.stop()
                await trio.to_thread.run_sync(self._sweep)
        finally:
            if self.process.returncode is None:
                self._group(signal.SIGKILL)
            for stream in (self.process.stdout, self.process.stderr):
                if isinstance(stream, trio.lowlevel.FdStream):
                    stream.close()
            self.table.remove(self.process.pid)

    def _group(self, number: signal.Signals) -> None:
        """Signal the group while its leader is not reaped: until then nobody else can have its id."""
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)

    def _family(self, everyone: dict[int, Member] | None = None) -> list[Member]:
        return family(self.process.pid, self.marks, self.known, brand=self.brand, everyone=everyone)

    def _sweep(self) -> None:
        """Kill the rest of the family until none lives; reap what thereby became ours."""
        killed: dict[int, Member] = {}
        everyone: dict[int, Member] = {}
        seen: set[int] = set()
        for _ in range(SWEEP_ROUNDS):
            everyone = snapshot()
            members = self._family(everyone)
            killed.update((m.pid, m) for m in members)
            living = [m for m in members if not m.dead]
            # one that has died since the last look may have started another behind the reader's back
            if not living and seen.issuperset(m.pid for m in members):
                break
            seen.update(m.pid for m in members)
            for member in living:
                send(member, signal.SIGKILL)
                if member.pid not in {m.pid for m in self.survivors}:
                    self.survivors.append(member)
            time.sleep(0.005)
        if not everyone:  # no /proc: the group is all that is known
            with contextlib.suppress(OSError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.table.reap(everyone, frozenset(killed))


async def _start(argv: Sequence[str], cwd: Path, env: Mapping[str, str], table: ProcessTable) -> _Run:
    """Spawn and register, not to be interrupted between the two."""
    table.adopt_orphans()
    await trio.lowlevel.checkpoint()
    brand = new_brand(env.get(MARKS[0], ""), env.get(SCRATCH, ""))
    try:
        with trio.CancelScope(shield=True):
            process = await trio.lowlevel.open_process(
                branding(argv, brand),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=cwd,
                env=dict(env),
                start_new_session=True,
            )
            put_brand(process.pid, brand)
            table.add(process.pid)
    except (OSError, ValueError) as error:
        raise _not_started(error, argv[0], cwd) from error
    return _Run(process, {name: env[name] for name in MARKS if name in env}, table, brand)


async def _pump(
    stream: trio.abc.ReceiveStream | None, capture: Capture, name: str, on_output: OnOutput | None
) -> None:
    """Take everything the stream gives, so that the command never waits for us."""
    assert stream is not None
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        while chunk := await stream.receive_some(CHUNK_BYTES):
            data = bytes(chunk)
            if capture.fits(data):
                capture.add(data)
            else:
                await trio.to_thread.run_sync(capture.add, data)
            if on_output is not None and (text := decoder.decode(data)):
                on_output(name, text)


def _spill_path(scratch: Path | None, label: str, stream: str) -> Path | None:
    if scratch is None:
        return None
    name = re.sub(r"[^A-Za-z0-9_-]", "_", label)[:80]
    return scratch / f"{name}-{os.urandom(3).hex()}-{stream}.txt"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _not_started(error: OSError | ValueError, program: str, cwd: Path) -> Failure:
    number = getattr(error, "errno", None)
    if number in (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE):
        return failure(
            ErrorCode.PROCESS_RESOURCE_EXHAUSTED,
            f"The system has no room for another process ({os.strerror(number)}). Wait until others have "
            "ended, then try again.",
            retriable=True,
        )
    if number == errno.E2BIG:
        return failure(
            ErrorCode.INVALID_ARGUMENT,
            "The command is too long for the system (about 128 KiB). Write it to a file in "
            "$ORCHESTRATOR_SCRATCH_DIR and run that file.",
        )
    if isinstance(error, ValueError):
        return failure(
            ErrorCode.INVALID_ARGUMENT, f"The command cannot be run: {error}. Remove that character."
        )
    if error.filename is not None and os.fspath(error.filename) == os.fspath(cwd):
        return failure(
            ErrorCode.NOT_FOUND, f"The folder to run in cannot be entered: {cwd}. Restore it, then try again."
        )
    if number in (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ENOEXEC):
        return _no_shell(program)
    return failure(
        ErrorCode.TOOL_FAILED,
        f"The command did not start: {error.strerror or type(error).__name__}. Try again.",
        retriable=True,
    )


def _no_shell(program: str) -> Failure:
    return failure(
        ErrorCode.SHELL_NOT_FOUND,
        f"The shell cannot be run: {program}. Install it or put it on PATH, then start again; until then use "
        "the file tools.",
    )

"""Bash: one command line in the workspace, without input, bounded in time and output."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Annotated

import attrs
import msgspec
import trio

from agents.errors import ErrorCode, ToolError, failure
from agents.permit import Permit
from agents.results import BashResult
from agents.rules.paths import ResolvedPath
from agents.rules.preview import masked
from agents.rules.shell import parse_line, patch_command
from agents.tools.base import CallGroup, Preview, Risk, Target, ToolContext, ToolOutput
from agents.tools.processes import Ended, find_bash, run_command
from telemetry import attributes as names

DEFAULT_SECONDS = 60
MAX_SECONDS = 300
PROGRESS_SECONDS = 0.1
PROGRESS_CHARS = 8 * 1024


class BashInput(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    command: Annotated[str, msgspec.Meta(min_length=1, description="The command line, in bash.")]
    timeout_seconds: Annotated[
        float, msgspec.Meta(ge=1, le=MAX_SECONDS, description="When to stop the command.")
    ] = DEFAULT_SECONDS
    description: Annotated[
        str | None, msgspec.Meta(description="What the command does, in a few words, for the person.")
    ] = None


class BashTool:
    name = "Bash"
    description = (
        "Run a command line with bash in the workspace. There is no input and no terminal: a command that "
        f"asks gets end of input. It is stopped after `timeoutSeconds` ({DEFAULT_SECONDS} unless given, 1 to "
        f"{MAX_SECONDS}). What it leaves running in the background is killed when the shell ends, and named "
        "in `survivors`. Of stdout the first 32 KiB and the last 64 KiB are returned, of stderr the last "
        "96 KiB, each at most 4000 lines; the whole output (up to 64 MiB) is then in the file that `spill` "
        "names. A non-zero exit code is returned as TOOL_FAILED with the whole result. Each call starts a "
        "new shell in the workspace: `cd` and variables do not last. Files for the way go into "
        "$ORCHESTRATOR_SCRATCH_DIR."
    )
    risk: Risk = "high"
    group = CallGroup.ALONE
    input = BashInput
    timeout_seconds: float | None = None
    """It bounds itself: the limit is part of the call, and waiting for a lock is not counted."""

    def targets(self, arguments: BashInput) -> tuple[Target, ...]:
        """None: the gate judges the places of a line by its words."""
        return ()

    async def check(
        self, arguments: BashInput, paths: tuple[ResolvedPath, ...], context: ToolContext
    ) -> Preview | None:
        _runnable(arguments.command)
        return None

    async def run(self, arguments: BashInput, permit: Permit, context: ToolContext) -> ToolOutput:
        """Raises `Failure`: INVALID_ARGUMENT, SHELL_NOT_FOUND, NOT_FOUND, PROCESS_RESOURCE_EXHAUSTED,
        TOOL_FAILED (it could not be started).
        """
        command = _runnable(arguments.command)
        shell = find_bash(context.environment)
        scratch = await trio.to_thread.run_sync(context.workspace.ensure_scratch)
        progress = _Progress(context.progress)
        async with _alone(command, context), context.journal.shell(masked(command), call_id=context.call_id):
            ended = await run_command(
                [shell, "-c", command],
                cwd=context.workspace.root,
                env=context.environment,
                timeout=arguments.timeout_seconds,
                scratch=scratch,
                label=f"bash-{context.call_id}",
                on_output=progress.add,
            )
        result = _result(ended)
        return ToolOutput(
            result=result,
            error=_error(ended, arguments.timeout_seconds),
            attributes={names.EXIT_CODE: result.exit_code, names.TRUNCATED: result.truncated},
        )


@asynccontextmanager
async def _alone(command: str, context: ToolContext) -> AsyncIterator[None]:
    """A patch shuts out every other mutation; of other commands nobody knows what they write."""
    async with contextlib.AsyncExitStack() as held:
        if patch_command(parse_line(command)):
            await held.enter_async_context(context.locks.exclusive(context.waiting))
        yield


def _runnable(command: str) -> str:
    if not command.strip():
        raise failure(ErrorCode.INVALID_ARGUMENT, "`command` is empty. Give the command line to run.")
    if "\0" in command:
        raise failure(ErrorCode.INVALID_ARGUMENT, "`command` contains a NUL character. Send it without.")
    try:
        command.encode("utf-8")
    except UnicodeEncodeError:
        raise failure(
            ErrorCode.INVALID_ARGUMENT,
            "`command` contains half of a surrogate pair. Write the whole character.",
        ) from None
    return command


def _result(ended: Ended) -> BashResult:
    spill = {
        name: str(stream.spill)
        for name, stream in (("stdout", ended.stdout), ("stderr", ended.stderr))
        if stream.spill is not None
    }
    return BashResult(
        exit_code=ended.exit_code,
        stdout=ended.stdout.text,
        stderr=ended.stderr.text,
        timed_out=ended.timed_out,
        truncated=ended.stdout.truncated or ended.stderr.truncated,
        duration_ms=ended.duration_ms,
        signal=ended.signal,
        spill=spill or None,
        survivors=ended.survivors,
    )


def _error(ended: Ended, seconds: float) -> ToolError | None:
    if ended.timed_out:
        return ToolError(
            code=ErrorCode.TOOL_TIMEOUT,
            message=f"The command was stopped after {seconds:g} s; what it printed until then is kept. Give "
            f"a longer `timeoutSeconds` (at most {MAX_SECONDS}), or do less in one command.",
            details={"timeoutSeconds": seconds},
            retriable=True,
        )
    if ended.exit_code == 0:
        return None
    if ended.signal is not None:
        return ToolError(
            code=ErrorCode.TOOL_FAILED,
            message=f"The command was ended by {ended.signal}. {_advice(None)}",
            details={"signal": ended.signal},
        )
    return ToolError(
        code=ErrorCode.TOOL_FAILED,
        message=f"The command ended with exit code {ended.exit_code}. {_advice(ended.exit_code)}",
        details={"exitCode": ended.exit_code},
    )


def _advice(exit_code: int | None) -> str:
    if exit_code == 127:
        return "A program was not found; check its name, or whether it is installed."
    if exit_code == 126:
        return "A file could not be executed; check its permissions."
    return "Read its output for the reason before trying again."


@attrs.define
class _Progress:
    """Passes output on at most ten times a second per stream; of what piles up meanwhile, the end."""

    _show: Callable[[str, str], None]
    _pending: dict[str, str] = attrs.field(factory=dict)
    _last: dict[str, float] = attrs.field(factory=dict)

    def add(self, stream: str, text: str) -> None:
        self._pending[stream] = (self._pending.get(stream, "") + text)[-PROGRESS_CHARS:]
        now = time.monotonic()
        if now - self._last.get(stream, 0.0) >= PROGRESS_SECONDS:
            self._last[stream] = now
            self._show(stream, self._pending.pop(stream))

"""The terminal surface: draws one permission request and reads one answer."""

from __future__ import annotations

import contextlib
import os
import sys
import termios
from collections.abc import Iterator

import attrs
import trio
from rich.console import Console
from rich.text import Text

from agents.requests import Answer, Decision, PermissionRequest
from agents.rules.preview import visible

SOURCE = "terminal"
MAX_LINE_BYTES = 64 * 1024
"""A longer line is no answer."""
MAX_DIFF_LINES = 400
MAX_QUEUE_LINES = 5

_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}


@attrs.frozen
class Unclear:
    """What was typed is not an answer."""

    why: str


@attrs.define(eq=False)
class TerminalSurface:
    """Asks on a terminal. Reads only when there is something to read: cancelling leaves no reader behind."""

    console: Console
    """Where requests are drawn; on the terminal that is read."""
    descriptor: int
    """What answers are read from: a terminal, or any other stream of lines."""

    async def show(self, request: PermissionRequest, queue: tuple[PermissionRequest, ...]) -> Answer:
        """Draw `request` and read until a line is an answer; the end of the input is `no-approver`."""
        draw(self.console, request, queue)
        # What was typed before the question was on screen does not answer it.
        _drop_typed(self.descriptor)
        lines = _Lines(self.descriptor)
        try:
            while True:
                self.console.print(Text(_choices(request), style="bold"), end=" ")
                line = await lines.next()
                if line is None:
                    self.console.print(Text("no answer: the input has ended"))
                    return Answer(decision=Decision.NO_APPROVER, source=SOURCE)
                answer = read_answer(line, request)
                if isinstance(answer, Answer):
                    return answer
                self.console.print(Text(answer.why, style="yellow"))
        except trio.Cancelled:
            self.console.print(Text(f"\n{request.id}: no longer asked", style="dim"))
            raise


@contextlib.contextmanager
def open_terminal(console: Console | None = None) -> Iterator[TerminalSurface | None]:
    """The controlling terminal as a surface for the block; None where there is none.

    Standard input is used when it is a terminal; when it is not (a prompt was piped in), the controlling
    terminal is opened by its name.
    """
    shown = console or Console(stderr=True)
    if sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty():
        yield TerminalSurface(shown, sys.stdin.fileno())
        return
    try:
        descriptor = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    try:
        yield TerminalSurface(shown, descriptor)
    finally:
        os.close(descriptor)


def read_answer(line: str, request: PermissionRequest) -> Answer | Unclear:
    """What one typed line means. Only a lone letter or word allows; what follows a no is for the model."""
    word, _, rest = line.strip().partition(" ")
    rest = rest.strip()
    match word.lower():
        case "n" | "no":
            return Answer(decision=Decision.DENY, source=SOURCE, feedback=rest or None)
        case "":
            return Unclear("Please type one of the letters.")
        case _ if rest:
            return Unclear("Only a no may be followed by words; to allow, type the letter alone.")
        case "y" | "yes":
            return Answer(decision=Decision.ALLOW_ONCE, source=SOURCE)
        case "s" | "session" if request.grant:
            return Answer(decision=Decision.ALLOW_SESSION, source=SOURCE)
        case "s" | "session":
            return Unclear("This can be allowed once only.")
        case "c" | "commands" if request.grant_commands:
            return Answer(decision=Decision.ALLOW_SESSION, source=SOURCE, scope="commands")
        case _:
            return Unclear("That is not one of the answers.")


def _choices(request: PermissionRequest) -> str:
    choices = ["y allow once"]
    if request.grant:
        choices.append("s allow for this session")
    if request.grant_commands:
        choices.append("c allow just these commands for this session")
    return f"[{' · '.join([*choices, 'n deny (n because …)'])}]"


def draw(console: Console, request: PermissionRequest, queue: tuple[PermissionRequest, ...]) -> None:
    """Print one request: who, what, why, where, the change itself, and what an answer would cover.

    Every text goes out as plain text without control characters: nothing in it can act on the terminal.
    """

    def fact(name: str, value: str | None) -> None:
        if value:
            console.print(Text.assemble((f"  {name}: ", "dim"), visible(value)), soft_wrap=True)

    head = f"Permission needed · {request.tool} · {request.risk} risk"
    console.print(Text(visible(head), style="bold yellow"), soft_wrap=True)
    fact("agent", " → ".join(request.agent_chain) or request.agent_label)
    fact("why", request.reason)
    fact("outside path", request.external_path)
    if request.resolved_path != request.external_path:
        fact("path", request.resolved_path)
    _draw_change(console, request)
    fact("for the session it would cover", request.grant)
    fact("just these commands", " ; ".join(request.grant_commands))
    _draw_queue(console, queue)


def _draw_change(console: Console, request: PermissionRequest) -> None:
    if request.diff is None:
        command = (request.arguments or {}).get("command")
        for line in visible(command if isinstance(command, str) else request.preview).split("\n"):
            console.print(Text(f"  │ {line}"), soft_wrap=True)
        return
    lines = visible(request.diff).splitlines()
    for line in lines[:MAX_DIFF_LINES]:
        console.print(Text(f"  │ {line}", style=_DIFF_STYLES.get(line[:1], "")), soft_wrap=True)
    if len(lines) > MAX_DIFF_LINES:
        console.print(Text(f"  │ ⟨{len(lines) - MAX_DIFF_LINES} more lines hidden⟩", style="bold"))


def _draw_queue(console: Console, queue: tuple[PermissionRequest, ...]) -> None:
    if not queue:
        return
    console.print(Text(f"  {len(queue)} more waiting:", style="dim"))
    for waiting in queue[:MAX_QUEUE_LINES]:
        text = f"    {waiting.agent_label} · {waiting.tool} · {waiting.reason}"
        console.print(Text(visible(text), style="dim"), soft_wrap=True)


@attrs.define(eq=False)
class _Lines:
    """Lines from a descriptor, without a thread that would outlive the question."""

    descriptor: int
    _buffer: bytes = b""

    async def next(self) -> str | None:
        """The next line without its end; None at the end of the input, or when the terminal is gone."""
        while b"\n" not in self._buffer:
            await self._readable()
            try:
                data = os.read(self.descriptor, 4096)
            except OSError:  # EIO: the terminal was closed
                return None
            if not data:
                return None
            self._buffer += data
            if len(self._buffer) > MAX_LINE_BYTES:
                self._buffer = b"\n"
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode("utf-8", "replace")

    async def _readable(self) -> None:
        try:
            await trio.lowlevel.wait_readable(self.descriptor)
        except OSError:  # a plain file cannot be waited for, and never blocks
            await trio.lowlevel.checkpoint()


def _drop_typed(descriptor: int) -> None:
    with contextlib.suppress(termios.error, OSError):
        termios.tcflush(descriptor, termios.TCIFLUSH)

"""The terminal surface: draws one permission request and reads one answer."""

from __future__ import annotations

import contextlib
import os
import sys
import termios
from collections.abc import Iterator

import attrs
import msgspec
import trio
from rich.console import Console
from rich.text import Text

from agents.requests import Answer, Decision, PermissionRequest
from agents.rules.preview import visible
from orchestrator.cli.wrapping import HANG, NARROWEST, wrapped

SOURCE = "terminal"
MAX_LINE_BYTES = 64 * 1024
"""A longer line is no answer."""
MAX_DIFF_LINES = 400
MAX_QUEUE_LINES = 5

BAR = "  │ "
ID_SHOWN = 8
"""Of a request's id: enough to answer it by from elsewhere."""
WHY_SECONDS = 30.0
"""How long the reason of a no is waited for; the no stands without one."""
_DEEDS = {
    "Bash": "run",
    "Write": "write a file",
    "Edit": "change a file",
    "Read": "read a file",
    "Glob": "list files",
    "Grep": "search files",
}
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
    ended: bool = False
    """The input has ended, or the terminal is gone: nobody is there for any later request either."""

    async def show(self, request: PermissionRequest, queue: tuple[PermissionRequest, ...]) -> Answer:
        """Draw `request` and read until a line is an answer; from the end of the input on, `no-approver`."""
        if self.ended:
            await trio.lowlevel.checkpoint()
            return Answer(decision=Decision.NO_APPROVER, source=SOURCE)
        try:
            return await self._answered(request, queue)
        except OSError:  # EIO: the terminal was closed
            self.ended = True
            return Answer(decision=Decision.NO_APPROVER, source=SOURCE)

    async def _answered(self, request: PermissionRequest, queue: tuple[PermissionRequest, ...]) -> Answer:
        draw(self.console, request, queue)
        # What was typed before the question was on screen does not answer it.
        _drop_typed(self.descriptor)
        lines = _Lines(self.descriptor)
        try:
            while True:
                self._ask(_choices(request))
                line = await lines.next()
                if line is None:
                    self.ended = True
                    self.console.print(Text("no answer: the input has ended"))
                    return Answer(decision=Decision.NO_APPROVER, source=SOURCE)
                answer = read_answer(line, request)
                if isinstance(answer, Answer):
                    return await self._with_reason(answer, lines)
                self.console.print(Text(answer.why, style="yellow"))
        except trio.Cancelled:
            with contextlib.suppress(OSError):
                self.console.print(Text(f"\n{request.id}: no longer asked", style="dim"))
            raise

    async def _with_reason(self, answer: Answer, lines: _Lines) -> Answer:
        """A bare no may be followed by a line for the agent; an empty one, or none in time, adds nothing."""
        if answer.decision is not Decision.DENY or answer.feedback is not None:
            return answer
        self._ask("Tell the agent why (Enter: nothing):")
        line: str | None = ""
        with trio.move_on_after(WHY_SECONDS):
            line = await lines.next()
            self.ended = line is None
        return msgspec.structs.replace(answer, feedback=(line or "").strip() or None)

    def _ask(self, text: str) -> None:
        *above, last = wrapped(f"  {text}", self.console.width - 2)
        for line in above:
            self.console.print(Text(line, style="bold"), soft_wrap=True)
        self.console.print(Text(last, style="bold"), end=" ", soft_wrap=True)


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
    choices = ["y once"]
    if request.grant_commands:
        choices.append("c these commands, this session")
    if request.grant:
        choices.append(f"s {_short_grant(request.grant)}, this session")
    return " · ".join([*choices, "n deny, or: n <what to do instead>"])


def _short_grant(grant: str) -> str:
    """What a grant covers, without how far it reaches: that is said above."""
    return visible(grant.partition(", for this session")[0])


def draw(console: Console, request: PermissionRequest, queue: tuple[PermissionRequest, ...]) -> None:
    """Print one request: who wants to do what, the change itself, why it asks, and what an answer would cover.

    Every text goes out as plain text without control characters: nothing in it can act on the terminal.
    """

    def line(text: str, style: str = "") -> None:
        for part in wrapped(visible(text), console.width):
            console.print(Text(part, style=style), soft_wrap=True)

    who = " → ".join(request.agent_chain) or request.agent_label
    line(f"{who} wants to {_deed(request)} ({request.risk} risk · {request.id[:ID_SHOWN]}):", "bold yellow")
    _draw_change(console, request)
    line(f"  why: {request.reason}")
    if request.external_path:
        line(f"  outside path: {request.external_path}")
    if request.resolved_path and request.resolved_path != request.external_path:
        line(f"  path: {request.resolved_path}", "dim")
    if request.grant:
        line(f"  s covers {request.grant}", "dim")
    if request.grant_commands and request.grant_commands != (request.preview,):
        line(f"  c covers {' ; '.join(request.grant_commands)}", "dim")
    _draw_queue(console, queue)


def _deed(request: PermissionRequest) -> str:
    return _DEEDS.get(request.tool, f"call {request.tool}")


def _draw_change(console: Console, request: PermissionRequest) -> None:
    def line(text: str, style: str = "") -> None:
        width = max(NARROWEST, console.width - len(BAR))
        for part in wrapped(text, width, hang=HANG):
            console.print(Text(f"{BAR}{part}", style=style), soft_wrap=True)

    if request.diff is None:
        command = (request.arguments or {}).get("command")
        for text in visible(command if isinstance(command, str) else request.preview).split("\n"):
            line(text)
        return
    lines = visible(request.diff).splitlines()
    for text in lines[:MAX_DIFF_LINES]:
        line(text, _DIFF_STYLES.get(text[:1], ""))
    if len(lines) > MAX_DIFF_LINES:
        line(f"⟨{len(lines) - MAX_DIFF_LINES} more lines hidden⟩", "bold")


def _draw_queue(console: Console, queue: tuple[PermissionRequest, ...]) -> None:
    if not queue:
        return
    console.print(Text(f"  {len(queue)} more waiting:", style="dim"))
    for waiting in queue[:MAX_QUEUE_LINES]:
        text = f"    {waiting.agent_label} · {waiting.tool} · {waiting.reason}"
        for part in wrapped(visible(text), console.width):
            console.print(Text(part, style="dim"), soft_wrap=True)


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

"""What `run` and `resume` print: text for people, `json` at the end, `stream-json` as it happens."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol

import attrs
import trio
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from agents.events import Event, timestamp, to_wire
from agents.requests import Answer, PermissionRequest
from agents.rules.preview import visible
from orchestrator.approvals import Surface
from orchestrator.cli.card import GO_ON, Row
from orchestrator.cli.narration import AgentNow, Narrator
from orchestrator.cli.output import Output
from orchestrator.cli.words import counted, elapsed
from orchestrator.cli.wrapping import all_wrapped, terminal_width, wrapped
from orchestrator.turn import TurnOutcome

FRAME_SECONDS = 0.125
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Printer(Protocol):
    """Shows a turn while it runs, and how it ended."""

    async def show(self, events: Sequence[Event]) -> None:
        """Events in `seq` order, each once."""
        ...

    async def animate(self) -> None:
        """Keep what moves moving, until cancelled."""
        ...

    async def finish(self, outcome: TurnOutcome, rows: Sequence[Row]) -> None:
        """The end; `rows` are those of the card."""
        ...

    def surface(self, asking: Surface) -> Surface:
        """`asking`, so that it has the screen to itself while it asks."""
        ...

    def hurry(self) -> None:
        """The person wants to stop: a reader that does not read is not waited for any more."""
        ...

    def gave_up(self) -> bool:
        """Whether something stayed unwritten for that."""
        ...


@contextmanager
def open_printer(output_format: str, output: Output, *, announces: bool = True) -> Iterator[Printer]:
    """The printer of an output format; on a terminal, text is drawn live, and elsewhere the progress goes to
    standard error. Two more formats are the program's own: `quiet`, and `story` (all to standard output).

    `announces`: permission requests get rows: they are shown nowhere else.
    """
    if output_format == "json":
        yield JsonPrinter(output)
    elif output_format == "quiet":
        yield QuietPrinter()
    elif output_format == "stream-json":
        yield StreamPrinter(output)
    elif not output.closed and sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        # forced: it is one, and shall fail when it is closed, not draw less
        with _live(Console(force_terminal=True), announces, output.on_closed) as printer:
            yield printer
    else:
        together = output_format == "story" or (not output.closed and sys.stdout.isatty())
        progress = output if together else Output(stream=sys.stderr)
        width = terminal_width(progress.stream)
        yield PlainPrinter(output, progress, width, Narrator(announces=announces))


class _Still:
    """A printer without anything that moves."""

    async def animate(self) -> None:
        await trio.sleep_forever()

    def surface(self, asking: Surface) -> Surface:
        return asking

    def hurry(self) -> None:
        for output in self._outputs():
            output.hurry()

    def gave_up(self) -> bool:
        return any(output.given_up for output in self._outputs())

    def _outputs(self) -> tuple[Output, ...]:
        return ()


class QuietPrinter(_Still):
    """Nothing at all: somebody else tells it."""

    async def show(self, events: Sequence[Event]) -> None:
        await trio.lowlevel.checkpoint()

    async def finish(self, outcome: TurnOutcome, rows: Sequence[Row]) -> None:
        await trio.lowlevel.checkpoint()


@attrs.define(eq=False)
class JsonPrinter(_Still):
    """The turn's result, once, at the end."""

    output: Output

    async def show(self, events: Sequence[Event]) -> None:
        await trio.lowlevel.checkpoint()

    async def finish(self, outcome: TurnOutcome, rows: Sequence[Row]) -> None:
        await self.output.objects([to_wire(outcome.event)])

    def _outputs(self) -> tuple[Output, ...]:
        return (self.output,)


@attrs.define(eq=False)
class StreamPrinter(_Still):
    """Every event as one object per line."""

    output: Output

    async def show(self, events: Sequence[Event]) -> None:
        await self.output.objects([to_wire(event) for event in events])

    async def finish(self, outcome: TurnOutcome, rows: Sequence[Row]) -> None:
        await trio.lowlevel.checkpoint()

    def _outputs(self) -> tuple[Output, ...]:
        return (self.output,)


@attrs.define(eq=False)
class PlainPrinter(_Still):
    """Plain lines: the final text last and, on a stream of its own, by itself."""

    output: Output
    progress: Output
    """Where all but the final text goes; may be the same."""
    width: int | None = None
    """Columns of the terminal behind `progress`; None: lines stay whole."""
    _narrator: Narrator = attrs.field(factory=Narrator)

    async def show(self, events: Sequence[Event]) -> None:
        rows = (line.text for event in events for line in self._narrator.lines(event))
        await self.progress.lines(all_wrapped(rows, self.width))

    async def finish(self, outcome: TurnOutcome, rows: Sequence[Row]) -> None:
        await self.progress.lines(["", *card_lines(rows, self.width), ""])
        await self.output.lines([visible(outcome.text)] if outcome.text else [])

    def _outputs(self) -> tuple[Output, ...]:
        return (self.output, self.progress)


def card_lines(rows: Sequence[Row], width: int | None) -> list[str]:
    """The card as plain lines, values below each other."""
    column = max(len(name) for name, _ in rows)
    lines: list[str] = []
    for name, value in rows:
        room = None if name.strip() == GO_ON else width  # a command stays one line, to be copied
        lines += wrapped(f"{name.ljust(column)}  {value}", room, hang=column + 2)
    return lines


@contextmanager
def _live(console: Console, announces: bool, on_closed: Callable[[], None]) -> Iterator[LivePrinter]:
    printer = LivePrinter(console, Narrator(announces=announces), on_closed)
    try:
        yield printer
    finally:
        printer.pause()
        printer._let_go()


@attrs.define(eq=False)
class LivePrinter:
    """Rows that stay, and below them a tree of the agents at work."""

    console: Console
    _narrator: Narrator = attrs.field(factory=Narrator)
    on_closed: Callable[[], None] = lambda: None
    """Called once when the terminal has gone; nothing is drawn from then on."""
    _gone: bool = False
    _live: Live | None = None
    _paused: int = 0
    _held: list[Text] = attrs.field(factory=list)
    """Rows that wait until a question has been answered: they would be drawn into it."""

    async def show(self, events: Sequence[Event]) -> None:
        for event in events:
            for line in self._narrator.lines(event):
                self._held += [
                    Text(text, style=line.style) for text in wrapped(line.text, self.console.width)
                ]
        if not self._paused:
            self._let_go()
        await trio.lowlevel.checkpoint()

    async def animate(self) -> None:
        while True:
            self._refresh()
            await trio.sleep(FRAME_SECONDS)

    async def finish(self, outcome: TurnOutcome, rows: Sequence[Row]) -> None:
        self.pause()
        self._let_go()
        with self._drawing():
            self._draw_end(outcome, rows)
        await trio.lowlevel.checkpoint()

    def _draw_end(self, outcome: TurnOutcome, rows: Sequence[Row]) -> None:
        if self._gone:
            return
        if outcome.text:
            self.console.print(Text(f"\n{visible(outcome.text)}\n"))
        grid = Table.grid(padding=(0, 2))
        for name, value in rows:
            if name != GO_ON:
                grid.add_row(Text(name, style="dim"), Text(value))
        style = {"completed": "green", "failed": "red", "truncated": "red"}.get(outcome.status, "yellow")
        self.console.print(Panel(grid, border_style=style, expand=False))
        for name, value in rows:
            if name == GO_ON:  # outside the frame and on one line, to be copied
                self.console.print(Text.assemble((f"  {name}  ", "dim"), value), soft_wrap=True)

    def surface(self, asking: Surface) -> Surface:
        return _Alone(asking, self.pause, self.go_on)

    def hurry(self) -> None:
        """A terminal is read: what is drawn is never waited for."""

    def gave_up(self) -> bool:
        return False

    def pause(self) -> None:
        """Take the tree off the screen."""
        self._paused += 1
        live, self._live = self._live, None
        if live is not None:
            with self._drawing():
                live.stop()

    def go_on(self) -> None:
        self._paused -= 1
        if not self._paused:
            self._let_go()

    def _let_go(self) -> None:
        held, self._held = self._held, []
        if not self._gone:
            with self._drawing():
                for row in held:
                    self.console.print(row, soft_wrap=True)

    def _refresh(self) -> None:
        running = [now for now in self._narrator.agents.values() if now.status is None]
        if self._gone or self._paused or not running:
            return
        with self._drawing():
            if self._live is None:
                self._live = Live(console=self.console, auto_refresh=False, transient=True)
                self._live.start()
            self._live.update(agent_tree(self._narrator.agents.values(), time.time()), refresh=True)

    @contextmanager
    def _drawing(self) -> Iterator[None]:
        """Whatever is drawn: a terminal that was closed fails it (EIO), and that is no fault of the turn's."""
        try:
            yield
        except OSError:
            live, self._live = self._live, None
            if live is not None:
                with suppress(OSError):
                    live.stop()  # gives the standard streams back
            if not self._gone:
                self._gone = True
                self.on_closed()


@attrs.frozen
class _Alone:
    """A surface that takes the tree off the screen while it asks."""

    asking: Surface
    pause: Callable[[], None]
    go_on: Callable[[], None]

    async def show(self, request: PermissionRequest, queue: tuple[PermissionRequest, ...]) -> Answer:
        self.pause()
        try:
            return await self.asking.show(request, queue)
        finally:
            self.go_on()


def agent_tree(agents: Any, now: float) -> Group:
    """The agents at work: label, what each does, how long, tokens. Ended ones are left to their rows."""
    known = {agent.ref.id: agent for agent in agents}
    branches: dict[str, Tree] = {}
    roots: list[Tree] = []
    for agent in known.values():
        if agent.status is not None and not _has_running_below(agent, known):
            continue
        row = _agent_row(agent, now)
        above = branches.get(agent.parent or "")
        if above is None:
            branches[agent.ref.id] = Tree(row)
            roots.append(branches[agent.ref.id])
        else:
            branches[agent.ref.id] = above.add(row)
    return Group(*roots)


def _has_running_below(agent: AgentNow, known: dict[str, AgentNow]) -> bool:
    return any(other.parent == agent.ref.id and other.status is None for other in known.values())


def _agent_row(agent: AgentNow, now: float) -> Text:
    frame = SPINNER[int(now / FRAME_SECONDS) % len(SPINNER)]
    moment = timestamp(round(now * 1e9))
    doing = "waits for you" if agent.asking else agent.doing
    facts = f" · {elapsed(agent.started, moment)} · {counted(agent.steps, 'call')} · {agent.tokens:,} tokens"
    return Text.assemble(
        (f"{frame} ", "cyan"),
        (agent.ref.label, "bold"),
        f" {visible(doing)}",
        (facts, "dim"),
        no_wrap=True,
        overflow="ellipsis",
    )

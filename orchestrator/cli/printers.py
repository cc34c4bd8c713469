"""What `run` and `resume` print: text for people, `json` at the end, `stream-json` as it happens."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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
from orchestrator.cli.narration import AgentNow, Line, Narrator, card, counted, elapsed
from orchestrator.cli.output import Output
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

    async def finish(self, outcome: TurnOutcome) -> None:
        """The end."""
        ...

    def surface(self, asking: Surface) -> Surface:
        """`asking`, so that it has the screen to itself while it asks."""
        ...


@contextmanager
def open_printer(output_format: str, output: Output) -> Iterator[Printer]:
    """The printer of an output format (or of `quiet`); on a terminal, text is drawn live."""
    if output_format == "json":
        yield JsonPrinter(output)
    elif output_format == "quiet":
        yield QuietPrinter()
    elif output_format == "stream-json":
        yield StreamPrinter(output)
    elif not output.closed and sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        with _live(Console()) as printer:
            yield printer
    else:
        yield PlainPrinter(output)


class _Still:
    """A printer without anything that moves."""

    async def animate(self) -> None:
        await trio.sleep_forever()

    def surface(self, asking: Surface) -> Surface:
        return asking


class QuietPrinter(_Still):
    """Nothing at all: somebody else tells it."""

    async def show(self, events: Sequence[Event]) -> None:
        await trio.lowlevel.checkpoint()

    async def finish(self, outcome: TurnOutcome) -> None:
        await trio.lowlevel.checkpoint()


@attrs.define(eq=False)
class JsonPrinter(_Still):
    """The turn's result, once, at the end."""

    output: Output

    async def show(self, events: Sequence[Event]) -> None:
        await trio.lowlevel.checkpoint()

    async def finish(self, outcome: TurnOutcome) -> None:
        await self.output.objects([to_wire(outcome.event)])


@attrs.define(eq=False)
class StreamPrinter(_Still):
    """Every event as one object per line."""

    output: Output

    async def show(self, events: Sequence[Event]) -> None:
        await self.output.objects([to_wire(event) for event in events])

    async def finish(self, outcome: TurnOutcome) -> None:
        await trio.lowlevel.checkpoint()


@attrs.define(eq=False)
class PlainPrinter(_Still):
    """Plain lines, the final text last."""

    output: Output
    _narrator: Narrator = attrs.field(factory=Narrator)

    async def show(self, events: Sequence[Event]) -> None:
        await self.output.lines([line.text for event in events for line in self._narrator.lines(event)])

    async def finish(self, outcome: TurnOutcome) -> None:
        rows = card(outcome.payload, outcome.session_id, outcome.turn_id)
        width = max(len(name) for name, _ in rows)
        lines = [f"{name.ljust(width)}  {value}" for name, value in rows]
        text = [visible(outcome.text)] if outcome.text else []
        await self.output.lines(["", *lines, "", *text])


@contextmanager
def _live(console: Console) -> Iterator[LivePrinter]:
    printer = LivePrinter(console)
    try:
        yield printer
    finally:
        printer.pause()


@attrs.define(eq=False)
class LivePrinter:
    """Rows that stay, and below them a tree of the agents at work."""

    console: Console
    _narrator: Narrator = attrs.field(factory=Narrator)
    _live: Live | None = None
    _paused: int = 0

    async def show(self, events: Sequence[Event]) -> None:
        for event in events:
            for line in self._narrator.lines(event):
                self.console.print(_styled(line), soft_wrap=True)
        await trio.lowlevel.checkpoint()

    async def animate(self) -> None:
        while True:
            self._refresh()
            await trio.sleep(FRAME_SECONDS)

    async def finish(self, outcome: TurnOutcome) -> None:
        self.pause()
        if outcome.text:
            self.console.print(Text(f"\n{visible(outcome.text)}\n"))
        grid = Table.grid(padding=(0, 2))
        for name, value in card(outcome.payload, outcome.session_id, outcome.turn_id):
            grid.add_row(Text(name, style="dim"), Text(value))
        style = {"completed": "green", "failed": "red", "truncated": "red"}.get(outcome.status, "yellow")
        self.console.print(Panel(grid, border_style=style, expand=False))
        await trio.lowlevel.checkpoint()

    def surface(self, asking: Surface) -> Surface:
        return _Alone(asking, self.pause, self.go_on)

    def pause(self) -> None:
        """Take the tree off the screen."""
        self._paused += 1
        if self._live is not None:
            self._live.stop()
            self._live = None

    def go_on(self) -> None:
        self._paused -= 1

    def _refresh(self) -> None:
        running = [now for now in self._narrator.agents.values() if now.status is None]
        if self._paused or not running:
            return
        if self._live is None:
            self._live = Live(console=self.console, auto_refresh=False, transient=True)
            self._live.start()
        self._live.update(agent_tree(self._narrator.agents.values(), time.time()), refresh=True)


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


def _styled(line: Line) -> Text:
    return Text(line.text, style=line.style)

"""One turn from the command line to its exit status: open, show, stop when asked, and say how it ended."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence

import attrs
import trio
from rich.console import Console

from agents.errors import ErrorCode, failure
from agents.events import Event
from orchestrator.api import single_failures
from orchestrator.approvals import Surface
from orchestrator.cli.card import Hints, card
from orchestrator.cli.denials import headless_line
from orchestrator.cli.leaving import Leave, Status, error_line, status_of_turn
from orchestrator.cli.logs import current_log
from orchestrator.cli.output import Output
from orchestrator.cli.printers import Printer, open_printer
from orchestrator.cli.prompt import open_terminal
from orchestrator.cli.stopping import Stopper, watched_signals
from orchestrator.cli.tally import Tally
from orchestrator.opening import Extras, open_settings
from orchestrator.session import Session
from orchestrator.settings import Settings
from orchestrator.store.base import Store
from orchestrator.turn import TurnOutcome

Work = Callable[[Session], Awaitable[TurnOutcome]]


@attrs.frozen(kw_only=True)
class Job:
    """What is to be done, and how it is shown."""

    settings: Settings
    store: Store
    work: Work
    output_format: str
    prompts: str
    """Where permission requests are answered: `terminal`, `inbox` or `none`."""
    resume: str | None = None
    """Id of the stored session."""
    session_id: str | None = None
    """Id for a new session."""
    after: int = 0
    """`seq` of the last event that was stored before."""
    hints: Hints = attrs.field(factory=Hints)
    """How further commands are written."""
    tally: Tally = attrs.field(factory=Tally)
    """What its events say; for the end."""


async def play(job: Job) -> None:
    """Do the job. Returns for a completed turn; every other end leaves as `Leave` or `Failure`."""
    outcome = await played(job)
    if outcome is None:
        raise Leave(Status.STOPPED)
    _leave_by(outcome, job)


async def played(job: Job) -> TurnOutcome | None:
    """Do the job and show it; None where the person stopped it before it had begun, or its last words."""
    with single_failures():
        return await _under_signals(job)


async def _under_signals(job: Job) -> TurnOutcome | None:
    stopper = Stopper()
    outcome: TurnOutcome | None = None
    output = Output(stopper.ask)
    with contextlib.ExitStack() as screen:
        printer = screen.enter_context(
            open_printer(job.output_format, output, announces=job.prompts == "inbox")
        )
        surface = screen.enter_context(_asking(job.prompts, printer))
        received = screen.enter_context(trio.open_signal_receiver(*watched_signals()))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stopper.watch, received)
            nursery.start_soon(stopper.when_asked, printer.hurry)
            with stopper.opening:
                outcome = await _in_session(job, printer, surface, stopper)
            nursery.cancel_scope.cancel()
    return None if printer.gave_up() else outcome


@contextlib.contextmanager
def _asking(prompts: str, printer: Printer) -> Iterator[Surface | None]:
    """Where permission requests are shown; None asks nobody."""
    if prompts != "terminal":
        yield None
        return
    with open_terminal(Console(stderr=True)) as terminal:
        if terminal is None:
            raise failure(
                ErrorCode.INVALID_ARGUMENT,
                "There is no terminal to ask on. Use --permission-prompts inbox and answer with "
                "`orchestrator approve`, or none, and --allow RULE for what may run.",
            )
        yield printer.surface(terminal)


async def _in_session(
    job: Job, printer: Printer, surface: Surface | None, stopper: Stopper
) -> TurnOutcome | None:
    extras = Extras(surface=surface, inbox=job.prompts == "inbox", store=job.store, warn=warn)
    async with open_settings(job.settings, extras, resume=job.resume, session_id=job.session_id) as session:
        stopper.session = session
        for text in session.warnings:
            warn(text)
        async with session.events() as feed:
            shown = _Shown(printer, job.tally, job.after)
            await shown.these(await session.store.events(session.id, job.after))
            if stopper.asked.is_set():
                return None
            async with trio.open_nursery() as nursery:
                nursery.start_soon(shown.follow, feed)
                nursery.start_soon(printer.animate)
                nursery.start_soon(stopper.stop_when_asked, session)
                outcome = await job.work(session)
                nursery.cancel_scope.cancel()
            await shown.rest(feed)
        rows = card(outcome.payload, outcome.session_id, outcome.turn_id, job.tally, job.hints)
        await printer.finish(outcome, rows)
    return outcome


@attrs.define(eq=False)
class _Shown:
    """Hands each event to the printer once, in `seq` order, whichever way it came."""

    printer: Printer
    tally: Tally
    last: int

    async def these(self, events: Sequence[Event]) -> None:
        fresh: list[Event] = []
        for event in events:
            if event.seq:
                if event.seq <= self.last:
                    continue
                self.last = event.seq
                self.tally.take(event)
            if event.payload.PRINTED:
                fresh.append(event)
        if fresh:
            with trio.CancelScope(shield=True):  # what was taken from the feed is not lost
                await self.printer.show(fresh)

    async def follow(self, feed: trio.MemoryReceiveChannel[Event]) -> None:
        async for event in feed:
            await self.these([event, *_waiting(feed)])

    async def rest(self, feed: trio.MemoryReceiveChannel[Event]) -> None:
        await self.these(_waiting(feed))


def _waiting(feed: trio.MemoryReceiveChannel[Event]) -> list[Event]:
    events: list[Event] = []
    with contextlib.suppress(trio.WouldBlock, trio.EndOfChannel):
        while True:
            events.append(feed.receive_nowait())
    return events


def warn(text: str) -> None:
    """One line on standard error."""
    with contextlib.suppress(OSError, ValueError):
        print(f"warning: {text}", file=sys.stderr)


def _leave_by(outcome: TurnOutcome, job: Job) -> None:
    headless = job.prompts == "none"
    status = status_of_turn(outcome.status, denied=bool(outcome.denials), headless=headless)
    match status:
        case Status.COMPLETED:
            return
        case Status.FAILED if outcome.error is not None:
            if outcome.error.code is ErrorCode.INTERNAL:
                warn(f"the log is {current_log()}")
            raise Leave(status, error_line(outcome.error))
        case Status.DENIED:
            raise Leave(status, f"TOOL_DENIED: {headless_line(outcome.denials, job.tally)}")
        case _:
            raise Leave(status)

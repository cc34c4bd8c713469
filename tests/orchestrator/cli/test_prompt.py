"""The terminal prompt, on a real pseudo-terminal."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import select
import threading
from collections.abc import Iterator

import attrs
import pytest
import trio
import trio.testing
from rich.console import Console

from agents.requests import Answer, Decision, PermissionRequest
from orchestrator.approvals import Approvals
from orchestrator.cli.prompt import TerminalSurface, Unclear, draw, open_terminal, read_answer


def a_request(**changes: object) -> PermissionRequest:
    values: dict[str, object] = {
        "id": "req-0123456789ab",
        "session_id": "s-1",
        "owner": "run-1",
        "agent_label": "fixer#2",
        "agent_chain": ("main", "fixer#2"),
        "task_id": "task-1",
        "call_id": "call-1",
        "tool": "Bash",
        "risk": "high",
        "reason": "Shell commands ask in this permission mode.",
        "preview": "git status",
        "created": "2026-01-01T00:00:00.000Z",
        "deadline": "2026-01-01T00:02:00.000Z",
        "grant": "every Bash command",
        "grant_commands": ("git status",),
    }
    return PermissionRequest(**(values | changes))  # type: ignore[arg-type]


@attrs.define
class Terminal:
    """Both ends of a pseudo-terminal, and everything that was drawn on it."""

    master: int
    slave: int
    console: Console
    drawn: str = ""

    async def types(self, text: str) -> None:
        await trio.lowlevel.wait_writable(self.master)
        os.write(self.master, text.encode())

    async def shows(self, text: str, *, times: int = 1) -> None:
        """Wait until `text` stands on the screen `times` times."""
        with trio.fail_after(5):
            while self.drawn.count(text) < times:
                await trio.lowlevel.wait_readable(self.master)
                self.drawn += os.read(self.master, 65536).decode("utf-8", "replace")

    def drain(self) -> None:
        while select.select([self.master], [], [], 0)[0]:
            self.drawn += os.read(self.master, 65536).decode("utf-8", "replace")


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    master, slave = pty.openpty()
    with os.fdopen(os.dup(slave), "w", buffering=1) as output:
        console = Console(file=output, width=100, force_terminal=True, color_system=None)
        yield Terminal(master, slave, console)
    for descriptor in (master, slave):
        with contextlib.suppress(OSError):
            os.close(descriptor)


async def asked(
    terminal: Terminal, *typed: str, request: PermissionRequest | None = None, why: str = "\n"
) -> Answer:
    surface = TerminalSurface(terminal.console, terminal.slave)
    answers: list[Answer] = []

    async def show() -> None:
        answers.append(await surface.show(request or a_request(), ()))

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(show)
            for number, line in enumerate(typed, start=1):
                await terminal.shows("what to do instead>", times=number)
                await terminal.types(line)
            if typed[-1].strip() == "n":
                await terminal.shows("Tell the agent why")
                await terminal.types(why)
    terminal.drain()
    return answers[0]


@pytest.mark.parametrize(
    ("typed", "decision", "scope", "feedback"),
    [
        ("y\n", Decision.ALLOW_ONCE, "tool", None),
        ("YES\n", Decision.ALLOW_ONCE, "tool", None),
        ("s\n", Decision.ALLOW_SESSION, "tool", None),
        ("c\n", Decision.ALLOW_SESSION, "commands", None),
        ("n\n", Decision.DENY, "tool", None),
        ("n use the other file\n", Decision.DENY, "tool", "use the other file"),
    ],
)
async def test_one_line_on_the_terminal_answers(
    terminal: Terminal, typed: str, decision: Decision, scope: str, feedback: str | None
) -> None:
    answer = await asked(terminal, typed)
    assert answer == Answer(decision=decision, source="terminal", scope=scope, feedback=feedback)  # type: ignore[arg-type]


async def test_after_a_bare_no_the_agent_can_be_told_why(terminal: Terminal) -> None:
    answer = await asked(terminal, "n\n", why="  use b.txt instead \n")
    assert (answer.decision, answer.feedback) == (Decision.DENY, "use b.txt instead")
    nothing = await asked(Terminal(terminal.master, terminal.slave, terminal.console), "n\n", why="\x04")
    assert (nothing.decision, nothing.feedback) == (Decision.DENY, None)


async def test_what_is_not_an_answer_asks_again(terminal: Terminal) -> None:
    answer = await asked(terminal, "\n", "maybe\n", "y but only once\n", "n\n")
    assert answer.decision is Decision.DENY
    assert "not one of the answers" in terminal.drawn


async def test_the_session_is_not_offered_where_the_request_cannot_be_granted(terminal: Terminal) -> None:
    answer = await asked(terminal, "s\n", "c\n", "y\n", request=a_request(grant="", grant_commands=()))
    assert answer.decision is Decision.ALLOW_ONCE
    assert "this session" not in terminal.drawn


async def test_what_was_typed_before_the_question_does_not_answer_it(terminal: Terminal) -> None:
    await terminal.types("y\n")
    answer = await asked(terminal, "n\n")
    assert answer.decision is Decision.DENY


async def test_the_end_of_the_input_is_no_approver(terminal: Terminal) -> None:
    answer = await asked(terminal, "\x04")
    assert answer.decision is Decision.NO_APPROVER


async def test_a_terminal_that_goes_away_is_no_approver(terminal: Terminal) -> None:
    surface = TerminalSurface(Console(file=io.StringIO()), terminal.slave)
    answers: list[Answer] = []

    async def show() -> None:
        answers.append(await surface.show(a_request(), ()))

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(show)
            await trio.testing.wait_all_tasks_blocked()
            os.close(terminal.master)
    assert answers[0].decision is Decision.NO_APPROVER


async def test_cancelling_withdraws_the_question_and_leaves_no_reader_behind(terminal: Terminal) -> None:
    surface = TerminalSurface(terminal.console, terminal.slave)
    before = threading.active_count()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(surface.show, a_request(), ())
        await terminal.shows("n deny")
        nursery.cancel_scope.cancel()
    terminal.drain()
    assert "no longer asked" in terminal.drawn
    assert threading.active_count() == before
    # The next question gets what is typed next: nobody else reads.
    answer = await asked(Terminal(terminal.master, terminal.slave, terminal.console), "y\n")
    assert answer.decision is Decision.ALLOW_ONCE


async def test_an_answer_from_elsewhere_ends_the_question_on_the_terminal(terminal: Terminal) -> None:
    approvals = Approvals(TerminalSurface(terminal.console, terminal.slave))
    request = a_request(deadline="2026-01-01T00:00:30.000Z")
    answers: list[Answer] = []

    async def ask() -> None:
        answers.append(await approvals.ask(request))

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await terminal.shows("n deny")
            approvals.answer(request.id, Answer(decision=Decision.DENY, source="inbox"))
    assert (answers[0].decision, answers[0].source) == (Decision.DENY, "inbox")


async def test_answers_can_be_read_from_a_plain_file(tmp_path: object) -> None:
    with open(f"{tmp_path}/answers", "w+b", buffering=0) as lines:  # noqa: ASYNC230
        lines.write(b"what\ny\n")
        lines.seek(0)
        surface = TerminalSurface(Console(file=io.StringIO()), lines.fileno())
        assert (await surface.show(a_request(), ())).decision is Decision.ALLOW_ONCE


def drawn(request: PermissionRequest, *queue: PermissionRequest) -> str:
    console = Console(file=io.StringIO(), width=80)
    draw(console, request, queue)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_a_request_shows_who_asks_for_what_and_why() -> None:
    text = drawn(
        a_request(
            tool="Write",
            reason="It would write outside the workspace: /w/outside/x.",
            external_path="/w/outside/x",
            resolved_path="/w/outside/x",
            grant="every Write outside the workspace",
        )
    )
    for part in ("main → fixer#2", "Write", "high risk", "/w/outside/x", "every Write outside the workspace"):
        assert part in text


def test_a_request_shows_the_diff_and_what_waits_behind() -> None:
    other = a_request(agent_label="tester#1", tool="Edit", reason="Edit changes b.py in the workspace.")
    text = drawn(a_request(tool="Edit", diff="--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n"), other)
    assert "│ -x" in text
    assert "│ +y" in text
    assert "1 more waiting" in text
    assert "tester#1 · Edit" in text


def test_a_long_diff_says_how_many_lines_are_hidden() -> None:
    assert "⟨600 more lines hidden⟩" in drawn(a_request(diff="+x\n" * 1000))


def test_the_reason_and_the_id_stand_once_and_no_word_is_cut_in_two() -> None:
    reason = "It would write outside the workspace, and that is asked for " * 3
    text = drawn(a_request(tool="Write", reason=reason.strip() + "."))
    assert text.count("req-0123") == 1
    assert " ".join(text.split()).count("It would write outside the workspace, and") == 3
    assert all(len(line) <= 80 for line in text.splitlines())
    assert {word for line in text.splitlines() for word in line.split()} >= set(reason.split())


def test_nothing_in_a_request_acts_on_the_terminal() -> None:
    evil = "x\x1b[2J\x1b]0;t\x07\u202e\r[bold]y[/bold]"
    text = drawn(
        a_request(preview=evil, reason=evil, agent_label=evil, agent_chain=(evil,), tool="Bash", grant=evil),
        a_request(agent_label=evil, reason=evil),
    )
    for sign in ("\x1b", "\x07", "\u202e", "\r"):
        assert sign not in text
    assert "\\x1b[2J" in text
    assert "[bold]y[/bold]" in text


def test_a_command_too_long_for_the_preview_is_shown_from_the_arguments() -> None:
    text = drawn(a_request(preview="short", arguments={"command": "first\nsecond"}))
    assert "│ first\n" in text
    assert "│ second\n" in text


@pytest.mark.parametrize("line", ["", "  ", "yy", "y n", "yes please", "ok", "sn", "\x1by"])
def test_nothing_but_the_exact_words_allows(line: str) -> None:
    assert isinstance(read_answer(line, a_request()), Unclear)


def test_the_controlling_terminal_is_used_where_standard_input_is_one(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    with os.fdopen(os.dup(terminal.slave)) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        with open_terminal(terminal.console) as surface:
            assert surface is not None
            assert surface.descriptor == stdin.fileno()


def test_without_a_terminal_there_is_no_surface(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))

    def no_terminal(*_: object) -> int:
        raise OSError("no such device")

    monkeypatch.setattr("os.open", no_terminal)
    with open_terminal() as surface:
        assert surface is None

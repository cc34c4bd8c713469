"""The command on a terminal: the live tree, questions, colours, and what stays visible."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.command import Terminal, environment, script
from tests.harness import call, calls, say

AGENTS = {
    "main": [
        calls(
            call("Task", subagent_type="fixer", prompt="p", description="first"),
            call("Task", subagent_type="fixer", prompt="p", description="second"),
        ),
        calls(call("TaskWait")),
        say("All done."),
    ],
    "fixer#1": [calls(call("Bash", command="sleep 0.4; exit 3")), say("It fails.")],
    "fixer#2": [calls(call("Write", path="b.txt", content="\x1b[31mred\n")), say("Written.")],
}
COLOUR = re.compile(r"\x1b\[(?:\d+;)*3[0-7]m")


@pytest.fixture
def options(tmp_path: Path) -> tuple[str | Path, ...]:
    (tmp_path / "repo").mkdir()
    (tmp_path / "home").mkdir()
    model = script(tmp_path / "home", AGENTS)
    return ("run", "Go", "-C", tmp_path / "repo", "--model", model, "--allow", "Bash")


def test_a_question_is_answered_on_the_terminal_and_the_tree_goes_on(
    tmp_path: Path, options: tuple[str | Path, ...]
) -> None:
    terminal = Terminal(*options, env=environment(tmp_path / "home"))
    terminal.until("deny (n because")
    assert not (tmp_path / "repo/b.txt").exists()
    terminal.type("y")
    assert terminal.end() == 0
    assert (tmp_path / "repo/b.txt").exists()
    shown = terminal.shown
    assert "└── " in shown
    assert "✗ fixer#1 Bash sleep 0.4; exit 3" in shown
    assert "TOOL_FAILED" in shown
    assert "allowed once (terminal" in shown
    assert shown.rindex("All done.") < shown.rindex("completed in")
    assert COLOUR.search(shown)
    assert "\x1b[31mred" not in shown
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")


def test_a_denial_on_the_terminal_is_no_headless_one(tmp_path: Path, options: tuple[str | Path, ...]) -> None:
    terminal = Terminal(*options, env=environment(tmp_path / "home", NO_COLOR="1"))
    terminal.until("deny (n because")
    terminal.type("n rather not")
    assert terminal.end() == 0
    assert not (tmp_path / "repo/b.txt").exists()
    assert "fixer#2 Write denied (terminal" in terminal.shown
    assert COLOUR.search(terminal.shown) is None


def test_ctrl_c_on_the_terminal_takes_the_question_away_and_gives_the_cursor_back(
    tmp_path: Path, options: tuple[str | Path, ...]
) -> None:
    terminal = Terminal(*options, env=environment(tmp_path / "home"))
    terminal.until("deny (n because")
    terminal.process.send_signal(2)
    assert terminal.end() == 130
    assert "no longer asked" in terminal.shown
    assert "stopped in" in terminal.shown

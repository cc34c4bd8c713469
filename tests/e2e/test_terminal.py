"""The command on a terminal: the live tree, questions, colours, and what stays visible."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.command import Terminal, environment, objects, orc, script
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
    terminal.until("n deny, or")
    assert not (tmp_path / "repo/b.txt").exists()
    terminal.type("y")
    assert terminal.end() == 0
    assert (tmp_path / "repo/b.txt").exists()
    shown = terminal.shown
    assert "└── " in shown
    assert "✗ fixer#1 Bash sleep 0.4; exit 3" in shown
    assert "exit 3" in shown
    assert "allowed once (terminal" in shown
    assert shown.rindex("All done.") < shown.rindex("completed in")
    assert COLOUR.search(shown)
    assert "\x1b[31mred" not in shown
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")


@pytest.mark.parametrize("columns", [80, 120])
def test_no_line_is_wider_than_the_terminal_and_no_word_is_cut(tmp_path: Path, columns: int) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "repo").mkdir()
    words = " ".join(f"word{number}" for number in range(60))
    agents = {
        "main": [
            calls(call("Bash", command="exit 3"), text=words),
            calls(call("Glob", pattern="*")),
            say(words),
        ]
    }
    env = environment(tmp_path / "home", NO_COLOR="1", TERM="dumb")
    options = ("-C", tmp_path / "repo", "--model", script(tmp_path / "home", agents), "--allow", "Bash")
    run = Terminal("run", "Go", *options, env=env, columns=columns)
    assert run.end() == 0
    show = Terminal("show", "ses-", env=env, columns=columns)
    assert show.end() == 0
    for text in (run.shown[: run.shown.index("outcome")], show.shown):
        rows = [line for line in text.replace("\r", "").splitlines() if "word" in line]
        assert len(rows) > 3
        assert all(len(row) <= columns for row in rows)
        assert set(re.findall(r"word\d*", text)) == set(words.split())


def test_listings_fit_eighty_columns(tmp_path: Path, options: tuple[str | Path, ...]) -> None:
    env = environment(tmp_path / "home")
    asked = Terminal(*options, env=env)
    asked.until("n deny, or")
    asked.type("c")
    asked.type("n")
    asked.type("")
    assert asked.end() == 0
    for verb in ("tasks", "sessions", "agents", "check"):
        listed = Terminal(verb, env=env, columns=80)
        listed.end()
        assert all(len(line) <= 80 for line in listed.shown.replace("\r", "").splitlines()), verb


def test_a_denial_on_the_terminal_is_no_headless_one(tmp_path: Path, options: tuple[str | Path, ...]) -> None:
    terminal = Terminal(*options, env=environment(tmp_path / "home", NO_COLOR="1"))
    terminal.until("n deny, or")
    terminal.type("n rather not")
    assert terminal.end() == 0
    assert not (tmp_path / "repo/b.txt").exists()
    assert "fixer#2 Write denied (terminal" in terminal.shown
    assert COLOUR.search(terminal.shown) is None


def test_ctrl_c_on_the_terminal_takes_the_question_away_and_gives_the_cursor_back(
    tmp_path: Path, options: tuple[str | Path, ...]
) -> None:
    terminal = Terminal(*options, env=environment(tmp_path / "home"))
    terminal.until("n deny, or")
    terminal.process.send_signal(2)
    assert terminal.end() == 130
    assert "no longer asked" in terminal.shown
    assert "stopped in" in terminal.shown


def test_after_ctrl_d_nobody_is_there_for_any_waiting_or_later_request(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    (tmp_path / "home").mkdir()
    fixers = [call("Task", subagent_type="fixer", prompt="p", description=f"part {n}") for n in range(3)]
    write = calls(call("Write", path="b.txt", content="x"))
    agents = {
        "main": [calls(*fixers), calls(call("TaskWait")), say("So.")],
        "fixer": [write, write, say("No.")],
    }
    options = ("-C", tmp_path / "repo", "--model", script(tmp_path / "home", agents))
    terminal = Terminal(
        "run", "Go", *options, "--permission-timeout", "60", env=environment(tmp_path / "home", NO_COLOR="1")
    )
    terminal.until("n deny, or")
    terminal.end_of_input()
    assert terminal.end() == 0
    assert terminal.shown.count("n deny, or") == 1
    assert terminal.shown.count("Write denied: nobody to ask") == 6
    assert "nobody answered in time" not in terminal.shown


@pytest.mark.parametrize("hangs_up", [True, False], ids=["hang-up", "no signal"])
@pytest.mark.parametrize(
    ("prompts", "kind"), [("terminal", "xterm"), ("inbox", "xterm"), ("terminal", "dumb")]
)
def test_closing_the_terminal_stops_the_turn(tmp_path: Path, prompts: str, kind: str, hangs_up: bool) -> None:
    (tmp_path / "repo").mkdir()
    (tmp_path / "home").mkdir()
    env = environment(tmp_path / "home", TERM=kind)
    write = call("Write", path="b.txt", content="x")
    agents = {
        "main": [calls(call("Task", subagent_type="fixer", prompt="p", description="d"), write), say("So.")],
        "fixer": [calls(call("Bash", command="sleep 50")), say("Slept.")],
    }
    options = ("-C", tmp_path / "repo", "--model", script(tmp_path / "home", agents), "--allow", "Bash")
    terminal = Terminal("run", "Go", *options, "--permission-prompts", prompts, env=env, controls=hangs_up)
    terminal.until("n deny, or" if prompts == "terminal" else "waits for you")
    terminal.close()
    assert terminal.process.wait(timeout=10) == 130
    assert [row["status"] for row in objects(orc("sessions", "--json", env=env).stdout)] == ["stopped"]
    assert not (tmp_path / "home/data/log/orchestrator.log").exists()  # nothing unforeseen

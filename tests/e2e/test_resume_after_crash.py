"""A session of five tasks whose process was killed: the plan says what will happen, and exactly that happens."""

from __future__ import annotations

import collections
import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command import environment, orc, started, until
from tests.fakes.chat_server import ChatServer
from tests.harness import bad_edit, call, calls, edit, say

READ = {name: calls(call("Read", path=f"{name}.txt")) for name in "abcd"}


def change(name: str) -> dict[str, object]:
    return calls(edit(f"{name}.txt", {"op": "replace", "start": 1, "text": f"{name} changed"}))


AGENTS = {
    "main": [
        calls(*(call("Task", subagent_type="fixer", prompt=f"Task {n}") for n in range(1, 6))),
        calls(call("TaskWait")),
        say("I have judged the results."),
    ],
    "fixer#1": [READ["a"], change("a"), say("One is done.")],
    "fixer#2": [READ["b"], change("b"), say("Two is done.")],
    "fixer#3": [READ["c"], *[calls(bad_edit("c.txt"))] * 3, say("Three, after all.")],
    "fixer#4": [READ["d"], change("d"), say("Four is done.")],
    "fixer#5": [calls(call("Bash", command="echo $$ > pid; sleep 60")), say("Five is done.")],
}


class Crashed:
    """The killed run, its server, and the commands that look at it."""

    def __init__(self, root: Path, server: ChatServer) -> None:
        self.root = root
        self.server = server
        self.env = environment(root / "home")

    def orc(self, *arguments: str) -> tuple[int, str, str]:
        done = orc(*arguments, env=self.env)
        return done.returncode, done.stdout, done.stderr

    def asked(self) -> collections.Counter[str]:
        return collections.Counter(request.label for request in self.server.requests)


@pytest.fixture
def crashed(tmp_path: Path) -> Iterator[Crashed]:
    for folder in ("home", "repo"):
        (tmp_path / folder).mkdir()
    for name in "abcd":
        (tmp_path / f"repo/{name}.txt").write_text(f"{name}\nsecond\n")
    with ChatServer({"agents": AGENTS}) as server:
        place = Crashed(tmp_path, server)
        run = started(
            *("run", "--model", "openai-chat:x", "--base-url", server.url, "-C", tmp_path / "repo"),
            *("--session-id", "ses-five", "--permission-prompts", "inbox"),
            *("--allow", "Edit(a.txt)", "--allow", "Edit(b.txt)", "--allow", "Bash", "Go"),
            env=place.env,
        )
        pid = tmp_path / "repo/pid"

        def in_the_middle() -> bool:
            told = orc("tasks", "ses-five", "--json", env=place.env).stdout
            waiting = orc("approvals", "--json", env=place.env).stdout
            ended = told.count('"completed"') >= 2 and '"failed"' in told
            return ended and "d.txt" in waiting and pid.exists()

        try:
            until(in_the_middle, 30)
        finally:
            os.kill(run.pid, signal.SIGKILL)
            run.communicate()
        yield place
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            os.kill(int(pid.read_text()), signal.SIGKILL)


def actions(plan: str) -> dict[str, str]:
    """Label → what the plan does with it."""
    rows = [line.split() for line in plan.splitlines()]
    return {row[1]: row[0] for row in rows if len(row) > 1 and row[1].startswith("fixer#")}


def test_the_plan_names_the_right_action_for_each_and_the_resume_does_exactly_that(crashed: Crashed) -> None:
    status, plan, _ = crashed.orc("resume", "ses-five", "--dry-run")
    assert status == 0
    assert actions(plan) == {
        "fixer#1": "reuse",
        "fixer#2": "reuse",
        "fixer#3": "reuse",
        "fixer#4": "continue",
        "fixer#5": "continue",
    }
    assert "in Edit" in plan
    assert "in Bash" in plan
    assert "sleep 60" in plan  # the open effect: it is not known what the command did
    before = crashed.asked()
    status, _, complaint = crashed.orc("resume", "ses-five", "--permission-mode", "auto")
    assert status == 0, complaint
    more = crashed.asked() - before
    assert set(more) == {"main", "fixer#4", "fixer#5"}
    assert (crashed.root / "repo/a.txt").read_text() == "a changed\nsecond\n"


def test_with_failed_the_failed_chain_goes_on_as_well(crashed: Crashed) -> None:
    status, plan, _ = crashed.orc("resume", "ses-five", "--dry-run", "--failed")
    assert status == 0
    assert actions(plan)["fixer#3"] == "continue"
    before = crashed.asked()
    status, _, complaint = crashed.orc("resume", "ses-five", "--failed", "--permission-mode", "auto")
    assert status == 0, complaint
    assert set(crashed.asked() - before) == {"main", "fixer#3", "fixer#4", "fixer#5"}

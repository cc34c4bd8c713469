"""`check`: what could still ask and what is wrong, as the command tells it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest

from orchestrator.cli.command import ended
from tests.command import Done, environment, last_line, objects, orc, script
from tests.harness import say


@attrs.frozen
class Place:
    """A home and a workspace of a test's own, and a model. The verb runs in this process."""

    home: Path
    repo: Path
    model: str
    screen: pytest.CaptureFixture[str]

    def check(self, *arguments: str, model: str | None = None) -> Done:
        given = ["check", "-C", str(self.repo), "--model", model or self.model, *arguments]
        status, line = ended(given)
        told = self.screen.readouterr()
        return Done(given, int(status), told.out, told.err + line)

    def report(self, *arguments: str, **options: Any) -> dict[str, Any]:
        (told,) = objects(self.check("--json", *arguments, **options).stdout)
        return told

    def define(self, name: str, *front: str, body: str = "Work.") -> None:
        folder = self.home / ".orchestrator/agents"
        folder.mkdir(parents=True, exist_ok=True)
        lines = ["---", f"name: {name}", "description: Works.", *front, "---", body]
        (folder / f"{name}.md").write_text("\n".join(lines) + "\n")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Place:
    home, repo = tmp_path / "home", tmp_path / "repo"
    home.mkdir()
    repo.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("ORCHESTRATOR_DATA_DIR", str(home / "data"))
    return Place(home, repo, script(home, {"main": [say("ok")]}), capsys)


def blocking(told: dict[str, Any]) -> set[tuple[str, str, str]]:
    return {(one["agent"], one["tool"], one["place"]) for one in told["calls"] if one["blocks"]}


def test_headless_in_auto_nothing_would_be_denied(here: Place) -> None:
    done = here.check("--headless", "--permission-mode", "auto")
    assert (done.returncode, done.stderr) == (0, "")
    assert "No class of calls would be denied" in last_line(done.stdout)
    assert "In every mode these ask" in done.stdout


def test_headless_in_ask_it_fails_and_names_tools_places_and_options(here: Place) -> None:
    done = here.check("--headless")
    assert done.returncode == 1
    assert "would be denied or wait for an answer" in last_line(done.stdout)
    told = here.report("--headless")
    assert not told["ok"]
    assert ("main", "Write", "in the workspace") in blocking(told)
    assert ("tester", "Bash", "a command without a place") in blocking(told)
    assert ("explorer", "Read", "in the workspace") not in blocking(told)
    one = next(
        c
        for c in told["calls"]
        if (c["agent"], c["tool"], c["place"]) == ("main", "Write", "in the workspace")
    )
    assert (one["by"], one["verdict"]) == ("permission mode ask", "asks")
    assert "--allow Write" in one["remedies"]


def test_with_somebody_to_ask_the_same_is_no_failure(here: Place) -> None:
    done = here.check()
    assert done.returncode == 0
    assert "could ask" in last_line(done.stdout)


def test_the_rules_that_answer_everything_make_a_headless_check_pass(here: Place) -> None:
    tools = ("Read", "Glob", "Grep", "Write", "Edit")
    allow = [part for tool in tools for part in ("--allow", tool, "--allow", f"{tool}(/**)")]
    told = here.report("--headless", *allow, "--deny", "Bash")
    assert (blocking(told), told["ok"]) == (set(), True)
    assert {one["by"] for one in told["calls"] if one["tool"] == "Bash"} == {"deny rule Bash"}


def test_added_folders_are_places_of_their_own(here: Place, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    told = here.report("--headless", "--add-dir", str(tmp_path / "more"))
    assert ("main", "Edit", f"in the added folder {tmp_path}/more") in blocking(told)


def test_in_plan_there_are_no_delegates_and_commands_ask(here: Place) -> None:
    told = here.report("--headless", "--mode", "plan", "--permission-mode", "auto")
    assert [agent["name"] for agent in told["agents"]] == ["main"]
    assert told["agents"][0]["tools"] == ["Read", "Glob", "Grep", "Bash"]
    assert blocking(told) == {("main", "Bash", "a command without a place")}


def test_what_is_wrong_with_definitions_is_told(here: Place) -> None:
    here.define("typo", "tool: Read", "permissionMode: auto")
    here.define("empty", "tools: Read", "disallowedTools: Read")
    here.define("pinned", "model: nobody-has-this")
    told = here.report()
    messages = "\n".join(one["message"] for one in told["problems"])
    assert "Unknown key 'tool' is ignored. Did you mean tools?" in messages
    assert "would have no tool at all" in messages
    assert "Model alias nobody-has-this is not mapped" in messages
    assert "typo asks for permission mode `auto`, which is wider" in messages
    assert not told["ok"]
    done = here.check()
    assert done.returncode == 1
    assert "empty.md" in done.stdout


def test_a_warning_alone_is_no_failure(here: Place) -> None:
    here.define("typo", "tool: Read")
    told = here.report()
    assert [one["severity"] for one in told["problems"]] == ["warning"]
    assert told["ok"]


def test_a_model_that_cannot_be_used_fails_the_check(here: Place) -> None:
    told = here.report(model="script:/nowhere.json")
    assert [one["where"] for one in told["problems"]] == ["main"]
    assert not told["ok"]
    unset = orc("check", "-C", here.repo, "--json", env=environment(here.home))
    assert unset.returncode == 1
    assert "MODEL_NOT_CONFIGURED" in unset.stdout


def test_a_definition_that_narrows_is_judged_by_its_own_mode(here: Place) -> None:
    here.define("careful", "tools: Write", "permissionMode: ask")
    told = here.report("--headless", "--permission-mode", "auto")
    assert blocking(told) == {
        ("careful", "Write", "in the workspace"),
        ("careful", "Write", "outside the roots"),
    }


@pytest.mark.parametrize(
    "wrong",
    [("--allow", "Bash("), ("--agent", "nobody"), ("--permission-mode", "free"), ("-C", "/nowhere/x")],
)
def test_options_that_mean_nothing_are_usage_errors(here: Place, wrong: tuple[str, ...]) -> None:
    done = here.check(*wrong)
    assert done.returncode == 2
    assert done.stdout == ""

"""The demo's project and script fit each other: the edits that the script makes really repair the project."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import orchestrator
from agents.errors import ErrorCode
from agents.models.scripted import load_script
from agents.rules.edits import Planned, Refused, Snapshot, digest_of, plan_edit, tag_of
from agents.rules.line_set import LineSet
from agents.rules.ops import EditRequest, parse_request

DEMO = Path(orchestrator.__path__[0]) / "demo"
SCRIPT = yaml.safe_load((DEMO / "script.yaml").read_text(encoding="utf-8"))
BROKEN = {"fixer#1": "pricing", "fixer#2": "inventory", "fixer#3": "invoices"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    copy = tmp_path / "project"
    shutil.copytree(DEMO / "project", copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def calls(label: str, tool: str) -> list[dict[str, Any]]:
    """The arguments of every call of one tool in one agent's turns, in order."""
    turns = SCRIPT["agents"][label]
    return [call["arguments"] for turn in turns for call in turn.get("calls", ()) if call["tool"] == tool]


def run_tests(project: Path, *modules: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-B", "-m", "unittest", "-q", *modules]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)


def lines_of(project: Path, call: dict[str, Any]) -> list[str]:
    return (project / call["path"]).read_text(encoding="utf-8").split("\n")


def decide(project: Path, call: dict[str, Any]) -> Planned | Refused:
    """What the edit rules say to a call whose agent has just read the whole file."""
    data = (project / call["path"]).read_bytes()
    shown = Snapshot(
        tag=tag_of(data), digest=digest_of(data), data=data, seen=LineSet.of(range(1, data.count(b"\n") + 1))
    )
    assert call["tag"] == f"${{tag:{call['path']}}}"
    request = parse_request(shown.tag, call["ops"])
    assert isinstance(request, EditRequest)
    return plan_edit(request, shown, data, path=call["path"])


def apply(project: Path, call: dict[str, Any]) -> None:
    planned = decide(project, call)
    assert isinstance(planned, Planned)
    (project / call["path"]).write_bytes(planned.data)


def test_the_script_is_one_that_the_scripted_model_accepts() -> None:
    assert set(load_script(DEMO / "script.yaml").agents) == {"main", *BROKEN}


def test_three_modules_are_broken_and_the_rest_passes(project: Path) -> None:
    assert "FAILED (failures=5)" in run_tests(project).stderr
    assert run_tests(project, "tests.test_catalog", "tests.test_orders").returncode == 0


@pytest.mark.parametrize("label", BROKEN)
def test_the_fixer_sees_its_own_module_fail_with_the_command_it_runs(project: Path, label: str) -> None:
    command = calls(label, "Bash")[0]["command"]
    assert command == f"python3 -m unittest -q tests.test_{BROKEN[label]}"
    expected = SCRIPT["agents"][label][1]["expect"]["contains"]
    assert expected in run_tests(project, f"tests.test_{BROKEN[label]}").stderr


@pytest.mark.parametrize("label", BROKEN)
def test_the_last_edit_of_a_fixer_repairs_its_module_alone(project: Path, label: str) -> None:
    apply(project, calls(label, "Edit")[-1])
    assert run_tests(project, f"tests.test_{BROKEN[label]}").returncode == 0
    others = [f"tests.test_{module}" for other, module in BROKEN.items() if other != label]
    assert run_tests(project, *others).returncode == 1


def test_all_three_repairs_together_make_the_whole_suite_pass(project: Path) -> None:
    for label in BROKEN:
        apply(project, calls(label, "Edit")[-1])
    done = run_tests(project)
    assert done.returncode == 0
    assert "Ran 32 tests" in done.stderr


def test_the_third_fixer_makes_three_edits_out_of_range_and_one_that_fits(project: Path) -> None:
    *bad, good = [decide(project, call) for call in calls("fixer#3", "Edit")]
    assert [one.error.code for one in bad if isinstance(one, Refused)] == [ErrorCode.EDIT_RANGE_INVALID] * 3
    assert isinstance(good, Planned)


def test_the_line_that_the_resumed_fixer_replaces_is_the_one_it_expects_to_see(project: Path) -> None:
    call = calls("fixer#3", "Edit")[-1]
    start = call["ops"][0]["start"]
    shown = f"{start}:{lines_of(project, call)[start - 1]}"
    turns = SCRIPT["agents"]["fixer#3"]
    assert shown in [turn.get("expect", {}).get("contains") for turn in turns]


def test_the_parent_starts_the_three_fixers_in_one_batch_and_tells_which_one_failed() -> None:
    first, *_, last = SCRIPT["agents"]["main"]
    assert [call["tool"] for call in first["calls"]] == ["Task", "Task", "Task"]
    assert last["expect"] == {"contains": "MUTATION_RETRY_BUDGET_EXHAUSTED"}
    for word in (*BROKEN, "MUTATION_RETRY_BUDGET_EXHAUSTED", "not"):
        assert word in last["text"]


def test_no_repair_keeps_the_size_of_its_file(project: Path) -> None:
    # Python trusts a cached module whose source has the same size and second, and a demo is that fast.
    for label in BROKEN:
        call = calls(label, "Edit")[-1]
        before = (project / call["path"]).stat().st_size
        apply(project, call)
        assert (project / call["path"]).stat().st_size != before

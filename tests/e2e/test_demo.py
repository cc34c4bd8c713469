"""`orchestrator demo`, whole: offline, without a git identity, in a folder of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.demo.checks import CODE, EXPECTED, Facts, most_at_once, problems
from tests.command import environment, last_line, objects, orc


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def git(project: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(project), *arguments], capture_output=True, text=True, check=True
    ).stdout


def test_the_demo_ends_as_described_and_touches_nothing_of_the_persons(home: Path, tmp_path: Path) -> None:
    env = environment(home, TMPDIR=str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    done = orc("demo", env=env, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert last_line(done.stdout) == "Everything ended as described above."
    for told in (
        "Two of the three are fixed, one is not.",
        f"✗ fixer#3 failed · {CODE}",
        "▶ fixer#3 resumed",
        "Ran 32 tests",
        "waiting for you",
        "git -C",
        f"{sys.executable} -m orchestrator show ses-",
        "What a resume would do:",
    ):
        assert told in done.stdout
    (folder,) = (tmp_path / "tmp").glob("orchestrator-demo-*")
    assert list(home.iterdir()) == []
    subjects = git(folder / "project", "log", "--reverse", "--format=%s").splitlines()
    assert subjects[0] == "The shop library, with three failing modules"
    assert sorted(subjects[1:3]) == ["fixer#1: Quantity discounts", "fixer#2: Half-made reservations"]
    assert subjects[3:] == ["fixer#3: December invoices"]
    assert git(folder / "project", "status", "--porcelain") == ""


def test_the_demo_as_json_in_a_folder_that_is_named_and_its_commands_work(home: Path, tmp_path: Path) -> None:
    env = environment(home)
    done = orc("demo", "--json", "--keep", tmp_path / "kept", env=env, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    (told,) = objects(done.stdout)
    assert told["ok"]
    assert [task["status"] for task in told["tasks"]] == ["completed", "completed", "failed", "completed"]
    assert orc("trace", "check", told["traceFile"], env=env).returncode == 0
    for arguments in (
        ("show", told["sessionId"]),
        ("tasks", told["sessionId"]),
        ("trace", told["traceIds"][0]),
        ("resume", told["sessionId"], "Check it all", "--dry-run"),
    ):
        assert orc(*arguments, "--store", told["store"], env=env).returncode == 0
    again = orc("demo", "--keep", tmp_path / "kept", env=env)
    assert again.returncode == 2
    assert "not an empty folder" in last_line(again.stderr)


GOOD = Facts(
    first_status="completed",
    first_text=f"One failed with {CODE}.",
    first_runs=tuple(
        (label, status, CODE if status == "failed" else "") for label, status in EXPECTED.items()
    ),
    side_by_side=3,
    failed_file_untouched=True,
    resumed_status="completed",
    resumed_runs=("failed", "completed"),
    tests_pass=True,
    tests_said="OK",
    spans=50,
    trace_problems=(),
)


def test_the_demo_names_each_thing_that_did_not_end_as_it_should() -> None:
    assert problems(GOOD) == ()
    for name, value in (
        ("first_status", "failed"),
        ("first_text", "All is well."),
        ("first_runs", GOOD.first_runs[:2]),
        ("side_by_side", 1),
        ("failed_file_untouched", False),
        ("resumed_status", "failed"),
        ("resumed_runs", ("failed",)),
        ("tests_pass", False),
        ("spans", 0),
        ("trace_problems", ("orphan",)),
    ):
        facts = {field: getattr(GOOD, field) for field in Facts.__slots__ if not field.startswith("__")}
        assert problems(Facts(**{**facts, name: value}))


def test_the_largest_number_of_intervals_at_one_time_is_counted() -> None:
    assert most_at_once([]) == 0
    assert most_at_once([(0, 5), (5, 9)]) == 1
    assert most_at_once([(0, 9), (1, 3), (2, 4), (8, 10)]) == 3

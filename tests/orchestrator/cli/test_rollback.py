"""`rollback` as a command: real processes, a real store, real files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command import environment, orc, script

AGENTS = {
    "main": [
        {"calls": [{"tool": "Read", "arguments": {"path": "a.txt"}}]},
        {
            "calls": [
                {
                    "tool": "Edit",
                    "arguments": {
                        "path": "a.txt",
                        "tag": "${tag:a.txt}",
                        "ops": [{"op": "replace", "start": 1, "text": "changed"}],
                    },
                },
                {"tool": "Write", "arguments": {"path": "new/b.txt", "content": "b\n"}},
            ]
        },
        {"text": "Done."},
    ]
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo/a.txt").write_text("one\ntwo\n")
    home = tmp_path / "home"
    home.mkdir()
    done = orc(
        *("run", "--model", script(tmp_path, AGENTS), "--permission-mode", "auto"),
        *("-C", tmp_path / "repo", "--session-id", "ses-one", "Go"),
        env=environment(home),
    )
    assert done.returncode == 0, done.stderr
    return tmp_path


def roll_back(place: Path, *arguments: str) -> tuple[int, str, str]:
    done = orc("rollback", *arguments, env=environment(place / "home"))
    return done.returncode, done.stdout, done.stderr


def test_a_session_is_undone_and_the_undoing_can_be_undone(place: Path) -> None:
    status, told, _ = roll_back(place, "ses-one")
    assert status == 0
    assert (place / "repo/a.txt").read_text() == "one\ntwo\n"
    assert not (place / "repo/new").exists()
    again = told.split("`orchestrator rollback ")[1].split("`")[0]
    assert roll_back(place, again)[0] == 0
    assert (place / "repo/a.txt").read_text() == "changed\ntwo\n"
    assert (place / "repo/new/b.txt").read_text() == "b\n"


def test_a_dry_run_lists_the_changes_and_makes_none(place: Path) -> None:
    status, told, _ = roll_back(place, "ses-one", "--dry-run")
    assert status == 0
    assert "a.txt" in told
    assert "new/b.txt" in told
    assert (place / "repo/a.txt").read_text() == "changed\ntwo\n"


def test_a_dry_run_says_what_the_rollback_itself_would_refuse(place: Path) -> None:
    (place / "repo/a.txt").write_text("mine\n")
    status, told, complaint = roll_back(place, "ses-one", "--dry-run")
    assert status == 4
    assert "modified  a.txt" in told
    assert complaint.strip().splitlines()[-1].startswith("CONFLICT: ")
    assert "not undone" not in told


def test_a_dry_run_says_what_is_not_undone(place: Path) -> None:
    outside = place / "outside.txt"
    write = {"tool": "Write", "arguments": {"path": str(outside), "content": "x\n"}}
    done = orc(
        *("run", "--model", script(place, {"main": [{"calls": [write]}, {"text": "Done."}]})),
        *("--permission-mode", "auto", "-C", place / "repo", "--session-id", "ses-two", "Go"),
        env=environment(place / "home"),
    )
    assert done.returncode == 0, done.stderr
    status, told, _ = roll_back(place, "ses-two", "--dry-run")
    assert (status, f"not undone: {outside}" in told) == (0, True)


def test_a_file_that_was_changed_later_is_a_conflict_and_nothing_is_touched(place: Path) -> None:
    (place / "repo/a.txt").write_text("mine\n")
    status, _, complaint = roll_back(place, "ses-one")
    assert status == 4
    assert complaint.strip().splitlines()[-1].startswith("CONFLICT: ")
    assert "a.txt" in complaint
    assert (place / "repo/a.txt").read_text() == "mine\n"
    assert (place / "repo/new/b.txt").exists()


def test_a_file_that_the_user_took_off_the_deny_list_is_undone_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    (tmp_path / "home/.orchestrator").mkdir(parents=True)
    (tmp_path / "home/.orchestrator/config.toml").write_text('lifted_names = [".env"]\n')
    agents = {
        "main": [
            {"calls": [{"tool": "Write", "arguments": {"path": ".env", "content": "A=1\n"}}]},
            {"text": "Done."},
        ]
    }
    run = orc(
        *("run", "--model", script(tmp_path, agents), "--permission-mode", "auto"),
        *("-C", tmp_path / "repo", "--session-id", "ses-one", "Go"),
        env=environment(tmp_path / "home"),
    )
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "repo/.env").exists()
    status, _, complaint = roll_back(tmp_path, "ses-one")
    assert status == 0, complaint
    assert not (tmp_path / "repo/.env").exists()

"""`doctor` and `export` as commands: real processes, a real store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command import environment, last_line, orc, script

AGENTS = {
    "main": [
        {"calls": [{"tool": "Write", "arguments": {"path": "a.txt", "content": "a <b>\n"}}]},
        {"text": "Done."},
    ]
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with one session in its store."""
    root = tmp_path_factory.mktemp("place")
    (root / "repo").mkdir()
    (root / "home").mkdir()
    done = orc(
        *("run", "--model", script(root, AGENTS), "--permission-mode", "auto"),
        *("-C", root / "repo", "--session-id", "ses-one", "Go"),
        env=environment(root / "home"),
    )
    assert done.returncode == 0, done.stderr
    return root / "home"


def test_a_healthy_store_is_called_healthy(home: Path) -> None:
    done = orc("doctor", env=environment(home))
    assert done.returncode == 0, done.stderr
    assert "1 sessions" in done.stdout
    assert "nothing is wrong" in done.stdout
    told = json.loads(orc("doctor", "--json", env=environment(home)).stdout)
    assert (told["sessions"], told["damage"], told["problems"]) == (1, [], [])


def test_a_problem_is_told_with_what_to_do_and_by_the_exit_status(home: Path) -> None:
    store = home / "data/store.sqlite3"
    store.chmod(0o644)
    try:
        done = orc("doctor", env=environment(home))
    finally:
        store.chmod(0o600)
    assert done.returncode == 1
    assert "problem   Others may read" in done.stdout


def test_a_salvaged_store_is_used_like_any_other(home: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.sqlite3"
    done = orc("doctor", "--salvage", new, env=environment(home))
    assert done.returncode == 0, done.stderr
    assert f"saved     {new}" in done.stdout
    listed = orc("sessions", "--store", new, env=environment(home))
    assert "ses-one" in listed.stdout
    again = orc("doctor", "--salvage", new, env=environment(home))
    assert again.returncode == 2
    assert last_line(again.stderr).startswith("INVALID_ARGUMENT: ")


def test_no_store_is_usage(tmp_path: Path) -> None:
    done = orc("doctor", "--store", tmp_path / "none.sqlite3", env=environment(tmp_path))
    assert done.returncode == 2
    assert last_line(done.stderr).startswith("NOT_FOUND: There is no store at")


def test_a_session_is_exported_as_json_and_as_a_page(home: Path) -> None:
    told = json.loads(orc("export", "ses-one", env=environment(home)).stdout)
    assert told["session"]["sessionId"] == "ses-one"
    page = orc("export", "ses-o", "--format", "html", env=environment(home)).stdout
    assert page.startswith("<!doctype html>")
    assert "a &lt;b&gt;" in page


def test_an_unknown_id_is_named(home: Path) -> None:
    done = orc("export", "nothing", env=environment(home))
    assert done.returncode == 2
    assert "'nothing'" in last_line(done.stderr)

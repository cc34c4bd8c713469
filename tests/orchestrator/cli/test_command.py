"""The command's own rules: its verbs, its options, its exit statuses, its log, its schemas."""

from __future__ import annotations

import importlib
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.errors import ErrorCode, ToolError
from agents.events import KNOWN_TYPES
from orchestrator.cli.command import VERBS
from orchestrator.cli.leaving import Leave, Status, error_line, status_of, status_of_turn
from orchestrator.cli.listing import table
from orchestrator.cli.logs import current_log, open_log
from orchestrator.cli.options import flags_of, split_rules
from orchestrator.cli.run import resume, run
from orchestrator.cli.schema import event_schema, result_schema


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_where_the_list_says_and_has_a_help_text(verb: str) -> None:
    module, _, name = VERBS[verb][0].partition(":")
    command = getattr(importlib.import_module(f"orchestrator.cli.{module}"), name)
    assert isinstance(command, click.Command)
    assert command.name == verb
    assert command.help


def test_resume_takes_every_shared_option_of_run() -> None:
    shared = {option.name for option in run.params} - {"prompt", "session_id", "go_on", "resumed"}
    assert shared <= {option.name for option in resume.params}


def test_every_error_code_has_one_exit_status_and_refusals_are_4() -> None:
    statuses = {code: status_of(code) for code in ErrorCode}
    assert set(statuses.values()) == {Status.FAILED, Status.USAGE, Status.REFUSED}
    assert {code for code, status in statuses.items() if status is Status.REFUSED} == {
        code for code in ErrorCode if code.startswith("TASK_") or code == "CHAIN_LOCKED"
    }
    assert statuses[ErrorCode.MODEL_NOT_CONFIGURED] is Status.USAGE


@pytest.mark.parametrize(
    ("status", "denied", "headless", "expected"),
    [
        ("completed", False, True, 0),
        ("completed", True, True, 3),
        ("completed", True, False, 0),
        ("failed", True, True, 1),
        ("truncated", False, True, 1),
        ("stopped", True, True, 130),
        ("aborted", False, False, 130),
        ("interrupted", False, True, 130),
    ],
)
def test_a_turns_status_decides_the_exit_status(
    status: str, denied: bool, headless: bool, expected: int
) -> None:
    assert status_of_turn(status, denied=denied, headless=headless) == expected


def test_the_last_line_is_one_line() -> None:
    error = ToolError(code=ErrorCode.PROVIDER_ERROR, message="It said:\n\n  no\r\n")
    assert error_line(error) == "PROVIDER_ERROR: It said: no"


def test_several_rules_in_one_option_are_told_apart_outside_parentheses() -> None:
    given_ = ("Read,Bash(git log *) Edit", "Bash(echo a, b)")
    assert split_rules(given_) == ("Read", "Bash(git log *)", "Edit", "Bash(echo a, b)")


@given(st.lists(st.sampled_from(["Read", "Write(src/**)", "Bash(git log --format=%h, *)", "mcp__a__b"])))
def test_rules_survive_being_joined(rules: list[str]) -> None:
    assert split_rules((",".join(rules),)) == tuple(rules)


def test_other_spellings_of_permission_modes_mean_the_same() -> None:
    assert flags_of({"permission_mode": "default"})["permission_mode"] == "ask"
    assert flags_of({"permission_mode": "acceptEdits"})["permission_mode"] == "accept-edits"
    plan = flags_of({"permission_mode": "plan", "mode": None})
    assert (plan["permission_mode"], plan["mode"]) == (None, "plan")


def test_what_is_not_in_this_version_says_so() -> None:
    with pytest.raises(Leave, match="--sandbox is not available in this version") as left:
        flags_of({"sandbox": True})
    assert left.value.status is Status.USAGE


def test_columns_are_aligned_by_what_a_terminal_shows() -> None:
    assert table(("A", "B"), [("日本", "x\n\x1b[0m"), ("ab", 1)]) == [
        "A     B",
        "日本  x\\n\\x1b[0m",
        "ab    1",
    ]


@pytest.fixture
def quiet_root() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    for handler in root.handlers[:]:
        handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.usefixtures("quiet_root")
def test_the_log_is_private_appears_with_its_first_record_and_rotates(tmp_path: Path) -> None:
    path = open_log(tmp_path / "data")
    assert current_log() == path
    assert not path.exists()
    log = logging.getLogger("orchestrator")
    for _ in range(3):
        log.error("x" * 600_000)
    files = sorted(path.parent.iterdir())
    assert [file.name for file in files] == ["orchestrator.log", "orchestrator.log.1", "orchestrator.log.2"]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.usefixtures("quiet_root")
def test_a_log_that_cannot_be_written_costs_nothing_and_shows_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data").write_text("a file, not a folder")
    open_log(tmp_path / "data")
    logging.getLogger("orchestrator").error("lost")
    assert capsys.readouterr() == ("", "")


def test_the_schemas_hold_every_event_with_its_envelope_and_every_result() -> None:
    events = event_schema()
    definitions = [events["$defs"][one["$ref"].rpartition("/")[2]] for one in events["anyOf"]]
    kinds = {definition["properties"]["type"]["enum"][0]: definition for definition in definitions}
    assert set(kinds) == KNOWN_TYPES
    for kind, definition in kinds.items():
        assert {"v", "ts", "type", "sessionId", "traceId"} <= set(definition["required"])
        assert ("seq" in definition["required"]) == (kind not in ("text.delta", "tool.progress"))
    assert {"ReadResult", "BashResult", "TaskResult"} <= set(result_schema()["$defs"])
    assert msgspec.json.encode([events, result_schema()])


@pytest.mark.skipif(sys.platform != "linux", reason="a Linux process attribute")
def test_a_run_is_unreadable_to_other_processes_before_it_does_anything() -> None:
    program = (
        "import ctypes\n"
        "from orchestrator.cli import run\n"
        "async def work():\n"
        "    print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))  # PR_GET_DUMPABLE\n"
        "run._start(work)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"

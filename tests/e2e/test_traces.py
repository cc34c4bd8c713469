"""Traces of the real command: every way a run can end, bad collectors, and the verbs that read them."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from telemetry.check import check_trace
from telemetry.records import SpanRecord
from telemetry.testing import Mode, OtlpReceiver
from telemetry.tracefile import read_trace_file
from tests.command import Done, environment, last_line, objects, orc, script, started, until
from tests.harness import call, calls, say, spans_named

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
GENEROUS_SECONDS = 3.0
"""Thrice the promised second: these tests share their machine."""


@attrs.frozen
class Place:
    root: Path
    env: dict[str, str]

    def arguments(self, agents: dict[str, Any], *more: str | Path) -> list[str | Path]:
        model = script(self.root, agents)
        where = ("-C", self.root / "repo", "--session-id", "one", "--permission-mode", "auto")
        return ["run", "Go", "--model", model, *where, *more]

    def run(self, agents: dict[str, Any], *more: str | Path, **env: str) -> Done:
        return orc(*self.arguments(agents, *more), env={**self.env, **env})

    def stopped_by(self, number: signal.Signals, *more: str | Path) -> tuple[int, str]:
        """A run that is in the middle of a delegate's command when the signal comes; status and stderr."""
        process = started(*self.arguments(WAITING, *more), env=self.env)
        until((self.root / "repo/started").exists)
        os.kill(process.pid, number)
        _, told = process.communicate(timeout=20)
        return process.returncode, told


WAITING = {
    "main": [
        calls(call("Task", subagent_type="tester", prompt="Wait")),
        calls(call("TaskWait")),
        say("Done."),
        say("Done again."),
    ],
    "tester": [calls(call("Bash", command="touch started; sleep 60")), say("Went on.")],
}


@pytest.fixture
def here(tmp_path: Path) -> Place:
    (tmp_path / "repo").mkdir()
    return Place(tmp_path, environment(tmp_path))


def outcomes(spans: Sequence[SpanRecord]) -> dict[str, object]:
    key = "orchestrator.outcome"
    return {span.name: span.attributes[key] for span in spans if key in span.attributes}


@pytest.mark.parametrize(
    ("agents", "status"),
    [({"main": [say("Done.")]}, 0), ({"main": [calls(call("Read", path="missing"))]}, 1)],
)
def test_a_short_run_sends_every_span_before_it_ends(
    here: Place, agents: dict[str, Any], status: int
) -> None:
    with OtlpReceiver() as receiver:
        done = here.run(agents, "--trace-file", here.root / "t.jsonl", **{ENDPOINT: receiver.endpoint})
        assert done.returncode == status
        assert check_trace(receiver.spans) == ()
        assert spans_named(receiver.spans, "invoke_workflow turn")
        written = read_trace_file(here.root / "t.jsonl")
        assert {span.span_id for span in written} == {span.span_id for span in receiver.spans}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_run_ends_its_open_spans(here: Place, number: signal.Signals) -> None:
    file = here.root / "t.jsonl"
    status, _ = here.stopped_by(number, "--trace-file", file)
    spans = read_trace_file(file)
    assert status == 130
    assert check_trace(spans) == ()
    assert outcomes(spans) == {
        "invoke_workflow turn": "stopped",
        "invoke_agent main": "stopped",
        "invoke_agent tester": "aborted",
    }
    (bash,) = spans_named(spans, "execute_tool Bash")
    assert bash.attributes["orchestrator.tool.outcome"] == "cancelled"


def test_a_killed_run_is_completed_in_the_file_it_was_written_to_and_nowhere_else(here: Place) -> None:
    file, other = here.root / "t.jsonl", here.root / "other.jsonl"
    here.stopped_by(signal.SIGKILL, "--trace-file", file)
    before = read_trace_file(file)
    assert not spans_named(before, "invoke_workflow turn")
    elsewhere = orc("resume", "one", "--trace-file", other, "--permission-mode", "auto", env=here.env)
    assert elsewhere.returncode == 0, elsewhere.stderr
    with sqlite3.connect(here.root / "data/store.sqlite3") as store:
        (killed, _) = [row[0] for row in store.execute("select trace_id from turns order by idx")]
    assert killed not in {span.trace_id for span in read_trace_file(other)}
    assert read_trace_file(file) == before
    again = orc("resume", "one", "Once more", "--trace-file", file, env=here.env)
    assert again.returncode == 0, again.stderr
    spans = [span for span in read_trace_file(file) if span.trace_id == killed]
    assert check_trace(spans) == ()
    (root,) = spans_named(spans, "invoke_workflow turn")
    assert (root.status, root.status_description) == ("ERROR", "process died")


@pytest.mark.parametrize("mode", ["hang", "refuse"])
def test_a_bad_collector_costs_a_second_and_one_line(here: Place, mode: Mode) -> None:
    with OtlpReceiver(mode) as receiver:
        began = time.monotonic()
        alone = here.run({"main": [say("Done.")]})
        plain = time.monotonic() - began
        began = time.monotonic()
        (here.root / "data/store.sqlite3").unlink()
        done = here.run({"main": [say("Done.")]}, **{ENDPOINT: receiver.endpoint})
        assert time.monotonic() - began - plain < GENEROUS_SECONDS
    assert (alone.returncode, done.returncode) == (0, 0)
    assert "telemetry" not in alone.stderr
    (line,) = (line for line in done.stderr.splitlines() if "telemetry" in line)
    assert line.startswith("warning: telemetry: ")
    assert receiver.endpoint in line


def test_a_failed_runs_code_stays_the_last_line(here: Place) -> None:
    with OtlpReceiver("refuse") as receiver:
        done = here.run({"main": [calls(call("Read", path="missing"))]}, **{ENDPOINT: receiver.endpoint})
    assert done.returncode == 1
    assert last_line(done.stderr).startswith("PROVIDER_ERROR: ")
    assert "telemetry: " in done.stderr


def test_a_stored_trace_is_exported_as_a_trace_file(here: Place) -> None:
    done = here.run(WAITING | {"tester": [say("Done.")]})
    assert done.returncode == 0, done.stderr
    file = here.root / "exported.jsonl"
    told = orc("trace", "export", "one", file, env=here.env)
    assert (told.returncode, told.stderr) == (0, "")
    assert (file.stat().st_mode & 0o777) == 0o600
    spans = read_trace_file(file)
    stored = objects(orc("trace", "one", "--json", env=here.env).stdout)
    assert {span.span_id for span in spans} == {span["spanId"] for span in stored}
    assert {span.service for span in spans} == {"orchestrator", "tester"}
    checked = orc("trace", "check", file, env=here.env)
    assert (checked.returncode, checked.stderr) == (0, "")
    printed = orc("trace", "export", "one", env=here.env)
    assert printed.stdout == file.read_text()


def test_a_broken_trace_is_told_problem_by_problem(here: Place) -> None:
    file = here.root / "t.jsonl"
    here.run({"main": [say("Done.")]}, "--trace-file", file)
    text = file.read_text()
    (root,) = spans_named(read_trace_file(file), "invoke_workflow turn")
    file.write_text(text.replace(f'"parentSpanId":"{root.span_id}"', '"parentSpanId":"00000000000000ff"'))
    done = orc("trace", "check", file, env=here.env)
    assert done.returncode == 1
    assert "is an orphan" in done.stdout
    assert last_line(done.stderr).startswith("TOOL_FAILED: ")


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("http://127.0.0.1:9/trace/0123456789abcdef0123456789abcdef", "start Jaeger there"),
        ("http://127.0.0.1:9/search", "give its page"),
        ("missing.jsonl", "name a file written with --trace-file"),
    ],
)
def test_what_cannot_be_checked_is_told_with_the_next_step(here: Place, where: str, told: str) -> None:
    done = orc("trace", "check", where, env=here.env)
    assert done.returncode == 2
    assert told in last_line(done.stderr)

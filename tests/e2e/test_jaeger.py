"""Traces in a real Jaeger: everything arrives, hangs together, and leads to what somebody looks for."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
import trio

from agents.requests import Answer, Decision, PermissionRequest
from orchestrator.store.base import RequestRow
from orchestrator.store.memory import MemoryStore
from orchestrator.store.sqlite import open_sqlite_store
from orchestrator.trace_view import critical_path
from telemetry.check import check_trace
from telemetry.export import TelemetrySettings, open_export
from telemetry.records import SpanRecord
from tests.command import environment, orc, script, started, until
from tests.harness import bad_edit, call, calls, edit, say, scripted, session_on, spans_named
from tests.jaeger import BINARY, Jaeger, running_jaeger
from tests.telemetry.spans import burst

pytestmark = pytest.mark.skipif(
    BINARY is None,
    reason="no Jaeger: build one with .ci/build-jaeger and name it in ORCHESTRATOR_JAEGER_BIN",
)
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
EXHAUSTED = "MUTATION_RETRY_BUDGET_EXHAUSTED"
TEN_LINES = "".join(f"line {n}\n" for n in range(1, 11))


@pytest.fixture(scope="module")
def jaeger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jaeger]:
    with running_jaeger(tmp_path_factory.mktemp("jaeger")) as running:
        yield running


class Anna:
    """Thinks before she allows a fixer its command; denies all others at once."""

    async def approve(self, request: PermissionRequest) -> Answer:
        fixer = request.agent_label.startswith("fixer")
        await trio.sleep(0.4 if fixer else 0.05)
        decision = Decision.ALLOW_ONCE if fixer else Decision.DENY
        return Answer(decision=decision, source="api", by="anna")


@attrs.frozen
class Seen:
    """A failed turn and its resume, as stored and as the Jaeger has them."""

    turn: list[SpanRecord]
    resume: list[SpanRecord]
    stored: list[SpanRecord]
    requests: list[RequestRow]
    services: list[str]

    def one(self, name: str, **attributes: object) -> SpanRecord:
        """The only span of the failed turn with this name and these attributes (dots as underscores)."""
        (found,) = [
            span
            for span in spans_named(self.turn, name)
            if all(span.attributes.get(key.replace("__", ".")) == value for key, value in attributes.items())
        ]
        return found


async def play(root: Path, jaeger: Jaeger) -> Seen:
    store = MemoryStore()
    model = scripted(
        {
            "main": [
                calls(
                    call("Task", subagent_type="fixer", prompt="first"),
                    call("Task", subagent_type="fixer", prompt="second"),
                    call("Task", subagent_type="tester", prompt="third"),
                ),
                calls(call("TaskWait")),
                say("One of three failed."),
            ],
            "fixer#1": [
                calls(call("Read", path="a.txt")),
                *([calls(bad_edit("a.txt"))] * 3),
                calls(call("Read", path="a.txt")),
                calls(edit("a.txt", {"op": "replace", "start": 1, "text": "first"})),
                say("Now it is done."),
            ],
            "fixer#2": [calls(call("Bash", command="touch b.txt; sleep 0.7")), say("Made it.")],
            "tester": [calls(call("Bash", command="touch c.txt")), say("I was not allowed to.")],
        }
    )
    (root / "repo").mkdir()
    (root / "repo/a.txt").write_text(TEN_LINES)
    options = {"store": store, "approver": Anna(), "permission_mode": "accept-edits"}
    async with session_on(root, model, **options) as session:
        turn = await session.run("Fix it")
        (failed,) = [task for task in await store.tasks(session.id) if task.status == "failed"]
    async with session_on(root, model, resume=session.id, **options) as again:
        resume = await again.resume_task(failed.task_id, "Try once more")
    assert (turn.status, resume.status) == ("completed", "completed")
    stored = await store.spans(session.id)

    def fetch(trace_id: str | None) -> list[SpanRecord]:
        return list(jaeger.trace(trace_id or "", spans=sum(span.trace_id == trace_id for span in stored)))

    return Seen(
        turn=fetch(turn.trace_id),
        resume=fetch(resume.trace_id),
        stored=list(stored),
        requests=list(await store.requests(session.id)),
        services=jaeger.services(),
    )


@pytest.fixture(scope="module")
def seen(jaeger: Jaeger, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ENDPOINT, jaeger.endpoint)
        return trio.run(play, tmp_path_factory.mktemp("run"), jaeger)


def test_both_traces_arrive_whole_and_as_they_were_stored(seen: Seen) -> None:
    def facts(spans: list[SpanRecord]) -> list[tuple[object, ...]]:
        return sorted(
            (s.span_id, s.parent_span_id, s.name, s.service, s.start_ns, s.end_ns, s.status, repr(s.links))
            for s in spans
        )

    assert facts([*seen.turn, *seen.resume]) == facts(seen.stored)
    for stored in seen.stored:
        (shown,) = [span for span in (*seen.turn, *seen.resume) if span.span_id == stored.span_id]
        assert stored.attributes.items() <= shown.attributes.items()
        assert shown.status_description == stored.status_description
        assert [event.name for event in shown.events] == [event.name for event in stored.events]


def test_every_span_has_its_parent_has_ended_and_keeps_the_rules(seen: Seen) -> None:
    assert check_trace([*seen.turn, *seen.resume]) == ()
    for spans in (seen.turn, seen.resume):
        ids = {span.span_id for span in spans}
        (root,) = [span for span in spans if span.parent_span_id is None]
        assert root.name == "invoke_workflow turn"
        assert all(span.parent_span_id in ids for span in spans if span is not root)
        assert all(span.end_ns >= span.start_ns > 0 for span in spans)


def test_the_exhausted_delegate_says_so_on_its_task_and_the_edit_has_its_own_code(seen: Seen) -> None:
    task = seen.one("execute_tool Task", orchestrator__agent__label="fixer#1")
    agent = seen.one("invoke_agent fixer", orchestrator__agent__label="fixer#1")
    for span in (task, agent):
        assert (span.status, span.attributes["error.type"]) == ("ERROR", EXHAUSTED)
    edits = spans_named(seen.turn, "execute_tool Edit")
    assert [span.attributes["error.type"] for span in edits] == ["EDIT_RANGE_INVALID"] * 3
    assert [span.status for span in edits] == ["ERROR"] * 3
    last = max(edits, key=lambda span: span.start_ns)
    for span in (task, agent):
        assert span.attributes["orchestrator.error.origin_span_id"] == last.span_id
        assert last.span_id in [link.span_id for link in span.links]
    assert agent.attributes["orchestrator.recovery.target"] == "a.txt"
    assert agent.attributes["orchestrator.recovery.counted_failures"] == 3
    assert [event.name.rpartition(".")[2] for event in agent.events] == [
        "counted",
        "counted",
        "counted",
        "exhausted",
        "released",
    ]


def test_permission_waits_last_as_long_as_the_audit_says(seen: Seen) -> None:
    waits = {
        span.attributes["orchestrator.permission.request_id"]: span
        for span in spans_named(seen.turn, "permission wait")
    }
    assert len(seen.requests) == len(waits) == 2
    for row in seen.requests:
        span = waits[row.request.id]
        assert row.wait_ms is not None
        assert abs((span.end_ns - span.start_ns) / 1e6 - row.wait_ms) < 30
        assert span.attributes["orchestrator.permission.decision"] == row.decision
        assert span.attributes["orchestrator.permission.decided_by"] == "anna"
        assert (span.service, span.status) == ("person", "UNSET")
    assert {row.decision for row in seen.requests} == {"allow-once", "deny"}
    denied = seen.one("execute_tool Bash", orchestrator__tool__outcome="denied")
    assert denied.status == "UNSET"


def test_the_resumed_turn_leads_to_the_failed_one(seen: Seen) -> None:
    (root,) = [span for span in seen.resume if span.parent_span_id is None]
    (failed,) = [span for span in seen.turn if span.parent_span_id is None]
    (link,) = root.links
    assert (link.trace_id, link.span_id) == (failed.trace_id, failed.span_id)
    assert root.attributes["orchestrator.resume.of_trace_id"] == failed.trace_id
    assert root.attributes["orchestrator.resume.attempt"] == 2
    assert root.attributes["orchestrator.resume.reason"] == EXHAUSTED
    assert root.attributes["session.id"] == failed.attributes["session.id"]
    below = {span.name for span in seen.resume if span.parent_span_id == root.span_id}
    assert below == {"invoke_agent fixer", "settle"}


def test_agents_and_the_person_are_services_of_their_own(seen: Seen) -> None:
    assert seen.services == ["fixer", "orchestrator", "person", "tester"]
    chats = [span for span in seen.turn if span.name.startswith("chat ")]
    assert {span.attributes["peer.service"] for span in chats} == {"script"}
    assert {span.kind for span in chats} == {"CLIENT"}
    for span in seen.turn:
        if span.name in ("execute_tool Task", "settle", "invoke_workflow turn", "invoke_agent main"):
            assert span.service == "orchestrator"


def test_the_critical_path_leads_through_the_delegate_that_was_waited_for_longest(seen: Seen) -> None:
    path = critical_path(seen.turn)
    assert seen.one("invoke_agent fixer", orchestrator__agent__label="fixer#2").span_id in path
    slow_wait = seen.one("permission wait", orchestrator__permission__decision="allow-once")
    assert slow_wait.span_id in path
    assert seen.one("execute_tool TaskWait").span_id not in path
    assert seen.one("invoke_agent tester").span_id not in path


async def test_a_named_service_takes_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_jaeger(tmp_path) as fresh:
        monkeypatch.setenv(ENDPOINT, fresh.endpoint)
        monkeypatch.setenv("OTEL_SERVICE_NAME", "x")
        model = scripted(
            {
                "main": [calls(call("Task", subagent_type="explorer", prompt="Look")), say("ok"), say("ok")],
                "explorer": [say("Seen.")],
            }
        )
        async with session_on(tmp_path, model, store=MemoryStore()) as session:
            outcome = await session.run("Go")
        spans = fresh.trace(outcome.trace_id or "", spans=len(await session.store.spans(session.id)))
        assert check_trace(spans) == ()
        assert fresh.services() == ["x"]


async def test_spans_that_are_sent_again_are_shown_once(jaeger: Jaeger) -> None:
    records = burst(4)
    for _ in range(2):
        async with open_export(TelemetrySettings(endpoint=jaeger.endpoint), warn=print) as export:
            export.export(records)
    shown = jaeger.trace(records[0].trace_id, spans=4)
    assert sorted(span.span_id for span in shown) == sorted(record.span_id for record in records)
    assert check_trace(shown) == ()


def test_a_killed_run_is_whole_after_the_next_start(jaeger: Jaeger, tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    env = environment(tmp_path, **{ENDPOINT: jaeger.endpoint})
    agents = {
        "main": [
            calls(call("Task", subagent_type="tester", prompt="Wait")),
            calls(call("TaskWait")),
            say("It was interrupted."),
        ],
        "tester": [
            calls(call("Bash", command="touch started; sleep 60")),
            say("Went on."),
        ],
    }
    model = script(tmp_path, agents)
    run = started(
        *("run", "Go", "-C", tmp_path / "repo", "--model", model),
        *("--permission-mode", "auto", "--session-id", "killed"),
        env=env,
    )
    until((tmp_path / "repo/started").exists)
    os.kill(run.pid, signal.SIGKILL)
    run.communicate()
    resumed = orc("resume", "killed", "--permission-mode", "auto", env=env)
    assert resumed.returncode == 0, resumed.stderr

    async def stored() -> tuple[SpanRecord, ...]:
        async with open_sqlite_store(tmp_path / "data/store.sqlite3") as store:
            (first, _) = await store.turns("killed")
            return await store.spans("killed", first.trace_id)

    spans = trio.run(stored)
    shown = jaeger.trace(spans[0].trace_id, spans=len(spans))
    assert check_trace(shown) == ()
    assert {span.span_id for span in shown} == {span.span_id for span in spans}
    died = {span.name for span in shown if span.status_description == "process died"}
    assert died == {
        "invoke_workflow turn",
        "invoke_agent main",
        "execute_tool Task",
        "execute_tool TaskWait",
        "invoke_agent tester",
        "execute_tool Bash",
    }
    checked = orc("trace", "check", f"{jaeger.query}/trace/{spans[0].trace_id}", env=env)
    assert (checked.returncode, checked.stderr) == (0, "")
    for span in shown:
        if span.name in died:
            assert (span.status, span.attributes["error.type"]) == ("ERROR", "INTERRUPTED")

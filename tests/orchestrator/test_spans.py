"""What each span of a run says: attributes, events, links, status; and what it never says."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from agents.models.base import Chunk, ModelRequest
from agents.requests import Answer, Decision, PermissionRequest
from orchestrator.session import Session
from orchestrator.store.memory import MemoryStore
from telemetry.check import check_trace
from telemetry.records import SpanRecord
from tests.harness import bad_edit, call, calls, edit, say, scripted, session_on, spans_named, spans_of

TEN_LINES = "".join(f"line {n}\n" for n in range(1, 11))


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo/a.txt").write_text(TEN_LINES)
    return tmp_path


@asynccontextmanager
async def session(
    repo: Path, agents: dict[str, Any], faults: Sequence[dict[str, Any]] = (), **options: Any
) -> AsyncIterator[Session]:
    options.setdefault("store", MemoryStore())
    async with session_on(repo, scripted(agents, faults), **options) as opened:
        yield opened


async def spans_after(repo: Path, agents: dict[str, Any], **options: Any) -> list[SpanRecord]:
    async with session(repo, agents, **options) as opened:
        await opened.run("Go")
        spans = await spans_of(opened)
    assert check_trace(spans) == ()
    return spans


def one(spans: Sequence[SpanRecord], name: str) -> SpanRecord:
    (found,) = spans_named(spans, name)
    return found


# tools


async def test_a_command_says_its_exit_code_and_a_failing_one_is_no_error_of_the_tool(repo: Path) -> None:
    command = call("Bash", command="exit 3")
    bash = one(await spans_after(repo, {"main": [calls(command), say("ok")]}), "execute_tool Bash")
    assert bash.attributes["orchestrator.tool.exit_code"] == 3
    assert bash.attributes["orchestrator.tool.outcome"] == "error"
    assert bash.status == "UNSET"
    assert "error.type" not in bash.attributes


async def test_a_command_that_ran_out_of_time_is_an_error(repo: Path) -> None:
    command = call("Bash", command="sleep 20", timeoutSeconds=1)
    bash = one(await spans_after(repo, {"main": [calls(command), say("ok")]}), "execute_tool Bash")
    assert (bash.status, bash.attributes["error.type"]) == ("ERROR", "TOOL_TIMEOUT")


async def test_a_failed_patch_is_an_error(repo: Path) -> None:
    patch = call("Bash", command="patch -p1 < missing.diff")
    bash = one(await spans_after(repo, {"main": [calls(patch), say("ok")]}), "execute_tool Bash")
    assert (bash.status, bash.attributes["error.type"]) == ("ERROR", "TOOL_FAILED")


async def test_file_tools_say_root_bytes_and_truncation(repo: Path) -> None:
    agents = {
        "main": [
            calls(call("Read", path="a.txt", limit=3)),
            calls(edit("a.txt", {"op": "replace", "start": 1, "text": "first"})),
            calls(bad_edit("a.txt")),
            say("ok"),
        ]
    }
    spans = await spans_after(repo, agents)
    read = one(spans, "execute_tool Read")
    assert read.attributes["orchestrator.tool.root"] == "workspace"
    assert read.attributes["orchestrator.tool.bytes"] == len(TEN_LINES)
    assert read.attributes["orchestrator.tool.truncated"] is True
    good, bad = spans_named(spans, "execute_tool Edit")
    assert good.attributes["orchestrator.tool.bytes"] == len(TEN_LINES) - 1
    assert bad.attributes["orchestrator.tool.root"] == "workspace"
    assert (bad.status, bad.attributes["error.type"]) == ("ERROR", "EDIT_RANGE_INVALID")
    assert good.attributes["gen_ai.tool.call.id"] != bad.attributes["gen_ai.tool.call.id"]


async def test_a_denied_call_is_no_error(repo: Path) -> None:
    command = call("Bash", command="touch x")
    spans = await spans_after(repo, {"main": [calls(command), say("ok")]}, permission_mode="ask")
    bash = one(spans, "execute_tool Bash")
    assert (bash.status, bash.attributes["orchestrator.tool.outcome"]) == ("UNSET", "denied")
    assert one(spans, "invoke_workflow turn").attributes["orchestrator.denials"] == 1


class Slow:
    """Answers only after everybody has stopped waiting."""

    async def approve(self, request: PermissionRequest) -> Answer:
        await trio.sleep_forever()
        raise AssertionError


async def test_a_wait_that_nobody_ended_is_an_error_that_says_timeout(repo: Path) -> None:
    command = call("Bash", command="touch x")
    spans = await spans_after(
        repo,
        {"main": [calls(command), say("ok")]},
        permission_mode="ask",
        approver=Slow(),
        permission_timeout=0.1,
    )
    wait = one(spans, "permission wait")
    assert wait.status == "ERROR"
    assert wait.status_description.startswith("timeout")
    assert wait.attributes["orchestrator.permission.decision"] == "timeout"
    assert one(spans, "execute_tool Bash").status == "UNSET"


async def test_a_permission_wait_says_everything_about_the_decision(repo: Path) -> None:
    class Anna:
        async def approve(self, request: PermissionRequest) -> Answer:
            return Answer(decision=Decision.ALLOW_SESSION, source="api", by="anna")

    command = call("Bash", command="touch x")
    spans = await spans_after(
        repo, {"main": [calls(command), say("ok")]}, permission_mode="ask", approver=Anna()
    )
    wait = one(spans, "permission wait")
    said = {
        key.removeprefix("orchestrator.permission."): value
        for key, value in wait.attributes.items()
        if key.startswith("orchestrator.permission.") and not key.endswith("request_id")
    }
    assert said == {
        "tool": "Bash",
        "mode": "ask",
        "external": False,
        "decision": "allow-session",
        "source": "api",
        "decided_by": "anna",
        "scope": "session",
        "queue_position": 0,
    }


async def test_a_wait_for_a_lock_has_a_span_and_a_cut_one_says_so(repo: Path) -> None:
    agents = {
        "main": [
            calls(call("Read", path="a.txt")),
            calls(edit("a.txt", {"op": "delete", "start": 1})),
            say("ok"),
        ]
    }
    async with session(repo, agents) as opened:
        workspace, locks = opened.assembly.workspace, opened.assembly.locks
        key = workspace.lock_key(workspace.resolve("a.txt"))
        async with trio.open_nursery() as nursery:

            async def hold(task_status: trio.TaskStatus[None]) -> None:
                from contextlib import nullcontext

                async with locks.hold(key, lambda kind: nullcontext()):
                    task_status.started()
                    await trio.sleep(0.1)

            await nursery.start(hold)
            await opened.run("Go")
        spans = await spans_of(opened)
    wait = one(spans, "lock wait")
    assert wait.parent_span_id == one(spans, "execute_tool Edit").span_id
    assert "orchestrator.outcome" not in wait.attributes
    assert one(spans, "invoke_agent main").attributes["orchestrator.wait.lock_ms"] >= 20


# model calls


async def test_each_retry_is_an_event_and_the_call_that_came_through_is_no_error(repo: Path) -> None:
    async with session(
        repo,
        {"main": [say("ok")]},
        [{"agent": "main", "turn": 1, "error": 503, "times": 2, "retry_after": 0.01}],
    ) as opened:
        await opened.run("Go")
        chat = one(await spans_of(opened), "chat test")
    assert chat.status == "UNSET"
    assert chat.attributes["orchestrator.model.retries"] == 2
    assert [(event.name, event.attributes["orchestrator.model.attempt"]) for event in chat.events] == [
        ("orchestrator.model.retry", 1),
        ("orchestrator.model.retry", 2),
    ]
    assert {event.attributes["error.type"] for event in chat.events} == {"PROVIDER_ERROR"}


async def test_a_model_call_that_failed_for_good_is_where_the_runs_error_arose(repo: Path) -> None:
    async with session(
        repo, {"main": [say("ok")]}, [{"agent": "main", "turn": 1, "error": 401, "times": 9}]
    ) as opened:
        outcome = await opened.run("Go")
        spans = await spans_of(opened)
    assert outcome.error is not None
    chat, agent = one(spans, "chat test"), one(spans, "invoke_agent main")
    for span in (chat, agent, one(spans, "invoke_workflow turn")):
        assert (span.status, span.attributes["error.type"]) == ("ERROR", outcome.error.code)
    assert agent.attributes["orchestrator.error.origin_span_id"] == chat.span_id
    assert check_trace(spans) == ()


async def test_usage_adds_up_to_the_agent_and_the_turn(repo: Path) -> None:
    usage = {"usage": {"inputTokens": 10, "outputTokens": 5, "cacheReadTokens": 2}}
    agents = {
        "main": [
            {**calls(call("Task", subagent_type="explorer", prompt="x")), **usage},
            say("ok"),
            say("ok"),
        ],
        "explorer": [{**calls(call("Read", path="a.txt")), **usage}, {**say("seen"), **usage}],
    }
    spans = await spans_after(repo, agents)
    key = "gen_ai.usage.input_tokens"
    assert one(spans, "invoke_agent explorer").attributes[key] == 20
    assert one(spans, "invoke_agent main").attributes[key] == 10
    assert one(spans, "invoke_workflow turn").attributes[key] == 30
    assert one(spans, "invoke_workflow turn").attributes["gen_ai.usage.cache_read.input_tokens"] == 6


class Broken:
    """A model with a fault that nobody foresaw."""

    name = "broken:model"
    provider = "broken"

    @asynccontextmanager
    async def respond(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[Chunk]]:
        await trio.lowlevel.checkpoint()
        raise ZeroDivisionError("SENTINEL in an exception")
        yield

    def __repr__(self) -> str:
        return "Broken()"


async def test_an_unforeseen_fault_is_told_once_where_it_arose_without_its_text(
    repo: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with session_on(repo, Broken(), store=MemoryStore()) as opened:
        outcome = await opened.run("Go")
        spans = await spans_of(opened)
    assert outcome.error is not None
    assert outcome.error.code == "INTERNAL"
    told = [span.name for span in spans for event in span.events if event.name == "exception"]
    assert told == ["chat model"]
    chat = one(spans, "chat model")
    assert chat.events[0].attributes["exception.type"] == "ZeroDivisionError"
    assert "SENTINEL" not in repr(spans)
    assert str(chat.events[0].attributes["orchestrator.incident"]) in caplog.text
    assert check_trace(spans) == ()


# what is cancelled says so


async def test_whatever_is_cut_off_ends_once_and_says_so(repo: Path) -> None:
    """Stopped in a command, in a model call, and in a wait for a person, all at once."""
    agents = {
        "main": [
            calls(*(call("Task", subagent_type="tester", prompt=f"{n}") for n in range(3))),
            calls(call("TaskWait")),
        ],
        "tester#1": [calls(call("Bash", command="cat a.txt; sleep 30"))],
        "tester#2": [say("never")],
        "tester#3": [calls(call("Bash", command="touch x"))],
    }
    faults = [{"agent": "tester#2", "turn": 1, "delay_ms": 60_000}]
    rules = {"permission_mode": "ask", "approver": Slow(), "allow": ["Bash(cat:*)", "Bash(sleep:*)"]}
    async with session(repo, agents, faults, **rules) as opened, trio.open_nursery() as nursery:
        nursery.start_soon(stop_when_all_wait, opened)
        with trio.fail_after(20):
            outcome = await opened.run("Go")
        spans = await spans_of(opened)
    assert outcome.status == "stopped"
    assert check_trace(spans) == ()
    assert len({span.span_id for span in spans}) == len(spans)
    chats = [span for span in spans if span.name == "chat test"]
    assert "cancelled" in [chat.attributes.get("orchestrator.outcome") for chat in chats]
    for bash in spans_named(spans, "execute_tool Bash"):
        assert (bash.status, bash.attributes["orchestrator.tool.outcome"]) == ("UNSET", "cancelled")
    wait = one(spans, "permission wait")
    assert (wait.status, wait.attributes["orchestrator.permission.decision"]) == ("UNSET", "cancelled")
    for task in spans_named(spans, "execute_tool Task"):
        assert (task.status, task.attributes["orchestrator.task.status"]) == ("UNSET", "aborted")
        assert task.attributes["orchestrator.tool.outcome"] == "cancelled"
    assert one(spans, "invoke_workflow turn").attributes["orchestrator.outcome"] == "stopped"


async def stop_when_all_wait(opened: Session) -> None:
    for _ in range(500):
        events = await opened.store.events(opened.id)
        started = [event for event in events if event.type == "tool.started" and event.task_id]
        asked = [event for event in events if event.type == "permission.requested"]
        if len(started) == 2 and asked:
            break
        await trio.sleep(0.02)
    opened.stop()


# parents


async def test_parallel_delegates_of_one_name_keep_their_own_spans_and_nest(repo: Path) -> None:
    look = [calls(call("Read", path="a.txt")), say("seen")]
    nested = {
        "main": [
            calls(*(call("Task", subagent_type="lead", prompt=f"{n}") for n in range(3))),
            say("ok"),
            say("ok"),
        ],
        "lead#1": [calls(call("Task", subagent_type="explorer", prompt="deep")), say("a"), say("b")],
        "lead#2": look,
        "lead#3": look,
        "explorer": look,
    }
    (repo / "home/.orchestrator/agents").mkdir(parents=True)
    (repo / "repo/.orchestrator/agents").mkdir(parents=True)
    (repo / "repo/.orchestrator/agents/lead.md").write_text(
        "---\nname: lead\ndescription: leads\ntools: Read, Task\n---\nLead.\n"
    )
    spans = await spans_after(repo, nested, max_depth=2)
    by_id = {span.span_id: span for span in spans}
    assert len({span.trace_id for span in spans}) == 1
    labels = set()
    for read in spans_named(spans, "execute_tool Read"):
        agent = by_id[read.parent_span_id or ""]
        task = by_id[agent.parent_span_id or ""]
        labels.add(
            (agent.attributes["orchestrator.agent.label"], task.attributes["orchestrator.agent.label"])
        )
        assert task.name == "execute_tool Task"
        assert read.attributes["orchestrator.agent.label"] == agent.attributes["orchestrator.agent.label"]
    assert labels == {("lead#2", "lead#2"), ("lead#3", "lead#3"), ("explorer#1", "explorer#1")}
    deep = next(span for span in spans if span.attributes.get("orchestrator.agent.label") == "explorer#1")
    assert deep
    for task in spans_named(spans, "execute_tool Task"):
        assert task.service == "orchestrator"


# content


SENTINELS = {
    "prompt": "SENTINEL-PROMPT",
    "system": "SENTINEL-SYSTEM",
    "file": "SENTINEL-FILE",
    "command": "SENTINEL-COMMAND",
    "output": "SENTINEL-OUTPUT",
    "exception": "SENTINEL-EXCEPTION",
    "provider": "SENTINEL-PROVIDER",
    "outside": "SENTINEL-OUTSIDE",
    "environment": "SENTINEL-ENVIRONMENT",
    "task": "SENTINEL-TASK",
    "report": "SENTINEL-REPORT",
}


def angry() -> str:
    """Raises."""
    raise RuntimeError(SENTINELS["exception"])


async def everything(repo: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[list[SpanRecord], str]:
    """A turn in which every kind of content turns up somewhere; its spans, and its events as text."""

    class Anna:
        async def approve(self, request: PermissionRequest) -> Answer:
            answer = Decision.DENY if "DENIED" in request.preview else Decision.ALLOW_ONCE
            return Answer(decision=answer, source="api", feedback="SENTINEL-FEEDBACK")

    outside = repo / "SENTINEL-OUTSIDE.txt"
    outside.write_text(TEN_LINES)
    monkeypatch.setenv("MY_VALUE", SENTINELS["environment"])
    (repo / "repo/secret.txt").write_text(f"{SENTINELS['file']}\n")
    (repo / "repo/.orchestrator/agents").mkdir(parents=True)
    (repo / "repo/.orchestrator/agents/helper.md").write_text(
        "---\nname: helper\ndescription: SENTINEL-ABOUT\ntools: Read, Bash, Edit\n---\nSENTINEL-SYSTEM\n"
    )
    agents = {
        "main": [
            calls(
                call("Read", path="secret.txt"),
                call("Bash", command="echo SENTINEL-COMMAND; printf 'SENTINEL-%s' OUTPUT; echo $MY_VALUE"),
                call("Bash", command="false SENTINEL-COMMAND"),
                call("Bash", command="touch SENTINEL-DENIED"),
                call("angry"),
                call("Read", path=str(outside)),
                call("Read", path="SENTINEL-MISSING.txt"),
                call("Grep", pattern="SENTINEL-PATTERN"),
                text="SENTINEL-ANSWER",
            ),
            *[calls(bad_edit(str(outside)))] * 2,
            calls(call("Task", subagent_type="helper", prompt=SENTINELS["task"])),
            calls(call("TaskWait")),
            say("SENTINEL-ANSWER"),
        ],
        "helper": [
            calls(call("Read", path=str(outside))),
            calls(bad_edit(str(outside)), text="SENTINEL-REPORT"),
            *[calls(bad_edit(str(outside)))] * 2,
        ],
    }
    faults = [
        {
            "agent": "main",
            "turn": 2,
            "error": 503,
            "times": 1,
            "retry_after": 0.01,
            "message": "SENTINEL-PROVIDER",
        }
    ]
    rules = {"permission_mode": "ask", "approver": Anna(), "tools": [angry], "defer_tools": False}
    async with session(repo, agents, faults, **rules) as opened:
        await opened.run(SENTINELS["prompt"])
        spans = await spans_of(opened)
        events = repr([event.payload for event in await opened.store.events(opened.id)])
    assert check_trace(spans) == ()
    return spans, events


async def test_no_content_is_in_any_field_of_any_span(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spans, events = await everything(repo, monkeypatch)
    unseen = {
        "SENTINEL-SYSTEM",
        "SENTINEL-PROVIDER",
    }  # these are in no event: they went to and from the model
    assert {sentinel for sentinel in SENTINELS.values() if sentinel not in events} <= unseen
    (helper,) = spans_named(spans, "invoke_agent helper")
    assert helper.attributes["orchestrator.recovery.target"] == "(outside)"
    assert [repr(span) for span in spans if "SENTINEL" in repr(span)] == []


async def test_captured_content_is_valid_json_with_its_secrets_masked(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    key = "sk-ant-0123456789abcdefghij"
    agents = {
        "main": [
            calls(call("Bash", command=f"echo api_key={key}; seq 1 5000")),
            calls(call("Write", path="b.txt", content="x" * 200_000)),
            say("ok"),
        ]
    }
    spans = await spans_after(repo, agents)
    assert key not in repr(spans)
    bash, write = one(spans, "execute_tool Bash"), one(spans, "execute_tool Write")
    told = json.loads(str(bash.attributes["gen_ai.tool.call.arguments"]))
    assert told == {"command": "echo api_key=[redacted]; seq 1 5000"}
    for span, name in ((bash, "result"), (write, "arguments"), (write, "result")):
        text = str(span.attributes[f"gen_ai.tool.call.{name}"])
        json.loads(text)
        assert len(text) <= 4096
    chat = spans_named(spans, "chat test")[0]
    assert "Go" in str(chat.attributes["gen_ai.input.messages"])
    for name in ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions"):
        json.loads(str(chat.attributes[name]))


async def test_a_giant_result_is_no_giant_span(repo: Path) -> None:
    command = call("Bash", command="head -c 6000000 /dev/zero | tr '\\0' x")
    spans = await spans_after(repo, {"main": [calls(command), say("ok")]})
    assert max(len(msgspec.json.encode(span)) for span in spans) < 4096


# nothing leaks into the logs


async def test_no_context_is_detached_in_the_wrong_place(
    repo: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Streams that are cut, delegates that are stopped while they stream: nothing complains."""
    agents = {
        "main": [
            calls(*(call("Task", subagent_type="explorer", prompt=f"{n}") for n in range(3))),
            calls(call("TaskWait", timeoutSeconds=0.2)),
            calls(call("TaskStop")),
            say("ok"),
        ],
        "explorer#1": [say("one two three four five six seven eight nine ten")],
        "explorer#2": [say("never")],
        "explorer#3": [calls(call("Read", path="a.txt")), say("done")],
    }
    faults = [
        {"agent": "explorer#1", "turn": 1, "stream_cut": True, "times": 1},
        {"agent": "explorer#2", "turn": 1, "delay_ms": 60_000},
    ]
    with caplog.at_level(logging.DEBUG):
        async with session(repo, agents, faults) as opened:
            await opened.run("Go")
            spans = await spans_of(opened)
    assert check_trace(spans) == ()
    assert [record for record in caplog.records if "detach" in record.getMessage().lower()] == []
    assert [record for record in caplog.records if record.name.startswith("opentelemetry")] == []


# any run


def some_turn(rng: random.Random) -> dict[str, Any]:
    one_of = [
        call("Read", path="a.txt"),
        call("Read", path="missing.txt"),
        call("Bash", command="exit 1"),
        call("Bash", command="touch x"),
        call("Nothing", x=1),
        call("Edit", path="a.txt", tag="0000", ops=[]),
        bad_edit("a.txt"),
    ]
    return calls(*rng.choices(one_of, k=rng.randint(1, 3)))


def some_agent(rng: random.Random) -> list[dict[str, Any]]:
    turns = [calls(call("Read", path="a.txt")), *(some_turn(rng) for _ in range(rng.randint(0, 3)))]
    return turns if rng.random() < 0.3 else [*turns, say("done")]


def some_run(rng: random.Random) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    count = rng.randint(0, 4)
    tasks = [
        call("Task", subagent_type=rng.choice(["fixer", "tester", "nobody"]), prompt=f"{n}")
        for n in range(count)
    ]
    main = [calls(*tasks)] if tasks else []
    if tasks and rng.random() < 0.7:
        main.append(calls(call("TaskWait", mode=rng.choice(["any", "all"]))))
    if tasks and rng.random() < 0.3:
        main.append(calls(call("TaskStop")))
    agents: dict[str, Any] = {"main": [*main, *some_agent(rng), say("end"), say("end"), say("end")]}
    faults = []
    for n in range(1, count + 1):
        for name in ("fixer", "tester"):
            agents[f"{name}#{n}"] = some_agent(rng)
            if rng.random() < 0.3:
                error = rng.choice([401, 503, "STREAM_FAILED", "NETWORK_ERROR"])
                fault = {"agent": f"{name}#{n}", "turn": rng.randint(1, 3), "times": rng.randint(1, 2)}
                faults.append({**fault, "error": error, "retry_after": 0.01} if error != "x" else fault)
    return agents, faults


@pytest.mark.parametrize("seed", range(12))
async def test_the_trace_of_any_run_is_sound(seed: int, repo: Path) -> None:
    """Random delegates, failures, denials and stops: the rules of a trace hold."""
    rng = random.Random(seed)
    agents, faults = some_run(rng)

    class Moody:
        async def approve(self, request: PermissionRequest) -> bool:
            await trio.sleep(rng.random() * 0.02)
            return rng.random() < 0.5

    async with session(repo, agents, faults, permission_mode="ask", approver=Moody()) as opened:
        async with trio.open_nursery() as nursery:
            if rng.random() < 0.3:
                nursery.start_soon(stop_after, opened, rng.random() * 0.3)
            await opened.run("Go")
            nursery.cancel_scope.cancel()
        spans = await spans_of(opened)
        started = {event.span_id for event in await opened.store.events(opened.id) if event.span_id}
    assert check_trace(spans) == ()
    assert started == {span.span_id for span in spans}


async def stop_after(opened: Session, seconds: float) -> None:
    await trio.sleep(seconds)
    opened.stop()

"""Where delegation went wrong elsewhere: failures that looked like answers, cancels that reached nobody,
delegates without end, spending that nobody counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from agents.errors import ErrorCode
from agents.events import ModelResponded, TaskFinished, ToolFinished
from agents.messages import Usage
from agents.models.base import Chunk, FinishChunk, Model, ModelRequest, TextChunk
from agents.results import TaskResult
from agents.rules.transcripts import for_request
from agents.spec import AgentSpec
from agents.tools.family import carries, snapshot
from orchestrator.session import Session
from tests.harness import bad_edit, call, calls, edit, events_of, say, scripted, session_on

USAGE = {"inputTokens": 10, "outputTokens": 5}


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    (tmp_path / "repo").mkdir()
    for name in ("a.py", "b.py"):
        (tmp_path / "repo" / name).write_text("one\ntwo\n")
    return tmp_path


def spec(name: str, *tools: str, **limits: Any) -> AgentSpec:
    given = tools or ("Read", "Edit", "Write", "Bash")
    return AgentSpec(name=name, description=f"A {name}.", prompt="Work.", tools=given, **limits)


def task(agent: str = "fixer", prompt: str = "Do it") -> dict[str, Any]:
    return call("Task", subagent_type=agent, prompt=prompt)


def spent(turn: dict[str, Any]) -> dict[str, Any]:
    return {**turn, "usage": USAGE}


@attrs.define
class Strict:
    """A model in front of another: refuses what a provider would refuse, counts, and misbehaves by label."""

    inner: Model
    acts: Mapping[str, Callable[[], Any]] = attrs.field(factory=dict)
    """By label: raises, or gives the chunks instead of the inner model."""
    asked: list[str] = attrs.field(factory=list)

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def provider(self) -> str:
        return self.inner.provider

    def respond(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[Chunk]]:
        return self._respond(request)

    @asynccontextmanager
    async def _respond(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[Chunk]]:
        assert for_request(request.messages) == request.messages
        self.asked.append(request.agent_label)
        act = self.acts.get(request.agent_label)
        if act is None:
            async with self.inner.respond(request) as chunks:
                yield chunks
        else:
            async with aclosing(act()) as chunks:
                yield chunks


async def results(session: Session) -> dict[str, TaskResult]:
    """Every settled run's result by label; of a chain, the last."""
    finished = [e.payload for e in await events_of(session, "task.finished")]
    return {f.result.label: f.result for f in finished if isinstance(f, TaskFinished)}


# ── a failed delegate says so ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ({"error": 400}, ErrorCode.PROVIDER_ERROR),
        ({"error": 401}, ErrorCode.PROVIDER_UNAUTHORIZED),
        ({"stream_cut": True, "times": 9}, ErrorCode.STREAM_FAILED),
    ],
)
async def test_a_delegate_whose_model_fails_is_a_failure_with_a_code_and_the_parent_goes_on(
    repo: Path, clock: trio.testing.MockClock, fault: dict[str, Any], code: ErrorCode
) -> None:
    agents = {
        "main": [calls(task()), calls(call("TaskWait")), say("It failed, and I say so.")],
        "fixer": [calls(call("Read", path="a.py"), text="First look."), say("never heard to its end")],
    }
    model = Strict(scripted(agents, [{"agent": "fixer", "turn": 2, **fault}]))
    async with session_on(repo, model) as session:
        outcome = await session.run("Go")
        assert outcome.status == "completed"
        result = (await results(session))["fixer#1"]
        assert result.status == "failed"
        assert result.error is not None
        assert result.error.code == code
        assert result.report == "First look."
        (row,) = await session.store.tasks(session.id)
        assert row.status == "failed"
        waited = (await session.store.messages(session.id, None))[-2].results[0].text
        assert f'"code":"{code}"' in waited
        if "stream_cut" in fault:
            assert result.error.details["partialText"].startswith("never")


async def test_a_delegate_that_hits_a_limit_is_truncated_with_the_limits_code(repo: Path) -> None:
    agents = {
        "main": [calls(task()), calls(call("TaskWait")), say("Too long.")],
        "fixer": [calls(call("Read", path="a.py"), text=f"Look {n}.") for n in range(5)],
    }
    async with session_on(
        repo, Strict(scripted(agents)), definitions=[spec("fixer", max_turns=3)]
    ) as session:
        await session.run("Go")
        result = (await results(session))["fixer#1"]
        assert (result.status, result.turns, result.report) == ("truncated", 3, "Look 2.")
        assert result.error is not None
        assert result.error.code == ErrorCode.TURN_LIMIT


async def test_a_stopped_delegate_is_stopped_and_not_an_empty_success(repo: Path) -> None:
    agents = {
        "main": [
            calls(task()),
            calls(call("TaskWait", timeoutSeconds=0.3)),
            calls(call("TaskStop")),
            calls(call("TaskWait")),
            say("Stopped."),
        ],
        "fixer": [calls(call("Bash", command="sleep 100"), text="I begin."), say("never")],
    }
    async with session_on(repo, Strict(scripted(agents))) as session:
        await session.run("Go")
        result = (await results(session))["fixer#1"]
        assert (result.status, result.report, result.resumable) == ("stopped", "I begin.", False)


# ── an error that was recovered from is none ───────────────────────────────────────────────────────────


async def test_a_delegate_that_recovers_from_a_tool_error_has_completed(repo: Path) -> None:
    agents = {
        "main": [calls(task()), calls(call("TaskWait")), say("Good.")],
        "fixer": [
            calls(call("Read", path="a.py")),
            calls(bad_edit("a.py")),
            calls(edit("a.py", {"op": "replace", "start": 1, "text": "ONE"})),
            say("ok"),
        ],
    }
    async with session_on(repo, Strict(scripted(agents))) as session:
        await session.run("Go")
        result = (await results(session))["fixer#1"]
        assert (result.status, result.error, result.report) == ("completed", None, "ok")


async def test_an_exhausted_budget_is_carried_beside_the_text_and_the_work_that_was_done(repo: Path) -> None:
    agents = {
        "main": [calls(task()), calls(call("TaskWait")), say("Half of it.")],
        "fixer": [
            calls(call("Read", path="a.py"), call("Read", path="b.py")),
            calls(edit("b.py", {"op": "replace", "start": 1, "text": "ONE"}), text="b.py is done."),
            calls(bad_edit("a.py"), bad_edit("a.py"), bad_edit("a.py")),
        ],
    }
    async with session_on(repo, Strict(scripted(agents))) as session:
        await session.run("Go")
        result = (await results(session))["fixer#1"]
        assert (result.status, result.report) == ("failed", "b.py is done.")
        assert result.error is not None
        assert result.error.code == ErrorCode.MUTATION_RETRY_BUDGET_EXHAUSTED
        assert [change.path for change in result.files_changed] == ["b.py"]


# ── a cancel reaches everybody ─────────────────────────────────────────────────────────────────────────


def living(session_id: str) -> list[int]:
    marks = {"ORCHESTRATOR_SESSION_ID": session_id}
    return [pid for pid, one in snapshot().items() if not one.dead and carries(pid, marks)]


async def test_stopping_the_root_ends_every_model_call_and_every_process_at_any_depth(repo: Path) -> None:
    agents = {
        "main": [calls(task("lead"), task("asking")), calls(call("TaskWait")), say("never")],
        "lead": [calls(task("leaf")), calls(call("TaskWait")), say("never")],
        "leaf": [calls(call("Bash", command="sleep 300")), say("never")],
        "asking": [say("never")],
    }
    model = Strict(scripted(agents, [{"agent": "asking", "turn": 1, "delay_ms": 300_000}]))
    definitions = [spec("lead", "Read", "Task"), spec("leaf"), spec("asking")]
    async with session_on(repo, model, definitions=definitions, max_depth=2) as session:

        async def stop_when_all_are_at_it() -> None:
            for _ in range(500):
                if "asking#1" in model.asked and living(session.id):
                    break
                await trio.sleep(0.02)
            session.stop()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop_when_all_are_at_it)
            outcome = await session.run("Go")
        assert outcome.status == "stopped"
        assert outcome.payload.duration_ms < 15_000
        assert living(session.id) == []
        asked = len(model.asked)
        await trio.sleep(0.2)
        assert len(model.asked) == asked
        assert {row.status for row in await session.store.tasks(session.id)} == {"aborted"}
        assert len(await session.store.tasks(session.id)) == 3
        assert all(row.ok is not None for row in await session.store.calls(session.id))
        for messages in [
            await session.store.messages(session.id, None),
            *[
                await session.store.messages(session.id, [r.task_id])
                for r in await session.store.tasks(session.id)
            ],
        ]:
            assert for_request(messages) == messages


# ── siblings are left alone ────────────────────────────────────────────────────────────────────────────


async def _raising(error: BaseException) -> AsyncGenerator[Chunk, None]:
    await trio.lowlevel.checkpoint()
    raise error
    yield FinishChunk("stop", Usage())  # makes it a generator


@pytest.mark.parametrize(
    "error",
    [ValueError("odd"), KeyError("x"), ExceptionGroup("several", [ValueError("one"), KeyError("two")])],
    ids=["ordinary", "KeyError", "group"],
)
async def test_a_delegate_that_raises_is_one_failure_between_two_successes(
    repo: Path, error: BaseException
) -> None:
    agents = {
        "main": [calls(task(), task(), task()), calls(call("TaskWait")), say("Two of three.")],
        "fixer": [say("fine")],
    }
    model = Strict(scripted(agents), {"fixer#2": lambda: _raising(error)})
    async with session_on(repo, model) as session:
        outcome = await session.run("Go")
        assert (outcome.status, outcome.text) == ("completed", "Two of three.")
        settled = await results(session)
        assert [settled[f"fixer#{n}"].status for n in (1, 2, 3)] == ["completed", "failed", "completed"]
        failed = settled["fixer#2"].error
        assert failed is not None
        assert failed.code == ErrorCode.INTERNAL
        assert "odd" not in failed.message  # a fault's own words stay in the log


async def test_a_tool_that_raises_costs_only_its_call(repo: Path) -> None:
    def lookup(word: str) -> str:
        """Look a word up."""
        raise KeyError(word)

    agents = {
        "main": [
            calls(call("lookup", word="x"), call("Read", path="a.py")),
            say("One of two."),
        ]
    }
    async with session_on(repo, Strict(scripted(agents)), tools=[lookup], defer_tools=False) as session:
        outcome = await session.run("Go")
        assert outcome.status == "completed"
        answers = (await session.store.messages(session.id, None))[2].results
        assert [answer.ok for answer in answers] == [False, True]


async def test_stopping_one_delegate_leaves_its_siblings_alone(repo: Path) -> None:
    agents = {
        "main": [
            calls(task("sleeper"), task(), task()),
            calls(call("TaskStop", taskIds=["${task:1}"])),
            calls(call("TaskWait")),
            say("Two of three."),
        ],
        "sleeper": [calls(call("Bash", command="sleep 100")), say("never")],
        "fixer": [calls(call("Bash", command="sleep 0.2")), say("fine")],
    }
    async with session_on(
        repo, Strict(scripted(agents)), definitions=[spec("sleeper"), spec("fixer")]
    ) as session:
        await session.run("Go")
        statuses = {label: result.status for label, result in (await results(session)).items()}
        assert statuses == {"sleeper#1": "stopped", "fixer#1": "completed", "fixer#2": "completed"}


# ── delegates end ──────────────────────────────────────────────────────────────────────────────────────


async def test_delegates_that_only_delegate_end_at_the_depth_with_bounded_calls(repo: Path) -> None:
    again = calls(task("copy", "The same task"))
    agents = {"main": [again] * 5, "copy": [again] * 5}
    model = Strict(scripted(agents))
    definitions = [spec("copy", "Read", "Task", max_turns=2)]
    async with session_on(repo, model, definitions=definitions, max_depth=2, max_turns=3) as session:
        with trio.fail_after(20):
            outcome = await session.run("Go")
        assert outcome.status == "truncated"
        rows = await session.store.tasks(session.id)
        assert Counter(row.depth for row in rows) == {1: 3, 2: 6}
        assert len(model.asked) == 3 + 9 * 2
        deepest = [row.task_id for row in rows if row.depth == 2]
        refused = [
            event.payload.error
            for event in await events_of(session, "tool.finished")
            if event.task_id in deepest and isinstance(event.payload, ToolFinished)
        ]
        assert len(refused) == 12
        assert all(error is not None and "Task" in error.message for error in refused)


async def test_two_hundred_tasks_in_one_turn_keep_the_cap_and_each_call_gets_its_answer(repo: Path) -> None:
    agents = {
        "main": [
            calls(*(task(prompt=f"number {n}") for n in range(200))),
            calls(call("Bash", command="touch go"), call("TaskWait")),
            say("ok"),
        ],
        "fixer": [calls(call("Bash", command="while [ ! -e go ]; do sleep 0.02; done")), say("done")],
    }
    async with session_on(repo, Strict(scripted(agents)), max_delegates=4) as session:
        outcome = await session.run("Go")
        assert outcome.status == "completed"
        answers = (await session.store.messages(session.id, None))[2].results
        assert len(answers) == 200
        assert sum(answer.ok for answer in answers) == len(await session.store.tasks(session.id)) == 4
        assert all("DELEGATION_LIMIT" in answer.text for answer in answers if not answer.ok)


async def test_many_tasks_that_are_cancelled_midway_leave_no_call_without_an_answer(repo: Path) -> None:
    agents = {
        "main": [calls(*(task(prompt=f"number {n}") for n in range(60))), say("never")],
        "fixer": [calls(call("Bash", command="sleep 100")), say("never")],
    }
    async with session_on(repo, Strict(scripted(agents)), max_delegates=5) as session:

        async def stop_midway() -> None:
            for _ in range(500):
                if len(await events_of(session, "task.started")) >= 2:
                    break
                await trio.sleep(0.005)
            session.stop()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop_midway)
            outcome = await session.run("Go")
        assert outcome.status == "stopped"
        messages = await session.store.messages(session.id, None)
        assert for_request(messages) == messages
        assert {row.status for row in await session.store.tasks(session.id)} == {"aborted"}


# ── a conversation that is too long ────────────────────────────────────────────────────────────────────


async def test_a_conversation_that_became_too_long_ends_with_its_code_and_with_what_was_done(
    repo: Path,
) -> None:
    (repo / "repo/long.txt").write_text("x" * 60 + "\n" + "line of some length\n" * 400)
    agents = {
        "main": [calls(task()), calls(call("TaskWait")), say("Too long."), say("Shorter now.")],
        "fixer": [
            calls(call("Read", path="a.py"), call("Read", path="long.txt")),
            calls(edit("a.py", {"op": "replace", "start": 1, "text": "ONE"}), text="a.py is done."),
            calls(call("Read", path="b.py")),
            calls(call("Read", path="a.py")),
            say("It fits again."),
        ],
    }
    fault = {"agent": "fixer", "turn": 5, "error": 400, "message": "context_length_exceeded", "times": 1}
    sizes: list[int] = []

    @attrs.define
    class Measured(Strict):
        def respond(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[Chunk]]:
            if request.agent_name == "fixer":
                sizes.append(sum(len(str(message)) for message in request.messages))
            return super().respond(request)

    failing = Measured(scripted(agents, [fault]))
    async with session_on(repo, failing) as session:
        await session.run("Go")
        result = (await results(session))["fixer#1"]
        assert result.error is not None
        assert (result.status, result.error.code) == ("failed", ErrorCode.CONTEXT_OVERFLOW)
        assert result.report == "a.py is done."
        assert [change.path for change in result.files_changed] == ["a.py"]
        assert result.turns == 4
        identity = session.id
    async with session_on(repo, Measured(scripted(agents)), resume=identity) as session:
        outcome = await session.resume_task("fixer#1", "Go on")
        assert (outcome.status, outcome.text) == ("completed", "It fits again.")
        assert sizes[-1] < sizes[-2] * 0.6


async def test_large_reports_are_cut_with_a_word_on_where_the_whole_is(repo: Path) -> None:
    agents = {
        "main": [calls(*[task()] * 7), calls(call("TaskWait")), say("Read.")],
        "fixer": [say("x" * 40_000 + " the end")],
    }
    async with session_on(repo, Strict(scripted(agents))) as session:
        await session.run("Go")
        text = (await session.store.messages(session.id, None))[-2].results[0].text
        assert len(text) < 60_000
        assert text.count("TaskWait for this task alone gives more") == 7
        result = (await results(session))["fixer#1"]
        assert len(result.report) <= 12_000
        assert "resume the task to ask" in result.report
        (_, last) = await session.store.messages(session.id, [result.task_id])
        assert len(last.text) > 40_000


# ── every token once ───────────────────────────────────────────────────────────────────────────────────


async def test_every_model_call_is_counted_once_failed_stopped_and_resumed_ones_too(repo: Path) -> None:
    agents = {
        "main": [
            spent(calls(task("lead"), task("bad"), task("slow"))),
            spent(calls(call("TaskWait", minCompleted=2))),
            spent(calls(call("TaskStop"))),
            spent(calls(call("Task", subagent_type="bad", prompt="Again", resume="${task:2}"))),
            spent(calls(call("TaskWait"))),
            spent(say("All told.")),
        ],
        "lead": [spent(calls(task("leaf"))), spent(calls(call("TaskWait"))), spent(say("led"))],
        "leaf": [spent(calls(call("Read", path="a.py"))), spent(say("leafed"))],
        "bad": [spent(calls(call("Read", path="a.py"))), spent(say("better"))],
        "slow": [spent(calls(call("Bash", command="sleep 100"))), spent(say("never"))],
    }
    faults = [{"agent": "bad", "turn": 2, "error": 400, "times": 1}]
    failing = Strict(scripted(agents, faults))
    definitions = [spec("lead", "Task"), spec("leaf"), spec("bad"), spec("slow")]
    async with session_on(repo, failing, definitions=definitions, max_depth=2) as session:
        outcome = await session.run("Go")
        responded = [e.payload for e in await events_of(session, "model.responded")]
        made = sum(p.usage.input_tokens for p in responded if isinstance(p, ModelResponded))
        assert outcome.usage.input_tokens == made
        assert outcome.usage.output_tokens == made // 2
        statuses = {label: result.status for label, result in (await results(session)).items()}
        assert statuses["slow#1"] == "stopped"
        assert statuses["lead#1"] == "completed"
        (led,) = [r for label, r in (await results(session)).items() if label == "lead#1"]
        assert led.usage.input_tokens == 50


# ── a delegate that does not come to an end ────────────────────────────────────────────────────────────


async def test_a_delegate_whose_model_never_answers_ends_at_its_time_limit(repo: Path) -> None:
    agents = {
        "main": [calls(task("stuck")), calls(call("TaskWait")), say("It hung.")],
        "stuck": [say("never")],
    }
    model = Strict(scripted(agents, [{"agent": "stuck", "turn": 1, "delay_ms": 300_000}]))
    async with session_on(repo, model, definitions=[spec("stuck", timeout_seconds=0.5)]) as session:
        outcome = await session.run("Go")
        assert outcome.text == "It hung."
        result = (await results(session))["stuck#1"]
        assert result.error is not None
        assert (result.status, result.error.code) == ("truncated", ErrorCode.TIME_LIMIT)
        assert result.duration_ms < 2_500


async def test_a_slow_delegate_that_makes_progress_is_not_ended(
    repo: Path, clock: trio.testing.MockClock
) -> None:
    async def dripping() -> AsyncGenerator[Chunk, None]:
        for number in range(10):
            await trio.sleep(70)
            yield TextChunk(f"{number} ")
        yield FinishChunk("stop", Usage())

    agents = {"main": [calls(task()), calls(call("TaskWait", timeoutSeconds=900)), say("Slow, but there.")]}
    model = Strict(scripted({**agents, "fixer": [say("unused")]}), {"fixer#1": dripping})
    async with session_on(repo, model) as session:
        outcome = await session.run("Go")
        assert outcome.status == "completed"
        result = (await results(session))["fixer#1"]
        assert result.status == "completed"
        assert result.report.endswith("9 ")


async def test_a_wait_that_times_out_is_no_error_and_the_delegate_works_on(
    repo: Path, clock: trio.testing.MockClock
) -> None:
    agents = {
        "main": [
            calls(task()),
            calls(call("TaskWait", timeoutSeconds=5)),
            say("Still at it."),
            say("Now it is."),
        ],
        "fixer": [say("Here I am.")],
    }
    model = Strict(scripted(agents, [{"agent": "fixer", "turn": 1, "delay_ms": 60_000}]))
    async with session_on(repo, model) as session:
        outcome = await session.run("Go")
        assert outcome.text == "Now it is."
        waited = [
            e.payload
            for e in await events_of(session, "tool.finished")
            if isinstance(e.payload, ToolFinished) and e.payload.tool == "TaskWait"
        ]
        assert [(one.ok, one.result["timedOut"]) for one in waited] == [(True, True)]

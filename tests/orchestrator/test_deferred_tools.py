"""What the main agent's requests carry, and how the rest is activated for one prompt."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from agents.errors import Failure
from agents.models.base import Chunk, ModelRequest
from agents.models.scripted import ScriptedModel
from orchestrator.config import load_settings
from orchestrator.session import Session
from tests.harness import call, calls, events_of, say, scripted, session_on

CORE = ["Read", "Write", "Edit", "Bash", "Task", "TaskWait", "TaskList", "TaskStop", "ToolSearch"]


class Listening:
    """The scripted model, and every request that it was sent."""

    def __init__(self, model: ScriptedModel) -> None:
        self._model = model
        self.requests: list[ModelRequest] = []

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def provider(self) -> str:
        return self._model.provider

    def respond(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[Chunk]]:
        self.requests.append(request)
        return self._model.respond(request)

    def tools(self, agent: str = "main") -> list[list[str]]:
        """The names that each request of `agent` carried."""
        return [[tool.name for tool in r.tools] for r in self.requests if r.agent_label == agent]


def listening(**agents: Any) -> Listening:
    return Listening(scripted(agents))


async def results(session: Session, tool: str) -> list[Any]:
    return [e.payload for e in await events_of(session, "tool.finished") if e.payload.tool == tool]


def stamp(text: str) -> str:
    """Stamp a letter."""
    return f"stamped {text}"


async def test_the_first_request_of_a_prompt_carries_the_core_tools_alone(tmp_path: Path) -> None:
    model = listening(main=[say("done")])
    async with session_on(tmp_path, model, tools=[stamp]) as session:
        await session.run("go")
    assert model.tools() == [CORE]
    assert "- `Glob`: List files whose path matches a pattern" in model.requests[0].system
    assert "- `stamp`: Stamp a letter." in model.requests[0].system


async def test_an_activation_holds_for_the_prompt_and_ends_with_it(tmp_path: Path) -> None:
    model = listening(
        main=[
            calls(call("ToolSearch", query="Glob")),
            calls(call("Glob", pattern="*")),
            say("first"),
            calls(call("Glob", pattern="*")),
            say("second"),
        ]
    )
    async with session_on(tmp_path, model) as session:
        await session.run("go")
        await session.run("again")
        found = await results(session, "Glob")
    assert model.tools() == [CORE, [*CORE, "Glob"], [*CORE, "Glob"], CORE, CORE]
    assert [done.ok for done in found] == [True, False]
    assert found[1].error.code == "TOOL_NOT_ACTIVE"


async def test_a_direct_call_to_a_tool_that_was_not_activated_names_the_search_to_make(
    tmp_path: Path,
) -> None:
    model = listening(main=[calls(call("Grep", pattern="x"), call("stamp", text=1)), say("done")])
    async with session_on(tmp_path, model, tools=[stamp]) as session:
        await session.run("go")
        for tool in ("Grep", "stamp"):
            (done,) = await results(session, tool)
            assert done.error.code == "TOOL_NOT_ACTIVE"
            assert f"Call ToolSearch with the query '{tool}'" in done.error.message
            assert done.error.details["suggestedArgs"] == {"query": tool}


async def test_a_call_behind_its_search_in_the_same_batch_finds_the_tool_active(tmp_path: Path) -> None:
    model = listening(
        main=[calls(call("ToolSearch", query="search file contents"), call("Grep", pattern="x")), say("done")]
    )
    async with session_on(tmp_path, model) as session:
        await session.run("go")
        assert [done.ok for done in await results(session, "Grep")] == [True]


async def test_a_search_executes_nothing_and_permits_nothing(tmp_path: Path) -> None:
    stamped: list[str] = []

    def stamp(text: str) -> str:
        """Stamp a letter."""
        stamped.append(text)
        return text

    model = listening(
        main=[calls(call("ToolSearch", query="stamp")), calls(call("stamp", text="a")), say("done")]
    )
    async with session_on(tmp_path, model, tools=[stamp], permission_mode="ask") as session:
        await session.run("go")
        (searched,) = await results(session, "ToolSearch")
        (done,) = await results(session, "stamp")
    assert searched.result["activated"] == [{"name": "stamp", "summary": "Stamp a letter."}]
    assert done.error.code == "TOOL_DENIED"
    assert stamped == []


async def test_a_search_without_a_match_names_what_there_is(tmp_path: Path) -> None:
    model = listening(main=[calls(call("ToolSearch", query="zebra")), say("done")])
    async with session_on(tmp_path, model) as session:
        await session.run("go")
        (done,) = await results(session, "ToolSearch")
    assert done.error.code == "NOT_FOUND"
    assert "Glob, Grep" in done.error.message


@pytest.mark.parametrize("query", ["Read", "read"])
async def test_a_search_for_an_active_tool_says_that_it_is_active(tmp_path: Path, query: str) -> None:
    model = listening(main=[calls(call("ToolSearch", query=query)), say("done")])
    async with session_on(tmp_path, model) as session:
        await session.run("go")
        (done,) = await results(session, "ToolSearch")
    assert done.result["alreadyActive"] == ["Read"]
    assert model.tools() == [CORE, CORE]


async def test_a_delegates_tools_are_all_active_and_it_has_no_tool_search(tmp_path: Path) -> None:
    model = listening(
        main=[calls(call("Task", subagent_type="explorer", prompt="look")), say("waiting"), say("done")],
        explorer=[calls(call("Glob", pattern="*"), call("ToolSearch", query="Glob")), say("looked")],
    )
    async with session_on(tmp_path, model) as session:
        await session.run("go")
        assert [done.ok for done in await results(session, "Glob")] == [True]
        (searched,) = await results(session, "ToolSearch")
    carried = model.tools("explorer#1")
    assert carried[0] == carried[1]
    assert {"Read", "Glob", "Grep"} <= set(carried[0])
    assert "ToolSearch" not in carried[0]
    assert searched.error.code == "TOOL_NOT_FOUND"
    told = next(r.system for r in model.requests if r.agent_label == "explorer#1")
    assert "ToolSearch" not in told


async def test_the_reports_of_delegates_come_in_the_same_prompt(tmp_path: Path) -> None:
    model = listening(
        main=[
            calls(call("ToolSearch", query="Grep")),
            calls(call("Task", subagent_type="explorer", prompt="look")),
            say("it looks"),
            calls(call("Grep", pattern="x")),
            say("done"),
        ],
        explorer=[say("looked")],
    )
    async with session_on(tmp_path, model) as session:
        await session.run("go")
        assert [done.ok for done in await results(session, "Grep")] == [True]
    assert all("Grep" in carried for carried in model.tools()[1:])


async def test_while_planning_nothing_is_deferred_and_there_is_no_search(tmp_path: Path) -> None:
    model = listening(main=[say("done")])
    async with session_on(tmp_path, model, mode="plan", tools=[stamp]) as session:
        await session.run("go")
    assert model.tools() == [["Read", "Glob", "Grep", "Bash"]]
    assert "on demand" not in model.requests[0].system


async def test_without_deferral_every_tool_is_active_and_there_is_no_search(tmp_path: Path) -> None:
    model = listening(main=[calls(call("Glob", pattern="*")), say("done")])
    async with session_on(tmp_path, model, tools=[stamp], defer_tools=False) as session:
        await session.run("go")
        assert [done.ok for done in await results(session, "Glob")] == [True]
    assert {"Glob", "Grep", "stamp"} <= set(model.tools()[0])
    assert "ToolSearch" not in model.tools()[0]


async def test_the_guidance_and_the_schemas_speak_of_paths_in_the_same_sentences(tmp_path: Path) -> None:
    model = listening(
        main=[
            calls(
                call("ToolSearch", query="Glob, Grep"), call("Task", subagent_type="explorer", prompt="look")
            ),
            say("waiting"),
            say("done"),
        ],
        explorer=[say("looked")],
    )
    async with session_on(tmp_path, model) as session:
        await session.run("go")
    main = [request for request in model.requests if request.agent_label == "main"]
    delegate = next(request for request in model.requests if request.agent_label == "explorer#1")
    contract = {
        tool.name: tool.description for tool in main[1].tools if tool.name in ("Read", "Glob", "Grep")
    }
    for name, start in (("Read", "`Read.path` is"), ("Glob", "`Glob.path` is"), ("Grep", "`Grep.path` is")):
        sentences = contract[name][contract[name].index(start) :]
        assert sentences in main[0].system
        assert sentences in delegate.system


@pytest.mark.parametrize(
    ("value", "deferred"), [("false", False), ("0", False), ("no", False), ("true", True), ("On", True)]
)
def test_the_switch_is_a_setting_like_any_other(tmp_path: Path, value: str, deferred: bool) -> None:
    environment = {"HOME": str(tmp_path), "ORCHESTRATOR_DEFER_TOOLS": value}
    assert load_settings({}, environment, None).settings.defer_tools is deferred


def test_a_value_that_is_neither_true_nor_false_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="neither true nor false"):
        load_settings({}, {"HOME": str(tmp_path), "ORCHESTRATOR_DEFER_TOOLS": "perhaps"}, None)

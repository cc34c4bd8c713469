"""What an agent is told, and what it is never told."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.definitions import load_definitions
from agents.guidance import EDIT_CODES, MAIN_AGENT, MAX_DESCRIPTION, system_prompt
from agents.rules.contract import PATH_CONTRACT
from agents.rules.recovery import hint_for
from agents.rules.tool_search import MAX_SUMMARY, ToolCard
from agents.spec import AgentSpec, OperatingMode, PermissionMode

TOOLS = ("Read", "Glob", "Grep", "Write", "Edit", "Bash", "Task", "TaskWait", "TaskList", "TaskStop")
EVERY_NAME = (*TOOLS, "ToolSearch")
SPEC = AgentSpec(name="helper", description="Helps.", prompt="You help.", tools=("Read",))
FOUND = load_definitions(home=Path("/nonexistent"), workspace=None, known_tools=TOOLS)
BUILT_INS = tuple(FOUND.specs.values())


def prompt(
    spec: AgentSpec = SPEC,
    *,
    label: str = "helper#1",
    tools: tuple[str, ...] | None = None,
    delegates: tuple[AgentSpec, ...] = (),
    has_tool_search: bool = False,
    on_demand: tuple[ToolCard, ...] = (),
) -> str:
    return system_prompt(
        spec,
        label=label,
        tools=spec.tools if tools is None else tools,
        delegates=delegates,
        has_tool_search=has_tool_search,
        on_demand=on_demand,
        workspace="/home/ada/work",
        scratch="/data/scratch/s1",
    )


def named(text: str) -> set[str]:
    """Tools that a text names, as whole capitalised words."""
    return {tool for tool in EVERY_NAME if re.search(rf"\b{tool}\b", text)}


@pytest.mark.parametrize("label", ["main", "fixer#2", "repo:fixer#1"])
def test_the_first_line_is_the_agents_label(label: str) -> None:
    assert prompt(label=label).split("\n")[0] == f'You are the agent "{label}".'


@given(
    tools=st.sets(st.sampled_from(TOOLS), min_size=1),
    delegates=st.booleans(),
    label=st.sampled_from(["main", "h#1"]),
)
def test_no_tool_is_named_that_the_agent_lacks(tools: set[str], delegates: bool, label: str) -> None:
    told = prompt(label=label, tools=tuple(sorted(tools)), delegates=(SPEC,) if delegates else ())
    assert named(told) <= tools


@given(tools=st.sets(st.sampled_from(TOOLS), min_size=1))
def test_tool_search_adds_only_itself(tools: set[str]) -> None:
    assert named(prompt(tools=tuple(sorted(tools)), has_tool_search=True)) <= tools | {"ToolSearch"}


@pytest.mark.parametrize("spec", [*BUILT_INS, MAIN_AGENT], ids=lambda spec: spec.name)
def test_the_shipped_prompts_name_no_tool_that_their_agent_lacks(spec: AgentSpec) -> None:
    assert named(prompt(spec)) <= set(spec.tools)


@pytest.mark.parametrize("spec", [*BUILT_INS, MAIN_AGENT], ids=lambda spec: spec.name)
def test_no_agent_is_told_how_its_calls_are_approved(spec: AgentSpec) -> None:
    told = prompt(spec, delegates=BUILT_INS).lower()
    for mode in (PermissionMode.ACCEPT_EDITS.value, "permission mode", "permissionmode", "auto-approve"):
        assert mode not in told
    assert f"{OperatingMode.PLAN.value} mode" not in told


def test_the_contract_is_told_in_the_words_of_the_contract() -> None:
    told = prompt(tools=("Read", "Glob", "Grep"))
    assert all(sentence in told for sentence in PATH_CONTRACT.values())
    assert PATH_CONTRACT["Glob"] not in prompt(tools=("Read",))


def test_the_place_of_work_is_told() -> None:
    told = prompt(tools=("Bash",))
    assert "/home/ada/work" in told
    assert "/data/scratch/s1" in told
    assert "ORCHESTRATOR_SCRATCH_DIR" in told
    assert "ORCHESTRATOR_SCRATCH_DIR" not in prompt(tools=("Read",))


def test_who_can_edit_is_told_what_each_refusal_asks_for() -> None:
    told = prompt(tools=("Read", "Edit"))
    assert all(f"`{code}`: {hint_for(code)}" in told for code in EDIT_CODES)
    assert "Three counted failures" in told
    assert "EDIT_" not in prompt(tools=("Read", "Write"))


def test_searching_by_shell_is_called_a_fallback_where_there_are_search_tools() -> None:
    assert "Search with Glob and Grep. Searching by shell is a fallback" in prompt(
        tools=("Glob", "Grep", "Bash")
    )
    assert "fallback" not in prompt(tools=("Bash",))
    assert "shell" not in prompt(tools=("Glob",))


def test_a_parent_is_told_its_delegates_and_how_to_judge_them() -> None:
    told = prompt(MAIN_AGENT, label="main", delegates=BUILT_INS)
    for delegate in BUILT_INS:
        assert f"- `{delegate.name}`: {delegate.description}" in told
    assert "MUTATION_RETRY_BUDGET_EXHAUSTED" in told
    assert "`resume`" in told


def test_without_delegates_nothing_is_said_about_delegating() -> None:
    assert "How delegating works" not in prompt(MAIN_AGENT, label="main")


def test_a_long_description_is_clipped_to_one_bounded_line() -> None:
    long = AgentSpec(name="long", description="word\n" * 2000, prompt="", tools=("Read",))
    line = next(line for line in prompt(MAIN_AGENT, delegates=(long,)).split("\n") if "`long`" in line)
    assert len(line) <= MAX_DESCRIPTION + len("- `long`: ")
    assert line.endswith("…")


def test_a_delegate_is_told_to_report_and_the_main_agent_is_not() -> None:
    assert "Your report" in prompt(label="helper#1")
    assert "Your report" not in prompt(MAIN_AGENT, label="main")


def test_the_tool_search_is_explained_to_whom_has_it() -> None:
    assert "must be made again in the next" in prompt(has_tool_search=True)
    assert "ToolSearch" not in prompt(MAIN_AGENT, label="main", delegates=BUILT_INS)


def test_glob_is_named_as_what_to_activate_only_where_there_is_one() -> None:
    assert "activate Glob first" in prompt(tools=("Read", "Glob"), has_tool_search=True)
    assert "Glob" not in prompt(tools=("Read", "Grep"), has_tool_search=True)


def test_the_tools_on_demand_are_listed_with_one_line_each() -> None:
    cards = (ToolCard("Glob", "List files.\nThe rest."), ToolCard("mcp__docs__find", "x" * 500))
    told = prompt(tools=("Read", "Glob"), has_tool_search=True, on_demand=cards)
    section = told.split("# Tools on demand")[1].split("\n#")[0]
    assert [line for line in section.split("\n") if line.startswith("- ")] == [
        "- `Glob`: List files.",
        f"- `mcp__docs__find`: {'x' * (MAX_SUMMARY - 1)}…",
    ]
    assert "on demand" not in prompt(tools=("Read", "Glob"))
    assert "on demand" not in prompt(tools=("Read", "Glob"), on_demand=cards)


def test_the_definition_of_the_main_agent_names_every_tool_that_it_may_have() -> None:
    assert set(MAIN_AGENT.tools) == set(TOOLS)


def test_importing_guidance_loads_no_event_loop_no_database_and_no_telemetry_sdk() -> None:
    heavy = ("trio", "asyncio", "sqlite3", "opentelemetry.sdk", "yaml")
    code = f"import sys, agents.guidance; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

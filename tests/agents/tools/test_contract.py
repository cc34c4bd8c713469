"""What is advertised of the tools is what they do: names, limits, result shapes, paths, suggestions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from agents.errors import ErrorCode, ToolError
from agents.rules.contract import PATH_CONTRACT
from agents.tools.base import Tool, ToolContext, ToolOutput
from agents.tools.registry import native_tools
from agents.tools.schema import argument_schema
from tests.agents.tools.context import call, error, make_context, make_workspace, result

TOOLS = native_tools()
TABLE: dict[str, tuple[str, set[str]]] = {
    "Read": ("low", {"path", "offset", "limit"}),
    "Glob": ("low", {"pattern", "path", "limit"}),
    "Grep": ("low", {"pattern", "path", "include", "outputMode", "headLimit", "caseInsensitive"}),
    "Write": ("high", {"path", "content"}),
    "Edit": ("high", {"path", "tag", "ops"}),
    "Bash": ("high", {"command", "timeoutSeconds", "description"}),
    "ToolSearch": ("low", {"query"}),
}
LIMITS = {
    "Read": ("500", "2000", "48 KiB"),
    "Glob": ("100", "1000"),
    "Grep": ("200", "2000", "48 KiB", "10 seconds"),
    "Bash": ("60", "300", "32 KiB", "64 KiB", "96 KiB", "4000 lines", "64 MiB"),
    "ToolSearch": ("4",),
}


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    made = make_context(tmp_path)
    (made.workspace.root / "src").mkdir()
    (made.workspace.root / "src" / "a.py").write_text("import os\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "b.py").write_text("import sys\n")
    return made


@pytest.mark.parametrize("name", TABLE)
def test_each_tool_has_its_risk_and_takes_exactly_its_arguments(name: str) -> None:
    risk, arguments = TABLE[name]
    assert TOOLS[name].risk == risk
    schema = argument_schema(TOOLS[name])
    assert set(schema["properties"]) == arguments
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize("name", TOOLS)
def test_each_description_is_one_paragraph(name: str) -> None:
    assert "\n" not in TOOLS[name].description
    assert len(TOOLS[name].description) > 40


@pytest.mark.parametrize("name", LIMITS)
def test_a_description_carries_the_limits_in_numbers(name: str) -> None:
    for limit in LIMITS[name]:
        assert limit in TOOLS[name].description


def test_the_sentences_about_paths_stand_in_one_place() -> None:
    root = Path(__file__).parents[3]
    for name, sentence in PATH_CONTRACT.items():
        assert TOOLS[name].description.endswith(sentence)
        start = sentence[:25]
        holders = [path.name for path in (root / "agents").rglob("*.py") if start in path.read_text()]
        assert holders == ["contract.py"]


# results


async def fields(tool: Tool, context: ToolContext, **arguments: Any) -> set[str]:
    """The fields of a result as the model gets them."""
    output = await call(tool, context, **arguments)
    assert isinstance(output, ToolOutput)
    return set(msgspec.to_builtins(output.result))


async def test_results_have_exactly_the_fields_that_are_written_down(context: ToolContext) -> None:
    read = {"path", "root", "content", "tag", "offset", "lineCount", "totalLines", "fileBytes"}
    rest = {"encoding", "newline", "truncated", "notice"}
    assert await fields(TOOLS["Read"], context, path="src/a.py") == read | rest
    cut = {"count", "truncated", "notice"}
    assert await fields(TOOLS["Glob"], context, pattern="*") == {"matches"} | cut
    content = {"matches", "tags", "files"}
    assert await fields(TOOLS["Grep"], context, pattern="os") == content | cut
    listed = await fields(TOOLS["Grep"], context, pattern="os", outputMode="filesWithMatches")
    assert listed == {"files"} | cut
    assert await fields(TOOLS["Grep"], context, pattern="os", outputMode="count") == {"counts"} | cut
    written = {"path", "root", "tag", "created", "bytes", "additions", "deletions", "warnings"}
    assert await fields(TOOLS["Write"], context, path="new.txt", content="x") == written
    ended = {"exitCode", "signal", "stdout", "stderr", "timedOut", "truncated", "spill", "durationMs"}
    assert await fields(TOOLS["Bash"], context, command="true") == ended | {"survivors"}


# roots


async def test_a_result_carries_its_root_and_a_path_that_fits_it(
    context: ToolContext, tmp_path: Path
) -> None:
    inside = await result(TOOLS["Read"], context, path=str(context.workspace.root / "src" / "a.py"))
    assert (inside.path, inside.root) == ("src/a.py", "workspace")
    (tmp_path / "way").symlink_to(tmp_path / "outside")
    outside = await result(TOOLS["Read"], context, path=str(tmp_path / "way" / "b.py"))
    assert (outside.path, outside.root) == (str(tmp_path / "outside" / "b.py"), "external")
    scratch = context.workspace.ensure_scratch() / "n.txt"
    scratch.write_text("x\n")
    assert (await result(TOOLS["Read"], context, path=str(scratch))).root == "scratch"
    assert outside.content.startswith(f"[{tmp_path}/outside/b.py#")


async def test_an_added_directory_is_workspace_in_every_result(tmp_path: Path) -> None:
    added = tmp_path / "added"
    added.mkdir()
    context = make_context(tmp_path, workspace=make_workspace(tmp_path, added=(added,)))
    written = await result(TOOLS["Write"], context, path=str(added / "a.txt"), content="x\n")
    assert (written.path, written.root) == (str(added / "a.txt"), "workspace")


async def test_an_implicit_search_never_leaves_the_workspace(context: ToolContext, tmp_path: Path) -> None:
    (context.workspace.root / "way").symlink_to(tmp_path / "outside")
    await result(TOOLS["Read"], context, path=str(tmp_path / "outside" / "b.py"))  # as a permission allows it
    found = await result(TOOLS["Grep"], context, pattern="import")
    assert {match.path for match in found.matches} == {"src/a.py"}
    assert (await result(TOOLS["Glob"], context, pattern="**/*.py")).matches == ("src/a.py",)
    where = await result(TOOLS["Bash"], context, command="pwd -P")
    assert where.stdout.strip() == str(context.workspace.root)


# suggestions


async def test_the_suggested_call_is_one_that_works(context: ToolContext) -> None:
    refused = await error(TOOLS["Read"], context, path="src")
    suggested = TOOLS[refused.details["suggestedTool"]]
    assert (await result(suggested, context, **refused.details["suggestedArgs"])).matches == ("src/a.py",)
    refused = await error(TOOLS["Glob"], context, path="src/a.py", pattern="*")
    suggested = TOOLS[refused.details["suggestedTool"]]
    assert (await result(suggested, context, **refused.details["suggestedArgs"])).matches == ("src/a.py",)


async def test_a_suggestion_is_no_longer_than_what_was_given(context: ToolContext) -> None:
    long = "./" * 1500 + "src"
    refused = await error(TOOLS["Read"], context, path=long)
    assert refused.details["suggestedArgs"]["path"] == long
    assert len(msgspec.json.encode(refused)) < 3 * 4096


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("Read", {"path": "src"}, ErrorCode.INVALID_ARGUMENT),
        ("Glob", {"path": "src/a.py", "pattern": "*"}, ErrorCode.INVALID_ARGUMENT),
        ("Glob", {"pattern": "/etc/*"}, ErrorCode.INVALID_ARGUMENT),
        ("Grep", {"pattern": "x", "include": "src/*.py"}, ErrorCode.INVALID_ARGUMENT),
        ("Read", {"path": "src/b.py"}, ErrorCode.NOT_FOUND),
        ("Read", {"path": "x" * 5000}, ErrorCode.INVALID_ARGUMENT),
        ("Read", {"path": ""}, ErrorCode.INVALID_ARGUMENT),
        ("Read", {"path": "a\0b"}, ErrorCode.INVALID_ARGUMENT),
    ],
)
async def test_what_cannot_work_is_never_a_failure_of_the_tool_and_is_not_retriable(
    context: ToolContext, tool: str, arguments: dict[str, Any], code: ErrorCode
) -> None:
    refused = await call(TOOLS[tool], context, **arguments)
    assert isinstance(refused, ToolError)
    assert (refused.code, refused.retriable) == (code, False)


# ignore rules and the deny list


async def test_the_whole_workspace_named_as_a_dot_does_not_turn_the_ignore_rules_off(
    context: ToolContext,
) -> None:
    (context.workspace.root / ".gitignore").write_text("src/\n")
    assert (await result(TOOLS["Grep"], context, pattern="import", path=".")).count == 0
    assert (await result(TOOLS["Grep"], context, pattern="import", path="src")).count == 1
    assert (await result(TOOLS["Glob"], context, pattern="*.py", path="./src/../.")).count == 0


@pytest.mark.parametrize("mode", ["content", "filesWithMatches", "count"])
async def test_an_ignored_path_that_is_named_lifts_the_ignore_rules_but_not_the_deny_list(
    context: ToolContext, mode: str
) -> None:
    modules = context.workspace.root / "node_modules" / "m"
    modules.mkdir(parents=True)
    (modules / "index.js").write_text("TOKEN\n")
    (modules / ".env").write_text("TOKEN=1\n")
    (modules / "server.key").write_text("TOKEN\n")
    found = await result(TOOLS["Grep"], context, pattern="TOKEN", path="node_modules", outputMode=mode)
    assert found.count == 1
    assert "2 denied entries" in found.notice
    refused = await error(
        TOOLS["Grep"], context, pattern="TOKEN", path="node_modules/m/.env", outputMode=mode
    )
    assert (refused.code, refused.details["reason"]) == (ErrorCode.TOOL_DENIED, "deny-list")


# decoding


@pytest.mark.parametrize(
    ("codec", "encoding"), [("utf-16", "utf-16-le"), ("utf-8-sig", "utf-8"), ("utf-8", "utf-8")]
)
async def test_text_with_a_mark_is_read_without_it(context: ToolContext, codec: str, encoding: str) -> None:
    (context.workspace.root / "t.txt").write_bytes("één\ntwee\n".encode(codec))
    read = await result(TOOLS["Read"], context, path="t.txt")
    assert read.encoding == encoding
    assert read.content.split("\n")[1:] == ["1:één", "2:twee"]

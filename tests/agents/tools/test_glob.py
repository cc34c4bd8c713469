"""Glob: which files match, in which order, and what was passed over."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.errors import ErrorCode, Failure
from agents.tools.base import ToolContext
from agents.tools.glob import GlobTool
from agents.tools.search.globs import parse_include, parse_path_glob
from tests.agents.tools.context import error, make_context, make_workspace, result

GLOB = GlobTool()


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    return make_context(tmp_path)


def put(context: ToolContext, *names: str, age: int | None = None) -> None:
    for name in names:
        path = context.workspace.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x\n")
        if age is not None:
            os.utime(path, ns=(0, 10**18 - age))


# patterns


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("*.py", ["a.py", "d/b.py"], ["a.pyc"]),
        ("./*.py", ["a.py"], ["d/b.py"]),
        ("**/*.{ts,tsx}", ["a.ts", "x/y.tsx"], ["a.js"]),
        ("src/**/x.c", ["src/x.c", "src/a/b/x.c"], ["x.c", "lib/src/x.c"]),
        ("src/", ["src/a", "src/b/c"], ["lib/a"]),
        ("**/*", ["a", "b/c"], []),
        ("a/*/c", ["a/b/c"], ["a/c", "a/b/b/c"]),
        ("a/**", ["a/b", "a/b/c"], ["a", "b/a"]),
        ("[!a]*.md", ["b.md"], ["a.md"]),
        ("[a-c].md", ["b.md"], ["d.md"]),
        ("x[{]1,2}.md", ["x{1,2}.md"], ["x1.md"]),
        ("x\\{1,2\\}.md", ["x{1,2}.md"], ["x1.md"]),
        ("x{1,2}.md", ["x1.md", "x2.md"], ["x{1,2}.md"]),
        ("x{1}.md", ["x{1}.md"], ["x1.md"]),
        ("{a,b{c,d}}.x", ["a.x", "bd.x"], ["b.x"]),
        ("a?c", ["abc", "aéc"], ["a/c", "ac"]),
        ("[[]id]/*.tsx", ["[id]/p.tsx"], ["i/p.tsx"]),
        ("[", ["["], ["a"]),
        (".*", [".hidden"], ["seen"]),
    ],
)
def test_a_pattern_matches_the_whole_path_or_the_base_name(
    pattern: str, matching: list[str], other: list[str]
) -> None:
    glob = parse_path_glob(pattern)
    assert [path for path in [*matching, *other] if glob.matches(path)] == matching


@pytest.mark.parametrize(
    "pattern", ["/etc/*", "~/x", "../*", "a/../b", "{..,a}/x", "C:\\x", "", " ", "a\0", "[z-a]"]
)
async def test_a_pattern_that_leaves_its_root_or_means_nothing_is_refused(
    context: ToolContext, pattern: str
) -> None:
    refused = await error(GLOB, context, pattern=pattern)
    assert refused.code is ErrorCode.INVALID_ARGUMENT
    assert refused.details["argument"] == "pattern"


@pytest.mark.parametrize("include", ["src/*.py", "..", "a/b", "**/*.py"])
def test_an_include_with_a_separator_is_refused(include: str) -> None:
    with pytest.raises(Failure) as caught:
        parse_include(include)
    assert "`path`" in caught.value.error.message


def test_braces_cannot_be_multiplied_without_end() -> None:
    with pytest.raises(Failure, match="braces"):
        parse_path_glob("{a,b}" * 20)


@settings(max_examples=200, deadline=None)
@given(
    pattern=st.lists(
        st.sampled_from(["a", "b", "*", "**", "?", "a*", "{a,b}", "[ab]"]), min_size=1, max_size=4
    ),
    path=st.lists(st.sampled_from(["a", "b", "ab"]), min_size=1, max_size=4),
)
def test_the_walk_never_leaves_out_a_directory_that_holds_a_match(
    pattern: list[str], path: list[str]
) -> None:
    glob = parse_path_glob("/".join(pattern))
    if glob.matches("/".join(path)):
        assert all(glob.may_hold("/".join(path[:depth])) for depth in range(1, len(path)))


# order and limits


async def test_the_newest_come_first_with_ties_by_path_sorted_before_the_cut(context: ToolContext) -> None:
    put(context, "z/old.py", "a/old.py", age=900)
    put(context, "b.py", "a.py", age=500)
    put(context, "deep/down/new.py", age=1)
    found = await result(GLOB, context, pattern="**/*.py", limit=3)
    assert found.matches == ("deep/down/new.py", "a.py", "b.py")
    assert (found.count, found.truncated) == (5, True)
    assert "of 5 that match" in found.notice
    everything = await result(GLOB, context, pattern="**/*.py")
    assert everything.matches[3:] == ("a/old.py", "z/old.py")
    assert not everything.truncated


async def test_the_answer_stays_within_its_size(context: ToolContext) -> None:
    put(context, *(f"{'x' * 200}{n:04}" for n in range(400)))
    found = await result(GLOB, context, pattern="*", limit=1000)
    assert sum(len(path) + 4 for path in found.matches) < 48 * 1024
    assert found.truncated
    assert found.count == 400


@pytest.mark.parametrize("limit", [0, -1, 1001, 1.5, "5", True])
async def test_a_limit_out_of_bounds_is_an_invalid_argument(context: ToolContext, limit: object) -> None:
    assert (await error(GLOB, context, pattern="*", limit=limit)).code is ErrorCode.INVALID_ARGUMENT


# paths


async def test_the_path_is_literal_and_only_the_pattern_is_a_pattern(context: ToolContext) -> None:
    put(
        context,
        "app/[id]/page.tsx",
        "app/[id]/(auth)/page.tsx",
        "app/i/page.tsx",
        "a b.txt",
        "-n",
        "two\nlines",
    )
    found = await result(GLOB, context, path="app/[id]", pattern="*.tsx")
    assert sorted(found.matches) == ["app/[id]/(auth)/page.tsx", "app/[id]/page.tsx"]
    assert set((await result(GLOB, context, pattern="*")).matches) >= {"a b.txt", "-n", "two\nlines"}


async def test_a_file_as_path_is_refused_with_the_corrected_call(context: ToolContext) -> None:
    put(context, "src/a[1].py", "top.py")
    refused = await error(GLOB, context, path="src/a[1].py", pattern="*")
    assert refused.code is ErrorCode.INVALID_ARGUMENT
    assert refused.details["suggestedTool"] == "Glob"
    corrected = refused.details["suggestedArgs"]
    assert (await result(GLOB, context, **corrected)).matches == ("src/a[1].py",)
    assert (await error(GLOB, context, path="top.py", pattern="*")).details["suggestedArgs"]["path"] == "."


async def test_a_missing_directory_is_not_found_and_never_an_empty_success(context: ToolContext) -> None:
    assert (await error(GLOB, context, path="nope", pattern="*")).code is ErrorCode.NOT_FOUND


async def test_results_outside_are_absolute(context: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "o.txt").write_text("")
    found = await result(GLOB, context, path="../outside", pattern="*")
    assert found.matches == (str(tmp_path / "outside" / "o.txt"),)


# what is passed over


async def test_ignored_files_are_left_out_and_counted(context: ToolContext) -> None:
    put(context, "src/a.py", "build/b.py", "node_modules/m/c.py", "gen/d.py", "own/e.py", ".git/f.py")
    (context.workspace.root / ".gitignore").write_text("gen/\n")
    (context.workspace.root / ".orchestratorignore").write_text("own/\n")
    found = await result(GLOB, context, pattern="**/*.py")
    assert found.matches == ("src/a.py",)
    assert found.notice == "Passed over: 4 entries by ignore rules."


async def test_the_workspaces_own_rules_yield_to_gits(context: ToolContext) -> None:
    put(context, "a.log", "b.txt", "c.tmp")
    (context.workspace.root / ".gitignore").write_text("*.log\n!c.tmp\n")
    (context.workspace.root / ".orchestratorignore").write_text("!a.log\n*.tmp\n")
    assert set((await result(GLOB, context, pattern="*.*")).matches) == {
        *(".gitignore", ".orchestratorignore", "b.txt", "c.tmp")
    }


@pytest.mark.parametrize(
    "name",
    [
        *("node_modules", "bower_components", "dist", "build", ".venv", "venv", "__pycache__", "x.egg-info"),
        *(
            ".tox",
            ".nox",
            ".mypy_cache",
            ".pytest_cache",
            ".ruff_cache",
            ".cache",
            ".gradle",
            ".next",
            ".nuxt",
        ),
        *(".turbo", ".parcel-cache", ".terraform", ".hg", ".svn", ".hypothesis", ".eggs"),
    ],
)
async def test_what_tools_make_is_left_out_of_every_walk(context: ToolContext, name: str) -> None:
    put(context, f"{name}/a.py", f"sub/{name}/b.py", "c.py")
    assert (await result(GLOB, context, pattern="**/*.py")).matches == ("c.py",)


async def test_a_denied_directory_is_counted_like_a_denied_file(context: ToolContext) -> None:
    put(context, ".env/a.txt", "b.txt")
    found = await result(GLOB, context, pattern="**/*.txt")
    assert (found.matches, found.notice) == (("b.txt",), "Passed over: 1 denied entry.")


async def test_the_memory_of_a_process_is_in_no_walk(context: ToolContext) -> None:
    found = await result(GLOB, context, path="/proc/self", pattern="{environ,mem,comm}")
    assert {path.rpartition("/")[2] for path in found.matches} == {"comm"}
    assert "denied entries" in found.notice


@pytest.mark.parametrize("repository", [True, False])
async def test_an_ignored_directory_that_is_named_is_searched(context: ToolContext, repository: bool) -> None:
    put(context, "build/b.py", "build/dist/c.py", "build/.env", "src/d.py", "src/build/e.py")
    (context.workspace.root / ".gitignore").write_text("build/\n*.log\n")
    if repository:
        (context.workspace.root / ".git").mkdir()
    assert set((await result(GLOB, context, path="build", pattern="*")).matches) == {
        "build/b.py",
        "build/dist/c.py",
    }
    below = await result(GLOB, context, path="build/dist", pattern="*")
    assert below.matches == ("build/dist/c.py",)
    assert (await result(GLOB, context, path=".", pattern="*.py")).matches == ("src/d.py",)
    assert (await result(GLOB, context, path="src", pattern="*.py")).matches == ("src/d.py",)


async def test_rules_of_the_repository_above_the_workspace_hold(tmp_path: Path) -> None:
    outer = tmp_path / "outer"
    (outer / ".git" / "info").mkdir(parents=True)
    (outer / ".git" / "info" / "exclude").write_text("*.excluded\n")
    (outer / ".gitignore").write_text("*.log\n/sub/only-here\n")
    context = make_context(tmp_path, workspace=make_workspace(tmp_path, root=outer / "sub"))
    put(context, "a.log", "a.excluded", "only-here", "d/only-here", "b.txt")
    found = await result(GLOB, context, pattern="*")
    assert sorted(found.matches) == ["b.txt", "d/only-here"]


async def test_a_workspace_in_an_ignored_folder_is_not_empty(tmp_path: Path) -> None:
    outer = tmp_path / "home"
    (outer / ".git").mkdir(parents=True)
    (outer / ".gitignore").write_text("*\n")
    context = make_context(tmp_path, workspace=make_workspace(tmp_path, root=outer / "project"))
    put(context, "a.py")
    assert (await result(GLOB, context, pattern="*.py")).matches == ("a.py",)


async def test_the_users_own_rules_yield_to_the_repositorys(tmp_path: Path) -> None:
    mine = tmp_path / "home" / ".config" / "git" / "ignore"
    mine.parent.mkdir(parents=True)
    mine.write_text("*.tmp\n*.bak\n")
    context = make_context(tmp_path)
    put(context, "a.tmp", "b.bak")
    (context.workspace.root / ".gitignore").write_text("!*.tmp\n")
    assert (await result(GLOB, context, pattern="[ab].*")).matches == ("a.tmp",)


@pytest.mark.parametrize("pointer", [b"gitdir: a\0b\n", b"foo\0", b"\xff\xfe", b"gitdir: " + b"x/" * 40_000])
async def test_a_git_file_that_says_nonsense_of_its_place_is_passed_over(
    tmp_path: Path, pointer: bytes
) -> None:
    (tmp_path / "repo").mkdir(exist_ok=True)
    (tmp_path / "repo" / ".git").write_bytes(pointer)
    context = make_context(tmp_path)
    (context.workspace.root / "a.txt").touch()
    assert (await result(GLOB, context, pattern="**/*.txt")).matches == ("a.txt",)


async def test_denied_names_linked_and_special_files_are_counted_not_shown(
    context: ToolContext, tmp_path: Path
) -> None:
    put(context, "a.txt", ".env", "key.pem")
    (context.workspace.root / "link").symlink_to(tmp_path)
    (context.workspace.root / "self").symlink_to(".")
    os.mkfifo(context.workspace.root / "fifo")
    found = await result(GLOB, context, pattern="*")
    assert found.matches == ("a.txt",)
    assert found.notice == "Passed over: 2 symbolic links, 2 denied entries, 1 special file."


async def test_the_orchestrators_data_is_not_walked_wherever_it_lies(tmp_path: Path) -> None:
    root = tmp_path / "repo"
    workspace = make_workspace(tmp_path, data_dir=root / "state", scratch=root / "state" / "scratch" / "s1")
    context = make_context(tmp_path, workspace=workspace)
    put(context, "a.txt", "state/store.db", "state/scratch/s1/n.txt")
    assert (await result(GLOB, context, pattern="*")).matches == ("a.txt",)
    mine = await result(GLOB, context, path="state/scratch/s1", pattern="*")
    assert mine.matches == (str(root / "state" / "scratch" / "s1" / "n.txt"),)
    assert (await error(GLOB, context, path="state", pattern="*")).code is ErrorCode.TOOL_DENIED


async def test_a_walk_that_ends_early_says_so_and_is_never_an_empty_success(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(context, "a.py", *(f"d{n}/b.py" for n in range(30)))
    with monkeypatch.context() as patched:
        patched.setattr("agents.tools.search.walk.MAX_ENTRIES", 35)
        found = await result(GLOB, context, pattern="**/*.py")
    assert 0 < found.count < 31
    assert (found.truncated, "more entries" in found.notice) == (True, True)
    clock = iter(range(10_000))
    monkeypatch.setattr("agents.tools.search.worker.time.monotonic", lambda: next(clock) * 3.0)
    assert (await error(GLOB, context, pattern="*.none")).code is ErrorCode.TOOL_TIMEOUT

"""Agent definitions: which file wins a name, what its keys mean, and what a bad file costs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agents.definitions import BUILT_IN, FOLDERS, MAX_FILE_BYTES, Definitions, load_definitions
from agents.spec import AgentSpec, PermissionMode

KNOWN = ("Read", "Glob", "Grep", "Write", "Edit", "Bash", "mcp__docs__find", "ToolSearch", "Task", "TaskWait")
BUILT_INS = {"explorer", "reviewer", "tester", "fixer"}


class Places:
    """A home and a workspace to put definition files into."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.workspace = root / "work"
        self.home.mkdir()
        self.workspace.mkdir()

    def write(self, base: Path, folder: str, file: str, text: str | bytes) -> Path:
        path = base / folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
        return path

    def user(self, file: str, text: str | bytes, folder: str = FOLDERS[0]) -> Path:
        return self.write(self.home, folder, file, text)

    def repo(self, file: str, text: str | bytes, folder: str = FOLDERS[0]) -> Path:
        return self.write(self.workspace, folder, file, text)

    def load(self, *, nesting: bool = False, **aliases: str) -> Definitions:
        return load_definitions(
            home=self.home,
            workspace=self.workspace,
            model_aliases=aliases,
            known_tools=KNOWN,
            nesting=nesting,
        )


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path)


def definition(name: str = "helper", *extra: str, body: str = "You help.") -> str:
    return "\n".join(["---", f"name: {name}", "description: Helps.", *extra, "---", body, ""])


def spec(places: Places, *extra: str, **aliases: str) -> AgentSpec:
    places.user("helper.md", definition("helper", *extra))
    return places.load(**aliases).specs["helper"]


def told(found: Definitions, severity: str) -> str:
    return "\n".join(d.message for d in found.diagnostics if d.severity == severity)


# -- sources


def test_the_built_ins_load_without_a_word(places: Places) -> None:
    found = places.load()
    assert set(found.specs) == BUILT_INS
    assert found.diagnostics == ()
    assert {one.source for one in found.specs.values()} == {BUILT_IN}


def test_the_built_ins_have_the_tools_of_their_role(places: Places) -> None:
    looking = ("Read", "Glob", "Grep")
    assert {name: one.tools for name, one in places.load().specs.items()} == {
        "explorer": looking,
        "reviewer": looking,
        "tester": (*looking, "Bash"),
        "fixer": (*looking, "Edit", "Write", "Bash"),
    }


def test_every_folder_of_home_and_workspace_is_read(places: Places) -> None:
    for number, folder in enumerate(FOLDERS):
        places.user("a.md", definition(f"user{number}"), folder)
        places.repo("b.md", definition(f"repo{number}"), folder)
    expected = BUILT_INS | {f"{base}{number}" for base in ("user", "repo") for number in range(3)}
    assert set(places.load().specs) == expected


def test_without_a_workspace_only_the_users_and_built_in_ones_exist(places: Places) -> None:
    places.repo("a.md", definition("a"))
    assert set(load_definitions(home=places.home, workspace=None, known_tools=KNOWN).specs) == BUILT_INS


def test_a_session_in_the_home_folder_finds_the_users_files_once(places: Places) -> None:
    places.user("a.md", definition("a"))
    found = load_definitions(home=places.home, workspace=places.home, known_tools=KNOWN)
    assert set(found.specs) == {*BUILT_INS, "a"}
    assert found.diagnostics == ()


def test_the_first_folder_wins_a_name_and_the_loser_is_told_the_winner(places: Places) -> None:
    winner = places.user("one.md", definition("helper", body="First."), FOLDERS[0])
    loser = places.user("two.md", definition("helper", body="Second."), FOLDERS[2])
    found = places.load()
    assert (found.specs["helper"].prompt, found.specs["helper"].source) == ("First.", str(winner))
    (note,) = found.diagnostics
    assert (note.path, note.severity) == (str(loser), "warning")
    assert str(winner) in note.message


def test_a_users_file_replaces_a_built_in_and_shows_as_its_source(places: Places) -> None:
    path = places.user("fixer.md", definition("fixer", "tools: Read"))
    found = places.load()
    assert (found.specs["fixer"].tools, found.specs["fixer"].source) == (("Read",), str(path))
    assert found.diagnostics == ()


@pytest.mark.parametrize("taken", ["fixer", "Fixer", "mine"])
def test_a_repositorys_file_never_takes_a_users_or_a_built_in_name(places: Places, taken: str) -> None:
    places.user("mine.md", definition("mine"))
    places.repo("evil.md", definition(taken, "tools: '*'", body="Evil."))
    found = places.load()
    assert found.specs[f"repo:{taken}"].prompt == "Evil."
    assert [one.name for one in found.specs.values() if one.prompt == "Evil."] == [f"repo:{taken}"]
    assert f"repo:{taken}" in told(found, "warning")


def test_a_free_name_of_a_repository_is_offered_as_it_is(places: Places) -> None:
    path = places.repo("helper.md", definition())
    found = places.load()
    assert (found.specs["helper"].name, found.specs["helper"].source) == ("helper", str(path))


def test_the_second_file_of_a_repository_for_one_name_is_not_used(places: Places) -> None:
    places.repo("a.md", definition("fixer", body="First."), FOLDERS[0])
    places.repo("a.md", definition("fixer", body="Second."), FOLDERS[1])
    found = places.load()
    assert found.specs["repo:fixer"].prompt == "First."
    assert "already taken" in told(found, "warning")


def test_a_broken_file_keeps_its_name_so_that_no_other_steps_in(places: Places) -> None:
    places.user("fixer.md", definition("fixer", "model: sonnet"))
    places.repo("fixer.md", definition("fixer"))
    found = places.load()
    assert "fixer" not in found.specs
    assert "sonnet" in found.unavailable["fixer"]
    assert "repo:fixer" in found.specs


def test_a_repository_gets_no_plain_name_of_a_users_unreadable_file(places: Places) -> None:
    places.user("deploy.md", "no front matter")
    places.repo("deploy.md", definition("deploy"))
    found = places.load()
    assert "deploy" not in found.specs
    assert "repo:deploy" in found.specs


# -- keys


def test_a_definition_becomes_a_spec(places: Places) -> None:
    one = spec(
        places,
        "tools: Read, Bash",
        "model: openai:gpt-x",
        "permissionMode: accept-edits",
        "maxTurns: 12",
        "timeoutSeconds: 90.5",
        "effort: high",
    )
    assert one == AgentSpec(
        name="helper",
        description="Helps.",
        prompt="You help.",
        tools=("Read", "Bash"),
        model="openai:gpt-x",
        permission_mode=PermissionMode.ACCEPT_EDITS,
        max_turns=12,
        timeout_seconds=90.5,
        effort="high",
        source=one.source,
    )


def test_what_is_left_out_is_inherited(places: Places) -> None:
    one = spec(places)
    assert one.tools == ("Read", "Glob", "Grep")
    assert (one.model, one.permission_mode, one.max_turns, one.timeout_seconds, one.effort) == (None,) * 5


@pytest.mark.parametrize("key", ["maxTurns", "max_turns", "max-turns", "MaxTurns"])
def test_keys_may_be_spelt_in_camel_snake_or_kebab_case(places: Places, key: str) -> None:
    assert spec(places, f"{key}: 7").max_turns == 7


def test_one_key_in_two_spellings_is_an_error(places: Places) -> None:
    places.user("helper.md", definition("helper", "maxTurns: 7", "max_turns: 70"))
    assert "twice" in told(places.load(), "error")


def test_an_unknown_key_warns_with_a_suggestion_and_is_ignored(places: Places) -> None:
    places.user("helper.md", definition("helper", "maxTurn: 7", "hooks: []"))
    found = places.load()
    assert found.specs["helper"].max_turns is None
    assert "Did you mean maxTurns?" in told(found, "warning")
    assert "'hooks'" in told(found, "warning")


def test_a_key_of_another_tool_that_changes_nothing_is_passed_over_in_silence(places: Places) -> None:
    places.user("helper.md", definition("helper", "color: blue", "version: 2"))
    assert told(places.load(), "warning") == ""


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("tools: Read, Grep", ("Read", "Grep")),
        ("tools: [Read, Grep]", ("Read", "Grep")),
        ("tools:\n  - Read\n  - Grep", ("Read", "Grep")),
        ("tools: Grep, Read, Grep", ("Grep", "Read")),
        ("tools: '*'", KNOWN[:7]),
        ("tools: ['*']", KNOWN[:7]),
        ("tools: Read, mcp__docs__find", ("Read", "mcp__docs__find")),
        ("tools: '*'\ndisallowedTools: Bash, Write", ("Read", "Glob", "Grep", "Edit", "mcp__docs__find")),
        ("tools: Read, Bash\ndisallowed_tools: bash", ("Read",)),
        ("tools: Read, Bash\ndisallowedTools: [Bash(rm *)]", ("Read",)),
        ("tools: Read, mcp__docs__find\ndisallowedTools: mcp__docs", ("Read",)),
        ("disallowedTools: Glob", ("Read", "Grep")),
    ],
)
def test_tools_are_a_string_or_a_list_less_the_disallowed_ones(
    places: Places, written: str, expected: tuple[str, ...]
) -> None:
    assert spec(places, written).tools == expected


def test_an_unknown_tool_warns_with_a_suggestion_and_is_dropped(places: Places) -> None:
    places.user("helper.md", definition("helper", "tools: Read, bsh, WebFetch"))
    found = places.load()
    assert found.specs["helper"].tools == ("Read",)
    assert "bsh is dropped. Did you mean Bash?" in told(found, "warning")
    assert "WebFetch" in told(found, "warning")


def test_a_pattern_never_grants_the_whole_tool(places: Places) -> None:
    places.user("helper.md", definition("helper", "tools: Read, Bash(git status, git diff)"))
    found = places.load()
    assert found.specs["helper"].tools == ("Read",)
    assert "Bash(git status, git diff) is dropped" in told(found, "warning")


@pytest.mark.parametrize("tool", ["ToolSearch", "Task", "Agent", "TaskWait"])
def test_tool_search_and_task_cannot_be_assigned(places: Places, tool: str) -> None:
    places.user("helper.md", definition("helper", f"tools: Read, {tool}"))
    found = places.load()
    assert found.specs["helper"].tools == ("Read",)
    assert f"{tool} cannot be assigned" in told(found, "warning")


def test_where_nesting_is_allowed_task_brings_its_family(places: Places) -> None:
    places.user("helper.md", definition("helper", "tools: Read, Task"))
    family = ("Task", "TaskWait", "TaskList", "TaskStop")
    assert places.load(nesting=True).specs["helper"].tools == ("Read", *family)


@pytest.mark.parametrize(
    "written", ["tools: ''", "tools: []", "tools:", "tools: Nope", "tools: Read\ndisallowedTools: Read"]
)
def test_an_empty_tool_set_is_an_error(places: Places, written: str) -> None:
    places.user("helper.md", definition("helper", written))
    found = places.load()
    assert "helper" not in found.specs
    assert "no tool at all" in found.unavailable["helper"]


@pytest.mark.parametrize(
    ("pin", "expected"),
    [
        ("inherit", None),
        ("anthropic:some-model", "anthropic:some-model"),
        ("openai-chat:llama3:8b", "openai-chat:llama3:8b"),
        ("fast", "openai:quick-one"),
        ("same", None),
    ],
)
def test_a_model_is_a_pin_an_alias_of_the_user_or_inherited(
    places: Places, pin: str, expected: str | None
) -> None:
    assert spec(places, f"model: {pin}", fast="openai:quick-one", same="inherit").model == expected


@pytest.mark.parametrize("pin", ["sonnet", "llama3:8b", "openai:", "broken"])
def test_a_model_that_cannot_be_resolved_makes_that_definition_unavailable(places: Places, pin: str) -> None:
    places.user("helper.md", definition("helper", f"model: '{pin}'"))
    places.user("other.md", definition("other"))
    found = places.load(broken="nowhere")
    assert set(found.specs) == {*BUILT_INS, "other"}
    assert pin in found.unavailable["helper"]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("inherit", None),
        ("ask", PermissionMode.ASK),
        ("default", PermissionMode.ASK),
        ("acceptEdits", PermissionMode.ACCEPT_EDITS),
        ("auto", PermissionMode.AUTO),
    ],
)
def test_a_permission_mode_is_kept_as_asked_for(
    places: Places, written: str, expected: PermissionMode | None
) -> None:
    assert spec(places, f"permissionMode: {written}").permission_mode == expected


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("permissionMode: plan", "plan"),
        ("permissionMode: everything", "everything"),
        ("isolation: worktree", "not available in this version"),
        ("isolation: container", "container"),
        ("maxTurns: 0", "positive whole number"),
        ("maxTurns: many", "positive whole number"),
        ("maxTurns: true", "positive whole number"),
        ("maxTurns: 2.5", "positive whole number"),
        ("timeoutSeconds: -1", "positive number"),
        ("timeoutSeconds: .nan", "positive number"),
        ("timeoutSeconds: .inf", "positive number"),
        ("tools: 7", "tools"),
        ("effort: [1]", "effort"),
    ],
)
def test_a_value_that_is_not_understood_is_an_error_of_that_definition_alone(
    places: Places, written: str, says: str
) -> None:
    places.user("helper.md", definition("helper", written))
    found = places.load()
    assert set(found.specs) == BUILT_INS
    assert says in found.unavailable["helper"]


@pytest.mark.parametrize(
    "name", ["main", "MAIN", "two words", "fixer#2", "repo:x", "../x", "x" * 65, "''", "7"]
)
def test_a_name_must_be_sayable_and_not_the_main_agents(places: Places, name: str) -> None:
    places.user("helper.md", definition(name))
    found = places.load()
    assert set(found.specs) == BUILT_INS
    assert [one.severity for one in found.diagnostics] == ["error"]


def test_an_empty_body_is_used_with_a_warning(places: Places) -> None:
    places.user("helper.md", definition(body=""))
    found = places.load()
    assert found.specs["helper"].prompt == ""
    assert "body is empty" in told(found, "warning")


# -- files


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"# Just a document\n",
        b"---\nname: x\n",
        b"---\n- a\n- b\n---\nbody",
        b"---\nname: [unclosed\n---\nbody",
        b"---\nname: x\n---\nno description",
        b"---\ndescription: x\n---\nno name",
        b"---\nname: \xff\xfe\n---\n",
        b"---\n" + b"[" * 5000 + b"\n---\n",
        b"---\n!!python/object/apply:os.system [ls]\n---\n",
        b"---\nname: x\ndescription: y\n---\n" + b"x" * MAX_FILE_BYTES,
    ],
)
def test_a_malformed_file_is_one_error_and_costs_nothing_else(places: Places, content: bytes) -> None:
    path = places.user("bad.md", content)
    places.user("good.md", definition("good"))
    found = places.load()
    assert set(found.specs) == {*BUILT_INS, "good"}
    (problem,) = found.diagnostics
    assert (problem.path, problem.severity) == (str(path), "error")


def test_windows_line_ends_and_a_byte_order_mark_are_understood(places: Places) -> None:
    text = "\ufeff" + definition("helper", "tools: Read", body="One.\nTwo.").replace("\n", "\r\n")
    places.user("helper.md", text)
    assert (places.load().specs["helper"].prompt, places.load().diagnostics) == ("One.\nTwo.", ())


def test_an_unquoted_description_with_a_colon_is_read_with_a_warning(places: Places) -> None:
    places.user("helper.md", "---\nname: helper\ndescription: Use it so: often\ntools: Read\n---\nbody")
    found = places.load()
    assert found.specs["helper"].description == "Use it so: often"
    assert "Quote it" in told(found, "warning")


def test_other_files_and_folders_below_are_left_alone(places: Places) -> None:
    places.user("notes.txt", "nothing")
    places.user("deep/helper.md", definition())
    found = places.load()
    assert (set(found.specs), found.diagnostics) == (BUILT_INS, ())


def test_neither_a_fifo_nor_a_folder_named_like_a_definition_blocks_the_start(places: Places) -> None:
    places.user("good.md", definition("good"))
    folder = places.home / FOLDERS[0]
    os.mkfifo(folder / "fifo.md")
    (folder / "folder.md").mkdir()
    found = places.load()
    assert "good" in found.specs
    assert [(Path(one.path).name, one.severity) for one in found.diagnostics] == [
        ("fifo.md", "error"),
        ("folder.md", "error"),
    ]


def test_the_user_may_link_a_definition_from_anywhere(places: Places, tmp_path: Path) -> None:
    elsewhere = tmp_path / "dotfiles.md"
    elsewhere.write_text(definition("linked"), encoding="utf-8")
    places.user("good.md", definition("good"))
    (places.home / FOLDERS[0] / "linked.md").symlink_to(elsewhere)
    (places.home / FOLDERS[0] / "dangling.md").symlink_to(tmp_path / "gone.md")
    found = places.load()
    assert {"linked", "good"} <= set(found.specs)
    assert [Path(one.path).name for one in found.diagnostics] == ["dangling.md"]


def test_a_repository_cannot_link_out_of_the_workspace(places: Places, tmp_path: Path) -> None:
    secret = tmp_path / "secret.md"
    secret.write_text(definition("secret", body="key"), encoding="utf-8")
    places.repo("inside.md", definition("inside"))
    (places.workspace / FOLDERS[0] / "out.md").symlink_to(secret)
    (places.workspace / FOLDERS[0] / "in.md").symlink_to("inside.md")
    found = places.load()
    assert "secret" not in found.specs
    assert "inside" in found.specs
    assert "link out of the workspace" in told(found, "error")


def test_a_folder_of_a_repository_cannot_be_a_link_out_of_it(places: Places, tmp_path: Path) -> None:
    places.write(tmp_path, "outside", "secret.md", definition("secret"))
    (places.workspace / ".claude").mkdir()
    (places.workspace / ".claude/agents").symlink_to(tmp_path / "outside")
    found = places.load()
    assert set(found.specs) == BUILT_INS
    assert "link out of the workspace" in told(found, "error")


def test_an_unreadable_file_or_folder_is_a_diagnostic(places: Places) -> None:
    file = places.user("good.md", definition("good")).parent / "loop.md"
    file.symlink_to(file)
    folder = places.home / FOLDERS[1]
    folder.parent.mkdir()
    folder.symlink_to(folder)
    found = places.load()
    assert set(found.specs) == {*BUILT_INS, "good"}
    assert {(one.path, one.severity) for one in found.diagnostics} == {
        (str(file), "error"),
        (str(folder), "error"),
    }


def test_every_diagnostic_names_a_next_step(places: Places) -> None:
    for number, extra in enumerate(("model: sonnet", "tools: Nope", "isolation: worktree", "maxTurns: x")):
        places.user(f"{number}.md", definition(f"n{number}", extra))
    for one in places.load().diagnostics:
        assert one.message.count(".") >= 1
        assert one.message.endswith(".")

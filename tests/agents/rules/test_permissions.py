"""May this call run? The decision table and its properties."""

from __future__ import annotations

import itertools
import subprocess
import sys

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.errors import ErrorCode, Failure
from agents.rules.paths import PathKind, ResolvedPath, Root
from agents.rules.permissions import (
    Allow,
    Ask,
    CallFacts,
    CallKind,
    Deny,
    Grant,
    PathFact,
    Policy,
    Rule,
    decide,
    effective_mode,
    grantable,
    kind_of,
)
from agents.rules.shell import calls_own_command, parse_line, patch_command
from agents.spec import OperatingMode, PermissionMode

WORKSPACE = "/w/repo"
HOME = "/home/u"
AGENT, PLAN = OperatingMode.AGENT, OperatingMode.PLAN
ASK, EDITS, AUTO = PermissionMode.ASK, PermissionMode.ACCEPT_EDITS, PermissionMode.AUTO
MODES = (ASK, EDITS, AUTO)


def place(
    canonical: str,
    *,
    root: Root | None = None,
    denied: str | None = None,
    protected: str | None = None,
    kind: PathKind = PathKind.FILE,
) -> ResolvedPath:
    if root is None:
        root = (
            Root.WORKSPACE
            if canonical == WORKSPACE or canonical.startswith(WORKSPACE + "/")
            else Root.EXTERNAL
        )
    display = canonical.removeprefix(WORKSPACE + "/") if root is Root.WORKSPACE else canonical
    return ResolvedPath(canonical, canonical, root, display, kind, denied, protected)


PLACES = {
    "workspace": place("/w/repo/src/a.py"),
    "scratch": place("/data/scratch/s1/a.txt", root=Root.SCRATCH),
    "outside": place("/w/outside/a.txt"),
    "protected": place("/w/repo/.git/config", protected="it is git metadata"),
    "denied": place("/w/repo/.env", denied="its name is that of a file with secrets"),
}


def call(tool: str, *paths: ResolvedPath) -> CallFacts:
    use = "write" if tool in ("Write", "Edit") else "read"
    return CallFacts(
        tool=tool,
        kind=kind_of(tool),
        workspace=WORKSPACE,
        home=HOME,
        paths=tuple(PathFact(path, use) for path in paths),  # type: ignore[arg-type]
    )


def bash(command: str, *places: ResolvedPath | None) -> CallFacts:
    line = parse_line(command)
    return attrs.evolve(
        call("Bash"),
        shell=line,
        patch=patch_command(line),
        own_command=calls_own_command(line),
        places=tuple(None if at is None else PathFact(at, "write") for at in places),
    )


def policy(
    mode: PermissionMode = ASK,
    operating: OperatingMode = AGENT,
    *,
    allow: tuple[str, ...] = (),
    deny: tuple[str, ...] = (),
    grants: tuple[Grant, ...] = (),
) -> Policy:
    return Policy(
        operating_mode=operating,
        permission_mode=mode,
        allow=tuple(Rule.parse(text) for text in allow),
        deny=tuple(Rule.parse(text) for text in deny),
        grants=frozenset(grants),
    )


def letter(decided: object) -> str:
    match decided:
        case Allow():
            return "R"
        case Ask():
            return "A"
        case Deny(reason=None):
            return "P"
        case Deny():
            return "D"
    raise AssertionError(decided)


# tool and place → answers in `ask`, `accept-edits`, `auto`:
# agent mode, agent mode with a grant, plan, plan with a grant.
# R runs, A asks, D is denied by the deny list, P is denied by plan.
TABLE = {
    ("Read", "workspace"): ("RRR", "RRR", "RRR", "RRR"),
    ("Read", "scratch"): ("RRR", "RRR", "RRR", "RRR"),
    ("Read", "outside"): ("AAR", "RRR", "AAR", "RRR"),
    ("Read", "protected"): ("RRR", "RRR", "RRR", "RRR"),
    ("Read", "denied"): ("DDD", "DDD", "DDD", "DDD"),
    ("Glob", "workspace"): ("RRR", "RRR", "RRR", "RRR"),
    ("Glob", "scratch"): ("RRR", "RRR", "RRR", "RRR"),
    ("Glob", "outside"): ("AAR", "RRR", "AAR", "RRR"),
    ("Glob", "protected"): ("RRR", "RRR", "RRR", "RRR"),
    ("Glob", "denied"): ("DDD", "DDD", "DDD", "DDD"),
    ("Grep", "workspace"): ("RRR", "RRR", "RRR", "RRR"),
    ("Grep", "scratch"): ("RRR", "RRR", "RRR", "RRR"),
    ("Grep", "outside"): ("AAR", "RRR", "AAR", "RRR"),
    ("Grep", "protected"): ("RRR", "RRR", "RRR", "RRR"),
    ("Grep", "denied"): ("DDD", "DDD", "DDD", "DDD"),
    ("Write", "workspace"): ("ARR", "RRR", "PPP", "PPP"),
    ("Write", "scratch"): ("RRR", "RRR", "PPP", "PPP"),
    ("Write", "outside"): ("AAR", "RRR", "PPP", "PPP"),
    ("Write", "protected"): ("AAA", "AAA", "PPP", "PPP"),
    ("Write", "denied"): ("DDD", "DDD", "PPP", "PPP"),
    ("Edit", "workspace"): ("ARR", "RRR", "PPP", "PPP"),
    ("Edit", "scratch"): ("RRR", "RRR", "PPP", "PPP"),
    ("Edit", "outside"): ("AAR", "RRR", "PPP", "PPP"),
    ("Edit", "protected"): ("AAA", "AAA", "PPP", "PPP"),
    ("Edit", "denied"): ("DDD", "DDD", "PPP", "PPP"),
    ("Bash", "workspace"): ("AAR", "RRR", "AAA", "AAA"),
    ("Bash", "scratch"): ("AAR", "RRR", "AAA", "AAA"),
    ("Bash", "outside"): ("AAR", "AAR", "AAA", "AAA"),
    ("Bash", "protected"): ("AAA", "AAA", "AAA", "AAA"),
    ("Bash", "denied"): ("DDD", "DDD", "DDD", "DDD"),
    ("mcp__db__query", None): ("AAR", "RRR", "PPP", "PPP"),
    ("Deploy", None): ("AAR", "RRR", "PPP", "PPP"),
    ("Task", None): ("RRR", "RRR", "PPP", "PPP"),
    ("TaskWait", None): ("RRR", "RRR", "PPP", "PPP"),
    ("TaskList", None): ("RRR", "RRR", "PPP", "PPP"),
    ("TaskStop", None): ("RRR", "RRR", "PPP", "PPP"),
    ("ToolSearch", None): ("RRR", "RRR", "RRR", "RRR"),
}


def test_the_table_has_every_path_tool_at_every_place() -> None:
    tools = ("Read", "Glob", "Grep", "Write", "Edit", "Bash")
    assert set(itertools.product(tools, PLACES)) <= set(TABLE)


@pytest.mark.parametrize(("tool", "where"), TABLE, ids=lambda value: str(value))
def test_each_call_at_each_place_gets_the_answer_of_the_table(tool: str, where: str | None) -> None:
    at = () if where is None else (PLACES[where],)
    facts = bash("touch it", *at) if tool == "Bash" else call(tool, *at)
    grant = Grant(tool, outside=where == "outside" and tool != "Bash")
    found = tuple(
        "".join(letter(decide(facts, policy(mode, operating, grants=grants))) for mode in MODES)
        for operating in (AGENT, PLAN)
        for grants in ((), (grant,))
    )
    assert found == TABLE[tool, where]


@pytest.mark.parametrize(
    ("tool", "code"),
    [
        ("Write", ErrorCode.WRITE_DISABLED_IN_PLAN),
        ("Edit", ErrorCode.EDIT_DISABLED_IN_PLAN),
        ("mcp__db__query", ErrorCode.PLUGIN_DISABLED_IN_PLAN),
        ("Deploy", ErrorCode.TOOL_DISABLED_IN_PLAN),
        ("Task", ErrorCode.TOOL_DISABLED_IN_PLAN),
    ],
)
def test_plan_stands_above_rules_and_grants(tool: str, code: ErrorCode) -> None:
    lenient = policy(AUTO, PLAN, allow=(tool,), deny=(tool,), grants=(Grant(tool, outside=False),))
    decided = decide(call(tool), lenient)
    assert isinstance(decided, Deny)
    assert (decided.code, decided.reason) == (code, None)


@pytest.mark.parametrize("command", ["apply_patch < p", "git apply p.diff", "cd sub && patch -p1 < p"])
def test_a_recognised_patch_command_is_denied_while_planning(command: str) -> None:
    decided = decide(bash(command), policy(AUTO, PLAN, allow=("Bash",)))
    assert isinstance(decided, Deny)
    assert decided.code is ErrorCode.TOOL_DISABLED_IN_PLAN


def test_while_planning_a_users_allow_rule_answers_for_bash_and_a_grant_does_not() -> None:
    facts = bash("git status")
    assert decide(facts, policy(AUTO, PLAN, allow=("Bash(git status)",))) == Allow("rule")
    asked = decide(facts, policy(AUTO, PLAN, grants=(Grant("Bash", outside=False),)))
    assert isinstance(asked, Ask)
    assert asked.grant_scope is None


def test_a_deny_rule_stands_above_auto_grants_and_allow_rules() -> None:
    facts = call("Write", PLACES["workspace"])
    decided = decide(
        facts,
        policy(AUTO, allow=("Write",), deny=("Write(src/**)",), grants=(Grant("Write", outside=False),)),
    )
    assert isinstance(decided, Deny)
    assert (decided.code, decided.reason) == (ErrorCode.TOOL_DENIED, "rule")


# outside


def test_a_bare_or_workspace_relative_allow_rule_is_never_for_the_outside() -> None:
    facts = call("Read", PLACES["outside"])
    for rule in ("Read", "Read(**)", "Read(*)", "Read(outside/**)", "Read(*.txt)", "Read(./**)"):
        assert isinstance(decide(facts, policy(allow=(rule,))), Ask), rule


@pytest.mark.parametrize("rule", ["Read(/w/outside/**)", "Read(../outside/*.txt)", "Read(/**)", "Read(..)"])
def test_an_allow_rule_that_names_an_outside_path_answers_for_it(rule: str) -> None:
    assert decide(call("Read", PLACES["outside"]), policy(allow=(rule,))) == Allow("rule")


@pytest.mark.parametrize(
    "rule", ["Read(/w/outside-evil/**)", "Read(../out/**)", "Read(~/**)", "Read(/w/outside/b)"]
)
def test_an_allow_rule_for_another_outside_place_does_not(rule: str) -> None:
    assert isinstance(decide(call("Read", PLACES["outside"]), policy(allow=(rule,))), Ask)


def test_a_tilde_in_a_rule_is_the_users_home() -> None:
    notes = place("/home/u/notes/a.md")
    assert decide(call("Read", notes), policy(allow=("Read(~/notes/**)",))) == Allow("rule")
    unknown = attrs.evolve(call("Read", notes), home=None)
    assert isinstance(decide(unknown, policy(allow=("Read(~/notes/**)",))), Ask)


def test_a_rule_for_the_outside_takes_the_workspaces_name_literally() -> None:
    facts = attrs.evolve(call("Read", place("/w/a[b]/x", root=Root.EXTERNAL)), workspace="/w/a[b]/repo")
    assert decide(facts, policy(allow=("Read(../x)",))) == Allow("rule")
    other = attrs.evolve(call("Read", place("/w/ab/x", root=Root.EXTERNAL)), workspace="/w/a[b]/repo")
    assert isinstance(decide(other, policy(allow=("Read(../x)",))), Ask)


def test_a_folder_that_shares_a_text_prefix_is_another_folder() -> None:
    evil = place("/w/repo-evil/s.txt", root=Root.EXTERNAL)
    for rule in ("Read", "Read(**)", "Read(/w/repo/**)"):
        assert isinstance(decide(call("Read", evil), policy(allow=(rule,))), Ask)


def test_a_grant_for_outside_covers_the_tools_outside_paths_and_no_inside_one() -> None:
    granted = policy(grants=(Grant("Write", outside=True),))
    assert decide(call("Write", PLACES["outside"]), granted) == Allow("grant")
    assert isinstance(decide(call("Write", PLACES["workspace"]), granted), Ask)
    assert isinstance(decide(call("Edit", PLACES["outside"]), granted), Ask)


def test_a_grant_for_inside_covers_no_outside_path() -> None:
    granted = policy(grants=(Grant("Write", outside=False),))
    assert decide(call("Write", PLACES["workspace"]), granted) == Allow("grant")
    assert isinstance(decide(call("Write", PLACES["outside"]), granted), Ask)


def test_every_path_of_a_call_must_be_covered() -> None:
    both = call("Write", PLACES["workspace"], PLACES["outside"])
    for grants in ((Grant("Write", outside=True),), (Grant("Write", outside=False),)):
        assert isinstance(decide(both, policy(grants=grants)), Ask)
    assert isinstance(
        decide(both, policy(grants=(Grant("Write", outside=True), Grant("Write", outside=False)))), Allow
    )


def test_what_a_grant_would_cover_is_said_with_the_question() -> None:
    outside = decide(call("Read", PLACES["outside"]), policy())
    assert isinstance(outside, Ask)
    assert (outside.grant_scope, outside.external) == (Grant("Read", outside=True), True)
    assert "/w/outside/a.txt" in outside.reason
    inside = decide(call("Write", PLACES["workspace"]), policy())
    assert isinstance(inside, Ask)
    assert (inside.grant_scope, inside.external) == (Grant("Write", outside=False), False)


def test_a_protected_place_asks_in_every_mode_and_cannot_be_allowed_in_advance() -> None:
    facts = call("Write", PLACES["protected"])
    lenient = policy(
        AUTO, allow=("Write", "Write(.git/**)", "Write(/**)"), grants=(Grant("Write", outside=False),)
    )
    decided = decide(facts, lenient)
    assert isinstance(decided, Ask)
    assert decided.grant_scope is None


# rules as text


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "Read(",
        "Read)",
        "Read()",
        "Read( )",
        "(src/**)",
        "Re ad",
        "Read(a",
        "Read(a)b",
        "Read(!a)",
        "Read(#a)",
        "Read(~bob/x)",
        "Read(a/../b)",
        "Read(a/./b)",
        "Read(../a/../b)",
        "Read(a\\)",
        "Read(/)",
        "Read(\x00)",
        "Read(a\nb)",
        "Task(fixer)",
        "Bash(git status; ls)",
        "Bash(git status && ls)",
        "Bash(echo 'x)",
        "mcp__db__query(x)",
        "*",
        "Rea*",
        "Read(" + "a" * 3000 + ")",
    ],
)
def test_nonsense_is_no_rule_and_says_why(text: str) -> None:
    with pytest.raises(Failure) as refused:
        Rule.parse(text)
    error = refused.value.error
    assert error.code is ErrorCode.INVALID_ARGUMENT
    assert "Write `Tool`" in error.message


@pytest.mark.parametrize(
    "text",
    [
        "Read",
        "Read(src/**)",
        "Bash(git status)",
        "mcp__db__query",
        "mcp__db",
        "Bash(a (b))",
        "Bash(grep '|' f)",
        "Bash(npm run *)",
    ],
)
def test_a_rule_is_spelled_as_it_was_read(text: str) -> None:
    assert str(Rule.parse(f"  {text} ")) == text


@pytest.mark.parametrize(
    ("rule", "tool", "covered"),
    [
        ("mcp__db__query", "mcp__db__query", True),
        ("mcp__db__query", "mcp__db__query2", False),
        ("mcp__db", "mcp__db__query", True),
        ("mcp__db", "mcp__db2__query", False),
        ("mcp__db__*", "mcp__db__drop", True),
        ("mcp__db__*", "mcp__other__drop", False),
        ("Read", "Readme", False),
        ("read", "Read", False),
    ],
)
def test_which_tools_a_rule_speaks_of(rule: str, tool: str, covered: bool) -> None:
    assert Rule.parse(rule).is_for(tool) is covered


@pytest.mark.parametrize(
    ("pattern", "path", "covered"),
    [
        ("src/**", "src/a.py", True),
        ("src/**", "src", True),
        ("src/", "src/deep/a.py", True),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/deep/a.py", False),
        ("*.py", "src/deep/a.py", True),
        ("a.py", "src/a.py", True),
        ("./src/a.py", "src/a.py", True),
        ("src/a.py", "other/src/a.py", False),
        ("/w/repo/src/**", "src/a.py", True),
        ("/src/**", "src/a.py", False),
        ("**", "src/a.py", True),
    ],
)
def test_path_patterns_are_gitignore_lines_of_the_workspace(pattern: str, path: str, covered: bool) -> None:
    kind = PathKind.DIRECTORY if path == "src" else PathKind.FILE
    at = place(f"{WORKSPACE}/{path}", kind=kind)
    assert Rule("Write", pattern).allows_path(at, workspace=WORKSPACE, home=HOME) is covered
    decided = decide(call("Write", at), policy(allow=(f"Write({pattern})",)))
    assert isinstance(decided, Allow if covered else Ask)


def test_a_deny_pattern_of_a_name_holds_outside_as_well() -> None:
    log = place("/w/outside/deep/x.log")
    assert isinstance(decide(call("Read", log), policy(AUTO, deny=("Read(*.log)",))), Deny)
    assert decide(call("Read", log), policy(AUTO, deny=("Read(outside/**)",))) == Allow("table")


def test_a_relative_pattern_does_not_speak_of_an_added_directory() -> None:
    added = place("/w/lib/src/a.py", root=Root.WORKSPACE)
    assert isinstance(decide(call("Write", added), policy(allow=("Write(src/**)",))), Ask)
    assert isinstance(decide(call("Write", added), policy(allow=("Write(/w/lib/**)",))), Allow)


# command lines


@pytest.mark.parametrize(
    "tail",
    [
        "; T",
        " && T",
        " || T",
        " | T",
        " & T",
        "\nT",
        " $(T)",
        " `T`",
        " <(T)",
        " > PWN",
        "x",
        "\rT",
        " <<E\n$(T)\nE",
    ],
)
@pytest.mark.parametrize("mode", [ASK, EDITS])
def test_a_second_command_never_rides_on_a_granted_first(tail: str, mode: PermissionMode) -> None:
    command = f"git status{tail}"
    granted = policy(mode, grants=(Grant("Bash", outside=False, commands=("git status",)),))
    assert decide(bash("git status"), granted) == Allow("grant")
    assert isinstance(decide(bash(command), granted), Ask)
    assert isinstance(decide(bash(command), policy(mode, allow=("Bash(git status)",))), Ask)


def test_each_simple_command_of_a_line_needs_a_rule() -> None:
    allowed = policy(allow=("Bash(git status)", "Bash(ls)"))
    assert decide(bash("git status && ls"), allowed) == Allow("rule")
    assert isinstance(decide(bash("git status && ls && rm -rf sub"), allowed), Ask)


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf sub",
        "ls; rm -rf sub",
        "ls | rm -rf sub",
        "ls\n\n\nrm -rf sub",
        "echo $(rm -rf sub)",
        "X=1 rm -rf sub",
    ],
)
def test_a_deny_rule_matches_when_any_simple_command_matches(command: str) -> None:
    decided = decide(bash(command), policy(AUTO, allow=("Bash",), deny=("Bash(rm *)",)))
    assert isinstance(decided, Deny)
    assert decided.reason == "rule"


def test_an_assignment_asks_unless_the_rule_spells_it() -> None:
    line = bash("PATH=/evil git status")
    assert isinstance(decide(line, policy(allow=("Bash(git status)",))), Ask)
    assert isinstance(
        decide(line, policy(grants=(Grant("Bash", outside=False, commands=("git status",)),))), Ask
    )
    assert decide(line, policy(allow=("Bash(PATH=/evil git status)",))) == Allow("rule")


@pytest.mark.parametrize(
    "command", ["echo 'unbalanced", "true; " * 300 + "touch PWN", "a" * 200_000, "ls\rrm x"]
)
@pytest.mark.parametrize("operating", [AGENT, PLAN])
def test_a_line_that_cannot_be_judged_asks_in_every_mode_whatever_was_allowed(
    command: str, operating: OperatingMode
) -> None:
    for mode in MODES:
        lenient = policy(mode, operating, allow=("Bash",), grants=(Grant("Bash", outside=False),))
        decided = decide(bash(command), lenient)
        assert isinstance(decided, Ask)
        assert decided.grant_scope is None


def test_a_line_that_reaches_outside_asks_whatever_was_allowed_except_in_auto() -> None:
    line = bash("echo x > ../outside/f", place("/w/outside/f"))
    for mode in (ASK, EDITS):
        decided = decide(line, policy(mode, allow=("Bash",), grants=(Grant("Bash", outside=False),)))
        assert isinstance(decided, Ask)
        assert (decided.grant_scope, decided.external) == (None, True)
        assert "/w/outside/f" in decided.reason
    assert decide(line, policy(AUTO)) == Allow("table")


def test_a_place_that_the_words_do_not_tell_counts_as_outside() -> None:
    line = bash('echo x > "$F"', None)
    assert isinstance(decide(line, policy(allow=("Bash",))), Ask)
    assert decide(line, policy(AUTO)) == Allow("table")


@pytest.mark.parametrize(
    "command", ["orchestrator approve req-1", "ls && python -m orchestrator approve req-1"]
)
def test_a_line_that_could_answer_requests_asks_in_every_mode(command: str) -> None:
    decided = decide(bash(command), policy(AUTO, allow=("Bash",), grants=(Grant("Bash", outside=False),)))
    assert isinstance(decided, Ask)
    assert decided.grant_scope is None


def test_a_bare_bash_rule_and_a_grant_for_the_tool_cover_every_line_that_can_be_judged() -> None:
    for lenient in (policy(allow=("Bash",)), policy(grants=(Grant("Bash", outside=False),))):
        for command in ("make && ./run | tee log", "CI=1 pytest", "x=1"):
            assert isinstance(decide(bash(command), lenient), Allow)


@pytest.mark.parametrize(
    "command",
    ["git $X", "PATH=. git status", "git status > f", "cat <<E\nx\nE", "cd sub && rm -rf build", "a $(b)"],
)
def test_commands_that_are_not_literal_are_not_offered_for_a_session(command: str) -> None:
    line = parse_line(command)
    assert grantable(line) == ()


def test_literal_commands_are_offered_for_a_session() -> None:
    assert grantable(parse_line("git status && ls -l")) == ("git status", "ls -l")


def test_granted_commands_hold_in_the_directory_they_were_granted_in() -> None:
    granted = policy(grants=(Grant("Bash", outside=False, commands=("rm -rf build", "cd sub")),))
    assert decide(bash("rm -rf build"), granted) == Allow("grant")
    assert isinstance(decide(bash("cd sub && rm -rf build"), granted), Ask)


# modes


def test_a_definition_only_narrows_the_sessions_mode() -> None:
    for session, definition in itertools.product(MODES, (None, *MODES)):
        expected = session if definition is None else min(session, definition, key=lambda mode: mode.reach)
        assert effective_mode(session, definition) is expected


# properties

_PATHS = st.sampled_from(
    [
        *PLACES.values(),
        place("/w/outside/.git/config", protected="git"),
        place("/w/outside/.env", denied="secret"),
        place("/data/scratch/s1/.envrc", root=Root.SCRATCH, protected="direnv"),
        place("/home/u/a.txt"),
    ]
)
_TOOLS = ["Read", "Glob", "Grep", "Write", "Edit", "mcp__db__query", "Deploy", "Task", "ToolSearch"]
_LINES = [
    "git status",
    "git status; ls",
    "ls > out",
    "X=1 ls",
    "echo 'open",
    "git apply p",
    "orchestrator approve x",
    "$X",
]
_RULES = st.sampled_from(
    [
        *(Rule(tool) for tool in ("Read", "Write", "Edit", "Bash", "mcp__db", "Deploy")),
        *(
            Rule(tool, p)
            for tool in ("Read", "Write")
            for p in ("**", "src/**", "/**", "../outside/**", "~/**", "*.txt")
        ),
        Rule("Bash", "git status"),
        Rule("Bash", "ls"),
    ]
)
_GRANTS = st.sampled_from(
    [
        *(Grant(tool, outside) for tool in ("Read", "Write", "Edit", "Deploy") for outside in (True, False)),
        Grant("Bash", outside=False),
        Grant("Bash", outside=False, commands=("git status",)),
    ]
)


@st.composite
def calls(draw: st.DrawFn) -> CallFacts:
    if draw(st.integers(0, 2)) == 0:
        places = draw(st.lists(_PATHS | st.none(), max_size=2))
        return bash(draw(st.sampled_from(_LINES)), *places)
    return call(draw(st.sampled_from(_TOOLS)), *draw(st.lists(_PATHS, max_size=2)))


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    return Policy(
        operating_mode=draw(st.sampled_from(OperatingMode)),
        permission_mode=draw(st.sampled_from(MODES)),
        allow=tuple(draw(st.lists(_RULES, max_size=3))),
        deny=tuple(draw(st.lists(_RULES, max_size=1))),
        grants=frozenset(draw(st.lists(_GRANTS, max_size=2))),
    )


def _width(decided: object) -> int:
    return {"R": 2, "A": 1}.get(letter(decided), 0)


@given(calls(), policies(), st.sampled_from(MODES), st.booleans())
def test_narrowing_the_mode_never_lets_run_what_asked_or_was_denied(
    facts: CallFacts, wide: Policy, mode: PermissionMode, plan: bool
) -> None:
    narrow = attrs.evolve(
        wide,
        permission_mode=effective_mode(wide.permission_mode, mode),
        operating_mode=PLAN if plan else wide.operating_mode,
    )
    assert _width(decide(facts, narrow)) <= _width(decide(facts, wide))


@given(calls(), policies())
def test_while_planning_nothing_that_changes_files_by_a_tool_ever_runs(
    facts: CallFacts, rules: Policy
) -> None:
    decided = decide(facts, attrs.evolve(rules, operating_mode=PLAN))
    if facts.kind in (CallKind.WRITE, CallKind.PLUGIN, CallKind.TASK, CallKind.OTHER) or facts.patch:
        assert letter(decided) == "P"


@given(calls(), policies(), st.randoms(use_true_random=False))
def test_the_order_of_rules_within_a_level_does_not_matter(
    facts: CallFacts, rules: Policy, random: object
) -> None:
    allow, deny = list(rules.allow), list(rules.deny)
    random.shuffle(allow)  # type: ignore[attr-defined]
    random.shuffle(deny)  # type: ignore[attr-defined]
    shuffled = attrs.evolve(rules, allow=tuple(allow), deny=tuple(deny))
    assert decide(facts, shuffled) == decide(facts, rules)


@given(calls(), policies(), _RULES)
def test_adding_a_deny_rule_never_widens(facts: CallFacts, rules: Policy, rule: Rule) -> None:
    stricter = attrs.evolve(rules, deny=(*rules.deny, rule))
    assert _width(decide(facts, stricter)) <= _width(decide(facts, rules))


@given(calls(), policies())
def test_a_denied_place_is_never_opened_and_a_protected_one_never_written_unasked(
    facts: CallFacts, rules: Policy
) -> None:
    named = [*facts.paths, *(place for place in facts.places if place is not None)]
    written = [fact.path for fact in named if fact.use == "write"]
    places = [fact.path for fact in named]
    decided = decide(facts, rules)
    if any(path.denied for path in places):
        assert isinstance(decided, Deny)
    if any(path.protected for path in written):
        assert not isinstance(decided, Allow)


def test_the_decision_is_pure() -> None:
    code = (
        "import sys, agents.rules.permissions\n"
        "print([m for m in ('trio', 'asyncio', 'sqlite3', 'opentelemetry.sdk', 'tree_sitter', 'pathspec') "
        "if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

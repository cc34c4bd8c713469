"""May this call run? One pure decision over facts that the gate brings.

The order of the questions is the contract:

1. plan mode's hard denies,
2. deny rules,
3. the deny list of places that are never opened,
4. what asks in every mode: writes to protected places, command lines that cannot be judged or that could
   answer permission requests,
5. what stands outside the roots (an allow rule or grant for the outside answers; for a command line only the
   `auto` mode does),
6. allow rules and session grants,
7. the table of permission modes.

An earlier answer is never undone by a later question.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Literal

import attrs

from agents.errors import ErrorCode
from agents.rules.advice import OUTSIDE_LINE, OWN_COMMAND, PLANNING, PROTECTED, UNJUDGED, UNTOLD_PLACE
from agents.rules.paths import ResolvedPath, Root, contains
from agents.rules.permission_rules import PLUGIN_PREFIX, Grant, Rule
from agents.rules.shell import ShellLine, SimpleCommand, allows, denies
from agents.spec import OperatingMode, PermissionMode

__all__ = [
    "Allow",
    "Ask",
    "CallFacts",
    "CallKind",
    "Decided",
    "Deny",
    "Grant",
    "PathFact",
    "Policy",
    "Rule",
    "decide",
    "effective_mode",
    "grantable",
    "kind_of",
    "refused_in_plan",
]


class CallKind(enum.Enum):
    """What sort of call it is: the rows of the table."""

    READ = "read"
    WRITE = "write"
    BASH = "bash"
    TASK = "task"
    """The Task family: delegation, which exists in agent mode only."""
    SEARCH = "search"
    """ToolSearch: executes nothing."""
    PLUGIN = "plugin"
    OTHER = "other"
    """Custom tools, and names nobody knows."""


_KINDS = {
    **dict.fromkeys(("Read", "Glob", "Grep"), CallKind.READ),
    **dict.fromkeys(("Write", "Edit"), CallKind.WRITE),
    **dict.fromkeys(("Task", "Agent", "TaskWait", "TaskList", "TaskStop"), CallKind.TASK),
    "Bash": CallKind.BASH,
    "ToolSearch": CallKind.SEARCH,
}


def kind_of(tool: str) -> CallKind:
    """The row of a tool, by its name."""
    if tool.startswith(PLUGIN_PREFIX):
        return CallKind.PLUGIN
    return _KINDS.get(tool, CallKind.OTHER)


@attrs.frozen
class PathFact:
    """One path that a call names, and what it does there."""

    path: ResolvedPath
    use: Literal["read", "write"]
    explicit: bool = True
    """False for a default, such as Grep's root."""
    removes: Literal["", "itself", "below"] = ""
    """Whether it takes away what stands there with everything in it, or what a pattern finds below."""


@attrs.frozen
class CallFacts:
    """Everything the decision may know about one call."""

    tool: str
    kind: CallKind
    workspace: str
    """The workspace, canonical: what relative patterns are relative to."""
    home: str | None
    """The user's home, canonical: what `~` in a pattern means; None: unknown, and no such pattern matches."""
    paths: tuple[PathFact, ...] = ()
    """Resolved path arguments, in the order of the call."""
    shell: ShellLine | None = None
    """The parsed command line of a Bash call; None for every other tool."""
    patch: bool = False
    """Whether the line is a recognised shell patch command."""
    own_command: bool = False
    """Whether the line calls the orchestrator's own command."""
    places: tuple[PathFact | None, ...] = ()
    """What the line's redirections and file commands name; None: it writes where only the run can tell."""


@attrs.frozen
class Policy:
    """What one agent may do now."""

    operating_mode: OperatingMode = OperatingMode.AGENT
    permission_mode: PermissionMode = PermissionMode.ASK
    """The effective one: see `effective_mode`."""
    allow: tuple[Rule, ...] = ()
    """The user's rules only; a repository cannot add any."""
    deny: tuple[Rule, ...] = ()
    """The user's, the administrators' and the repository's rules."""
    grants: frozenset[Grant] = frozenset()
    """What a person allowed for this session."""

    @property
    def plan(self) -> bool:
        return self.operating_mode is OperatingMode.PLAN

    @property
    def auto(self) -> bool:
        return self.permission_mode is PermissionMode.AUTO


@attrs.frozen
class Allow:
    """The call may run."""

    why: Literal["table", "rule", "grant"]


@attrs.frozen
class Ask:
    """A person must answer first."""

    reason: str
    """One sentence for the person."""
    grant_scope: Grant | None
    """What an answer for the whole session would cover; None: it cannot be given for the session."""
    external: bool
    """Whether an outside path is what is asked for."""


@attrs.frozen
class Deny:
    """The call must not run and nobody is asked."""

    code: ErrorCode
    reason: Literal["rule", "deny-list"] | None
    """`details.reason` of a TOOL_DENIED; None for the codes of plan mode."""
    message: str
    """For the model; names the next step."""


Decided = Allow | Ask | Deny


def effective_mode(session: PermissionMode, definition: PermissionMode | None) -> PermissionMode:
    """The stricter of the session's mode and a definition's: a definition only narrows."""
    if definition is None or definition.reach >= session.reach:
        return session
    return definition


def decide(facts: CallFacts, policy: Policy) -> Decided:
    """Decide one call. The order is that of the module's docstring."""
    return (
        _plan_denies(facts, policy)
        or _rules_deny(facts, policy)
        or _deny_list(facts)
        or _always_asks(facts)
        or _outside(facts, policy)
        or _approval(facts, policy)
    )


# 1 · plan


_PLAN_CODES = {
    "Write": ErrorCode.WRITE_DISABLED_IN_PLAN,
    "Edit": ErrorCode.EDIT_DISABLED_IN_PLAN,
}


def refused_in_plan(tool: str, policy: Policy) -> Deny | None:
    """What plan says to a call of a tool that it has taken away, or that nobody knows; None outside plan."""
    return _plan_denies(CallFacts(tool=tool, kind=kind_of(tool), workspace="", home=None), policy)


def _plan_denies(facts: CallFacts, policy: Policy) -> Deny | None:
    if not policy.plan or facts.kind in (CallKind.READ, CallKind.SEARCH):
        return None
    if facts.kind is CallKind.BASH and not facts.patch:
        return None
    if facts.kind is CallKind.PLUGIN:
        code = ErrorCode.PLUGIN_DISABLED_IN_PLAN
    else:
        code = _PLAN_CODES.get(facts.tool, ErrorCode.TOOL_DISABLED_IN_PLAN)
    what = "Patch commands are" if facts.kind is CallKind.BASH else f"{facts.tool} is"
    return Deny(
        code,
        None,
        f"{what} not available while planning, and no approval changes that. "
        "Describe the change in your plan instead.",
    )


# 2 · deny rules


def _rules_deny(facts: CallFacts, policy: Policy) -> Deny | None:
    if not any(_rule_denies(rule, facts) for rule in policy.deny):
        return None
    # Which rule it was stays untold: a model that reads the rule looks for a way around it.
    return Deny(
        ErrorCode.TOOL_DENIED,
        "rule",
        f"A deny rule forbids this {facts.tool} call. Reach the goal without it, "
        "or tell the user that the rule stands in the way.",
    )


def _rule_denies(rule: Rule, facts: CallFacts) -> bool:
    if facts.kind is CallKind.BASH and not rule.is_for(facts.tool):
        return _denies_a_place(rule, facts)
    if not rule.denies_tool(facts.tool):
        return False
    if rule.pattern is None:
        return True
    if facts.kind is CallKind.BASH:
        return facts.shell is not None and denies((rule.pattern,), facts.shell)
    return any(
        rule.denies_path(fact.path, workspace=facts.workspace, home=facts.home) for fact in facts.paths
    )


def _denies_a_place(rule: Rule, facts: CallFacts) -> bool:
    """What no file tool may read or change by a rule with a pattern, a line may not name for that either."""
    use = _RULED_USES.get(rule.tool)
    return rule.pattern is not None and any(
        rule.denies_path(place.path, workspace=facts.workspace, home=facts.home)
        for place in facts.places
        if place is not None and place.use == use
    )


_RULED_USES = {"Read": "read", "Edit": "write"}


# 3 · the deny list


def _deny_list(facts: CallFacts) -> Deny | None:
    for path in _all_places(facts):
        if path.denied is not None:
            return Deny(
                ErrorCode.TOOL_DENIED,
                "deny-list",
                f"{path.given!r} is on the list of places that no tool opens. "
                "Work without it, or ask the user to put what is needed elsewhere.",
            )
    return None


def _all_places(facts: CallFacts) -> Iterable[ResolvedPath]:
    yield from (fact.path for fact in facts.paths)
    yield from (place.path for place in facts.places if place is not None)


# 4 · what asks in every mode


def _always_asks(facts: CallFacts) -> Ask | None:
    for path in _written(facts):
        if path.protected is not None:
            return Ask(f"It would write {path.display}, {PROTECTED}: {path.protected}.", None, path.outside)
    for place in filter(None, facts.places):
        taken = _taken_away(place, facts)
        if taken is not None:
            shown = place.path.display
            return Ask(f"It would delete {shown}, {PROTECTED}: {taken} is in it.", None, place.path.outside)
    if facts.kind is CallKind.BASH:
        if facts.shell is None or facts.shell.problem is not None:
            why = "" if facts.shell is None else f": {facts.shell.problem}"
            return Ask(f"{UNJUDGED}{why}.", None, False)
        if facts.own_command:
            return Ask(f"{OWN_COMMAND}, which could answer permission requests.", None, False)
    return None


def _taken_away(place: PathFact, facts: CallFacts) -> str | None:
    """What of the person's goes away as a whole; None: nothing of that size."""
    here = place.path.canonical
    for whole, name in ((facts.workspace, "the whole workspace"), (facts.home, "your home directory")):
        reaches = whole is not None and contains(here, whole)
        if reaches and (place.removes == "itself" or (place.removes == "below" and here != whole)):
            return name
    return None


def _written(facts: CallFacts) -> Iterable[ResolvedPath]:
    yield from (fact.path for fact in facts.paths if fact.use == "write")
    yield from (place.path for place in facts.places if place is not None and place.use == "write")


# 5 · outside the roots


def _outside(facts: CallFacts, policy: Policy) -> Ask | None:
    if facts.kind is CallKind.BASH:
        return _outside_by_shell(facts, policy)
    uncovered = [
        fact.path
        for fact in facts.paths
        if fact.path.outside and not policy.auto and _cover(fact.path, facts, policy) is None
    ]
    if not uncovered:
        return None
    verb = "write" if any(fact.use == "write" for fact in facts.paths) else "read"
    return Ask(
        f"It would {verb} outside the workspace: {_names(uncovered)}.", Grant(facts.tool, outside=True), True
    )


def _outside_by_shell(facts: CallFacts, policy: Policy) -> Ask | None:
    """A line that reaches outside asks whatever was allowed before; in `auto` it runs, unless planning."""
    if policy.auto and not policy.plan:
        return None
    outside = [place.path for place in facts.places if place is not None and place.path.outside]
    if outside:
        return Ask(f"{OUTSIDE_LINE}: {_names(outside)}.", None, True)
    if None in facts.places:
        return Ask(f"{UNTOLD_PLACE}.", None, False)
    return None


def _names(paths: list[ResolvedPath]) -> str:
    unique = list(dict.fromkeys(path.canonical for path in paths))
    more = f" and {len(unique) - 3} more" if len(unique) > 3 else ""
    return ", ".join(unique[:3]) + more


# 6 and 7 · allow rules, grants, the table


def _approval(facts: CallFacts, policy: Policy) -> Allow | Ask:
    if facts.kind in (CallKind.TASK, CallKind.SEARCH):
        return Allow("table")
    if facts.kind is CallKind.BASH:
        return _bash_approval(facts, policy)
    outside = [fact.path for fact in facts.paths if fact.path.outside]
    inside = [fact.path for fact in facts.paths if not fact.path.outside]
    why: Literal["table", "rule", "grant"] = "table"
    for path in outside:  # all covered by now, or the mode is auto
        why = _cover(path, facts, policy) or why
    if outside and not inside:
        return Allow(why)
    if _table_runs(facts, policy, inside):
        return Allow(why)
    covers = [_cover(path, facts, policy) for path in inside] or [_cover(None, facts, policy)]
    if all(covers):
        return Allow("grant" if "grant" in covers else "rule")
    return Ask(_table_reason(facts, inside), Grant(facts.tool, outside=False), False)


def _table_runs(facts: CallFacts, policy: Policy, inside: list[ResolvedPath]) -> bool:
    """Whether the mode lets the inside part of a call run unasked."""
    if policy.auto or facts.kind is CallKind.READ:
        return True
    if facts.kind is not CallKind.WRITE:
        return False
    edits = policy.permission_mode.reach >= PermissionMode.ACCEPT_EDITS.reach
    return bool(inside) and all(edits or path.root is Root.SCRATCH for path in inside)


def _table_reason(facts: CallFacts, inside: list[ResolvedPath]) -> str:
    if facts.kind is CallKind.WRITE and inside:
        return f"{facts.tool} changes {inside[0].display} in the workspace."
    if facts.kind is CallKind.PLUGIN:
        return f"{facts.tool} is a plugin's tool; what it does is not known here."
    return f"{facts.tool} asks in this permission mode."


def _cover(path: ResolvedPath | None, facts: CallFacts, policy: Policy) -> Literal["rule", "grant"] | None:
    """Whether an allow rule or a grant answers for one path (None: for a call without paths)."""
    if any(_rule_allows(rule, path, facts) for rule in policy.allow):
        return "rule"
    outside = path is not None and path.outside
    return "grant" if Grant(facts.tool, outside=outside) in policy.grants else None


def _rule_allows(rule: Rule, path: ResolvedPath | None, facts: CallFacts) -> bool:
    if not rule.is_for(facts.tool):
        return False
    if path is None:
        return rule.pattern is None
    return rule.allows_path(path, workspace=facts.workspace, home=facts.home)


def _bash_approval(facts: CallFacts, policy: Policy) -> Allow | Ask:
    assert facts.shell is not None  # lines that cannot be judged have asked before
    commands = facts.shell.simple
    if policy.auto and not policy.plan:
        return Allow("table")
    if _rules_allow_line(facts.shell, policy):
        return Allow("rule")
    if policy.plan:  # only a user's rule answers in advance while planning
        return Ask(f"{PLANNING}.", None, False)
    if _grants_allow_line(commands, policy):
        return Allow("grant")
    return Ask("Shell commands ask in this permission mode.", Grant(facts.tool, outside=False), False)


def _rules_allow_line(line: ShellLine, policy: Policy) -> bool:
    """A bare `Bash` rule speaks of every line; a pattern of single commands, and each needs one."""
    rules = [rule for rule in policy.allow if rule.is_for("Bash")]
    if any(rule.pattern is None for rule in rules):
        return True
    return allows([rule.pattern for rule in rules if rule.pattern is not None], line)


def _grants_allow_line(commands: tuple[SimpleCommand, ...], policy: Policy) -> bool:
    grants = [grant for grant in policy.grants if grant.tool == "Bash" and not grant.outside]
    if any(grant.commands is None for grant in grants):
        return True
    known = {command for grant in grants for command in grant.commands or ()}
    return bool(commands) and all(_is_literal(command) and command.text in known for command in commands)


def grantable(line: ShellLine) -> tuple[str, ...]:
    """The commands of a line that a grant for just them would cover; empty where their text does not tell
    everything: an expansion, an assignment, a redirection, another directory."""
    if line.problem is not None or not all(_is_literal(command) for command in line.simple):
        return ()
    return tuple(dict.fromkeys(command.text for command in line.simple))


def _is_literal(command: SimpleCommand) -> bool:
    return (
        bool(command.words)
        and all(word.text is not None for word in command.words)
        and not command.assignments
        and not command.redirects
        and command.heredoc is None
        and command.directories == ("",)
    )

"""`preflight`: which calls could still ask, or would be denied, before anything runs. Pure.

A small table of representative calls (each tool at each place) is put to the decision that the gate uses,
and so is the question which rule or setting is behind an answer: there is no second copy of the rules here.
What a pattern speaks of is not searched; rules that concern a tool without covering its representative are
named beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import attrs

from agents.rules.audit import rule_behind
from agents.rules.paths import NodeKind, Places, ResolvedPath, Walked, classify
from agents.rules.permission_rules import Rule
from agents.rules.permissions import (
    Allow,
    Ask,
    CallFacts,
    CallKind,
    Decided,
    Deny,
    PathFact,
    Policy,
    decide,
    effective_mode,
    kind_of,
)
from agents.rules.shell import calls_own_command, parse_line, patch_command
from agents.spec import OperatingMode, PermissionMode

SAMPLE = "any-file"
"""No rule of anybody's names this."""
SAMPLE_COMMAND = "any-command"
OUTSIDE = "/any-folder-outside"

Verdict = Literal["runs", "asks", "denied"]


@attrs.frozen
class AgentFacts:
    """One agent as it would run."""

    name: str
    tools: tuple[str, ...]
    """Those it would be given."""
    permission_mode: PermissionMode
    """The effective one."""
    narrowed_to: PermissionMode | None = None
    """What its definition narrows the session's mode to, whatever that is."""


@attrs.frozen
class Finding:
    """What would become of one class of calls."""

    agent: str
    tool: str
    place: str
    """Where or what, in words; one class per place."""
    verdict: Verdict
    by: str
    """What decides: the row of the table (a mode), a rule, plan mode, or `every mode`."""
    reason: str
    """The sentence that a person would be asked with, or the model told."""
    always: bool = False
    """It asks whatever is configured: no setting answers it in advance."""
    remedies: tuple[str, ...] = ()
    """Options that would answer it in advance, each by itself."""
    partly: tuple[str, ...] = ()
    """Rules about this tool that speak of a part of the class."""

    @property
    def blocks(self) -> bool:
        """Whether it would hang or be denied where nobody answers, and need not."""
        return self.verdict == "asks" and not self.always


@attrs.frozen
class Sample:
    """A representative call."""

    place: str
    facts: CallFacts


def preflight(
    agents: Iterable[AgentFacts],
    *,
    places: Places,
    home: str | None,
    mode: OperatingMode,
    allow: tuple[Rule, ...],
    deny: tuple[Rule, ...],
) -> tuple[Finding, ...]:
    """Every class of calls of every agent, in the order of agents, tools and places."""
    return tuple(
        _finding(agent, sample, Policy(mode, agent.permission_mode, allow, deny))
        for agent in agents
        for tool in agent.tools
        for sample in samples(tool, places, home)
    )


# the representative calls


def samples(tool: str, places: Places, home: str | None) -> Iterator[Sample]:
    """One call per place where a tool of this kind can act."""
    bare = CallFacts(tool=tool, kind=kind_of(tool), workspace=places.workspace, home=home)
    match bare.kind:
        case CallKind.READ | CallKind.WRITE:
            for place, path in _targets(bare.kind, places):
                use: Literal["read", "write"] = "write" if bare.kind is CallKind.WRITE else "read"
                yield Sample(place, attrs.evolve(bare, paths=(PathFact(_at(path, places), use),)))
        case CallKind.BASH:
            yield from _lines(bare, places)
        case _:
            yield Sample("every call", bare)


def _targets(kind: CallKind, places: Places) -> Iterator[tuple[str, str]]:
    yield "in the workspace", f"{places.workspace}/{SAMPLE}"
    for added in places.added:
        yield f"in the added folder {added}", f"{added}/{SAMPLE}"
    yield "in the scratch folder", f"{places.scratch}/{SAMPLE}"
    yield "outside the roots", f"{OUTSIDE}/{SAMPLE}"
    if kind is CallKind.WRITE:
        yield (
            "a protected place (git's own files, start-up files, settings)",
            f"{places.workspace}/.git/{SAMPLE}",
        )


def _lines(bare: CallFacts, places: Places) -> Iterator[Sample]:
    outside = PathFact(_at(f"{OUTSIDE}/{SAMPLE}", places), "write")
    protected = PathFact(_at(f"{places.workspace}/.git/{SAMPLE}", places), "write")
    yield Sample("a command without a place", _line(bare, SAMPLE_COMMAND))
    yield Sample(
        "a line that writes outside the roots", _line(bare, f"{SAMPLE_COMMAND} > {OUTSIDE}/{SAMPLE}", outside)
    )
    yield Sample(
        "a line that writes where only the run can tell", _line(bare, f'{SAMPLE_COMMAND} > "$x"', None)
    )
    yield Sample("a patch command", _line(bare, "git apply any-patch"))
    yield Sample(
        "a line that writes a protected place", _line(bare, f"{SAMPLE_COMMAND} > .git/{SAMPLE}", protected)
    )
    yield Sample("a line that cannot be judged", _line(bare, f"{SAMPLE_COMMAND} '"))
    yield Sample("a line that answers requests itself", _line(bare, "orchestrator approve any-id"))


def _line(bare: CallFacts, command: str, *named: PathFact | None) -> CallFacts:
    line = parse_line(command)
    return attrs.evolve(
        bare, shell=line, patch=patch_command(line), own_command=calls_own_command(line), places=named
    )


def _at(path: str, places: Places) -> ResolvedPath:
    return classify(path, Walked(path, NodeKind.FILE), places)


# what would become of them


def _finding(agent: AgentFacts, sample: Sample, policy: Policy) -> Finding:
    facts = sample.facts
    decided = decide(facts, policy)
    remedies: tuple[str, ...] = ()
    always = False
    if isinstance(decided, Ask):
        remedies = tuple(remedy.option for remedy in _remedies(facts, policy, agent))
        always = not any(_allows(facts, wider) for wider in _widest(facts, policy))
    return Finding(
        agent=agent.name,
        tool=facts.tool,
        place=sample.place,
        verdict=_verdict(decided),
        by="every mode" if always else _by(facts, policy, decided),
        reason=_reason(decided),
        always=always,
        remedies=remedies,
        partly=() if always else _partly(facts, policy, decided),
    )


def _reason(decided: Decided) -> str:
    match decided:
        case Allow():
            return ""
        case Ask():
            return decided.reason
        case Deny():
            return decided.message


def _verdict(decided: Decided) -> Verdict:
    match decided:
        case Allow():
            return "runs"
        case Ask():
            return "asks"
        case Deny():
            return "denied"


def _by(facts: CallFacts, policy: Policy, decided: Decided) -> str:
    """What is behind a decision: a rule where one decided, else a mode."""
    rule = rule_behind(facts, policy, decided)
    if rule is not None:
        return f"deny rule {rule}" if isinstance(decided, Deny) else f"allow rule {rule}"
    acting = attrs.evolve(policy, operating_mode=OperatingMode.AGENT)
    if policy.plan and decide(facts, acting) != decided:
        return "mode plan"
    return "the deny list" if isinstance(decided, Deny) else f"permission mode {policy.permission_mode}"


@attrs.frozen
class _Remedy:
    """An option of the command line, and the policy that it leads to."""

    option: str
    policy: Policy


def _remedies(facts: CallFacts, policy: Policy, agent: AgentFacts) -> Iterator[_Remedy]:
    """Each option that answers the call in advance, by itself."""
    for mode in PermissionMode:
        reached = effective_mode(mode, agent.narrowed_to)
        remedy = _Remedy(f"--permission-mode {mode}", attrs.evolve(policy, permission_mode=reached))
        if _allows(facts, remedy.policy):
            yield remedy
    rule = _covering_rule(facts)
    spelled = str(rule) if rule.pattern is None else f"'{rule}'"
    remedy = _Remedy(f"--allow {spelled}", attrs.evolve(policy, allow=(*policy.allow, rule)))
    if _allows(facts, remedy.policy):
        yield remedy


def _widest(facts: CallFacts, policy: Policy) -> Iterator[Policy]:
    """Policies under which whatever can be answered in advance is."""
    yield attrs.evolve(policy, permission_mode=PermissionMode.AUTO)
    yield attrs.evolve(policy, allow=(*policy.allow, _covering_rule(facts)))


def _covering_rule(facts: CallFacts) -> Rule:
    outside = any(fact.path.outside for fact in facts.paths)
    return Rule(facts.tool, "/**") if outside else Rule(facts.tool)


def _allows(facts: CallFacts, policy: Policy) -> bool:
    return isinstance(decide(facts, policy), Allow)


def _partly(facts: CallFacts, policy: Policy, decided: Decided) -> tuple[str, ...]:
    """Rules with a pattern for this tool that may decide some calls of the class in another way."""
    outside = any(fact.path.outside for fact in facts.paths)
    allow = [rule for rule in policy.allow if rule.names_outside or not outside]
    told = [
        *(("allow", rule) for rule in allow if isinstance(decided, Ask)),
        *(("deny", rule) for rule in policy.deny if not isinstance(decided, Deny)),
    ]
    return tuple(
        f"{word} rule {rule}" for word, rule in told if rule.is_for(facts.tool) and rule.pattern is not None
    )

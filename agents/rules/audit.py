"""What was behind a decision that nobody was asked for: for the audit, never for the model. Pure.

Found by asking the decision itself again with one rule at a time: there is no second reading of the rules.
"""

from __future__ import annotations

from typing import Literal

import attrs

from agents.rules.permission_rules import Rule
from agents.rules.permissions import Allow, CallFacts, Decided, Deny, Policy, decide

Why = Literal["table", "rule", "grant", "answer", "deny-rule", "deny-list", "plan"]
"""The row of the mode, the user's rule, a session grant, a person; a deny rule, the deny list, plan mode."""

TOGETHER = "several rules together"


def why(decided: Allow | Deny) -> Why:
    """What kind of thing decided."""
    match decided:
        case Allow():
            return decided.why
        case Deny(reason="rule"):
            return "deny-rule"
        case Deny(reason="deny-list"):
            return "deny-list"
        case Deny():
            return "plan"


def rule_behind(facts: CallFacts, policy: Policy, decided: Decided) -> str | None:
    """The first rule that alone leads to this decision, as it is spelled; None where no rule decided.

    A command line may need several allow rules, one for each of its commands: then `TOGETHER`.
    """
    match decided:
        case Allow(why="rule"):
            alone = (r for r in policy.allow if isinstance(_with(facts, policy, allow=r), Allow))
            return str(next(alone, TOGETHER))
        case Deny(reason="rule"):
            alone = (r for r in policy.deny if isinstance(_with(facts, policy, deny=r), Deny))
            return str(next(alone, TOGETHER))
        case _:
            return None


def _with(
    facts: CallFacts, policy: Policy, *, allow: Rule | None = None, deny: Rule | None = None
) -> Decided:
    """The decision under only one rule of its kind."""
    return decide(
        facts,
        attrs.evolve(
            policy,
            allow=policy.allow if allow is None else (allow,),
            deny=policy.deny if deny is None else (deny,),
        ),
    )

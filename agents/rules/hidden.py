"""What deny rules keep from a search of a tree: `hidden_by` answers for each entry of a walk. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from agents.rules.permission_rules import Rule, anchored, expression

Hidden = Callable[[str, bool], bool]
"""(canonical path, whether it is a directory) → whether the walk passes it over."""


def hidden_by(rules: Iterable[Rule], tool: str, *, workspace: str, home: str | None) -> Hidden | None:
    """What the deny rules hide from a walk of `tool`; None where no rule speaks of places for it.

    The same entries that a call which names them is refused for, decided without a look at the disk: it is
    asked for every entry. A rule without a pattern forbids the call itself and is not asked here.
    """
    everywhere: list[re.Pattern[str]] = []
    inside: list[re.Pattern[str]] = []
    outside: list[re.Pattern[str]] = []
    for rule in rules:
        if rule.pattern is None or not rule.denies_tool(tool):
            continue
        if rule.names_outside:
            if home is not None or not rule.pattern.startswith("~"):
                everywhere.append(expression(anchored(rule.pattern, workspace=workspace, home=home or "/")))
            continue
        inside.append(expression(rule.pattern.removeprefix("./")))
        if rule.names_only:
            outside.append(expression(rule.pattern))
    if not (everywhere or inside):
        return None
    return _decider(everywhere, inside, outside, workspace.rstrip("/") + "/")


def _decider(
    everywhere: list[re.Pattern[str]],
    inside: list[re.Pattern[str]],
    outside: list[re.Pattern[str]],
    below: str,
) -> Hidden:
    def hidden(canonical: str, is_directory: bool) -> bool:
        contained = canonical.startswith(below)
        absolute = canonical[1:]
        asked = (
            (everywhere, absolute),
            (inside, canonical[len(below) :]) if contained else (outside, absolute),
        )
        for expressions, path in asked:
            for each in expressions:
                # `docs/**` and `docs/` cover the directory itself
                if each.search(path) or (is_directory and each.search(path + "/")):
                    return True
        return False

    return hidden

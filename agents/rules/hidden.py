"""What deny rules keep from a search of a tree: `hidden_by` answers for each entry of a walk. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import attrs

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
    return _HiddenPaths(tuple(everywhere), tuple(inside), tuple(outside), workspace.rstrip("/") + "/")


@attrs.frozen
class _HiddenPaths:
    """Expressions over paths. A value, not a closure: a search hands it to another process."""

    everywhere: tuple[re.Pattern[str], ...]
    inside: tuple[re.Pattern[str], ...]
    outside: tuple[re.Pattern[str], ...]
    below: str
    """The workspace, ending in `/`."""

    def __call__(self, canonical: str, is_directory: bool) -> bool:
        contained = canonical.startswith(self.below)
        absolute = canonical[1:]
        asked = (
            (self.everywhere, absolute),
            (self.inside, canonical[len(self.below) :]) if contained else (self.outside, absolute),
        )
        for expressions, path in asked:
            for each in expressions:
                # `docs/**` and `docs/` cover the directory itself
                if each.search(path) or (is_directory and each.search(path + "/")):
                    return True
        return False

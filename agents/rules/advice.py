"""What would have let a call run without asking: options of the command line that can work, or none. Pure.

A request says in `reason` why it asked. The words of those reasons stand here, beside what they mean for
advice, and the decision takes them from here.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from agents.errors import Failure
from agents.requests import PermissionRequest
from agents.rules.permission_rules import Rule
from agents.rules.shell import allows, parse_line

PROTECTED = "which is protected"
UNJUDGED = "The command line cannot be judged"
OWN_COMMAND = "It calls the orchestrator itself"
OUTSIDE_LINE = "The command reaches outside the workspace"
UNTOLD_PLACE = "The command changes files at a place that its words do not tell"
PLANNING = "Shell commands ask while planning"
CHANGED = "The path changed while the answer was awaited"

NO_OPTION = (PROTECTED, UNJUDGED, OWN_COMMAND, CHANGED)
"""These ask in every mode: a person has to answer."""
AUTO = "--permission-mode auto"
ACCEPT_EDITS = "--permission-mode accept-edits"

_GLOB_SIGNS = re.compile(r"([\\*?\[\]!#])")


def options_for(request: PermissionRequest) -> tuple[str, ...]:
    """Options as they are typed, narrowest first; each alone lets such a call run. Empty: no option does."""
    reason = request.reason
    if any(words in reason for words in NO_OPTION):
        return ()
    if OUTSIDE_LINE in reason or UNTOLD_PLACE in reason:
        return (AUTO,)
    if request.tool == "Bash":
        rules = _command_rules(request.grant_commands)
        return (rules,) if PLANNING in reason else (rules, AUTO)
    if request.external_path is not None:
        rule = _path_rule(request.tool, request.external_path)
        return (AUTO,) if rule is None else (rule, AUTO)
    allow = _option(request.tool)
    return (allow, ACCEPT_EDITS, AUTO) if request.tool in ("Write", "Edit") else (allow, AUTO)


def _option(rule: str) -> str:
    return f"--allow {shlex.quote(rule)}"


def _command_rules(commands: Sequence[str]) -> str:
    """A rule for each of these commands; the whole tool where a rule cannot say just that."""
    if not commands or not all(_covers_itself(command) for command in commands):
        return _option("Bash")
    return " ".join(_option(f"Bash({command})") for command in commands)


def _covers_itself(command: str) -> bool:
    try:
        rule = Rule.parse(f"Bash({command})")
    except Failure:
        return False
    return rule.pattern is not None and allows((rule.pattern,), parse_line(command))


def _path_rule(tool: str, path: str) -> str | None:
    literal = _GLOB_SIGNS.sub(r"\\\1", path)
    rule = f"{tool}({literal})"
    try:
        Rule.parse(rule)
    except Failure:
        return None
    return _option(rule)

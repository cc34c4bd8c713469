"""One definition file: its text → a `Draft` → an `AgentSpec`. Pure.

Everything that cannot be understood narrows or refuses, and never widens.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from agents.spec import AgentSpec, PermissionMode

DEFAULT_TOOLS = ("Read", "Glob", "Grep")
TASK_FAMILY = ("Task", "TaskWait", "TaskList", "TaskStop")
NOT_ASSIGNABLE = frozenset({"ToolSearch", *TASK_FAMILY})
RESERVED_NAMES = frozenset({"main"})
"""The main agent's label."""

KEYS = (
    "name",
    "description",
    "tools",
    "disallowedTools",
    "model",
    "permissionMode",
    "maxTurns",
    "timeoutSeconds",
    "isolation",
    "effort",
)

FOREIGN_KEYS = frozenset({"color", "icon", "tags", "version", "author", "license"})
"""Keys of other tools' files that change nothing an agent may do: they are passed over in silence."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SPELLINGS = {re.sub(r"[_-]", "", key).lower(): key for key in KEYS}
_PERMISSION_MODES = {
    "inherit": None,
    "ask": PermissionMode.ASK,
    "default": PermissionMode.ASK,
    "accept-edits": PermissionMode.ACCEPT_EDITS,
    "acceptEdits": PermissionMode.ACCEPT_EDITS,
    "auto": PermissionMode.AUTO,
    "bypassPermissions": PermissionMode.AUTO,
}


@attrs.frozen
class Rules:
    """What the session offers to definitions."""

    aliases: Mapping[str, str]
    """The user's model aliases."""
    assignable: tuple[str, ...]
    """Tools that a definition may have."""
    providers: tuple[str, ...]
    """Prefixes that a model pin may have."""
    nesting: bool
    """Whether delegates may delegate: then Task can be assigned too."""


class Refused(Exception):
    """A definition that cannot be used; the text says why and what to change."""


@attrs.frozen
class Draft:
    """A file's front matter under our own key spellings, its body, and the warnings so far."""

    fields: dict[str, Any]
    body: str
    warnings: list[str] = attrs.field(factory=list)


def parse(text: str) -> Draft:
    """Split and decode `text`. Raises `Refused`."""
    head, body = _split(text)
    warnings: list[str] = []
    return Draft(_fields(_values(head, warnings), warnings), body, warnings)


def _split(text: str) -> tuple[list[str], str]:
    lines = text.replace("\r\n", "\n").split("\n")
    end = next((n for n, line in enumerate(lines) if n and line.rstrip() == "---"), None)
    if lines[0].rstrip() != "---" or end is None:
        raise Refused("There is no front matter. Begin the file with --- lines around name and description.")
    return lines[1:end], "\n".join(lines[end + 1 :]).strip()


def _values(head: Sequence[str], warnings: list[str]) -> dict[Any, Any]:
    values = _yaml(head)
    if isinstance(values, _Broken):
        problem, values = values, _yaml([_quoted_description(line) for line in head])
        if isinstance(values, _Broken):
            raise Refused(
                f"The front matter is not valid YAML: {problem.reason}. Correct or quote that value."
            )
        warnings.append("The description is not valid YAML and was read as plain text. Quote it.")
    if not isinstance(values, dict):
        raise Refused("The front matter is not a list of `key: value` lines. Write name and description so.")
    return values


@attrs.frozen
class _Broken:
    reason: str


def _yaml(lines: Sequence[str]) -> Any:
    # Imported here: loading YAML takes longer than everything else a start without definitions does.
    import yaml

    try:
        return yaml.safe_load("\n".join(lines))
    except yaml.MarkedYAMLError as error:
        where = "" if error.problem_mark is None else f" in line {error.problem_mark.line + 2}"
        return _Broken(f"{error.problem or 'cannot be parsed'}{where}")
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        return _Broken(type(error).__name__)


def _quoted_description(line: str) -> str:
    """People write `description: Use it when: …` without quotes; only there is that harmless to accept."""
    key, separator, value = line.partition(":")
    if key != "description" or not separator or value.strip()[:1] in ("", "|", ">", '"', "'"):
        return line
    return f"description: {json.dumps(value.strip())}"


def _fields(values: Mapping[Any, Any], warnings: list[str]) -> dict[str, Any]:
    """Values under our own spelling of the keys; unknown keys become warnings."""
    fields: dict[str, Any] = {}
    for written, value in values.items():
        key = _SPELLINGS.get(re.sub(r"[_-]", "", written).lower()) if isinstance(written, str) else None
        if written in FOREIGN_KEYS:
            continue
        if key is None:
            close = difflib.get_close_matches(str(written), KEYS, n=1)
            advice = f" Did you mean {close[0]}?" if close else f" Known keys: {', '.join(KEYS)}."
            warnings.append(f"Unknown key {written!r} is ignored.{advice}")
        elif key in fields:
            raise Refused(f"{key} is given twice, in two spellings. Keep one.")
        else:
            fields[key] = value
    return fields


def name_of(draft: Draft) -> str:
    """The name that the file asks for. Raises `Refused`."""
    name = draft.fields.get("name")
    if not isinstance(name, str) or not name.strip():
        raise Refused("`name` is missing. Add a line such as `name: tester`.")
    name = name.strip()
    if _NAME.fullmatch(name) is None:
        raise Refused(f"{name!r} is not usable as a name. Use letters, digits, dots, dashes; at most 64.")
    if name.casefold() in RESERVED_NAMES:
        raise Refused(f"The name {name} belongs to the main agent. Choose another one.")
    return name


def spec_of(draft: Draft, name: str, rules: Rules) -> AgentSpec:
    """The definition, offered as `name`; adds to the draft's warnings. Raises `Refused`."""
    fields, warnings = draft.fields, draft.warnings
    description = fields.get("description")
    if not isinstance(description, str) or not description.strip():
        raise Refused("`description` is missing. Say in one sentence when to use this agent.")
    _check_isolation(fields.get("isolation"))
    if not draft.body:
        warnings.append("The body is empty: the agent gets no prompt of its own. Write one.")
    return AgentSpec(
        name=name,
        description=description.strip(),
        prompt=draft.body,
        tools=_tools(fields, rules, warnings),
        model=_model(fields.get("model"), rules),
        permission_mode=_permission_mode(fields.get("permissionMode")),
        max_turns=_limit(fields, "maxTurns", whole=True),
        timeout_seconds=_limit(fields, "timeoutSeconds", whole=False),
        effort=_effort(fields.get("effort")),
    )


def _check_isolation(isolation: Any) -> None:
    if isolation in (None, "none"):
        return
    if isolation == "worktree":
        raise Refused(
            "`isolation: worktree` is not available in this version, and the agent is not run in the shared "
            "checkout instead. Remove the key to run it there."
        )
    raise Refused(f"`isolation: {isolation}` is not known. Remove the key.")


def _tools(fields: Mapping[str, Any], rules: Rules, warnings: list[str]) -> tuple[str, ...]:
    asked = _names(fields["tools"], "tools") if "tools" in fields else list(DEFAULT_TOOLS)
    refused = _names(fields["disallowedTools"], "disallowedTools") if "disallowedTools" in fields else []
    granted: dict[str, None] = {}
    for tool in asked:
        granted.update(dict.fromkeys(_expand(tool, rules, warnings)))
    for tool in refused:
        for name in _refuse(tool, rules, warnings):
            granted.pop(name, None)
    if not granted:
        known = ", ".join(rules.assignable)
        raise Refused(f"The agent would have no tool at all. Give `tools` some of: {known}.")
    return tuple(granted)


def _names(value: Any, key: str) -> list[str]:
    """A list of names, or one string with commas outside brackets between them."""
    if value is None:
        return []
    if isinstance(value, str):
        value = re.findall(r"(?:[^,(]|\([^)]*\)?)+", value)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise Refused(
            f"`{key}` is neither a string with commas nor a list of names. Write `{key}: Read, Grep`."
        )
    return [item.strip() for item in value if item.strip()]


def _expand(tool: str, rules: Rules, warnings: list[str]) -> tuple[str, ...]:
    """The tools that one entry of `tools` grants; a warning and nothing where there is none."""
    if tool == "*":
        return rules.assignable
    if tool in rules.assignable:
        return (tool,)
    if rules.nesting and tool in (*TASK_FAMILY, "Agent"):
        return TASK_FAMILY
    warnings.append(_why_dropped(tool, rules))
    return ()


def _why_dropped(tool: str, rules: Rules) -> str:
    if tool in NOT_ASSIGNABLE or tool == "Agent":
        return f"{tool} cannot be assigned to an agent here and is dropped. Remove it from `tools`."
    if "(" in tool:
        return f"{tool} is dropped: a pattern belongs into an allow rule, `tools` takes whole tools by name."
    return f"Unknown tool {tool} is dropped.{_suggestion(tool, rules.assignable)}"


def _suggestion(tool: str, known: Iterable[str]) -> str:
    by_folded = {name.casefold(): name for name in known}
    close = difflib.get_close_matches(tool.casefold(), by_folded, n=1)
    return (
        f" Did you mean {by_folded[close[0]]}?" if close else f" Assignable: {', '.join(by_folded.values())}."
    )


def _refuse(tool: str, rules: Rules, warnings: list[str]) -> tuple[str, ...]:
    """The tools that one entry of `disallowedTools` takes away.

    Read generously, because what is missed here stays allowed: any case, a pattern takes the whole tool, and
    a plugin server's name takes all of its tools.
    """
    name = tool.partition("(")[0].strip()
    if name == "*":
        return rules.assignable + TASK_FAMILY
    if name in (*TASK_FAMILY, "Agent"):
        return TASK_FAMILY
    server = f"{name.rstrip('*').rstrip('_')}__".casefold() if name.startswith("mcp__") else None
    taken = tuple(
        known
        for known in rules.assignable
        if known.casefold() == name.casefold() or (server and known.casefold().startswith(server))
    )
    if not taken and name not in NOT_ASSIGNABLE:
        advice = _suggestion(name, rules.assignable)
        warnings.append(f"Unknown tool {tool} in `disallowedTools` has no effect.{advice}")
    elif name != tool:
        warnings.append(f"{tool} takes {name} away as a whole: patterns belong into deny rules.")
    return taken


def _model(pin: Any, rules: Rules) -> str | None:
    """A pin as `provider:name`; None inherits. An alias is the user's to map."""
    if pin is None or pin == "inherit":
        return None
    if not isinstance(pin, str) or not pin.strip():
        raise Refused("`model` is not a name. Write `inherit`, `provider:name` or an alias you have mapped.")
    alias = pin.strip()
    target = rules.aliases.get(alias, alias)
    if target == "inherit":
        return None
    provider, separator, name = target.partition(":")
    if provider in rules.providers and separator and name:
        return str(target)
    shapes = ", ".join(f"{known}:NAME" for known in rules.providers)
    if alias in rules.aliases:
        raise Refused(
            f"Model alias {pin} is mapped to {target}, which is none of {shapes}. Correct the mapping."
        )
    if separator:
        raise Refused(f"Model {pin} cannot be resolved: it is none of {shapes}. Correct the pin.")
    raise Refused(
        f"Model alias {pin} is not mapped. Map it to provider:name among the model aliases of your own "
        "configuration, or write `model: inherit`."
    )


def _permission_mode(value: Any) -> PermissionMode | None:
    """The mode asked for, even one wider than the session's: it is narrowed where it is used."""
    if value is None:
        return None
    if isinstance(value, str) and value in _PERMISSION_MODES:
        return _PERMISSION_MODES[value]
    if value == "plan":
        raise Refused(
            "`permissionMode: plan` is not available for a definition. Give it `tools: Read, Glob, Grep`."
        )
    raise Refused(f"`permissionMode: {value}` is not known. Use inherit, ask, accept-edits or auto.")


def _limit(fields: Mapping[str, Any], key: str, *, whole: bool) -> Any:
    value = fields.get(key)
    if value is None:
        return None
    fits = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if not fits or not 0 < value < 10**9:
        kind = "whole number" if whole else "number"
        raise Refused(f"`{key}: {value}` is not a positive {kind}. Correct it or remove the key.")
    return value if whole else float(value)


def _effort(value: Any) -> str | None:
    if value is None or (isinstance(value, str) and value.strip()):
        return value
    raise Refused(f"`effort: {value}` is not a word. Use low, medium or high.")

"""The placeholders of a script, `${tag:PATH}` and `${task:N}`, looked up in the conversation. Pure."""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from agents.errors import ErrorCode, Failure, failure
from agents.messages import Message, ToolCall, ToolResult
from agents.models.nesting import MAX_NESTING, MAX_PARTS, map_texts, too_deep

_PLACEHOLDER = re.compile(r"\$\{(tag|task):([^}]*)\}")
_HEADER = re.compile(r"^\[(.+)#([0-9A-Za-z]+)\]$", re.MULTILINE)


def fill(value: Any, messages: tuple[Message, ...]) -> Any:
    """`value` with every placeholder replaced by what it stands for in this conversation.

    Raises `Failure` PROVIDER_ERROR for a placeholder that stands for nothing yet, and for what is nested too
    deep or repeats parts of itself too often.
    """
    if too_deep(value):
        raise _unset(f"The arguments are nested more than {MAX_NESTING} deep. Write them flatter.")

    def look_up(found: re.Match[str]) -> str:
        kind, name = found.groups()
        return _tag(name, messages) if kind == "tag" else _task(name, messages)

    try:
        return map_texts(value, lambda text: _PLACEHOLDER.sub(look_up, text), most=MAX_PARTS)
    except OverflowError:
        raise _unset(f"The arguments have more than {MAX_PARTS} parts. Repeat (`*name`) less.") from None


def _tag(path: str, messages: tuple[Message, ...]) -> str:
    for call, result in _answered(messages, newest_first=True):
        asked_path = call.arguments.get("path") if isinstance(call.arguments, dict) else None
        found = _tags(head(result.text), asked_path if isinstance(asked_path, str) else "")
        if call.tool == "Read":
            found = itertools.chain(found, ((match[1], match[2]) for match in _HEADER.finditer(result.text)))
        for shown_path, tag in found:
            if posixpath.normpath(shown_path) == posixpath.normpath(path):
                return tag
    raise _unset(f"${{tag:{path}}} is not set: no tool result so far gave a tag for it. Read the file first.")


def _tags(whole: Any, around: str) -> Iterator[tuple[str, str]]:
    """Every (path, tag) in a result's JSON. An object without a path speaks of the one around it."""
    left = [(whole, around)]
    while left:
        value, path = left.pop()
        if isinstance(value, dict):
            own = value.get("path")
            path = own if isinstance(own, str) else path
            if isinstance(value.get("tag"), str):
                yield path, value["tag"]
            if isinstance(value.get("tags"), dict):
                yield from ((str(name), tag) for name, tag in value["tags"].items() if isinstance(tag, str))
            value = list(value.values())
        if isinstance(value, list):
            left.extend((item, path) for item in reversed(value))


def _task(number: str, messages: tuple[Message, ...]) -> str:
    ids = [
        started["taskId"]
        for call, result in _answered(messages)
        if call.tool == "Task" and isinstance((started := head(result.text)).get("taskId"), str)
    ]
    if number.isdecimal() and 1 <= int(number) <= len(ids):
        return str(ids[int(number) - 1])
    raise _unset(f"${{task:{number}}} is not set: {len(ids)} tasks were started so far. Number them from 1.")


def _answered(
    messages: tuple[Message, ...], *, newest_first: bool = False
) -> Iterator[tuple[ToolCall, ToolResult]]:
    """Every finished call with its result."""
    calls = {call.call_id: call for message in messages for call in message.calls}
    results = [result for message in messages for result in message.results]
    for result in reversed(results) if newest_first else results:
        if result.call_id in calls:
            yield calls[result.call_id], result


def head(text: str) -> dict[str, Any]:
    """The JSON object that a tool result begins with; empty where it begins with something else."""
    try:
        first = msgspec.json.decode(text.partition("\n")[0])
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return {}
    return first if isinstance(first, dict) else {}


def _unset(problem: str) -> Failure:
    return failure(ErrorCode.PROVIDER_ERROR, problem)

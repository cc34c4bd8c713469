"""Checks a call's arguments against its tool's input class, and tells the model of the tool. Pure."""

from __future__ import annotations

import functools
from typing import Any

import msgspec

from agents.errors import ErrorCode, ToolError
from agents.models.base import ToolSpec
from agents.tools.base import Tool


def tool_spec(tool: Tool) -> ToolSpec:
    """What the model is told: the tool's own `schema` where it has one, else its input class's."""
    return ToolSpec(name=tool.name, description=tool.description, schema=argument_schema(tool))


def argument_schema(tool: Tool) -> dict[str, Any]:
    """The JSON Schema of the argument object, self-contained."""
    own: dict[str, Any] | None = getattr(tool, "schema", None)
    return _generated(tool.input) if own is None else own


@functools.cache
def _generated(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    """Once per class: every request of every agent carries it. Nobody changes the answer."""
    schema = msgspec.json.schema(arguments)
    definitions = schema.pop("$defs", {})
    reference = schema.pop("$ref", "")
    body: dict[str, Any] = definitions.pop(reference.rsplit("/", 1)[-1], schema)
    body.pop("title", None)
    if definitions:
        body["$defs"] = definitions
    return body


def decode_arguments(tool: Tool, arguments: Any) -> msgspec.Struct | ToolError:
    """The checked argument value, or INVALID_ARGUMENT with the schema's complaint."""
    if isinstance(arguments, str):
        return _invalid(tool, "the arguments are not a valid JSON object", arguments=arguments[:200])
    if not isinstance(arguments, dict):
        return _invalid(tool, f"the arguments must be a JSON object, not {type(arguments).__name__}")
    normalise = getattr(tool, "normalise", None)
    try:
        raw = arguments if normalise is None else normalise(dict(arguments))
        return msgspec.convert(raw, tool.input, strict=True)
    except msgspec.ValidationError as complaint:
        return _invalid(tool, str(complaint))


def _invalid(tool: Tool, complaint: str, **details: Any) -> ToolError:
    properties = argument_schema(tool).get("properties", {})
    return ToolError(
        code=ErrorCode.INVALID_ARGUMENT,
        message=f"{tool.name}: {complaint}. It takes {_names(properties)}. Correct the arguments and call it again.",
        details={"complaint": complaint, **details},
    )


def _names(properties: dict[str, Any]) -> str:
    return ", ".join(f"`{name}`" for name in properties) or "no arguments"

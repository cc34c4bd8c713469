"""A user's own tool: a function with annotated arguments becomes one."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any, ClassVar

import attrs
import msgspec
import trio

from agents.errors import ErrorCode, ToolError, failure
from agents.permit import Permit
from agents.results import Result, ValueResult
from agents.rules.paths import ResolvedPath
from agents.tools.base import CallGroup, Preview, Risk, Target, Tool, ToolContext, ToolOutput

DEFAULT_SECONDS = 300.0


@attrs.frozen
class FunctionTool:
    """Runs `function` with the call's arguments; sync functions run in a worker thread."""

    name: str
    description: str
    input: type[msgspec.Struct]
    function: Callable[..., Any]
    risk: Risk = "high"
    timeout_seconds: float | None = DEFAULT_SECONDS
    group: ClassVar[CallGroup] = CallGroup.ALONE

    def targets(self, arguments: Any) -> tuple[Target, ...]:
        return ()

    async def check(
        self, arguments: Any, paths: tuple[ResolvedPath, ...], context: ToolContext
    ) -> Preview | None:
        return None

    async def run(self, arguments: Any, permit: Permit, context: ToolContext) -> ToolOutput:
        """A `Failure` that the function raises is its error; anything else it raises is TOOL_FAILED."""
        given = msgspec.structs.asdict(arguments)
        try:
            if inspect.iscoroutinefunction(self.function):
                value = await self.function(**given)
            else:
                value = await trio.to_thread.run_sync(lambda: self.function(**given), abandon_on_cancel=True)
        except Exception as raised:
            return ToolOutput(None, _raised(self.name, raised))
        return ToolOutput(value if isinstance(value, Result) else ValueResult(value=_plain(self.name, value)))


def tool_from_function(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    risk: Risk = "high",
    timeout_seconds: float | None = DEFAULT_SECONDS,
) -> Tool:
    """The tool that `function` is: its name, its docstring, its annotated parameters.

    Raises `Failure` INVALID_ARGUMENT for parameters without an annotation, or kinds that a JSON object cannot
    fill (`*args`, `**kwargs`, positional-only).
    """
    chosen: str = name or str(getattr(function, "__name__", "tool"))
    description = inspect.getdoc(function)
    if not description:
        raise failure(
            ErrorCode.INVALID_ARGUMENT, f"The tool {chosen!r} has no docstring. Say in it what the tool does."
        )
    return FunctionTool(chosen, description, _input_class(chosen, function), function, risk, timeout_seconds)


def _input_class(name: str, function: Callable[..., Any]) -> type[msgspec.Struct]:
    hints = typing.get_type_hints(function, include_extras=True)
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for parameter in inspect.signature(function).parameters.values():
        by_name = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if not by_name or parameter.name not in hints:
            raise failure(
                ErrorCode.INVALID_ARGUMENT,
                f"The parameter {parameter.name!r} of the tool {name!r} needs an annotation and must be "
                f"passable by name.",
            )
        if parameter.default is parameter.empty:
            fields.append((parameter.name, hints[parameter.name]))
        else:
            fields.append((parameter.name, hints[parameter.name], parameter.default))
    return msgspec.defstruct(f"{name}Input", fields, frozen=True, kw_only=True, forbid_unknown_fields=True)


def _plain(name: str, value: Any) -> Any:
    try:
        return msgspec.to_builtins(value)
    except TypeError as reason:
        raise failure(
            ErrorCode.TOOL_FAILED,
            f"{name} returned something that is not JSON ({reason}). Return plain values.",
        ) from None


def _raised(name: str, raised: Exception) -> ToolError:
    error = getattr(raised, "error", None)
    if isinstance(error, ToolError):
        return error
    return ToolError(
        code=ErrorCode.TOOL_FAILED,
        message=f"{name} raised {type(raised).__name__}: {str(raised)[:500]}. Correct the arguments, or go on "
        "without it.",
    )

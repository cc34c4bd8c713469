"""The scripted model's script: its format, and which turn a conversation is at. Pure.

    agents:
      main:                     # by label (fixer#2) or by agent name; the label wins. A list of turns:
        - calls: [{tool: Task, arguments: {…}}]
          expect: {code: NOT_FOUND}       # or {contains: "…"}: checked first, on the latest tool message
        - text: "Done."
          usage: {inputTokens: 100, outputTokens: 20}
          finish: stop                    # the finish reason; given by itself where it is left out
    faults: [{agent: fixer, turn: 2, error: 429, times: 1}]

`${tag:PATH}` and `${task:N}` are filled in anywhere in `text` and `arguments`. Nothing remembers a place: the
turn played is the one after the assistant messages already in the conversation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import attrs
import msgspec

from agents.errors import ErrorCode, Failure, ToolError, failure
from agents.messages import Message, ToolResult, Usage
from agents.models.base import CallChunk, Chunk, FinishChunk, ModelRequest, TextChunk
from agents.models.placeholders import fill, head
from agents.models.provider_errors import Asked, refusal

_Kind = TypeVar("_Kind")

_TEXT_PIECES = 3
_SHOWN_CHARS = 500
"""How much of a tool result a failed expectation shows."""


class ScriptCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One tool call of a turn."""

    tool: str
    arguments: dict[str, Any] = {}


class Expect(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What some result of the latest tool message must show."""

    code: str | None = None
    """Its error code."""
    contains: str | None = None
    """A part of its text."""


class Turn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One answer of the model."""

    text: str | None = None
    calls: tuple[ScriptCall, ...] = ()
    usage: Usage = Usage()
    expect: Expect | None = None
    finish: str | None = None


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What goes wrong at one turn of one agent, for its first `times` attempts."""

    agent: str
    """Label or name."""
    turn: int
    """From 1."""
    times: int = 1
    error: int | str | None = None
    """An HTTP status (400 to 599), or NETWORK_ERROR or STREAM_FAILED."""
    retry_after: float | None = None
    """With `error`: the seconds the provider asks to wait."""
    message: str = "the script lets this request fail"
    """With a status: what the provider says (`context_length_exceeded` …)."""
    stream_cut: bool = False
    """The stream ends in the middle of the text, without calls and finish."""
    delay_ms: int = 0
    """Wait before the first chunk."""
    malformed: bool = False
    """The first call's arguments are broken JSON."""


@attrs.frozen
class Play:
    """What to do for one request: wait, then answer with `chunks` or fail with `error`."""

    chunks: tuple[Chunk, ...] = ()
    """Without a finish where the stream is cut."""
    error: ToolError | None = None
    delay_ms: int = 0
    fault: Fault | None = None
    """The fault that made `error`, where one did."""


@attrs.frozen
class Script:
    """A checked script."""

    source: str
    """The file's name, for messages."""
    agents: Mapping[str, tuple[Turn, ...]]
    faults: tuple[Fault, ...]

    def play(self, request: ModelRequest, asked: Asked) -> Play:
        """The answer to `request`. What does not fit the script is a PROVIDER_ERROR that is not retriable."""
        number = 1 + sum(message.role == "assistant" for message in request.messages)
        faults = [fault for fault in self.faults if _hits(fault, request, number)]
        delay_ms = max((fault.delay_ms for fault in faults), default=0)
        for fault in faults:
            if fault.error is not None:
                return _failing(fault, asked, delay_ms)
        try:
            turn = self._turn(request, number)
            if turn.expect is not None:
                _check(turn.expect, request.messages)
            chunks = tuple(_chunks(turn, number, request.messages, faults))
        except Failure as problem:
            where = f"Script {self.source}, agent {request.agent_label!r}, turn {number}: "
            return Play(error=msgspec.structs.replace(problem.error, message=where + problem.error.message))
        return Play(chunks=chunks, delay_ms=delay_ms)

    def _turn(self, request: ModelRequest, number: int) -> Turn:
        turns = self.agents.get(request.agent_label, self.agents.get(request.agent_name))
        if turns is None:
            names = ", ".join(self.agents)
            raise _unplayable(f"the script has no such agent; it has {names}. Add it under `agents:`.")
        if number > len(turns):
            raise _unplayable(f"the script has run out after {len(turns)} turns. Add a turn to it.")
        return turns[number - 1]


# ── reading ────────────────────────────────────────────────────────────────────────────────────────────


def read_script(document: Any, source: str) -> Script:
    """Check a decoded document. Raises `Failure` with INVALID_ARGUMENT that names file, agent and turn."""
    if (
        not isinstance(document, dict)
        or not isinstance(document.get("agents"), dict)
        or not document["agents"]
    ):
        raise _invalid(source, "", "needs `agents:`, an object from agent names to lists of turns")
    if unknown := [str(key) for key in document if key not in ("agents", "faults")]:
        raise _invalid(source, "", f"has the unknown key {unknown[0]!r}; known are `agents` and `faults`")
    agents: dict[str, tuple[Turn, ...]] = {}
    for name, turns in document["agents"].items():
        if not isinstance(turns, list):
            raise _invalid(source, f", agent {str(name)!r}", "needs a list of turns")
        agents[str(name)] = tuple(
            _read_turn(turn, source, f", agent {str(name)!r}, turn {number}")
            for number, turn in enumerate(turns, start=1)
        )
    faults = document.get("faults", [])
    if not isinstance(faults, list):
        raise _invalid(source, ", faults", "needs a list")
    checked = tuple(
        _read_fault(fault, source, f", fault {number}", agents)
        for number, fault in enumerate(faults, start=1)
    )
    return Script(source=source, agents=agents, faults=checked)


def _read_turn(document: Any, source: str, where: str) -> Turn:
    if isinstance(document, dict) and isinstance(document.get("usage"), dict):
        usage = {_camel(str(key)): value for key, value in document["usage"].items()}
        if unknown := [key for key in usage if key not in _USAGE_KEYS]:
            raise _invalid(
                source, where, f"has the unknown usage key {unknown[0]!r}; known are {', '.join(_USAGE_KEYS)}"
            )
        document = {**document, "usage": usage}
    turn = _convert(document, Turn, source, where)
    if turn.text is None and not turn.calls:
        raise _invalid(source, where, 'needs `text` or `calls` (an empty answer is `text: ""`)')
    if turn.expect is not None and turn.expect.code is None and turn.expect.contains is None:
        raise _invalid(source, where, "has an `expect` without `code` or `contains`")
    return turn


_USAGE_KEYS = tuple(field.encode_name for field in msgspec.structs.fields(Usage))
_NAMED_FAULTS = {
    ErrorCode.NETWORK_ERROR: "The script lets the network fail. Run it again.",
    ErrorCode.STREAM_FAILED: "The script lets the stream fail. Run it again.",
}


def _read_fault(document: Any, source: str, where: str, agents: Mapping[str, Any]) -> Fault:
    fault = _convert(document, Fault, source, where)
    named = fault.agent.partition("#")[0]
    if named not in {agent.partition("#")[0] for agent in agents}:
        raise _invalid(source, where, f"names the agent {fault.agent!r}; the script has {', '.join(agents)}")
    if fault.turn < 1 or fault.times < 1 or fault.delay_ms < 0:
        raise _invalid(source, where, "needs `turn` and `times` of at least 1 and no negative `delay_ms`")
    status = isinstance(fault.error, int) and 400 <= fault.error <= 599
    if not (fault.error is None or status or fault.error in _NAMED_FAULTS):
        names = " or ".join(_NAMED_FAULTS)
        raise _invalid(
            source, where, f"needs as `error` a status from 400 to 599, {names}; not {fault.error!r}"
        )
    if fault.error is None and not (fault.stream_cut or fault.delay_ms or fault.malformed):
        raise _invalid(source, where, "needs one of `error`, `stream_cut`, `delay_ms`, `malformed`")
    return fault


def _convert(document: Any, kind: type[_Kind], source: str, where: str) -> _Kind:
    try:
        # YAML knows dates, sets and keys that are no texts; a model's arguments are JSON.
        return msgspec.convert(msgspec.to_builtins(document, str_keys=True), kind)
    except (msgspec.ValidationError, TypeError, RecursionError) as error:
        raise _invalid(source, where, f"is malformed: {error}") from None


def _camel(key: str) -> str:
    first, *rest = key.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _invalid(source: str, where: str, problem: str) -> Failure:
    return failure(ErrorCode.INVALID_ARGUMENT, f"Script {source}{where}: it {problem}. Correct the file.")


def _unplayable(problem: str) -> Failure:
    return failure(ErrorCode.PROVIDER_ERROR, problem)


# ── faults ─────────────────────────────────────────────────────────────────────────────────────────────


def _hits(fault: Fault, request: ModelRequest, number: int) -> bool:
    named = fault.agent in (request.agent_label, request.agent_name)
    return named and fault.turn == number and request.attempt <= fault.times


def _failing(fault: Fault, asked: Asked, delay_ms: int) -> Play:
    if isinstance(fault.error, int):
        headers = {} if fault.retry_after is None else {"retry-after": str(fault.retry_after)}
        error = refusal(asked, fault.error, fault.message, headers=headers)
        return Play(error=error, delay_ms=delay_ms, fault=fault)
    code = ErrorCode(str(fault.error))
    return Play(
        error=ToolError(code=code, message=_NAMED_FAULTS[code], retriable=True),
        delay_ms=delay_ms,
        fault=fault,
    )


# ── a turn ─────────────────────────────────────────────────────────────────────────────────────────────


def _check(expect: Expect, messages: tuple[Message, ...]) -> None:
    latest = next((message for message in reversed(messages) if message.role == "tool"), None)
    results = latest.results if latest is not None else ()
    if any(_shows(result, expect) for result in results):
        return
    wanted = [
        f"{key} {value!r}" for key, value in (("code", expect.code), ("contains", expect.contains)) if value
    ]
    got = " | ".join(_cut(result.text) for result in results) or "no tool result at all"
    raise _unplayable(
        f"expected a tool result with {' and '.join(wanted)}, got: {got}. Correct the script or the tools."
    )


def _shows(result: ToolResult, expect: Expect) -> bool:
    error = head(result.text).get("error")
    code = error.get("code") if isinstance(error, dict) else None
    return (expect.code is None or expect.code == code) and (expect.contains or "") in result.text


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…"


def _chunks(turn: Turn, number: int, messages: tuple[Message, ...], faults: list[Fault]) -> Iterator[Chunk]:
    text = fill(turn.text or "", messages)
    pieces = list(_pieces(text))
    if any(fault.stream_cut for fault in faults):
        yield from pieces[: max(1, len(pieces) // 2)]
        return
    yield from pieces
    malformed = any(fault.malformed for fault in faults)
    for position, call in enumerate(turn.calls, start=1):
        arguments = fill(call.arguments, messages)
        if malformed and position == 1:
            arguments = msgspec.json.encode(arguments).decode()[:-1]
        yield CallChunk(tool=call.tool, arguments=arguments, provider_call_id=f"call_{number}_{position}")
    yield FinishChunk(turn.finish or ("tool_calls" if turn.calls else "stop"), turn.usage)


def _pieces(text: str) -> Iterator[TextChunk]:
    size = max(1, -(-len(text) // _TEXT_PIECES))
    for start in range(0, len(text), size):
        yield TextChunk(text[start : start + size])

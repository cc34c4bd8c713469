"""One exchange with the model: request, stream, retries, its chat span and its events."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Sequence

import attrs
import msgspec
import trio

from agents.agent import Agent, Transcript
from agents.errors import ErrorCode, Failure, ToolError
from agents.events import ModelRequested, ModelResponded, TextDelta
from agents.incidents import incident
from agents.messages import Message, Part, Text, ToolCall, Usage
from agents.models.base import CallChunk, Chunk, ModelRequest, ModelResponse, TextChunk, assemble, model_part
from agents.models.retry import next_attempt
from agents.results import Waits
from agents.rules.transcripts import for_request
from agents.shielding import shielded
from agents.tools.schema import tool_spec
from telemetry import attributes as names
from telemetry.content import captured
from telemetry.facts import chat_facts
from telemetry.spans import Span, use

CAPTURED_MESSAGES = 10
"""How many of the newest messages go into a span, where content is captured."""

MAX_PARTIAL_CHARS = 2000
"""Of a broken answer's text, in the details of its error."""
TOOL_ALIASES = {"Agent": "Task"}
"""Names that models know from elsewhere → ours."""


async def ask_model(agent: Agent, transcript: Transcript) -> ModelResponse:
    """The model's whole answer to the conversation so far.

    Raises `Failure` with a model code when all attempts failed, INTERNAL for what nobody foresaw. A cancelled
    exchange still ends its span.
    """
    exchange = _Exchange(agent, transcript)
    try:
        return await exchange.run()
    except Failure as failed:
        agent.tally.error_span = exchange.span.ref
        await exchange.close(error=failed.error)
        raise
    except Exception as unforeseen:
        error = incident(unforeseen, exchange.span, "A model call", "Resume the run to go on.")
        agent.tally.error_span = exchange.span.ref
        await exchange.close(error=error)
        raise Failure(error) from unforeseen
    except BaseException:
        with shielded("A model's answer"):
            await exchange.close(cancelled=True)
        raise


def assistant_message(response: ModelResponse) -> Message:
    """The response as a message, each call with an id of ours."""
    parts: list[Part] = []
    for part in response.parts:
        if isinstance(part, CallChunk):
            parts.append(
                ToolCall(
                    call_id=f"call-{uuid.uuid4().hex[:12]}",
                    tool=TOOL_ALIASES.get(part.tool, part.tool),
                    arguments=part.arguments,
                    provider_call_id=part.provider_call_id,
                )
            )
        else:
            parts.append(part)
    return Message(id=f"msg-{uuid.uuid4().hex[:12]}", role="assistant", parts=tuple(parts))


@attrs.define(eq=False)
class _Exchange:
    agent: Agent
    transcript: Transcript
    span: Span = attrs.field(init=False)
    chunks: list[Chunk] = attrs.field(factory=list)
    """What the current attempt has given so far."""
    first_chunk_ns: int | None = None
    retries: int = 0
    closed: bool = False

    def __attrs_post_init__(self) -> None:
        model = self.agent.model
        self.span = self.agent.span.child(
            names.chat_span(model_part(model.name)),
            chat_facts(
                session_id=self.agent.emitter.session_id,
                agent=self.agent.spec.name,
                label=self.agent.ref.label,
                provider=model.provider,
                model=model_part(model.name),
            ),
            kind="CLIENT",
        )
        prompts = _prompts(self.transcript.messages) if self.agent.capture_content else None
        self.span.set_attributes(
            {
                names.SYSTEM_INSTRUCTIONS: captured(self.agent.system, self.agent.capture_content),
                names.INPUT_MESSAGES: captured(prompts, self.agent.capture_content),
            }
        )

    async def run(self) -> ModelResponse:
        attempt = 1
        while True:
            await self.agent.emitter.emit(ModelRequested(attempt=attempt), self.span)
            try:
                response = await self._stream(attempt)
            except Failure as failed:
                pause = next_attempt(
                    failed.error, attempt, random.random(), call_complete=self._call_complete
                )
                if pause is None:
                    raise self._with_partial_text(failed.error) from failed
                self.span.add_event(
                    names.RETRY,
                    {
                        names.RETRY_ATTEMPT: attempt,
                        names.ERROR_TYPE: failed.error.code.value,
                        names.RETRY_PAUSE: round(pause * 1000),
                    },
                )
                self.retries += 1
                await trio.sleep(pause)
                attempt += 1
            else:
                await self.close(response)
                return response

    async def _stream(self, attempt: int) -> ModelResponse:
        self.chunks = []
        request = self._request(attempt)
        with use(self.span):
            async with self.agent.model.respond(request) as stream:
                async for chunk in stream:
                    if self.first_chunk_ns is None:
                        self.first_chunk_ns = time.time_ns()
                    if isinstance(chunk, TextChunk):
                        self.agent.emitter.show(TextDelta(text=chunk.text), self.span)
                    self.chunks.append(chunk)
        response = assemble(self.chunks)
        if response is None:
            raise Failure(
                ToolError(
                    code=ErrorCode.STREAM_FAILED,
                    message="The model's answer was cut before it was complete. Try again.",
                    retriable=True,
                )
            )
        return response

    def _with_partial_text(self, error: ToolError) -> Failure:
        """The failure, with what could be read of the answer before it."""
        text = "".join(chunk.text for chunk in self.chunks if isinstance(chunk, TextChunk)).strip()
        if not text:
            return Failure(error)
        details = {**error.details, "partialText": text[:MAX_PARTIAL_CHARS]}
        return Failure(msgspec.structs.replace(error, details=details))

    @property
    def _call_complete(self) -> bool:
        return any(isinstance(chunk, CallChunk) for chunk in self.chunks)

    def _request(self, attempt: int) -> ModelRequest:
        return ModelRequest(
            system=self.agent.system,
            messages=for_request(self.transcript.messages),
            tools=tuple(tool_spec(self.agent.tools[name]) for name in self.agent.active.in_request),
            agent_name=self.agent.spec.name,
            agent_label=self.agent.ref.label,
            attempt=attempt,
        )

    async def close(
        self,
        response: ModelResponse | None = None,
        *,
        error: ToolError | None = None,
        cancelled: bool = False,
    ) -> None:
        """End the span with the event that completes it, once."""
        if self.closed:
            return
        self.closed = True
        now = time.time_ns()
        duration = round((now - self.span.start_ns) / 1e6)
        first = (
            None if self.first_chunk_ns is None else round((self.first_chunk_ns - self.span.start_ns) / 1e6)
        )
        usage = Usage() if response is None else response.finish.usage
        self.agent.tally.turns += 1 if response is not None else 0
        self.agent.tally.usage += usage
        self.agent.tally.waits += Waits(model=duration)
        self._describe(response, error, cancelled, first)
        responded = ModelResponded(
            usage=usage,
            finish_reason="cancelled"
            if cancelled
            else "error"
            if response is None
            else response.finish.reason,
            duration_ms=duration,
            first_chunk_ms=first,
            error=error,
        )
        await self.agent.emitter.emit(responded, self.span, ended=self.span.end(now))

    def _describe(
        self, response: ModelResponse | None, error: ToolError | None, cancelled: bool, first_ms: int | None
    ) -> None:
        self.span.set_attributes(
            {
                names.FIRST_CHUNK: None if first_ms is None else first_ms / 1000,
                names.RETRIES: self.retries or None,
            }
        )
        if cancelled:
            self.span.set_attributes({names.OUTCOME: "cancelled"})
        if error is not None:
            self.span.set_error(error.code.value, f"chat: {error.code.value}")
        if response is None:
            return
        finish = response.finish
        self.span.set_attributes(
            {
                names.FINISH_REASONS: [finish.reason],
                names.RESPONSE_ID: finish.response_id,
                names.RESPONSE_MODEL: finish.response_model,
                **usage_attributes(finish.usage),
                names.OUTPUT_MESSAGES: captured(_plain(response), self.agent.capture_content),
            }
        )


def usage_attributes(usage: Usage) -> dict[str, int]:
    """Token counts under the conventions' names."""
    return {
        names.INPUT_TOKENS: usage.input_tokens,
        names.OUTPUT_TOKENS: usage.output_tokens,
        names.CACHE_READ_TOKENS: usage.cache_read_tokens,
        names.CACHE_WRITE_TOKENS: usage.cache_write_tokens,
        names.REASONING_TOKENS: usage.reasoning_tokens,
    }


def _prompts(messages: Sequence[Message]) -> list[Message]:
    """The newest part of the conversation: what is longer would be cut anyway."""
    return list(messages[-CAPTURED_MESSAGES:])


def _plain(response: ModelResponse) -> list[dict[str, object]]:
    plain: list[dict[str, object]] = []
    for part in response.parts:
        match part:
            case Text(text=text):
                plain.append({"type": "text", "content": text})
            case CallChunk(tool=tool, arguments=arguments):
                plain.append({"type": "tool_call", "name": tool, "arguments": arguments})
            case _:
                pass
    return plain

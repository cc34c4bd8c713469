"""The `openai-chat:` adapter: the chat codec over the one transport."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from urllib.parse import SplitResult, urlsplit, urlunsplit

import trio

from agents.errors import ErrorCode, Failure, failure
from agents.models.base import Chunk, FinishChunk, ModelRequest
from agents.models.http import HttpResponse, HttpTransport
from agents.models.openai_chat import PROVIDER, ChatDecoder, encode
from agents.models.provider_errors import Asked, refusal
from agents.models.sse import SseParser

DEFAULT_BASE_URL = "https://api.openai.com/v1"
KEY_VARIABLE = "OPENAI_API_KEY"

_MAX_REFUSAL_BYTES = 1024 * 1024
_TAIL_SECONDS = 0.1
"""How long to wait for the end of the body after the answer's end, so that the connection can be kept."""


class OpenAIChatModel:
    """One model of a server that speaks OpenAI-style chat completions."""

    def __init__(
        self,
        name: str,
        transport: HttpTransport,
        base_url: str = DEFAULT_BASE_URL,
        api_key: str | None = None,
    ) -> None:
        """`name` is the server's own name of the model; without `api_key` no Authorization header is sent."""
        self._model = name
        self._transport = transport
        base = _split(base_url)
        self._url = _endpoint(base)
        self._key = (api_key or "").strip()
        self._asked = Asked(model=self.name, address=_public(base), key_variable=KEY_VARIABLE)
        # Every compatible server knows the old field; OpenAI's newer models refuse it.
        official = base.hostname == "api.openai.com"
        self._limit_field = "max_completion_tokens" if official else "max_tokens"

    @property
    def name(self) -> str:
        return f"{PROVIDER}:{self._model}"

    @property
    def provider(self) -> str:
        return "openai"

    def respond(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[Chunk]]:
        """See `Model.respond`. An answer in one JSON object is read as the whole response."""
        return self._respond(request)

    @asynccontextmanager
    async def _respond(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[Chunk]]:
        body = encode(request, self._model, stream=True, limit_field=self._limit_field)
        async with self._transport.post(self._url, headers=self._headers(), body=body) as response:
            if response.status != 200:
                raise await self._refused(response)
            async with aclosing(self._chunks(response)) as chunks:
                yield chunks

    def _headers(self) -> dict[str, str]:
        headers = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream, application/json",
            "User-Agent": "trio-orchestrator",
        }
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        return headers

    def _chunks(self, response: HttpResponse) -> AsyncGenerator[Chunk, None]:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "application/json":
            return self._whole(response)
        if kind == "text/html":
            raise failure(
                ErrorCode.PROVIDER_ERROR,
                f"{self._asked.address} answered {self.name} with a web page. "
                "Check --base-url: it usually ends in /v1.",
            )
        return self._streamed(response)

    async def _whole(self, response: HttpResponse) -> AsyncGenerator[Chunk, None]:
        for chunk in ChatDecoder(self._asked).decode_whole(await response.body()):
            yield chunk

    async def _streamed(self, response: HttpResponse) -> AsyncGenerator[Chunk, None]:
        parser, decoder = SseParser(), ChatDecoder(self._asked)
        finished = False
        try:
            async for piece in response.chunks():
                for data in parser.feed(piece):
                    for chunk in decoder.feed(data):
                        finished = finished or isinstance(chunk, FinishChunk)
                        yield chunk
                if finished:
                    break
        except Failure:
            if not decoder.ended:
                raise
            # The response was whole; only the stream's own end is missing.
        if finished:
            await _read_tail(response)
            return
        rest = decoder.close()
        if not rest:
            raise failure(
                ErrorCode.STREAM_FAILED,
                f"The stream of {self.name} ended before the answer did. Run it again.",
                retriable=True,
            )
        for chunk in rest:
            yield chunk

    async def _refused(self, response: HttpResponse) -> Failure:
        try:
            body = (await response.body(_MAX_REFUSAL_BYTES)).decode("utf-8", "replace")
        except Failure:
            body = ""  # the status alone says enough
        if self._key:
            body = body.replace(self._key, "[the API key]")
        return Failure(refusal(self._asked, response.status, body, headers=response.headers, now=time.time()))


async def _read_tail(response: HttpResponse) -> None:
    """Read what follows the answer's end, which is next to nothing, so that the connection can be kept."""
    with trio.move_on_after(_TAIL_SECONDS):
        async for _ in response.chunks():
            pass


def _endpoint(base: SplitResult) -> str:
    path = base.path.rstrip("/")
    if not path.endswith("/chat/completions"):
        path += "/chat/completions"
    return urlunsplit(base._replace(path=path, fragment=""))


def _public(base: SplitResult) -> str:
    """The address for messages: no user name, no query."""
    return urlunsplit(base._replace(netloc=base.netloc.rpartition("@")[2], query="", fragment=""))


def _split(base_url: str) -> SplitResult:
    try:
        return urlsplit(base_url.strip())
    except ValueError:
        raise failure(
            ErrorCode.INVALID_ARGUMENT,
            "--base-url is not a URL. Give it as http://HOST:PORT/PATH or https://HOST/PATH.",
        ) from None

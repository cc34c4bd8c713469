"""The one HTTP transport of all providers: keep-alive, proxies, trust store, timeouts, prompt cancellation.

Errors of httpcore2, of sockets and of TLS become codes of ours here and nowhere else.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import attrs
import trio

from agents.errors import ErrorCode, Failure, failure
from agents.models.connections import Connection, FreeList, Origin
from agents.models.proxies import proxy_for
from telemetry.spans import current_ref, traceparent

MAX_BODY_BYTES = 64 * 1024 * 1024
"""A body larger than this is refused instead of filling the memory."""

_HTTP_PORT = {"http": 80, "https": 443}


@attrs.frozen
class Timeouts:
    """Seconds; each one that passes is a NETWORK_ERROR that names it."""

    connect: float = 10.0
    """For each step until the connection stands: name and socket, proxy, TLS."""
    idle: float = 120.0
    """Between two pieces of the answer, and until its first."""
    total: float = 1800.0
    """For the whole request, from the connection to the answer's last byte."""


class HttpResponse:
    """The head of an answer, and its body, which is read once. Valid inside the `post` block."""

    def __init__(self, response: Any, host: str, timeouts: Timeouts) -> None:
        self.status: int = response.status
        self.headers: dict[str, str] = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers
        }
        self._response = response
        self._body = _Body(response, host, timeouts)

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes. Raises `Failure`: STREAM_FAILED for a cut, NETWORK_ERROR for a timeout."""
        return self._body

    async def body(self, limit: int = MAX_BODY_BYTES) -> bytes:
        """The whole body. Raises as `chunks` does, and PROVIDER_ERROR beyond `limit` bytes."""
        pieces: list[bytes] = []
        size = 0
        async for piece in self._body:
            pieces.append(piece)
            size += len(piece)
            if size > limit:
                raise failure(
                    ErrorCode.PROVIDER_ERROR,
                    f"The answer of {self._body.host} is longer than {limit} bytes. Check --base-url.",
                )
        return b"".join(pieces)

    async def close(self) -> bool:
        """Let go of the connection; True where the body was read to its end and it can be used again."""
        await self._body.close()
        await self._response.aclose()
        return self._body.complete


class _Body:
    """The body's iterator. A class and no generator: nothing is left running where a reader stops early."""

    def __init__(self, response: Any, host: str, timeouts: Timeouts) -> None:
        self.host = host
        self.complete = False
        self._source = response.stream.__aiter__()
        self._timeouts = timeouts

    def __aiter__(self) -> _Body:
        return self

    async def __anext__(self) -> bytes:
        try:
            data: bytes = await self._source.__anext__()
        except StopAsyncIteration:
            self.complete = True
            raise
        except Exception as error:
            raise _transport_failure(error, self.host, self._timeouts, answering=True) from error
        return data

    async def close(self) -> None:
        await self._source.aclose()


class HttpTransport:
    """All requests of a process go through one of these, inside its `async with` block."""

    def __init__(
        self,
        environment: Mapping[str, str],
        timeouts: Timeouts | None = None,
        *,
        trace_requests: bool = False,
    ) -> None:
        """`environment` names the proxies; it is read at each new connection's request.

        With `trace_requests` each request carries the current span as `traceparent`. Off by default: it tells
        a provider which requests belong together, and some proxies refuse headers that they do not know.
        """
        self._trace_requests = trace_requests
        self._environment = environment
        self._timeouts = timeouts or Timeouts()
        self._free = FreeList()
        self._open: set[Connection] = set()
        self._tls: ssl.SSLContext | None = None

    async def __aenter__(self) -> HttpTransport:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close every connection, also when cancelled."""
        for connection in list(self._open):
            await self._discard(connection)

    def post(
        self, url: str, *, headers: Mapping[str, str], body: bytes
    ) -> AbstractAsyncContextManager[HttpResponse]:
        """POST `body` and read the answer's head; redirects are not followed.

        Leaving the block with the body unread closes the connection. A kept connection that the server had
        closed meanwhile is replaced once, as long as nothing was answered. Raises `Failure`: NETWORK_ERROR,
        and INVALID_ARGUMENT for a URL or header that cannot be sent.
        """
        return self._post(url, headers, body)

    @asynccontextmanager
    async def _post(self, url: str, headers: Mapping[str, str], body: bytes) -> AsyncIterator[HttpResponse]:
        origin, target = self._resolve(url)
        span = current_ref() if self._trace_requests else None
        if span is not None:
            headers = {**headers, "traceparent": traceparent(span)}
        with trio.move_on_after(self._timeouts.total) as total:
            request = _request(origin, target, headers, body, self._timeouts)
            connection, answer = await self._exchange(origin, request)
            response: HttpResponse | None = None
            try:
                response = HttpResponse(answer, origin.host, self._timeouts)
                yield response
            finally:
                await self._settle(connection, response)
        if total.cancelled_caught:
            raise failure(
                ErrorCode.NETWORK_ERROR,
                f"{origin.host} had not finished its answer after {self._timeouts.total:g} s. "
                "Run it again, or ask for less in one request.",
                retriable=True,
            )

    def _resolve(self, url: str) -> tuple[Origin, str]:
        """Origin and request target of `url`."""
        try:
            parts = urlsplit(url)
            host = (parts.hostname or "").encode("idna" if not url.isascii() else "ascii").decode("ascii")
            default_port = _HTTP_PORT[parts.scheme]
            port = parts.port or default_port
        except (ValueError, KeyError):
            host, port = "", 0  # refused below
        if not host or parts.username is not None:
            raise failure(
                ErrorCode.INVALID_ARGUMENT,
                "The model's address is not a URL that can be called. Give --base-url as "
                "http://HOST:PORT/PATH or https://HOST/PATH, without a user name.",
            )
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        proxy = proxy_for(parts.scheme, host, port, self._environment)
        return Origin(scheme=parts.scheme, host=host, port=port, proxy=proxy), target

    async def _exchange(self, origin: Origin, request: Any) -> tuple[Connection, Any]:
        """Send `request`, over a kept connection if there is one, until the head of the answer."""
        kept = self._free.take(origin)
        if kept is not None:
            try:
                return kept, await self._send(kept, request)
            except Exception as error:
                if not (kept.reused and _unanswered(error)):
                    raise _transport_failure(error, origin.host, self._timeouts, answering=False) from error
        fresh = Connection(origin, self._trust() if origin.encrypted else None)
        self._open.add(fresh)
        try:
            return fresh, await self._send(fresh, request)
        except Exception as error:
            raise _transport_failure(error, origin.host, self._timeouts, answering=False) from error

    async def _send(self, connection: Connection, request: Any) -> Any:
        try:
            return await connection.send(request)
        except BaseException:
            self._open.discard(connection)  # `send` has closed it
            raise

    async def _settle(self, connection: Connection, response: HttpResponse | None) -> None:
        """Keep the connection if its answer was read whole, close it otherwise."""
        reusable = False
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 1):
            reusable = response is not None and await response.close()
        if not reusable:
            await self._discard(connection)
        elif connection in self._open:  # the transport was not closed meanwhile
            for expired in self._free.give(connection):
                await self._discard(expired)

    async def _discard(self, connection: Connection) -> None:
        self._open.discard(connection)
        await connection.close()

    def _trust(self) -> ssl.SSLContext:
        """One TLS context for all: the system's trust store, or what SSL_CERT_FILE or SSL_CERT_DIR names."""
        if self._tls is None:
            import httpcore2  # see Connection

            # On macOS and Windows this is truststore's context, on Linux OpenSSL's own store, where
            # truststore would add the same paths to the shared context again at every handshake.
            self._tls = httpcore2.default_ssl_context()
        return self._tls


def _request(origin: Origin, target: str, headers: Mapping[str, str], body: bytes, timeouts: Timeouts) -> Any:
    import httpcore2  # see Connection

    bracketed = f"[{origin.host}]" if ":" in origin.host else origin.host
    port = None if origin.port == _HTTP_PORT[origin.scheme] else origin.port
    try:
        return httpcore2.Request(
            "POST",
            httpcore2.URL(scheme=origin.scheme, host=origin.host, port=port, target=target),
            headers=[
                ("Host", bracketed if port is None else f"{bracketed}:{port}"),
                *headers.items(),
                ("Content-Length", str(len(body))),
            ],
            content=body,
            extensions={
                "timeout": {"connect": timeouts.connect, "read": timeouts.idle, "write": timeouts.idle}
            },
        )
    except (TypeError, UnicodeEncodeError):
        raise _unsendable() from None


def _unanswered(error: Exception) -> bool:
    """Whether the server had closed a kept connection before it answered a byte."""
    import httpcore2  # see Connection

    if isinstance(error, httpcore2.RemoteProtocolError):
        return str(error).startswith("Server disconnected")
    return isinstance(error, httpcore2.ReadError | httpcore2.WriteError)


def _transport_failure(error: Exception, host: str, timeouts: Timeouts, *, answering: bool) -> Exception:
    """`error` as a `Failure`; `error` itself where nobody foresaw it. `answering`: the head had been read."""
    import httpcore2  # see Connection

    match error:
        case Failure():
            return error
        case httpcore2.ConnectTimeout():
            reason = f"No connection to {host} within {timeouts.connect:g} s"
        case httpcore2.ReadTimeout() | httpcore2.WriteTimeout():
            reason = f"{host} was silent for {timeouts.idle:g} s"
        case httpcore2.ProxyError():
            reason = f"The proxy refused the way to {host} ({error})"
        case httpcore2.ConnectError():
            reason = f"No connection to {host} ({_root(error)})"
        case httpcore2.UnsupportedProtocol() | httpcore2.LocalProtocolError() | UnicodeError():
            return _unsendable()
        case httpcore2.NetworkError() | httpcore2.RemoteProtocolError() if answering:
            return failure(
                ErrorCode.STREAM_FAILED,
                f"{host} cut its answer off ({_root(error)}). Run it again.",
                retriable=True,
            )
        case httpcore2.NetworkError() | httpcore2.RemoteProtocolError():
            reason = f"{host} closed the connection without an answer ({_root(error)})"
        case _:
            return error
    advice = "Check the network, --base-url and the proxy settings, then run it again."
    return failure(ErrorCode.NETWORK_ERROR, f"{reason}. {advice}", retriable=True)


def _unsendable() -> Failure:
    return failure(
        ErrorCode.INVALID_ARGUMENT,
        "The request cannot be sent: its address or a header holds a character that HTTP does not allow. "
        "Check --base-url and the API key for stray characters such as a line end.",
    )


def _root(error: BaseException) -> str:
    """What lies at the bottom of a chain of wrapped errors, in its own words."""
    while True:
        # httpcore2 raises its own errors again `from None`, which clears the cause and keeps the context.
        inner = error.__cause__ or error.__context__
        if isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        elif inner is not None:
            error = inner
        else:
            return str(error) or type(error).__name__

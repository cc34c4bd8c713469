"""HTTP connections for the transport: each is a pool of one, and the idle ones wait in a free list.

A pool per connection and no shared pool: a shared one looks over all its connections at the start and end
of every request, which hundreds of delegates pay for; this list takes the youngest and looks at no other.
"""

from __future__ import annotations

import collections
import ssl
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote, urlsplit

import attrs
import trio

from agents.errors import ErrorCode, failure

IDLE_SECONDS = 60.0
"""How long an unused connection is kept."""

MAX_IDLE = 512
"""How many unused connections are kept per origin."""

_CLOSE_SECONDS = 1.0


@attrs.frozen
class Origin:
    """Where a connection leads, and through what. Connections with equal origins are interchangeable."""

    scheme: str
    host: str
    """ASCII, without brackets."""
    port: int
    proxy: str | None

    @property
    def encrypted(self) -> bool:
        """Whether TLS is spoken, with the host or with the proxy."""
        return self.scheme == "https" or (self.proxy or "").startswith("https:")


class Connection:
    """At most one socket to one origin; opened by the first request and again where the server closed it."""

    def __init__(self, origin: Origin, tls: ssl.SSLContext | None) -> None:
        import httpcore2  # costs 30 ms at start-up, and only a real provider needs it

        self.origin = origin
        self.reused = False
        """Whether the last `send` went over a socket that was open before."""
        self.idle_since = 0.0
        self._dialer = _Dialer(httpcore2.TrioBackend())
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=tls,
            proxy=None if origin.proxy is None else _proxy(origin.proxy, tls),
            max_connections=1,
            keepalive_expiry=IDLE_SECONDS,
            network_backend=self._dialer,  # type: ignore[arg-type]  # has the backend's methods without its import
        )

    async def send(self, request: Any) -> Any:
        """Send an `httpcore2.Request`; returns the `httpcore2.Response` with its head read.

        Raises what httpcore2 raises; the socket is closed then, as it is on cancellation.
        """
        dialled = self._dialer.count
        try:
            return await self._pool.handle_async_request(request)
        except BaseException:
            await self.close()
            raise
        finally:
            self.reused = self._dialer.count == dialled

    async def close(self) -> None:
        """Close the socket, in a cancelled scope too; takes at most a second. Idempotent."""
        with trio.CancelScope(shield=True, deadline=trio.current_time() + _CLOSE_SECONDS):
            await self._pool.aclose()
            await self._dialer.close()


class FreeList:
    """The idle connections of every origin, youngest last."""

    def __init__(self) -> None:
        self._idle: dict[Origin, collections.deque[Connection]] = {}

    def take(self, origin: Origin) -> Connection | None:
        """The connection that was used last, or None."""
        idle = self._idle.get(origin)
        return idle.pop() if idle else None

    def give(self, connection: Connection) -> list[Connection]:
        """Keep `connection` for the next request; returns those that have waited too long, to be closed."""
        now = trio.current_time()
        connection.idle_since = now
        idle = self._idle.setdefault(connection.origin, collections.deque())
        idle.append(connection)
        expired: list[Connection] = []
        while len(idle) > MAX_IDLE or now - idle[0].idle_since > IDLE_SECONDS:
            expired.append(idle.popleft())
        return expired


class _Dialer:
    """Opens sockets by another backend and keeps hold of the last one.

    A cancelled TLS handshake leaves its socket to the garbage collector; here its connection closes it.
    """

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self._stream: Any = None
        self.count = 0
        """How many sockets were opened."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  # the backend's own signature
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> Any:
        await self.close()
        self._stream = await self._backend.connect_tcp(host, port, timeout, local_address, socket_options)
        self.count += 1
        return self._stream

    async def sleep(self, seconds: float) -> None:
        await trio.sleep(seconds)

    async def close(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            await stream.aclose()


def _proxy(url: str, tls: ssl.SSLContext | None) -> Any:
    """The `httpcore2.Proxy` of a proxy URL. Raises `Failure` with NETWORK_ERROR where it cannot be used."""
    import httpcore2  # see Connection

    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = urlsplit(""), None, None
    if parts.scheme not in ("http", "https") or not host:
        raise failure(
            ErrorCode.NETWORK_ERROR,
            f"The proxy set in the environment ({parts.scheme or 'no'} scheme) cannot be used. "
            "Set HTTPS_PROXY and HTTP_PROXY to an http:// or https:// URL, or add the host to NO_PROXY.",
        )
    auth = (unquote(parts.username), unquote(parts.password or "")) if parts.username else None
    default_port = 443 if parts.scheme == "https" else 80
    address = httpcore2.URL(scheme=parts.scheme, host=host, port=port or default_port, target="/")
    return httpcore2.Proxy(address, auth=auth, ssl_context=tls if parts.scheme == "https" else None)

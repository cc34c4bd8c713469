"""The transport against real sockets: keep-alive, stale connections, timeouts, cuts, cancelling, proxies."""

from __future__ import annotations

import functools
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trio

from agents.errors import ErrorCode, Failure
from agents.models.http import HttpTransport, Timeouts

QUICK = Timeouts(connect=0.3, idle=0.3, total=5)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

Serve = Callable[[trio.SocketStream, "Seen"], Awaitable[None]]


class Seen:
    """What a raw server saw."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self.left = trio.Event()
        """A client went away."""

    async def request(self, stream: trio.SocketStream) -> bytes | None:
        """The next request, whole; None where the client has gone."""
        data = b""
        while b"\r\n\r\n" not in data or len(data) < _expected(data):
            try:
                more = await stream.receive_some()
            except trio.BrokenResourceError:
                more = b""
            if not more:
                self.left.set()
                return None
            data += more
        self.requests.append(data)
        return data


def _expected(data: bytes) -> int:
    head, _, _ = data.partition(b"\r\n\r\n")
    length = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    return len(head) + 4 + (int(length[0].split(b":")[1]) if length else 0)


@asynccontextmanager
async def serving(serve: Serve) -> AsyncIterator[tuple[str, Seen]]:
    """A raw server on loopback: its URL and what it saw."""
    seen = Seen()

    async def handle(stream: trio.SocketStream) -> None:
        seen.connections += 1
        await serve(stream, seen)

    async with trio.open_nursery() as nursery:
        serve_loopback = functools.partial(trio.serve_tcp, handle, 0, host="127.0.0.1")
        listeners = await nursery.start(serve_loopback)
        yield f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}/v1", seen
        nursery.cancel_scope.cancel()


async def always_ok(stream: trio.SocketStream, seen: Seen) -> None:
    while await seen.request(stream) is not None:
        await stream.send_all(OK)


async def fetch(transport: HttpTransport, url: str) -> bytes:
    async with transport.post(url, headers={}, body=b"{}") as response:
        assert response.status == 200
        return await response.body()


async def fault(transport: HttpTransport, url: str, **headers: str) -> Failure:
    with pytest.raises(Failure) as caught:
        async with transport.post(url, headers=headers, body=b"{}") as response:
            await response.body()
    return caught.value


# ── the ordinary way


async def test_method_path_headers_and_body_go_out_and_status_headers_and_body_come_back() -> None:
    async def serve(stream: trio.SocketStream, seen: Seen) -> None:
        await seen.request(stream)
        await stream.send_all(b"HTTP/1.1 418 Teapot\r\nX-Thing: A\r\nContent-Length: 3\r\n\r\nno!")

    async with serving(serve) as (url, seen), HttpTransport({}) as transport:
        async with transport.post(f"{url}/x?q=1", headers={"X-Mine": "1"}, body=b"hello") as response:
            assert (response.status, response.headers["x-thing"]) == (418, "A")
            assert await response.body() == b"no!"
    head, _, body = seen.requests[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/x?q=1 HTTP/1.1\r\n")
    assert f"Host: {url.split('/')[2]}".encode() in head
    assert b"X-Mine: 1" in head
    assert body == b"hello"


async def test_chunks_come_as_the_server_sends_them() -> None:
    go_on = trio.Event()

    async def serve(stream: trio.SocketStream, seen: Seen) -> None:
        await seen.request(stream)
        await stream.send_all(CHUNKED + b"1\r\na\r\n")
        await go_on.wait()
        await stream.send_all(b"1\r\nb\r\n0\r\n\r\n")

    async with serving(serve) as (url, _), HttpTransport({}) as transport:
        async with transport.post(url, headers={}, body=b"") as response:
            chunks = response.chunks()
            assert await anext(chunks) == b"a"
            go_on.set()
            assert [chunk async for chunk in chunks] == [b"b"]


async def test_a_connection_is_used_again() -> None:
    async with serving(always_ok) as (url, seen), HttpTransport({}) as transport:
        for _ in range(5):
            assert await fetch(transport, url) == b"ok"
        assert seen.connections == 1


async def test_requests_at_once_have_a_connection_each_and_later_ones_use_these() -> None:
    async with serving(always_ok) as (url, seen), HttpTransport({}) as transport:
        for _ in range(2):
            async with trio.open_nursery() as nursery:
                for _ in range(5):
                    nursery.start_soon(fetch, transport, url)
        assert seen.connections <= 5
        assert len(seen.requests) == 10


async def test_leaving_the_transport_closes_the_idle_connections() -> None:
    async with serving(always_ok) as (url, seen):
        async with HttpTransport({}) as transport:
            await fetch(transport, url)
        with trio.fail_after(2):
            await seen.left.wait()


async def test_an_unread_body_closes_the_connection() -> None:
    async with serving(always_ok) as (url, seen), HttpTransport({}) as transport:
        async with transport.post(url, headers={}, body=b""):
            pass
        await fetch(transport, url)
        assert seen.connections == 2


async def test_an_exception_in_the_block_leaves_it_unchanged_and_closes_the_connection() -> None:
    async with serving(always_ok) as (url, seen), HttpTransport({}) as transport:
        with pytest.raises(KeyError):
            async with transport.post(url, headers={}, body=b""):
                raise KeyError("mine")
        with trio.fail_after(2):
            await seen.left.wait()


async def test_a_body_beyond_the_limit_is_refused() -> None:
    async with serving(always_ok) as (url, _), HttpTransport({}) as transport:
        with pytest.raises(Failure, match="longer than 1 bytes"):
            async with transport.post(url, headers={}, body=b"") as response:
                await response.body(limit=1)


# ── stale connections


async def test_a_connection_that_the_server_closed_while_idle_is_replaced() -> None:
    async def serve(stream: trio.SocketStream, seen: Seen) -> None:
        await seen.request(stream)
        await stream.send_all(OK)

    async with serving(serve) as (url, seen), HttpTransport({}) as transport:
        for _ in range(3):
            assert await fetch(transport, url) == b"ok"
            await trio.sleep(0.02)
        assert seen.connections == 3


async def test_a_kept_connection_that_closes_under_the_next_request_is_replaced_once() -> None:
    async def serve(stream: trio.SocketStream, seen: Seen) -> None:
        await seen.request(stream)
        await stream.send_all(OK)
        await seen.request(stream)  # and hang up without an answer

    async with serving(serve) as (url, seen), HttpTransport({}) as transport:
        await fetch(transport, url)
        assert await fetch(transport, url) == b"ok"
        assert (seen.connections, len(seen.requests)) == (2, 3)


async def test_a_fresh_connection_that_closes_without_an_answer_is_a_network_error() -> None:
    async def serve(stream: trio.SocketStream, seen: Seen) -> None:
        await seen.request(stream)

    async with serving(serve) as (url, seen), HttpTransport({}) as transport:
        error = (await fault(transport, url)).error
        assert (error.code, error.retriable) == (ErrorCode.NETWORK_ERROR, True)
        assert seen.connections == 1


# ── what goes wrong


async def test_a_refused_connection_names_the_host_and_the_next_step() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/"
        async with HttpTransport({}) as transport:
            error = (await fault(transport, url)).error
    assert (error.code, error.retriable) == (ErrorCode.NETWORK_ERROR, True)
    assert "127.0.0.1" in error.message
    assert "--base-url" in error.message


async def test_an_unknown_name_is_a_network_error() -> None:
    async with HttpTransport({}, QUICK) as transport:
        error = (await fault(transport, "http://no-such-host.invalid/")).error
    assert error.code is ErrorCode.NETWORK_ERROR


@pytest.mark.parametrize("sent", [CHUNKED + b"5\r\nab", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab"])
async def test_a_body_that_is_cut_is_a_failed_stream(sent: bytes) -> None:
    async def serve(stream: trio.SocketStream, seen: Seen) -> None:
        await seen.request(stream)
        await stream.send_all(sent)

    async with serving(serve) as (url, _), HttpTransport({}) as transport:
        error = (await fault(transport, url)).error
    assert (error.code, error.retriable) == (ErrorCode.STREAM_FAILED, True)


async def test_something_that_is_not_http_is_a_network_error() -> None:
    async def serve(stream: trio.SocketStream, seen: Seen) -> None:
        await seen.request(stream)
        await stream.send_all(b"SSH-2.0-x\r\n\r\n")

    async with serving(serve) as (url, _), HttpTransport({}) as transport:
        assert (await fault(transport, url)).error.code is ErrorCode.NETWORK_ERROR


@pytest.mark.parametrize("sent", [b"", CHUNKED + b"1\r\na\r\n"])
async def test_a_silent_server_is_a_network_error_with_the_seconds(sent: bytes) -> None:
    async def serve(stream: trio.SocketStream, seen: Seen) -> None:
        await seen.request(stream)
        await stream.send_all(sent)
        await seen.request(stream)

    async with serving(serve) as (url, seen), HttpTransport({}, QUICK) as transport:
        error = (await fault(transport, url)).error
        assert (error.code, error.retriable) == (ErrorCode.NETWORK_ERROR, True)
        assert "silent for 0.3 s" in error.message
        with trio.fail_after(2):
            await seen.left.wait()


async def test_an_answer_that_never_ends_is_a_network_error_after_the_total_time() -> None:
    async def serve(stream: trio.SocketStream, seen: Seen) -> None:
        await seen.request(stream)
        await stream.send_all(CHUNKED)
        try:
            while True:
                await stream.send_all(b"1\r\na\r\n")
                await trio.sleep(0.01)
        except trio.BrokenResourceError:
            seen.left.set()

    async with serving(serve) as (url, seen), HttpTransport({}, Timeouts(total=0.2)) as transport:
        error = (await fault(transport, url)).error
        assert error.code is ErrorCode.NETWORK_ERROR
        assert "0.2 s" in error.message
        with trio.fail_after(2):
            await seen.left.wait()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "host:80",
        "ftp://host/",
        "ftp://host:21/",
        "http://",
        "http://[::1",
        "http://h:x/",
        "http://me:pw@host/",
    ],
)
async def test_an_address_that_cannot_be_called_is_refused_before_anything_is_sent(url: str) -> None:
    async with HttpTransport({}) as transport:
        error = (await fault(transport, url)).error
    assert error.code is ErrorCode.INVALID_ARGUMENT
    assert "--base-url" in error.message
    assert "pw" not in error.message


@pytest.mark.parametrize("value", ["line\nend", "schlüssel\u2028"])
async def test_a_header_that_cannot_be_sent_is_refused_without_showing_it(value: str) -> None:
    async with serving(always_ok) as (url, _), HttpTransport({}) as transport:
        error = (await fault(transport, url, Authorization=value)).error
    assert error.code is ErrorCode.INVALID_ARGUMENT
    assert value not in error.message


# ── cancellation


@pytest.mark.parametrize("sent", [b"", CHUNKED + b"1\r\na\r\n"], ids=["before the head", "in the stream"])
async def test_cancelling_is_prompt_and_the_server_sees_the_client_leave(sent: bytes) -> None:
    async def serve(stream: trio.SocketStream, seen: Seen) -> None:
        await seen.request(stream)
        await stream.send_all(sent)
        await seen.request(stream)

    async with serving(serve) as (url, seen), HttpTransport({}) as transport:
        started = trio.current_time()
        with trio.move_on_after(0.2) as scope:
            async with transport.post(url, headers={}, body=b"{}") as response:
                await response.body()
        assert scope.cancelled_caught
        assert trio.current_time() - started < 2
        with trio.fail_after(2):
            await seen.left.wait()


async def test_the_transport_goes_on_after_a_cancelled_request() -> None:
    async def serve(stream: trio.SocketStream, seen: Seen) -> None:
        first = seen.connections == 1
        while await seen.request(stream) is not None:
            if not first:
                await stream.send_all(OK)

    async with serving(serve) as (url, _), HttpTransport({}) as transport:
        with trio.move_on_after(0.05):
            await fetch(transport, url)
        assert await fetch(transport, url) == b"ok"


async def test_cancelling_a_tls_handshake_closes_its_socket() -> None:
    async def serve(stream: trio.SocketStream, seen: Seen) -> None:
        while await stream.receive_some():
            pass
        seen.left.set()

    async with serving(serve) as (url, seen), HttpTransport({}) as transport:
        with trio.move_on_after(0.1):
            await fetch(transport, url.replace("http", "https"))
        with trio.fail_after(2):
            await seen.left.wait()


# ── TLS and proxies


async def test_a_server_without_tls_is_a_network_error() -> None:
    async def serve(stream: trio.SocketStream, seen: Seen) -> None:
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with serving(serve) as (url, _), HttpTransport({}) as transport:
        error = (await fault(transport, url.replace("http", "https"))).error
    assert error.code is ErrorCode.NETWORK_ERROR


async def test_the_certificates_of_servers_are_checked() -> None:
    async with HttpTransport({}) as transport:
        context = transport._trust()
        assert context is transport._trust()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


async def test_a_plain_request_goes_to_the_proxy_with_its_whole_address() -> None:
    async with serving(always_ok) as (proxy, seen):
        environment = {"HTTP_PROXY": proxy.replace("http://", "http://me:p%40ss@").removesuffix("/v1")}
        async with HttpTransport(environment) as transport:
            assert await fetch(transport, "http://model.invalid/v1/x") == b"ok"
            assert await fetch(transport, "http://model.invalid/v1/x") == b"ok"
        assert seen.connections == 1
    assert seen.requests[0].startswith(b"POST http://model.invalid/v1/x HTTP/1.1\r\n")
    assert b"Basic bWU6cEBzcw==" in seen.requests[0]


async def test_a_tls_request_asks_the_proxy_for_a_tunnel_and_a_refusal_is_a_network_error() -> None:
    async def serve(stream: trio.SocketStream, seen: Seen) -> None:
        await seen.request(stream)
        await stream.send_all(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")

    async with serving(serve) as (proxy, seen):
        async with HttpTransport({"HTTPS_PROXY": proxy}) as transport:
            error = (await fault(transport, "https://model.invalid/v1")).error
    assert error.code is ErrorCode.NETWORK_ERROR
    assert "proxy" in error.message.lower()
    assert seen.requests[0].startswith(b"CONNECT model.invalid:443 HTTP/1.1\r\n")


async def test_no_proxy_goes_straight_to_the_host() -> None:
    async with serving(always_ok) as (proxy, seen):
        environment = {"HTTP_PROXY": proxy, "NO_PROXY": ".invalid"}
        async with HttpTransport(environment, QUICK) as transport:
            assert (await fault(transport, "http://model.invalid/")).error.code is ErrorCode.NETWORK_ERROR
        assert seen.connections == 0


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:1", "http://", "http://[::1"])
async def test_a_proxy_that_cannot_be_used_is_said_to_be_so_and_not_retried(proxy: str) -> None:
    async with HttpTransport({"ALL_PROXY": proxy}) as transport:
        error = (await fault(transport, "http://model.invalid/")).error
    assert (error.code, error.retriable) == (ErrorCode.NETWORK_ERROR, False)
    assert "HTTPS_PROXY" in error.message

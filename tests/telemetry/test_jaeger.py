"""Reading a trace from a Jaeger's query API, over real HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import pytest

from telemetry.jaeger import JaegerError, api_url, page_url, read_jaeger_trace
from telemetry.settings import TelemetrySettings
from telemetry.tracefile import encode_line
from tests.telemetry.spans import burst

TRACE = "0123456789abcdef0123456789abcdef"


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    """A server that gives one answer; the address of a trace's page on it."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = status if self.path == f"/jaeger/api/v3/traces/{TRACE}" else 404
            self.send_response(found)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/jaeger/trace/{TRACE}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_large_trace_comes_in_several_objects() -> None:
    records = burst(6)
    parts = [
        b'{"result":' + encode_line(some, TelemetrySettings().resource_of).strip() + b"}\n"
        for some in (records[:3], records[3:])
    ]
    with answering(200, b"".join(parts)) as url:
        assert [span.span_id for span in read_jaeger_trace(url)] == [span.span_id for span in records]


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (404, b"{}", "it has no such trace"),
        (500, b"{}", "it answered 500"),
        (200, b"<html>", "did not answer with a trace"),
        (200, msgspec.json.encode({"result": {"resourceSpans": []}}), "it has no such trace"),
        (200, b"", "it has no such trace"),
    ],
)
def test_an_answer_without_a_trace_is_told_with_the_next_step(status: int, body: bytes, told: str) -> None:
    with answering(status, body) as url, pytest.raises(JaegerError, match=told):
        read_jaeger_trace(url)


@pytest.mark.parametrize("path", ["trace", "api/traces", "api/v3/traces"])
def test_a_page_and_an_api_address_name_the_same_trace(path: str) -> None:
    assert api_url(f"http://h:1/{path}/{TRACE.upper()}?x=1#y") == f"http://h:1/api/v3/traces/{TRACE}"


@pytest.mark.parametrize(
    "url", ["http://h:1/", "http://h:1/trace/", "http://h:1/trace/xyz", "ftp://h/trace/0"]
)
def test_what_names_no_trace_is_refused(url: str) -> None:
    with pytest.raises(JaegerError, match="give its page"):
        api_url(url)


def test_a_page_is_named_below_any_base() -> None:
    assert page_url("http://h:1/jaeger/", TRACE) == f"http://h:1/jaeger/trace/{TRACE}"

"""Reading one trace from a Jaeger: its query API answers with OTLP-JSON. Blocks."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from telemetry.records import SpanRecord
from telemetry.settings import without_credentials
from telemetry.tracefile import decode_trace

TIMEOUT_SECONDS = 10.0
_TRACE = re.compile(r"(?P<base>https?://.+?)/(?:trace|api/traces|api/v3/traces)/(?P<id>[0-9a-fA-F]{16,32})/?")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class JaegerError(Exception):
    """A Jaeger gave no trace; the message says what to do."""


def page_url(base: str, trace_id: str) -> str:
    """The page on which a person sees the trace; `base` as in `http://localhost:16686`."""
    return f"{base.rstrip('/')}/trace/{trace_id}"


def api_url(url: str) -> str:
    """Where the trace of a page (`…/trace/ID`) or of an API address is read. `JaegerError`."""
    found = _TRACE.fullmatch(url.split("?")[0].split("#")[0])
    if found is None:
        raise JaegerError(
            f"{without_credentials(url)} names no trace of a Jaeger; "
            "give its page, as http://localhost:16686/trace/TRACE-ID"
        )
    return f"{found['base']}/api/v3/traces/{found['id'].lower()}"


def read_jaeger_trace(url: str, timeout: float = TIMEOUT_SECONDS) -> tuple[SpanRecord, ...]:
    """Every span of the trace whose page or API address `url` is. `JaegerError`."""
    address = api_url(url)
    shown = without_credentials(address)
    try:
        with _opener(address).open(address, timeout=timeout) as answer:
            body = answer.read().decode("utf-8")
        spans = tuple(span for part in _objects(body) for span in decode_trace(part))
    except urllib.error.HTTPError as refused:
        with refused:
            why = "it has no such trace" if refused.code == 404 else f"it answered {refused.code}"
        raise JaegerError(f"{shown}: {why}; look for the trace on the Jaeger page") from None
    except (OSError, urllib.error.URLError) as error:
        raise JaegerError(f"{shown} cannot be reached ({_cause(error)}); start Jaeger there") from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise JaegerError(
            f"{shown} did not answer with a trace ({type(error).__name__}); give the address of a Jaeger"
        ) from None
    if not spans:
        raise JaegerError(f"{shown}: it has no such trace; look for the trace on the Jaeger page")
    return spans


def _opener(address: str) -> urllib.request.OpenerDirector:
    """A proxy of the environment does not know this machine's own Jaeger."""
    local = urlsplit(address).hostname in _LOOPBACK
    return urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if local else []))


def _objects(body: str) -> Iterator[dict[str, Any]]:
    """The objects with `resourceSpans`: a large trace comes as several, one after the other."""
    decoder = json.JSONDecoder()
    position = 0
    while (position := _skip_space(body, position)) < len(body):
        part, position = decoder.raw_decode(body, position)
        yield part.get("result", part)


def _skip_space(text: str, position: int) -> int:
    while position < len(text) and text[position].isspace():
        position += 1
    return position


def _cause(error: Exception) -> str:
    reason = getattr(error, "reason", error)
    return getattr(reason, "strerror", None) or type(reason).__name__

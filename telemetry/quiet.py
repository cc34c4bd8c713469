"""Keeps the OTel exporters' log records out of our log while they send on a thread of ours."""

from __future__ import annotations

import contextlib
import logging
import re
import threading
from collections.abc import Iterator
from typing import Protocol

from opentelemetry import context as otel_context

NOISY_LOGGERS = (
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.exporter.otlp.proto.http.metric_exporter",
    "opentelemetry.exporter.otlp.proto.http._common",
    "opentelemetry.exporter.otlp.common.http",
    "opentelemetry.exporter.otlp.proto.common._internal",
    "opentelemetry.attributes",
    "opentelemetry.sdk.metrics._internal.measurement_consumer",
    "opentelemetry.util.re",
    "urllib3.connectionpool",
    "urllib3.util.retry",
)


class Reasoned(Protocol):
    """Whoever sends: it is told why sending failed."""

    reason: str


_sending = threading.local()


class _Quiet(logging.Filter):
    """Drops what is logged on a sending thread, and remembers the status that a collector answered."""

    def filter(self, record: logging.LogRecord) -> bool:
        sender: Reasoned | None = getattr(_sending, "sender", None)
        if sender is None:
            return True
        code = re.search(r"code: (\d{3})", record.getMessage())
        if code is not None:
            sender.reason = f"it answered {code[1]}"
        return False


_QUIET = _Quiet()


@contextlib.contextmanager
def quiet(sender: Reasoned) -> Iterator[None]:
    """On this thread: no log records of the exporter, no spans of an instrumented HTTP client."""
    for name in NOISY_LOGGERS:
        logging.getLogger(name).addFilter(_QUIET)  # a filter that is there already is not added again
    token = otel_context.attach(otel_context.set_value(otel_context._SUPPRESS_INSTRUMENTATION_KEY, True))
    _sending.sender = sender
    try:
        yield
    finally:
        _sending.sender = None
        otel_context.detach(token)

"""A real Jaeger for tests, on free ports of its own."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from telemetry.jaeger import JaegerError, read_jaeger_trace
from telemetry.records import SpanRecord

BINARY = os.environ.get("ORCHESTRATOR_JAEGER_BIN") or shutil.which("jaeger")
CONFIG = Path(__file__).parent.parent / "examples/jaeger/jaeger.yaml"


@attrs.frozen
class Jaeger:
    """A running one."""

    query: str
    """Base URL of its page and query API."""
    endpoint: str
    """Base URL for OTLP/HTTP."""

    def services(self) -> list[str]:
        answer: dict[str, list[str]] = self._get("/api/v3/services")
        return sorted(answer.get("services", []))

    def trace(self, trace_id: str, *, spans: int, seconds: float = 10) -> Sequence[SpanRecord]:
        """The trace once it has at least so many spans."""
        end = time.monotonic() + seconds
        found: Sequence[SpanRecord] = ()
        while time.monotonic() < end:
            try:
                found = read_jaeger_trace(f"{self.query}/trace/{trace_id}")
            except JaegerError:
                found = ()
            if len(found) >= spans:
                break
            time.sleep(0.05)
        return found

    def _get(self, path: str) -> Any:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(self.query + path, timeout=10) as answer:
            return json.load(answer)


@contextmanager
def running_jaeger(folder: Path) -> Iterator[Jaeger]:
    """Start one for the block, with the configuration that people are given, on other ports."""
    assert BINARY is not None
    query, grpc, otlp = (free_port() for _ in range(3))
    text = CONFIG.read_text()
    for told, port in (("16686", query), ("16685", grpc), ("4318", otlp)):
        assert text.count(f":{told}") == 1
        text = text.replace(f":{told}", f":{port}")
    config = folder / "jaeger.yaml"
    config.write_text(text)
    with (folder / "jaeger.log").open("wb") as log:
        process = subprocess.Popen(
            [BINARY, "--config", f"file:{config}"],
            env={**os.environ, "JAEGER_UI_CONFIG": str(CONFIG.with_name("ui.json"))},
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
        )
        try:
            jaeger = Jaeger(f"http://127.0.0.1:{query}", f"http://127.0.0.1:{otlp}")
            wait_until_up(process, (query, otlp), folder / "jaeger.log")
            yield jaeger
        finally:
            process.kill()  # asked to end, it waits 10 s for its clients; there is nothing it could save
            process.wait()


def wait_until_up(process: subprocess.Popen[bytes], ports: Sequence[int], log: Path) -> None:
    end = time.monotonic() + 30
    for port in ports:
        while True:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port

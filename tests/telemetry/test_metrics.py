"""Metrics: what is derived from spans, when it is sent, and what a bad collector may cost."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Sequence

import pytest
import trio

from telemetry import attributes as names
from telemetry.export import TelemetrySettings, open_export
from telemetry.records import SpanRecord
from telemetry.testing import Mode, OtlpReceiver, ReceivedPoint
from tests.telemetry.spans import Trace


def settings(receiver: OtlpReceiver) -> TelemetrySettings:
    return TelemetrySettings(metrics_url=f"{receiver.endpoint}/v1/metrics")


def turn() -> list[SpanRecord]:
    """One agent with a model call, a failed Edit, a permission wait, and the guard's events."""
    trace = Trace()
    agent = trace.span(None, "invoke_agent fixer", 0, 4000, {names.AGENT_NAME: "fixer"}, error="INTERNAL")
    agent.add_event(names.RECOVERY_COUNTED, {names.RECOVERY_KIND: "edit"})
    agent.add_event(names.RECOVERY_RELEASED)
    usage = {names.OPERATION: "chat", names.INPUT_TOKENS: 120, names.OUTPUT_TOKENS: 30}
    trace.span(agent, "chat opus", 0, 1500, usage, kind="CLIENT")
    edit = trace.span(
        agent, "execute_tool Edit", 1500, 1700, {names.TOOL_NAME: "Edit"}, error="EDIT_RANGE_INVALID"
    )
    asked = {names.PERMISSION_TOOL: "Edit", names.PERMISSION_DECISION: "deny"}
    trace.span(edit, names.PERMISSION_SPAN, 1500, 1600, asked)
    agent._ended = None
    return [*trace.records[1:], agent.end(agent.start_ns + 4_000_000_000)]


async def measured(receiver: OtlpReceiver, records: Sequence[SpanRecord]) -> list[ReceivedPoint]:
    warnings: list[str] = []
    async with open_export(settings(receiver), warn=warnings.append) as export:
        export.active_agents = 2
        export.export(records)
    assert warnings == []
    return receiver.metrics


def points(found: Sequence[ReceivedPoint], name: str) -> list[tuple[float, int]]:
    return [(round(point.value, 6), point.count) for point in found if point.name == name]


async def test_durations_tokens_and_counts_come_from_the_spans() -> None:
    with OtlpReceiver() as receiver:
        found = await measured(receiver, turn())
    assert points(found, "gen_ai.client.operation.duration") == [(1.5, 1)]
    assert points(found, "gen_ai.execute_tool.duration") == [(0.2, 1)]
    assert points(found, "gen_ai.invoke_agent.duration") == [(4.0, 1)]
    assert points(found, "orchestrator.permission.wait.duration") == [(0.1, 1)]
    assert points(found, "orchestrator.agents.active") == [(2, 1)]
    assert points(found, "orchestrator.telemetry.dropped_spans") == [(0, 1)]
    assert sorted(points(found, "orchestrator.recovery.events")) == [(1, 1), (1, 1)]
    tokens = {
        point.attributes["gen_ai.token.type"]: point.value
        for point in found
        if point.name == "gen_ai.client.token.usage"
    }
    assert tokens == {"input": 120, "output": 30}


async def test_an_error_is_told_apart_by_its_code() -> None:
    with OtlpReceiver() as receiver:
        found = await measured(receiver, turn())
    (tool,) = [point for point in found if point.name == "gen_ai.execute_tool.duration"]
    assert tool.attributes == {"gen_ai.tool.name": "Edit", "error.type": "EDIT_RANGE_INVALID"}


async def test_a_run_that_goes_on_sends_in_between() -> None:
    with OtlpReceiver() as receiver:
        often = TelemetrySettings(metrics_url=f"{receiver.endpoint}/v1/metrics", metrics_interval=0.01)
        async with open_export(often, warn=print) as export:
            export.export(turn())
            await trio.to_thread.run_sync(receiver.wait_for_metrics)
            assert receiver.metrics


async def test_spans_are_not_posted_where_only_metrics_are_asked_for() -> None:
    with OtlpReceiver() as receiver:
        await measured(receiver, turn())
        assert receiver.requests == []


@pytest.mark.parametrize("mode", ["hang", "refuse"])
async def test_a_bad_collector_costs_a_second_and_one_line(mode: Mode) -> None:
    warnings: list[str] = []
    with OtlpReceiver(mode) as receiver:
        async with open_export(settings(receiver), warn=warnings.append) as export:
            export.export(turn())
            left = time.monotonic()
        assert time.monotonic() - left < 2.5
    assert len(warnings) == 1
    assert "the metrics did not reach" in warnings[0]
    assert "\n" not in warnings[0]


async def test_a_run_without_spans_sends_nothing_and_says_nothing() -> None:
    warnings: list[str] = []
    async with open_export(TelemetrySettings(metrics_url="http://127.0.0.1:9"), warn=warnings.append):
        pass
    assert warnings == []


@pytest.mark.parametrize(
    ("env", "url"),
    [
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, None),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://m/x"}, "http://m/x"),
        (
            {"OTEL_METRICS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318/"},
            "http://c:4318/v1/metrics",
        ),
        ({"OTEL_METRICS_EXPORTER": "otlp"}, "http://localhost:4318/v1/metrics"),
        ({"OTEL_METRICS_EXPORTER": "none", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://m"}, None),
        ({"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://m"}, None),
    ],
)
def test_metrics_go_only_where_they_are_asked_for_by_name(env: dict[str, str], url: str | None) -> None:
    assert TelemetrySettings.from_environment(env).metrics_url == url


def test_metrics_are_one_services() -> None:
    assert TelemetrySettings().metrics_resource("i1")["service.name"] == "orchestrator"
    assert TelemetrySettings(one_service="x").metrics_resource()["service.name"] == "x"


def test_the_metrics_sdk_is_not_loaded_where_no_metrics_are_sent(run_python: Callable[[str], str]) -> None:
    code = """
        import sys
        import telemetry.export, telemetry.metrics
        heavy = ("opentelemetry.sdk", "opentelemetry.exporter")
        print([name for name in sys.modules if name.startswith(heavy)])
    """
    assert run_python(code) == "[]"


@pytest.fixture
def run_python() -> Callable[[str], str]:
    def run(code: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
        return done.stdout.strip()

    return run

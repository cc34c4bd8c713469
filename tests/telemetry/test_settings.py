"""Where spans go, by the standard variables."""

from __future__ import annotations

from pathlib import Path

import pytest

from telemetry.export import TelemetrySettings
from telemetry.spans import start_span

BASE = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACES = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"


@pytest.mark.parametrize(
    ("env", "url"),
    [
        ({}, None),
        ({BASE: ""}, None),
        ({BASE: "http://collector:4318"}, "http://collector:4318/v1/traces"),
        ({BASE: "http://collector:4318/prefix/"}, "http://collector:4318/prefix/v1/traces"),
        ({TRACES: "http://collector/in"}, "http://collector/in"),
        ({BASE: "http://collector:4318", TRACES: "http://other/in"}, "http://other/in"),
        ({BASE: "http://collector:4318", "OTEL_SDK_DISABLED": "true"}, None),
        ({BASE: "http://collector:4318", "OTEL_TRACES_EXPORTER": "none"}, None),
    ],
)
def test_the_base_url_gets_a_path_and_the_traces_url_is_used_as_it_is(
    env: dict[str, str], url: str | None
) -> None:
    assert url == TelemetrySettings.from_environment(env).traces_url


def test_the_environment_wins_over_the_configured_endpoint() -> None:
    configured = "http://configured:4318"
    assert TelemetrySettings.from_environment({}, endpoint=configured).endpoint == configured
    assert (
        TelemetrySettings.from_environment({BASE: "http://env:1"}, endpoint=configured).endpoint
        == "http://env:1"
    )


def test_headers_for_traces_win_and_are_decoded() -> None:
    env = {
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=general",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "Authorization=Bearer%20abc%3D, x-team = blue ,broken,",
    }
    assert TelemetrySettings.from_environment(env).headers == {
        "authorization": "Bearer abc=",
        "x-team": "blue",
    }


def test_headers_are_never_shown() -> None:
    settings = TelemetrySettings.from_environment({"OTEL_EXPORTER_OTLP_HEADERS": "authorization=sentinel"})
    assert "sentinel" not in repr(settings)


@pytest.mark.parametrize(
    ("env", "services", "service"),
    [
        ({}, None, None),
        ({}, "agents", None),
        ({}, "one", "orchestrator"),
        ({"OTEL_SERVICE_NAME": "mine"}, None, "mine"),
        ({"OTEL_SERVICE_NAME": "mine"}, "one", "mine"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "a=b,service.name=theirs"}, None, "theirs"),
        ({"OTEL_SERVICE_NAME": "mine", "OTEL_RESOURCE_ATTRIBUTES": "service.name=theirs"}, None, "mine"),
    ],
)
def test_a_service_name_from_outside_or_the_option_puts_all_spans_into_one_service(
    env: dict[str, str], services: str | None, service: str | None
) -> None:
    assert service == TelemetrySettings.from_environment(env, services=services).one_service


def test_a_resource_has_the_service_our_namespace_version_and_instance() -> None:
    record = start_span("settle", parent=None, service="fixer").end()
    settings = TelemetrySettings.from_environment(
        {"OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=lab"}, service_version="1.2.3"
    )
    assert settings.resource_of(record) == {
        "deployment.environment.name": "lab",
        "service.name": "fixer",
        "service.namespace": "orchestrator",
        "service.version": "1.2.3",
        "service.instance.id": record.instance_id,
    }


def test_the_target_names_the_endpoint_without_credentials_or_the_file_or_nothing(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    assert TelemetrySettings().target is None
    assert TelemetrySettings(trace_file=file).target == f"file:{file}"
    with_password = TelemetrySettings(endpoint="https://user:sentinel@host:1/p?key=sentinel", trace_file=file)
    assert with_password.target == "https://host:1/p"

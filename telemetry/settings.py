"""Where spans go: `TelemetrySettings`, built once from options and the standard `OTEL_*` variables. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

import attrs

from telemetry.attributes import (
    SERVICE_INSTANCE,
    SERVICE_NAME,
    SERVICE_NAMESPACE,
    SERVICE_VERSION,
)
from telemetry.records import SERVICE, SpanRecord

ONE = "one"
"""The value of `services` (`--trace-services one`) that puts every span into one service."""
DEFAULT_ENDPOINT = "http://localhost:4318"
"""The standard's own; used only where metrics are asked for without saying where to."""


@attrs.frozen
class TelemetrySettings:
    """Spans are exported only when an endpoint or a trace file is named; the default exports nothing."""

    endpoint: str | None = None
    """Base URL of an OTLP/HTTP collector, as in `OTEL_EXPORTER_OTLP_ENDPOINT`; `/v1/traces` is added."""
    traces_endpoint: str | None = None
    """Whole URL for traces, as in `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`; wins over `endpoint`."""
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    """Sent with every request; never shown, they may hold a token."""
    metrics_url: str | None = None
    """Whole URL for metrics; None: they are not sent. Jaeger refuses them, so an endpoint alone is not it."""
    metrics_headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    metrics_interval: float = 60.0
    """Seconds between two sendings, as in `OTEL_METRIC_EXPORT_INTERVAL` (there in milliseconds)."""
    trace_file: Path | None = None
    """OTLP-JSON lines are appended here."""
    one_service: str | None = None
    """When set, every span goes into this service; else each agent and the person has one."""
    service_version: str = ""
    resource: Mapping[str, str] = attrs.field(factory=dict)
    """Further resource attributes, as in `OTEL_RESOURCE_ATTRIBUTES`."""

    @classmethod
    def from_environment(
        cls,
        env: Mapping[str, str],
        *,
        trace_file: Path | None = None,
        services: str | None = None,
        endpoint: str | None = None,
        service_version: str = "",
    ) -> TelemetrySettings:
        """Read the standard variables of `env`; the configuration's `endpoint` counts when they name none.

        `services` is the value of `--trace-services`. `OTEL_SDK_DISABLED=true` and
        `OTEL_TRACES_EXPORTER=none` switch the endpoint off; a trace file was asked for by name and stays.
        """
        resource = _pairs(env.get("OTEL_RESOURCE_ATTRIBUTES", ""))
        named = env.get("OTEL_SERVICE_NAME") or resource.pop(SERVICE_NAME, None)
        off = (
            env.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
            or env.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none"
        )
        headers = env.get("OTEL_EXPORTER_OTLP_TRACES_HEADERS") or env.get("OTEL_EXPORTER_OTLP_HEADERS", "")
        for_metrics = env.get("OTEL_EXPORTER_OTLP_METRICS_HEADERS") or env.get(
            "OTEL_EXPORTER_OTLP_HEADERS", ""
        )
        return cls(
            endpoint=None if off else env.get("OTEL_EXPORTER_OTLP_ENDPOINT") or endpoint or None,
            traces_endpoint=None if off else env.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or None,
            headers={key.lower(): value for key, value in _pairs(headers).items()},
            metrics_url=_metrics_url(env, endpoint),
            metrics_headers={key.lower(): value for key, value in _pairs(for_metrics).items()},
            metrics_interval=_milliseconds(env.get("OTEL_METRIC_EXPORT_INTERVAL", ""), 60_000) / 1000,
            trace_file=trace_file,
            one_service=named or (SERVICE if services == ONE else None),
            service_version=service_version,
            resource=resource,
        )

    @property
    def traces_url(self) -> str | None:
        """Where traces are posted to."""
        if self.traces_endpoint is not None or self.endpoint is None:
            return self.traces_endpoint
        return self.endpoint.removesuffix("/") + "/v1/traces"

    @property
    def target(self) -> str | None:
        """What is shown of it: the URL without credentials, `file:PATH`, or None for nowhere."""
        return self.targets[0] if self.targets else None

    @property
    def targets(self) -> tuple[str, ...]:
        """Every place that spans go to, by the names under which turns and watermarks are stored."""
        url = () if self.traces_url is None else (without_credentials(self.traces_url),)
        return (*url, *(() if self.trace_file is None else (file_target(self.trace_file),)))

    def service(self, record: SpanRecord) -> str:
        """The service under which `record` is exported."""
        return self.one_service or record.service

    def resource_of(self, record: SpanRecord) -> dict[str, str]:
        """The resource attributes under which `record` is exported."""
        return self._resource(self.service(record), record.instance_id)

    def metrics_resource(self, instance: str = "") -> dict[str, str]:
        """The resource attributes of the metrics, which are always one service's."""
        return self._resource(self.one_service or SERVICE, instance)

    def _resource(self, service: str, instance: str) -> dict[str, str]:
        ours = {
            SERVICE_NAME: service,
            SERVICE_NAMESPACE: SERVICE,
            SERVICE_VERSION: self.service_version,
            SERVICE_INSTANCE: instance,
        }
        return {**self.resource, **{key: value for key, value in ours.items() if value}}


def _metrics_url(env: Mapping[str, str], configured: str | None) -> str | None:
    """Metrics are sent only where they are asked for by name."""
    exporter = env.get("OTEL_METRICS_EXPORTER", "").strip().lower()
    if exporter == "none" or env.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    named = env.get("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
    if named or exporter != "otlp":
        return named or None
    base = env.get("OTEL_EXPORTER_OTLP_ENDPOINT") or configured or DEFAULT_ENDPOINT
    return base.removesuffix("/") + "/v1/metrics"


def _milliseconds(text: str, otherwise: int) -> int:
    return int(text) if text.strip().isdecimal() and int(text) > 0 else otherwise


def file_target(path: Path) -> str:
    """The name of a trace file as a target."""
    return f"file:{path.absolute()}"


def without_credentials(url: str) -> str:
    """The URL without user, password, query and fragment."""
    try:
        parts = urlsplit(url)
    except ValueError:  # a malformed address: show nothing of it that could be a password
        return url.rpartition("@")[2]
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _pairs(text: str) -> dict[str, str]:
    """`key=value,key=value` with percent-encoded values; what is malformed is left out."""
    found: dict[str, str] = {}
    for item in text.split(","):
        key, equals, value = item.partition("=")
        if equals and key.strip():
            found[unquote(key.strip())] = unquote(value.strip())
    return found

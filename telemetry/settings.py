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


@attrs.frozen
class TelemetrySettings:
    """Spans are exported only when an endpoint or a trace file is named; the default exports nothing."""

    endpoint: str | None = None
    """Base URL of an OTLP/HTTP collector, as in `OTEL_EXPORTER_OTLP_ENDPOINT`; `/v1/traces` is added."""
    traces_endpoint: str | None = None
    """Whole URL for traces, as in `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`; wins over `endpoint`."""
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    """Sent with every request; never shown, they may hold a token."""
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
        return cls(
            endpoint=None if off else env.get("OTEL_EXPORTER_OTLP_ENDPOINT") or endpoint or None,
            traces_endpoint=None if off else env.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or None,
            headers={key.lower(): value for key, value in _pairs(headers).items()},
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
        """What is stored and shown of it: the URL without credentials, `file:PATH`, or None for nowhere."""
        if self.traces_url is not None:
            return without_credentials(self.traces_url)
        return None if self.trace_file is None else f"file:{self.trace_file.absolute()}"

    def service(self, record: SpanRecord) -> str:
        """The service under which `record` is exported."""
        return self.one_service or record.service

    def resource_of(self, record: SpanRecord) -> dict[str, str]:
        """The resource attributes under which `record` is exported."""
        ours = {
            SERVICE_NAME: self.service(record),
            SERVICE_NAMESPACE: SERVICE,
            SERVICE_VERSION: self.service_version,
            SERVICE_INSTANCE: record.instance_id,
        }
        return {**self.resource, **{key: value for key, value in ours.items() if value}}


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

"""Which requests go through a proxy."""

from __future__ import annotations

import pytest

from agents.models.proxies import proxy_for

PROXY = "http://proxy.example:3128"
BOTH = {"HTTPS_PROXY": PROXY, "HTTP_PROXY": "http://plain.example:1"}


def test_without_variables_there_is_no_proxy() -> None:
    assert proxy_for("https", "api.example", 443, {}) is None


def test_the_scheme_chooses_the_variable() -> None:
    assert proxy_for("https", "api.example", 443, BOTH) == PROXY
    assert proxy_for("http", "api.example", 80, BOTH) == "http://plain.example:1"


def test_the_lower_case_variable_goes_first() -> None:
    assert proxy_for("https", "api.example", 443, {**BOTH, "https_proxy": "http://low.example:2"}) == (
        "http://low.example:2"
    )


def test_all_proxy_is_the_fallback_and_an_empty_variable_is_none() -> None:
    assert proxy_for("https", "api.example", 443, {"HTTPS_PROXY": " ", "ALL_PROXY": PROXY}) == PROXY


def test_a_proxy_without_scheme_is_an_http_proxy() -> None:
    assert proxy_for("https", "api.example", 443, {"HTTPS_PROXY": "proxy.example:3128"}) == PROXY


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "127.0.0.1", "127.9.9.9", "::1"])
def test_loopback_is_reached_directly(host: str) -> None:
    assert proxy_for("https", host, 8000, BOTH) is None


@pytest.mark.parametrize(
    ("entry", "host", "port", "direct"),
    [
        ("*", "api.example", 443, True),
        ("api.example", "api.example", 443, True),
        ("API.example", "api.EXAMPLE", 443, True),
        ("example", "api.example", 443, True),
        (".example", "api.example", 443, True),
        ("*.example", "api.example", 443, True),
        ("ample", "api.example", 443, False),
        ("other,  api.example", "api.example", 443, True),
        ("other api.example", "api.example", 443, True),
        ("api.example:443", "api.example", 443, True),
        ("api.example:8443", "api.example", 443, False),
        ("10.0.0.0/8", "10.1.2.3", 443, True),
        ("10.0.0.0/8", "11.1.2.3", 443, False),
        ("10.0.0.0/99", "10.1.2.3", 443, False),
        ("10.1.2.3", "10.1.2.3", 443, True),
        ("2.3", "10.1.2.3", 443, False),
        ("fd00::/8", "fd00::1", 443, True),
        ("fd00::1", "fd00::1", 443, True),
        ("[fd00::1]:443", "fd00::1", 443, True),
        ("[fd00::1]:80", "fd00::1", 443, False),
        ("", "api.example", 443, False),
        (",", "api.example", 443, False),
    ],
)
def test_no_proxy_lists_the_exceptions(entry: str, host: str, port: int, direct: bool) -> None:
    assert (proxy_for("https", host, port, {**BOTH, "NO_PROXY": entry}) is None) is direct

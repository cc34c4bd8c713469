"""Which proxy a request goes through, from the usual environment variables. Pure.

`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`, lower case first. Loopback hosts are never sent to a
proxy: a model server on this machine must work behind a company's proxy settings.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping


def proxy_for(scheme: str, host: str, port: int, environment: Mapping[str, str]) -> str | None:
    """The proxy's URL as set (with `http://` before it where it has no scheme); None: connect directly."""
    proxy = _variable(environment, f"{scheme}_proxy") or _variable(environment, "all_proxy")
    if not proxy or _is_loopback(host) or _is_excepted(host, port, _variable(environment, "no_proxy")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _variable(environment: Mapping[str, str], name: str) -> str:
    return (environment.get(name) or environment.get(name.upper()) or "").strip()


def _is_loopback(host: str) -> bool:
    address = _address(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def _is_excepted(host: str, port: int, exceptions: str) -> bool:
    return any(_matches(host.lower(), port, entry) for entry in exceptions.replace(",", " ").lower().split())


def _matches(host: str, port: int, entry: str) -> bool:
    if entry == "*":
        return True
    address = _address(host)
    if address is not None and "/" in entry:
        try:
            return address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    name, colon, entry_port = entry.rpartition(":")
    if colon and entry_port.isdecimal() and (":" not in name or name.endswith("]")):
        if int(entry_port) != port:
            return False
        entry = name
    entry = entry.strip("[]").removeprefix("*").removeprefix(".")
    return host == entry or (address is None and bool(entry) and host.endswith("." + entry))


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None

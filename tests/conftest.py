"""Shared fixtures. Nothing of the machine's own configuration reaches a test."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio.testing


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of the test's own, and no variable that would send anything anywhere."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_DATA_HOME", str(home / ".local/share"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / ".gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_SERVICE_NAME", "TRACEPARENT", "ORCHESTRATOR_MODEL"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture
def clock() -> trio.testing.MockClock:
    """Virtual time that jumps only when nothing real is going on either."""
    return trio.testing.MockClock(autojump_threshold=0.05)

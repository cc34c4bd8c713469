"""Shared fixtures. Nothing of the machine's own configuration reaches a test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio.testing
from hypothesis import settings

settings.register_profile("suite", max_examples=50)
settings.load_profile("suite")  # the whole suite has to stay within minutes; a test may ask for more


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One fresh folder after the other. (`mktemp` lists all that there are for each: dear with thousands.)"""
    folder = tmp_path_factory.mktemp("homes")
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def own_home(homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of the test's own, and no variable that would send anything anywhere."""
    home = next(homes)
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_DATA_HOME", str(home / ".local/share"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / ".gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("SHELL", "/bin/sh")  # each session asks the login shell for its PATH: a quick one here
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_SERVICE_NAME", "TRACEPARENT", "ORCHESTRATOR_MODEL"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture
def clock() -> trio.testing.MockClock:
    """Virtual time that jumps only when nothing real is going on either."""
    return trio.testing.MockClock(autojump_threshold=0.05)

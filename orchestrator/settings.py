"""`Settings`: everything a session is told from outside, read once and passed down. Pure values."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import attrs
import platformdirs

from agents.spec import OperatingMode, PermissionMode
from orchestrator.task import MAIN_TURNS, MAX_DELEGATES, MAX_DEPTH

APP = "orchestrator"
CAPTURE_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


def default_data_dir(environment: Mapping[str, str]) -> Path:
    """`ORCHESTRATOR_DATA_DIR`, else the platform's directory for user data."""
    chosen = environment.get("ORCHESTRATOR_DATA_DIR")
    return Path(chosen).expanduser() if chosen else Path(platformdirs.user_data_dir(APP))


@attrs.frozen(kw_only=True)
class Settings:
    """One session's settings. Paths are absolute."""

    workspace: Path
    model: str | None = None
    """`provider:name`; None where a model object is given or the store knows it (resume)."""
    base_url: str | None = None
    agent: str = "main"
    """Definition that plays the main agent; `main` is the built-in one."""
    mode: OperatingMode = OperatingMode.AGENT
    mode_given: bool = True
    """Whether `mode` counts on a resume as well; else the stored one does."""
    permission_mode: PermissionMode = PermissionMode.ASK
    allow: tuple[str, ...] = ()
    """Allow rules of the user: configuration and command line, never a repository's."""
    deny: tuple[str, ...] = ()
    add_dirs: tuple[Path, ...] = ()
    denied_names: tuple[str, ...] = ()
    """Names (with `*`, `?`, `[…]`) of files and folders that no file tool opens, beside the built-in ones."""
    lifted_names: tuple[str, ...] = ()
    """Names that are opened although the built-in list denies them."""
    max_turns: int = MAIN_TURNS
    max_delegates: int = MAX_DELEGATES
    max_depth: int = MAX_DEPTH
    permission_timeout: float = 120.0
    """Seconds a request stays open, queued or not."""
    defer_tools: bool = True
    """Whether the main agent activates search, plugin and own tools on demand; else all are active."""
    data_dir: Path = attrs.field(factory=lambda: default_data_dir(os.environ))
    store: Path | None = None
    """The store's file; None: `store.sqlite3` in the data directory."""
    trace_file: Path | None = None
    trace_services: str = "agents"
    """`agents`: one service per definition; `one`: everything in one."""
    trace_model_requests: bool = False
    """Whether requests to a provider carry the model call's span as `traceparent`."""
    home: Path = attrs.field(factory=Path.home)
    environment: Mapping[str, str] = attrs.field(factory=lambda: dict(os.environ), repr=False)
    model_aliases: Mapping[str, str] = attrs.field(factory=dict)
    headless: bool = True
    """Nobody is at a terminal: an inbound TRACEPARENT is honoured."""

    @property
    def store_path(self) -> Path:
        return self.store or self.data_dir / "store.sqlite3"

    @property
    def capture_content(self) -> bool:
        """Whether prompts, arguments and results go into spans (the conventions' own variable)."""
        value = self.environment.get(CAPTURE_VARIABLE, "").strip().upper()
        return value in ("TRUE", "1", "SPAN_ONLY", "SPAN_AND_EVENT")

"""`config`: each setting, and where it came from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from orchestrator.cli.listing import at_home, say, say_json, table
from orchestrator.cli.options import environment, workspace_of
from orchestrator.cli.playing import warn
from orchestrator.cli.wrapping import terminal_width
from orchestrator.config import FILE, LoadedSettings, load_settings


@click.command("config")
@click.option("-C", "--workspace", metavar="DIR", help="The workspace whose file counts.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def config(workspace: str | None, as_json: bool) -> None:
    """Print each setting and where it came from: a variable, the workspace's file, your file, or built in."""
    loaded = load_settings({}, environment(), workspace_of(workspace))
    for text in loaded.warnings:
        warn(text)
    if as_json:
        say_json([{name: {"value": value, "source": source} for name, value, source in _rows(loaded)}])
        return
    rows = ((name, _told(name, value, loaded), source) for name, value, source in _rows(loaded))
    say(table(("SETTING", "VALUE", "SOURCE"), rows, width=terminal_width(), cut=("SOURCE", "VALUE")))
    say(
        [
            "",
            f"Your file: {_file(loaded.settings.home / FILE)}",
            f"This workspace's file: {_file(workspace_of(workspace) / FILE)}",
        ]
    )


def _told(name: str, value: Any, loaded: LoadedSettings) -> str:
    """A value for people: with its unit, and for the store the file that is used."""
    match name:
        case "store":
            return at_home(str(loaded.settings.store_path))
        case "permission_timeout":
            return f"{value:g} s"
        case _:
            return at_home(_shown(value))


def _file(path: Path) -> str:
    return f"{at_home(str(path))}{'' if path.exists() else ' (does not exist)'}"


def _rows(loaded: LoadedSettings) -> list[tuple[str, Any, str]]:
    return [(name, _plain(value), loaded.sources[name]) for name, value in loaded.values.items()]


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _shown(value: Any) -> str:
    match value:
        case None:
            return "-"
        case list():
            return ", ".join(map(str, value)) or "-"
        case dict():
            return ", ".join(f"{alias}={name}" for alias, name in value.items()) or "-"
        case _:
            return str(value)

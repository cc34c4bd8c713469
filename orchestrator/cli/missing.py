"""Verbs that this version does not have yet: each says so, and what to do instead."""

from __future__ import annotations

import click

from orchestrator.cli.leaving import Leave, Status

_INSTEAD = {
    "export": "Use `orchestrator show SESSION --json`: every stored event as one JSON object per line.",
    "doctor": "Use `orchestrator config` and `orchestrator check`: they print what applies and what fails.",
}


def unavailable(what: str, instead: str) -> Leave:
    """What is not built says so."""
    return Leave(Status.USAGE, f"INVALID_ARGUMENT: {what} is not available in this version. {instead}")


def _verb(name: str) -> click.Command:
    @click.command(
        name,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
        add_help_option=True,
    )
    @click.argument("ignored", nargs=-1, metavar="[...]", type=click.UNPROCESSED)
    def verb(ignored: tuple[str, ...]) -> None:
        raise unavailable(f"`orchestrator {name}`", _INSTEAD[name])

    verb.help = f"Not available in this version. {_INSTEAD[name]}"
    return verb


export, doctor = (_verb(name) for name in _INSTEAD)

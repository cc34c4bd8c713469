"""Verbs that this version does not have yet: each says so, and what to do instead."""

from __future__ import annotations

import click

from orchestrator.cli.leaving import Leave, Status

_ALLOW = "Answer on the terminal (`--permission-prompts terminal`), or allow in advance with `--allow RULE`."
_LOOK = (
    "Use `orchestrator config` and `orchestrator agents`: they print what applies and what is wrong with it."
)
_INSTEAD = {
    "approvals": _ALLOW,
    "approve": _ALLOW,
    "deny": "Answer on the terminal (`--permission-prompts terminal`), or forbid with `--deny RULE`.",
    "stop": "Press Ctrl-C where it runs, or send its process SIGTERM: the turn can be resumed then.",
    "rollback": "`orchestrator show SESSION` lists changed files; restore them with your version control.",
    "export": "Use `orchestrator show SESSION --json`: every stored event as one JSON object per line.",
    "check": _LOOK,
    "doctor": _LOOK,
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


approvals, approve, deny, stop, rollback, export, check, doctor = (_verb(name) for name in _INSTEAD)

"""Verbs by name, imported when they are chosen, and how each end of one becomes an exit status."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Iterator

import click

from agents.errors import Failure
from orchestrator.cli.leaving import Leave, Status, error_line, status_of
from orchestrator.cli.starting import begin

VERBS: dict[str, tuple[str, str]] = {
    "run": ("run:run", "Work on one prompt, with delegates beside the main agent."),
    "resume": ("run:resume", "Continue a session, a task or a chain."),
    "sessions": ("show:sessions", "List the stored sessions."),
    "tasks": ("show:tasks", "List the delegates' tasks and how they ended."),
    "agents": ("show:agents", "List the agent definitions and what is wrong with any."),
    "show": ("show:show", "Show what happened in a session, a turn or a task."),
    "trace": ("trace:trace", "Draw a trace: tree, critical path, where the time went."),
    "config": ("config:config", "Print each setting and where it came from."),
    "schema": ("schema:schema", "Print the JSON Schemas of events and results."),
    "demo": ("demo:demo", "Three delegates, one of which fails and is resumed. Offline."),
    "approvals": ("approvals:approvals", "List the permission requests that wait for an answer."),
    "approve": ("approvals:approve", "Allow the call that a request asks for."),
    "deny": ("approvals:deny", "Refuse the call that a request asks for."),
    "stop": ("stop:stop", "End a session's open turns, or one task."),
    "check": ("check:check", "Say what could still ask, and what is wrong, before a run."),
    "rollback": ("rollback:rollback", "Undo what a call, task, turn or session did to files."),
    "export": ("export:export", "Write one session as JSON, or as a page for people."),
    "doctor": ("doctor:doctor", "Examine the store, or save what a damaged one still holds."),
}
"""Verb → where it is, and its line in the help: known without importing it."""
OWN_OPTIONS = frozenset({"--help", "-h", "--version"})


class Verbs(click.Group):
    """A group whose commands are imported when they are chosen."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module, _, name = VERBS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(f"orchestrator.cli.{module}"), name)
        begin()
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([(verb, text) for verb, (_, text) in VERBS.items()])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """`orchestrator -p "…"` is `orchestrator run -p "…"`."""
        if args and args[0].startswith("-") and args[0] not in OWN_OPTIONS:
            args = ["run", *args]
        return super().parse_args(ctx, args)


def _print_version(ctx: click.Context, param: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from orchestrator.opening import VERSION  # everything else needs no session

        click.echo(f"orchestrator {VERSION}")
        ctx.exit()


@click.command(
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit status of run and resume: 0 completed, 1 failed or truncated, 2 usage or configuration, 3 "
    "completed with a permission denied in a headless run, 4 resume refused, 130 stopped. Of the other verbs: "
    "0 done, 1 not possible or something is wrong, 2 usage or unknown id, 4 conflict or refused.",
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Print the version.",
)
def command() -> None:
    """A multi-agent coding orchestrator whose failures tell the truth and lose nothing."""


def ended(arguments: list[str]) -> tuple[int, str]:
    """Run the command: its exit status, and the last line on standard error."""
    try:
        returned = command.main(arguments, prog_name="orchestrator", standalone_mode=False)
        return returned if isinstance(returned, int) else Status.COMPLETED, ""
    except Leave as left:
        return left.status, left.line
    except Failure as failed:
        return status_of(failed.error.code), error_line(failed.error)
    except click.exceptions.NoArgsIsHelpError as unused:
        unused.show()
        return Status.USAGE, ""
    except click.UsageError as wrong:
        if wrong.ctx is not None:
            print(wrong.ctx.get_usage(), file=sys.stderr)
        return Status.USAGE, f"INVALID_ARGUMENT: {_sentence(wrong.format_message())} {_help_hint(wrong)}"
    except click.ClickException as wrong:
        return Status.USAGE, f"INVALID_ARGUMENT: {_sentence(wrong.format_message())}"
    except (click.Abort, KeyboardInterrupt):
        return Status.STOPPED, ""
    except BaseExceptionGroup as group:
        if all(isinstance(leaf, KeyboardInterrupt) for leaf in _leaves(group)):
            return Status.STOPPED, ""
        return Status.FAILED, _log_unforeseen(group)
    except Exception as unforeseen:
        return Status.FAILED, _log_unforeseen(unforeseen)


def _sentence(text: str) -> str:
    flat = " ".join(text.split())
    return flat if flat.endswith((".", "?", "!")) else f"{flat}."


def _help_hint(wrong: click.UsageError) -> str:
    path = "orchestrator" if wrong.ctx is None else wrong.ctx.command_path
    return f"`{path} --help` lists the options."


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


def _log_unforeseen(error: BaseException) -> str:
    """Write the traceback into the log; what to tell the person instead of it."""
    import logging  # a command that ends as foreseen needs none of these

    from orchestrator.cli.logs import current_log, open_log
    from orchestrator.settings import default_data_dir

    path = current_log() or open_log(default_data_dir(os.environ))
    logging.getLogger("orchestrator").error("".join(traceback.format_exception(error)))
    short = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return (
        f"INTERNAL: A fault of the orchestrator ended the command ({short}). The log has the details: {path}"
    )

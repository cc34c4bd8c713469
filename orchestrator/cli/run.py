"""`run` and `resume`."""

from __future__ import annotations

import functools
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import attrs
import click
import trio

from agents.errors import ErrorCode, Failure, ToolError, failure
from agents.spec import OperatingMode
from agents.tools.linux import make_unreadable
from orchestrator.cli.hints import hints_of
from orchestrator.cli.listing import say
from orchestrator.cli.logs import open_log
from orchestrator.cli.lookup import existing_store, find, newest_session, same_folder, session_row, store_path
from orchestrator.cli.options import environment, flags_of, session_options, workspace_of
from orchestrator.cli.playing import Job, play, warn
from orchestrator.cli.starting import leave_on_signals
from orchestrator.config import LoadedSettings, load_settings
from orchestrator.planning import open_effects_of, plan_stored, plan_stored_task, refuse_a_held_one
from orchestrator.resume import ResumePlan, describe
from orchestrator.session import Session
from orchestrator.store.base import Found, Store
from orchestrator.store.sqlite import open_sqlite_store
from orchestrator.turn import TurnOutcome

T = TypeVar("T")

_ALIASES = """\b
Spellings of Claude Code, and what they mean here:
  -p, --print                     ask nobody: what would ask is denied
  -c, --continue                  the newest session of this workspace
  -r, --resume ID                 orchestrator resume ID
  --permission-mode default       --permission-mode ask
  --permission-mode acceptEdits   --permission-mode accept-edits
  --permission-mode plan          --mode plan
  --allowedTools "A,B C"          --allow A --allow B --allow C

`auto` runs every call without asking. Deny rules, the security deny list, protected paths and plan mode still
stand above it; what a command does once it runs, only a sandbox can hold.
"""


@click.command("run", epilog=_ALIASES)
@click.argument("prompt", required=False)
@session_options
@click.option("--session-id", metavar="ID", help="The new session's id; default: one is made.")
@click.option("-c", "--continue", "go_on", is_flag=True, help="Go on with this workspace's newest session.")
@click.option("-r", "--resume", "resumed", metavar="ID", help="The same as `orchestrator resume ID PROMPT`.")
def run(prompt: str | None, session_id: str | None, go_on: bool, resumed: str | None, **given: Any) -> None:
    """Work on PROMPT (`-`: read it from standard input) in a workspace, with delegates where that helps."""
    flags = flags_of(given)
    if resumed is not None:
        _start(_resume, given, flags, resumed, _prompt(prompt, given, needed=False))
        return
    text = _prompt(prompt, given, needed=True)
    if go_on:
        if session_id is not None:
            raise click.UsageError("--session-id names a new session, --continue goes on with a stored one.")
        _start(_continue, given, flags, text)
        return
    if not text.strip():  # said before anything is opened: nothing is stored of a session without a prompt
        raise failure(ErrorCode.INVALID_ARGUMENT, "The prompt is empty. Say what is to be done.")
    _start(_run, given, flags, text, session_id)


@click.command("resume")
@click.argument("name", metavar="ID")
@click.argument("prompt", required=False)
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option("--failed", is_flag=True, help="Continue the session's failed and truncated tasks as well.")
@session_options
def resume(name: str, prompt: str | None, dry_run: bool, failed: bool, **given: Any) -> None:
    """Continue what ID names: a session, a task, a run or a chain; a unique prefix or a label is enough.

    Model, base URL and operating mode come from the store unless they are given; the workspace always does.
    Without a PROMPT an unfinished or failed conversation is asked to continue.
    """
    text = _prompt(prompt, given, needed=False)
    _start(_resume, given, flags_of(given), name, text, dry_run=dry_run, failed=failed)


def _start(work: Callable[..., Awaitable[None]], *arguments: Any, **options: Any) -> None:
    make_unreadable()  # before the first tool runs: no child may read a key out of this process
    leave_on_signals()  # until the turn watches them itself, nothing has begun that would need an end
    trio.run(functools.partial(work, *arguments, **options))


def _prompt(given: str | None, options: dict[str, Any], *, needed: bool) -> str:
    """The prompt as text: from the command line, or standard input for `-` (and for `-p` without one)."""
    piped = sys.stdin is not None and not sys.stdin.isatty()
    if given == "-" or (given is None and needed and options.get("headless") and piped):
        return "" if sys.stdin is None else sys.stdin.buffer.read().decode("utf-8", "replace").strip()
    if given is None and needed:
        raise click.UsageError("Give a prompt, or `-` to read it from standard input.")
    # bytes of the command line that are not UTF-8 cannot be stored
    return (given or "").encode("utf-8", "surrogateescape").decode("utf-8", "replace")


async def _run(given: dict[str, Any], flags: dict[str, Any], prompt: str, session_id: str | None) -> None:
    loaded = _loaded(flags, workspace_of(given["workspace"]))
    prompts = _prompts(loaded, given)
    async with open_sqlite_store(loaded.settings.store_path) as store:
        job = Job(
            settings=attrs.evolve(loaded.settings, headless=prompts == "none"),
            store=store,
            work=lambda session: session.run(prompt),
            output_format=given["output_format"],
            prompts=prompts,
            session_id=session_id,
            hints=hints_of(flags),
        )
        await play(job)


async def _continue(given: dict[str, Any], flags: dict[str, Any], prompt: str) -> None:
    workspace = workspace_of(given["workspace"])
    async with existing_store(store_path(flags), ErrorCode.TASK_UNKNOWN) as store:
        row = await newest_session(store, workspace)
        if row is None:
            raise failure(
                ErrorCode.TASK_UNKNOWN,
                f"No session was on {workspace} yet. Start one: leave out --continue.",
            )
        found = Found("session", row.session_id, row.session_id)
        await _resume_found(store, found, given, flags, prompt, failed=False)


async def _resume(
    given: dict[str, Any],
    flags: dict[str, Any],
    name: str,
    prompt: str,
    *,
    dry_run: bool = False,
    failed: bool = False,
) -> None:
    async with existing_store(store_path(flags), ErrorCode.TASK_UNKNOWN) as store:
        found = await find(store, name, ErrorCode.TASK_UNKNOWN, workspace_of(given["workspace"]))
        if found.kind == "turn":
            raise failure(
                ErrorCode.INVALID_ARGUMENT,
                f"{found.id} is a turn. Resume its session: orchestrator resume {found.session_id}",
            )
        await _check_workspace(store, found, given["workspace"])
        plan = await _plan(store, found, prompt, failed)
        if dry_run:
            await refuse_a_held_one(store, found.session_id)
            say([plan])
            return
        await _resume_found(store, found, given, flags, prompt, failed=failed)


async def _check_workspace(store: Store, found: Found, given: str | None) -> None:
    row = await session_row(store, found.session_id)
    if given is not None and not same_folder(workspace_of(given), row.workspace):
        raise failure(
            ErrorCode.INVALID_ARGUMENT,
            f"{found.id} belongs to the workspace {row.workspace}, not to {workspace_of(given)}. "
            "Leave out -C.",
        )


async def _resume_found(
    store: Store, found: Found, given: dict[str, Any], flags: dict[str, Any], prompt: str, *, failed: bool
) -> None:
    row = await session_row(store, found.session_id)
    loaded = _loaded(flags, Path(row.workspace))
    prompts = _prompts(loaded, given)
    tightened = loaded.values["mode"] == "plan" and loaded.sources["mode"].startswith(row.workspace)
    stored = OperatingMode.PLAN if tightened else OperatingMode(row.mode)

    async def work(session: Session) -> TurnOutcome:
        if found.kind == "session":
            return await session.resume(prompt, failed=failed)
        return await session.resume_task(found.id, prompt)

    settings = attrs.evolve(
        loaded.settings,
        model=None if flags["model"] is None else loaded.settings.model,
        base_url=None if flags["base_url"] is None else loaded.settings.base_url,
        mode=loaded.settings.mode if flags["mode"] else stored,
        headless=prompts == "none",
    )
    job = Job(
        settings=settings,
        store=store,
        work=work,
        output_format=given["output_format"],
        prompts=prompts,
        resume=row.session_id,
        after=row.last_seq,
        hints=hints_of(flags),
    )
    _warn_of_another_mode(row.permission_mode, loaded)
    await play(job)


def _warn_of_another_mode(before: str, loaded: LoadedSettings) -> None:
    """The permission mode is the new command line's: one that nobody asked for now is said, first of all."""
    now = loaded.settings.permission_mode.value
    if now != before and not loaded.sources["permission_mode"].startswith("--"):
        warn(f"permission mode was {before}, is {now} now; pass --permission-mode {before} to keep it")


async def _plan(store: Store, found: Found, prompt: str, failed: bool) -> str:
    """What would be done, in words. A refusal leaves as `Failure`: nothing has been opened yet."""
    if found.kind == "session":
        return describe(_possible(await plan_stored(store, found.session_id, prompt, failed=failed)))
    rows = await store.tasks(found.session_id)
    row = next(row for row in rows if found.id in (row.task_id, row.run_id, row.chain_id))
    chain = _possible(await plan_stored_task(store, row, prompt))
    told = prompt or "Continue the task from where it stands."
    plan = ResumePlan(told, (chain,), await open_effects_of(store, row))
    return describe(plan).replace("the parent is told", f"{chain.label} is told")


def _possible(plan: T | ToolError) -> T:
    if isinstance(plan, ToolError):
        raise Failure(plan)
    return plan


def _loaded(flags: dict[str, Any], workspace: Path) -> LoadedSettings:
    loaded = load_settings(flags, environment(), workspace)
    open_log(loaded.settings.data_dir)
    for text in loaded.warnings:
        warn(text)
    return loaded


def _prompts(loaded: LoadedSettings, given: dict[str, Any]) -> str:
    """Where permission requests are answered: `terminal`, `inbox` or `none`."""
    chosen: str | None = loaded.values["permission_prompts"]
    if chosen is not None:
        return chosen
    person = all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))
    return "terminal" if person and given["output_format"] == "text" else "none"

"""The Python API: `open_session` and `run_sync`. The command line uses the same."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import trio

from agents.errors import ErrorCode, failure
from agents.models.base import Model
from agents.spec import AgentSpec, OperatingMode, PermissionMode
from orchestrator.approvals import ApproverSurface
from orchestrator.opening import Extras, open_settings, warn_on_stderr
from orchestrator.session import Session
from orchestrator.settings import Settings, default_data_dir
from orchestrator.store.base import Store
from orchestrator.turn import TurnOutcome
from telemetry.spans import leaf_exceptions

ModeT = TypeVar("ModeT", OperatingMode, PermissionMode)


@asynccontextmanager
async def open_session(
    workspace: str | os.PathLike[str] = ".",
    *,
    model: str | Model | None = None,
    base_url: str | None = None,
    agent: str = "main",
    mode: str | None = None,
    permission_mode: str = "ask",
    allow: Sequence[str] = (),
    deny: Sequence[str] = (),
    add_dirs: Sequence[str | os.PathLike[str]] = (),
    max_turns: int | None = None,
    max_delegates: int | None = None,
    max_depth: int | None = None,
    permission_timeout: float = 120.0,
    defer_tools: bool = True,
    approver: Any | None = None,
    inbox: bool = False,
    tools: Sequence[Any] = (),
    definitions: Sequence[AgentSpec] = (),
    store: str | os.PathLike[str] | Store | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    trace_file: str | os.PathLike[str] | None = None,
    resume: str | None = None,
    session_id: str | None = None,
    warn: Callable[[str], None] = warn_on_stderr,
) -> AsyncIterator[Session]:
    """A session on `workspace` for the block.

    `model` is `provider:name` (or a `Model` of your own); without it `ORCHESTRATOR_MODEL` counts. On a
    resume, model, base URL and mode (`agent` or `plan`) are the stored ones unless given. `approver` is an
    object with `async def approve(request) -> Answer | bool`; with `inbox` a request waits for `orchestrator
    approve`; without either, what would ask is denied.
    `tools` are functions with annotated arguments and a docstring. `store` is a file, or an open `Store`
    such as `MemoryStore`. With `defer_tools` the main agent activates all but the core tools by ToolSearch,
    anew for each prompt. `resume` is the id of a stored session. `permission_timeout` is in seconds.

    Raises `agents.errors.Failure`: MODEL_NOT_CONFIGURED, INVALID_ARGUMENT, AGENT_UNKNOWN, TASK_UNKNOWN,
    CHAIN_LOCKED, STORE_*.
    """
    environment = dict(os.environ)
    planning = permission_mode == "plan"  # as the command line takes it, too
    given: dict[str, Any] = {"max_turns": max_turns, "max_delegates": max_delegates, "max_depth": max_depth}
    name = model if isinstance(model, str) else None if model is None else model.name
    settings = Settings(
        workspace=_absolute(workspace),
        model=name or (environment.get("ORCHESTRATOR_MODEL") if resume is None else None),
        base_url=base_url,
        agent=agent,
        mode=_one_of(OperatingMode, "mode", "plan" if planning else mode or "agent"),
        mode_given=mode is not None or planning,
        permission_mode=_one_of(PermissionMode, "permission_mode", "ask" if planning else permission_mode),
        allow=tuple(allow),
        deny=tuple(deny),
        add_dirs=tuple(_absolute(added) for added in add_dirs),
        permission_timeout=permission_timeout,
        defer_tools=defer_tools,
        data_dir=default_data_dir(environment) if data_dir is None else _absolute(data_dir),
        store=_absolute(store) if isinstance(store, str | os.PathLike) else None,
        trace_file=None if trace_file is None else _absolute(trace_file),
        environment=environment,
        **{key: value for key, value in given.items() if value is not None},
    )
    extras = Extras(
        model=None if isinstance(model, str) else model,
        tools=tuple(tools),
        definitions=tuple(definitions),
        surface=None if approver is None else ApproverSurface(approver),
        inbox=inbox,
        store=None if isinstance(store, str | os.PathLike) else store,
        warn=warn,
    )
    with single_failures():
        async with open_settings(settings, extras, resume=resume, session_id=session_id) as session:
            yield session


def _one_of(kind: type[ModeT], name: str, value: str) -> ModeT:
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(repr(str(member)) for member in kind)
        raise failure(
            ErrorCode.INVALID_ARGUMENT, f"{name} cannot be {value!r}. Use one of {known}."
        ) from None


def run_sync(prompt: str, workspace: str | os.PathLike[str] = ".", **options: Any) -> TurnOutcome:
    """One prompt in a session of its own, for programs that are not async; options as `open_session`."""

    async def run() -> TurnOutcome:
        async with open_session(workspace, **options) as session:
            return await session.run(prompt)

    return trio.run(run)


def _absolute(path: str | os.PathLike[str]) -> Path:
    return Path(path).expanduser().absolute()


@contextmanager
def single_failures() -> Iterator[None]:
    """Let one exception leave as itself, not as the only leaf of the groups that nurseries wrap around it."""
    try:
        yield
    except BaseExceptionGroup as group:
        leaves = [leaf for leaf in leaf_exceptions(group) if not isinstance(leaf, trio.Cancelled)]
        if len(leaves) == 1:
            raise leaves[0] from leaves[0].__cause__
        raise

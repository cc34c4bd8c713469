"""`open_session`: everything a session stands on is opened, in order, and closed again in reverse."""

from __future__ import annotations

import contextlib
import inspect
import re
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio

from agents.definitions import Definitions
from agents.errors import ErrorCode, failure
from agents.models.base import Model
from agents.models.catalog import Models, open_models
from agents.outcome import Ending
from agents.rules.permission_rules import Rule, misnamed
from agents.shielding import shielded
from agents.spec import AgentSpec, OperatingMode
from agents.tools.base import Tool
from agents.tools.custom import tool_from_function
from agents.tools.processes import login_path_entries
from agents.tools.registry import native_tools
from orchestrator.approvals import Approvals, Grants, Surface
from orchestrator.assembly import TASK_FAMILY, Assembly, Modes
from orchestrator.crew import Crew
from orchestrator.desk import Desk
from orchestrator.feed import Feed
from orchestrator.inbox import Inbox
from orchestrator.interruption import close_interrupted
from orchestrator.premises import find_definitions, main_agent, require_directories, workspace_for
from orchestrator.reconcile import reconcile
from orchestrator.sending import Sending
from orchestrator.session import Session, wider_definitions
from orchestrator.settings import Settings
from orchestrator.store.base import SessionRow, Store
from orchestrator.store.sqlite import open_sqlite_store
from orchestrator.supervisor import Supervisor
from orchestrator.sweep import sweep
from orchestrator.telling import Untold
from telemetry.attributes import service_of_agent
from telemetry.export import open_export
from telemetry.records import SpanRef
from telemetry.settings import TelemetrySettings
from telemetry.spans import parse_traceparent
from telemetry.tracefile import TraceFileError

VERSION = "0.1.0"
SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")


def warn_on_stderr(text: str) -> None:
    print(text, file=sys.stderr)


@attrs.frozen(kw_only=True)
class Extras:
    """What a caller brings as objects instead of as settings."""

    model: Model | None = None
    """A model object; goes before `Settings.model`."""
    tools: tuple[Any, ...] = ()
    """Own tools: a function with annotated arguments becomes one."""
    definitions: tuple[AgentSpec, ...] = ()
    """Own delegates; they go before those found in files."""
    surface: Surface | None = None
    """Where permission requests are shown."""
    inbox: bool = False
    """Whether requests wait for an answer by id when nothing shows them."""
    store: Store | None = None
    """An open store, shared with others; else one is opened for the session."""
    warn: Callable[[str], None] = warn_on_stderr


@asynccontextmanager
async def open_settings(
    settings: Settings, extras: Extras, *, resume: str | None = None, session_id: str | None = None
) -> AsyncIterator[Session]:
    """Open a session for the block: a new one, or the stored one with id `resume`.

    Raises `Failure`: MODEL_NOT_CONFIGURED, INVALID_ARGUMENT (workspace, rules), STORE_*, CHAIN_LOCKED,
    TASK_UNKNOWN.
    """
    async with contextlib.AsyncExitStack() as stack:
        if extras.store is not None:
            store: Store = extras.store
        else:
            store = await stack.enter_async_context(open_sqlite_store(settings.store_path))
        row = await _stored(store, resume)
        settings = settings if row is None else _as_stored(settings, row)
        identity = row.session_id if row is not None else await _new_id(store, session_id)
        require_directories(settings)
        models = await stack.enter_async_context(
            open_models(
                settings.environment,
                base_url=settings.base_url,
                trace_requests=settings.trace_model_requests,
            )
        )
        model = extras.model or models.resolve(settings.model)
        telemetry = TelemetrySettings.from_environment(
            settings.environment,
            trace_file=settings.trace_file,
            services=settings.trace_services,
            service_version=VERSION,
        )
        await stack.enter_async_context(store.lease(identity))
        sending = Sending(store, identity)
        stack.push_async_callback(sending.finish)  # runs when the export has closed, under the lease
        try:
            sending.export = await stack.enter_async_context(open_export(telemetry, warn=extras.warn))
        except TraceFileError as unusable:
            raise failure(ErrorCode.INVALID_ARGUMENT, str(unusable)) from unusable
        await sweep(
            store,
            identity,
            workspace_of=lambda other: workspace_for(
                attrs.evolve(settings, workspace=Path(other.workspace), add_dirs=()), other.session_id
            ),
            telemetry=telemetry,
            warn=extras.warn,
        )
        nursery = await stack.enter_async_context(trio.open_nursery())
        session = await _assemble(
            _Grounds(settings, extras, store, models, model, sending, nursery),
            identity,
            telemetry.target,
            row,
        )
        inbox, watermarks = trio.CancelScope(), trio.CancelScope()
        nursery.start_soon(_receive, session, inbox)
        if sending.targets:
            nursery.start_soon(sending.keep, watermarks)
        try:
            yield session
        finally:
            with shielded("The end of the session"):
                await _close(session)
            inbox.cancel()
            watermarks.cancel()


@attrs.frozen
class _Grounds:
    """What a session stands on."""

    settings: Settings
    extras: Extras
    store: Store
    models: Models
    model: Model
    sending: Sending
    nursery: trio.Nursery


async def _assemble(grounds: _Grounds, identity: str, target: str | None, row: SessionRow | None) -> Session:
    settings, extras, store = grounds.settings, grounds.extras, grounds.store
    workspace = workspace_for(settings, identity)
    untold = Untold()
    if row is not None:
        untold = Untold(await reconcile(store, identity, workspace))
        await close_interrupted(store, identity)
        await grounds.sending.catch_up()
    tools = _tools(extras)
    definitions = _definitions(settings, extras, tuple(tools))
    approvals = Approvals(extras.surface, inbox=extras.inbox)
    feed = Feed(store, identity, grounds.sending)
    crew = Crew()
    for task in await store.tasks(identity):
        crew.restore(task)
    assembly = Assembly(
        session_id=identity,
        store=store,
        feed=feed,
        workspace=workspace,
        tools=tools,
        specs=definitions.specs,
        modes=Modes(settings.mode, settings.permission_mode),
        allow=tuple(Rule.parse(rule) for rule in settings.allow),
        deny=tuple(Rule.parse(rule) for rule in settings.deny),
        grants=Grants(),
        approver=approvals,
        permission_timeout=settings.permission_timeout,
        max_depth=settings.max_depth,
        environment=settings.environment,
        login_path=await login_path_entries(settings.environment),
        capture_content=settings.capture_content,
        service_of=service_of_agent,
        defer_tools=settings.defer_tools,
    )
    desk = Desk(
        session_id=identity,
        specs=definitions.specs,
        models=grounds.models,
        main_model=grounds.model,
        store=store,
        crew=crew,
        max_depth=settings.max_depth,
    )
    supervisor = Supervisor(assembly, crew, assembly.recovery, desk, settings.max_delegates, untold)
    session = Session(
        id=identity,
        settings=settings,
        store=store,
        assembly=assembly,
        supervisor=supervisor,
        approvals=approvals,
        main_spec=_main_spec(settings, definitions, tools, extras),
        main_model=grounds.model,
        nursery=grounds.nursery,
        inbound=_inbound(settings),
        warnings=(
            *(f"{d.path}: {d.message}" for d in definitions.diagnostics),
            *wider_definitions(definitions.specs.values(), settings.permission_mode),
            *misnamed((*settings.allow, *settings.deny), tools),
        ),
    )
    await session.announce(resumed=row is not None, trace_target=target)
    return session


async def _receive(session: Session, scope: trio.CancelScope) -> None:
    """Answers and orders from other processes, until `scope` is cancelled."""
    with scope:
        await Inbox(session.store, session.id, session.approvals, session.crew, session.stop).run()


async def _close(session: Session) -> None:
    """End what still runs, wait until it has settled, then end the subscriptions."""
    session.stop()
    for run in session.crew.running:
        run.cancel(Ending.ABORTED)
    for run in session.crew.all:
        await run.settled.wait()
    session.assembly.feed.close()
    await trio.to_thread.run_sync(session.assembly.helpers.close)
    await trio.to_thread.run_sync(session.assembly.workspace.remove_scratch)


async def _stored(store: Store, resume: str | None) -> SessionRow | None:
    if resume is None:
        return None
    row = await store.session(resume)
    if row is None:
        raise failure(
            ErrorCode.TASK_UNKNOWN,
            f"There is no session {resume!r} in {store.location}. List them with `orchestrator sessions`.",
        )
    return row


async def _new_id(store: Store, chosen: str | None) -> str:
    """The caller's id for a new session, if it is one: it also names a folder."""
    if chosen is None:
        return f"ses-{uuid.uuid4().hex[:12]}"
    if not SESSION_ID.match(chosen):
        raise failure(
            ErrorCode.INVALID_ARGUMENT,
            f"{chosen!r} cannot be a session's id: use up to 64 letters, digits, dots, dashes "
            "and underscores.",
        )
    if await store.session(chosen) is not None:
        raise failure(
            ErrorCode.INVALID_ARGUMENT,
            f"There is a session {chosen} already. Go on with it: `orchestrator resume {chosen}`.",
        )
    return chosen


def _as_stored(settings: Settings, row: SessionRow) -> Settings:
    """Model, base URL and mode come from the store unless given; the workspace always does."""
    return attrs.evolve(
        settings,
        workspace=Path(row.workspace),
        model=settings.model or row.model,
        base_url=settings.base_url or row.base_url,
        mode=settings.mode if settings.mode_given else OperatingMode(row.mode),
        agent=row.agent,
    )


def _tools(extras: Extras) -> dict[str, Tool]:
    tools = native_tools()
    for own in extras.tools:
        tool = own if not inspect.isroutine(own) else tool_from_function(own)
        if tool.name in tools:
            raise failure(
                ErrorCode.INVALID_ARGUMENT, f"There is a tool {tool.name!r} already. Give yours another name."
            )
        tools[tool.name] = tool
    return tools


def _definitions(settings: Settings, extras: Extras, known_tools: Sequence[str]) -> Definitions:
    found = find_definitions(settings, known_tools)
    own = {spec.name: spec for spec in extras.definitions}
    return attrs.evolve(found, specs={**own, **{k: v for k, v in found.specs.items() if k not in own}})


def _main_spec(
    settings: Settings, definitions: Definitions, tools: dict[str, Tool], extras: Extras
) -> AgentSpec:
    spec = main_agent(settings, definitions.specs)
    native = set(native_tools())
    own = tuple(name for name in tools if name not in native)
    family = TASK_FAMILY if settings.mode is OperatingMode.AGENT else ()
    return attrs.evolve(spec, tools=tuple(dict.fromkeys((*spec.tools, *own, *family))))


def _inbound(settings: Settings) -> SpanRef | None:
    """The W3C TRACEPARENT of the environment, in headless runs only."""
    header = settings.environment.get("TRACEPARENT", "")
    return parse_traceparent(header) if settings.headless and header else None

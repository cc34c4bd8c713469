"""`approvals`, `approve`, `deny`: the open permission requests of every session, and answers to them."""

from __future__ import annotations

import datetime
import os
import pwd
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import attrs
import click
import msgspec
import trio

from agents.errors import ErrorCode, Failure, ToolError, failure
from agents.requests import Answer, Decision, PermissionRequest
from agents.rules.preview import visible
from orchestrator.cli.leaving import Leave, Status, error_line
from orchestrator.cli.listing import say, say_json
from orchestrator.cli.lookup import existing_store, store_path
from orchestrator.cli.options import store_options
from orchestrator.cli.words import DECISIONS, counted, decided, seconds
from orchestrator.store.base import RequestRow, Store
from orchestrator.store.mail import AnswerRequest

SOURCE = "inbox"
LOOK_SECONDS = 0.5
"""How often `--watch` looks."""
TAKEN_SECONDS = 5.0
"""How long an answer is watched until the session has taken it."""
MAX_DIFF_LINES = 60


@attrs.frozen
class OpenRequest:
    """A request that somebody waits for now."""

    request: PermissionRequest
    behind: int
    """How many of its session stand in line after it."""
    pid: int
    """The process that waits."""

    def left_ms(self, now: datetime.datetime) -> int:
        """Milliseconds to its deadline; 0 once that is over."""
        deadline = datetime.datetime.fromisoformat(self.request.deadline)
        return max(0, round((deadline - now).total_seconds() * 1000))


@click.command("approvals")
@store_options
@click.option("--watch", is_flag=True, help="Go on: show requests as they come and how they are closed.")
def approvals(store: str | None, as_json: bool, watch: bool) -> None:
    """List the permission requests that wait for an answer, of all sessions, oldest first."""

    async def work(path: Path) -> None:
        if not watch and not await trio.Path(path).exists():
            return
        async with existing_store(path) as opened:
            if watch:
                await _watch(opened, as_json)
            else:
                await _list(opened, as_json)

    trio.run(work, store_path({"store": store}))


@click.command("approve")
@click.argument("name", metavar="ID")
@click.option("--session", "for_session", is_flag=True, help="Allow what the request offers for the session.")
@click.option("--commands", "for_commands", is_flag=True, help="Bash: just these commands for the session.")
@click.option("--store", metavar="PATH", help="The store's file.")
def approve(name: str, for_session: bool, for_commands: bool, store: str | None) -> None:
    """Allow the call that request ID asks for; a unique prefix is enough."""
    if for_session and for_commands:
        raise click.UsageError("--session covers more than --commands: give one of them.")

    def answer(request: PermissionRequest) -> Answer:
        if for_commands and not request.grant_commands:
            raise _not_offered(request, "--commands")
        if for_session and not request.grant:
            raise _not_offered(request, "--session")
        decision = Decision.ALLOW_SESSION if for_session or for_commands else Decision.ALLOW_ONCE
        return Answer(
            decision=decision, source=SOURCE, by=person(), scope="commands" if for_commands else "tool"
        )

    _answer(name, store, answer)


@click.command("deny")
@click.argument("name", metavar="ID")
@click.option("--message", metavar="TEXT", help="What to tell the model.")
@click.option("--store", metavar="PATH", help="The store's file.")
def deny(name: str, message: str | None, store: str | None) -> None:
    """Refuse the call that request ID asks for; a unique prefix is enough."""
    told = None if message is None else message.encode("utf-8", "replace").decode("utf-8")
    _answer(
        name,
        store,
        lambda request: Answer(decision=Decision.DENY, source=SOURCE, by=person(), feedback=told or None),
    )


def person() -> str:
    """The login name of whoever runs this, from the user database: no variable can change it."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def refuse(error: ToolError) -> NoReturn:
    """End the command because what was asked for is not possible now."""
    refused = error.code in (ErrorCode.CONFLICT, ErrorCode.TOOL_DENIED)
    if not refused:
        raise Failure(error)
    raise Leave(Status.REFUSED, error_line(error))


# answering


def _answer(name: str, store: str | None, answer: Callable[[PermissionRequest], Answer]) -> None:
    async def work(path: Path) -> None:
        async with existing_store(path) as opened:
            request = await _named(opened, name)
            given = answer(request)
            letter = AnswerRequest(session_id=request.session_id, request_id=request.id, answer=given)
            try:
                await opened.post(letter)
            except Failure as refused:
                refuse(refused.error)
            await _report(opened, request, given)

    trio.run(work, store_path({"store": store}))


async def _named(store: Store, name: str) -> PermissionRequest:
    """The request with this id, or the one open request whose id begins so."""
    rows = await store.requests(only_open=True)
    found = [row for row in rows if row.request.id == name]
    found = found or [row for row in rows if name and row.request.id.startswith(name)]
    if not found:
        found = [row for row in await store.requests() if name and row.request.id.startswith(name)]
    if not found:
        raise failure(
            ErrorCode.NOT_FOUND,
            f"There is no request {name!r} in {store.location}. List the open ones: orchestrator approvals",
        )
    if len(found) > 1:
        listed = ", ".join(row.request.id for row in found[:10])
        raise failure(ErrorCode.INVALID_ARGUMENT, f"{name!r} may be any of: {listed}. Give more of the id.")
    (row,) = found
    if row.decision is not None:
        refuse(_late(row))
    return row.request


def _late(row: RequestRow) -> ToolError:
    return ToolError(
        code=ErrorCode.CONFLICT,
        message=f"The request {row.request.id} is closed already: {closing(row)}. Nothing was changed; "
        "list the open ones with `orchestrator approvals`.",
    )


def _not_offered(request: PermissionRequest, option: str) -> Failure:
    return failure(
        ErrorCode.INVALID_ARGUMENT,
        f"The request {request.id} cannot be answered with {option}: that is not offered for this call. "
        f"Allow it once: orchestrator approve {request.id}",
    )


async def _report(store: Store, request: PermissionRequest, given: Answer) -> None:
    """Wait until the session has taken the answer, and say what became of the request."""
    with trio.move_on_after(TAKEN_SECONDS):
        while await store.holder(request.session_id) is not None:
            row = await _row(store, request)
            if row is not None and row.decision is not None:
                break
            await trio.sleep(0.05)
    row = await _row(store, request)
    if row is None or row.decision is None:
        await _not_taken(store, request)
        return
    if (row.decision, row.source) != (given.decision.value, given.source):
        refuse(_late(row))
    say([f"{request.id} ({request.tool} of {request.agent_label}): {_how(row.decision, given)}."])


def _how(decision: str, given: Answer) -> str:
    return decided(decision, "commands" if given.scope == "commands" else "session")


async def _not_taken(store: Store, request: PermissionRequest) -> None:
    holder = await store.holder(request.session_id)
    if holder is None:
        text = f"The process that waited for {request.id} has ended, and nothing was executed."
        step = f"Go on: orchestrator resume {request.session_id}"
        refuse(ToolError(code=ErrorCode.CONFLICT, message=f"{text} {step}"))
    say([f"{request.id}: the answer is left for process {holder.pid}, which has not taken it yet."])


async def _row(store: Store, request: PermissionRequest) -> RequestRow | None:
    rows = await store.requests(request.session_id)
    return next((row for row in rows if row.request.id == request.id), None)


def closing(row: RequestRow) -> str:
    """How a request was closed, by whom and when, in words."""
    how = DECISIONS.get(row.decision or "", row.decision or "open")
    who = row.source or ""
    if row.decided_by:
        who = f"{who}, {row.decided_by}"
    return f"{how} ({who})" + (f" at {row.closed}" if row.closed else "")


# listing


async def open_requests(store: Store) -> tuple[tuple[OpenRequest, ...], int]:
    """What somebody alive waits for, and how many requests dead processes have left open."""
    rows = await store.requests(only_open=True)
    holders = {session: await store.holder(session) for session in {row.request.session_id for row in rows}}
    waiting: list[OpenRequest] = []
    for index, row in enumerate(rows):
        holder = holders[row.request.session_id]
        if holder is not None:
            behind = sum(later.request.session_id == row.request.session_id for later in rows[index + 1 :])
            waiting.append(OpenRequest(row.request, behind, holder.pid))
    return tuple(waiting), len(rows) - len(waiting)


async def _list(store: Store, as_json: bool) -> None:
    waiting, left = await open_requests(store)
    now = datetime.datetime.now(datetime.UTC)
    if as_json:
        say_json(facts(one, now) for one in waiting)
        return
    for one in waiting:
        say([*drawn(one, now), ""])
    if not waiting:
        say(["Nothing waits for an answer."])
    if left:
        ended = f"{counted(left, 'request')} of ended processes cannot be answered any more"
        say([f"{ended}: they are closed when their sessions are resumed."])


async def _watch(store: Store, as_json: bool) -> NoReturn:
    known: dict[str, OpenRequest] = {}
    while True:
        waiting, _ = await open_requests(store)
        now = datetime.datetime.now(datetime.UTC)
        current = {one.request.id: one for one in waiting}
        for one in waiting:
            if one.request.id not in known:
                _tell(_json(facts(one, now)) if as_json else [*drawn(one, now), ""])
        for identifier in known.keys() - current.keys():
            row = await _row(store, known[identifier].request)
            decision = None if row is None else row.decision
            told = "the process that waited has ended" if row is None or decision is None else closing(row)
            closed = {"id": identifier, "closed": told, "decision": decision}
            _tell(_json(closed) if as_json else [f"{identifier}: {visible(told)}", ""])
        known = current
        await trio.sleep(LOOK_SECONDS)


def _tell(lines: Sequence[str]) -> None:
    say(lines)
    sys.stdout.flush()


def _json(value: Any) -> list[str]:
    return [msgspec.json.encode(value).decode("utf-8")]


def facts(one: OpenRequest, now: datetime.datetime) -> dict[str, Any]:
    """One open request as JSON: the request itself, with `leftMs`, `behind` and `pid` beside it."""
    request: dict[str, Any] = msgspec.to_builtins(one.request)
    return {**request, "leftMs": one.left_ms(now), "behind": one.behind, "pid": one.pid}


def drawn(one: OpenRequest, now: datetime.datetime) -> list[str]:
    """One open request for people: who, what, why, where, the whole command, and how to answer."""
    request = one.request
    head = f"{request.id}  {request.tool} · {request.risk} risk · {seconds(one.left_ms(now))} left"
    rows = [
        ("agent", " → ".join(request.agent_chain) or request.agent_label),
        ("session", f"{request.session_id} (process {one.pid})"),
        ("why", request.reason),
        ("outside", request.external_path),
        ("path", None if request.resolved_path == request.external_path else request.resolved_path),
        ("--session", request.grant and f"would allow {request.grant}"),
        ("--commands", " ; ".join(request.grant_commands)),
        ("behind it", f"{one.behind} more of this session" if one.behind else None),
    ]
    change = _change(request)
    told = [f"  {name.ljust(10)} {_one_line(value)}" for name, value in rows if value]
    answer = f"  answer     orchestrator approve {request.id} | orchestrator deny {request.id}"
    return [_one_line(head), *told[:4], *(f"  │ {line}" for line in change), *told[4:], answer]


def _change(request: PermissionRequest) -> list[str]:
    if request.diff is None:
        command = (request.arguments or {}).get("command")
        return visible(command if isinstance(command, str) else request.preview).split("\n")
    lines = visible(request.diff).splitlines()
    hidden = len(lines) - MAX_DIFF_LINES
    return lines if hidden <= 0 else [*lines[:MAX_DIFF_LINES], f"⟨{hidden} more lines; --json has them all⟩"]


def _one_line(text: str) -> str:
    return " ".join(visible(text).split("\n"))

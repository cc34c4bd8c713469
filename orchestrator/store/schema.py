"""The tables of the SQLite store, their version, and what to do with a file of another one. Pure."""

from __future__ import annotations

import attrs

from agents.errors import ErrorCode, ToolError

APPLICATION_ID = 0x6F726368
"""`orch`, in the file's header: what tells our file from any other SQLite database."""

_VERSION_1 = (
    """create table events (
        session_id text not null,
        seq integer not null,
        type text not null,
        ts text not null,
        turn_id text,
        task_id text,
        trace_id text,
        body text not null,
        span text,
        primary key (session_id, seq)
    )""",
    """create table sessions (
        session_id text primary key,
        workspace text not null,
        mode text not null,
        permission_mode text not null,
        model text not null,
        base_url text,
        agent text not null,
        created text not null
    ) without rowid""",
    """create table turns (
        turn_id text primary key,
        session_id text not null,
        idx integer not null,
        prompt text not null,
        status text not null,
        error_code text,
        text text not null,
        started text not null,
        finished text,
        trace_id text,
        span_id text,
        resumes_task text
    ) without rowid""",
    "create index turns_of_session on turns (session_id, idx)",
    """create table tasks (
        task_id text primary key,
        run_id text not null,
        chain_id text not null,
        session_id text not null,
        seq integer not null,
        turn_id text,
        agent_name text not null,
        label text not null,
        description text not null,
        prompt text not null,
        model text not null,
        parent_owner text not null,
        depth integer not null,
        resumes text,
        status text not null,
        started text not null,
        finished text,
        result text,
        delivered integer not null,
        trace_id text,
        span_id text
    ) without rowid""",
    "create index tasks_of_session on tasks (session_id, seq)",
    "create index tasks_of_chain on tasks (chain_id, seq)",
    "create index tasks_by_run on tasks (run_id)",
    "create index tasks_by_start on tasks (started)",
    """create table messages (
        session_id text not null,
        seq integer not null,
        message_id text not null,
        role text not null,
        turn_id text,
        task_id text,
        primary key (session_id, seq)
    ) without rowid""",
    """create table calls (
        call_id text primary key,
        session_id text not null,
        seq integer not null,
        turn_id text,
        task_id text,
        owner text not null,
        tool text not null,
        ok integer,
        error_code text,
        started text not null,
        finished text
    ) without rowid""",
    "create index calls_of_session on calls (session_id, seq)",
    """create table requests (
        request_id text primary key,
        session_id text not null,
        seq integer not null,
        body text not null,
        decision text,
        source text,
        wait_ms integer
    ) without rowid""",
    "create index requests_of_session on requests (session_id, seq)",
    "create index open_requests on requests (session_id) where decision is null",
    """create table grants (
        request_id text primary key,
        session_id text not null,
        seq integer not null,
        source text not null,
        granted text not null
    ) without rowid""",
    """create table effects (
        position integer primary key,
        effect_id text not null unique,
        session_id text not null,
        intent text not null,
        image text,
        ok integer,
        after_hash text,
        verdict text,
        at text not null,
        finished text
    )""",
    "create index effects_of_session on effects (session_id, position)",
    """create table leases (
        session_id text primary key,
        epoch integer not null,
        holder text,
        beat integer not null
    ) without rowid""",
)

_VERSION_2 = (
    """create table mail (
        position integer primary key,
        session_id text not null,
        kind text not null,
        target text not null,
        body text not null,
        posted text not null,
        taken integer not null default 0
    )""",
    "create index mail_of_session on mail (session_id, position)",
    "create unique index one_answer on mail (session_id, target) where kind = 'answer'",
    "alter table requests add column decided_by text",
    "alter table requests add column closed text",
    """update requests set closed = (
        select e.ts from events e
        where e.session_id = requests.session_id and e.type = 'permission.resolved'
            and json_extract(e.body, '$.payload.requestId') = requests.request_id
        order by e.seq desc limit 1
    ) where decision is not null""",
)
"""Letters to a session's holder, and when and by whom a request was closed."""

_VERSION_3 = (
    """create table exports (
        session_id text not null,
        target text not null,
        seq integer not null,
        primary key (session_id, target)
    ) without rowid""",
)
"""How far each place that spans are sent to has acknowledged a session's spans."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (_VERSION_1, _VERSION_2, _VERSION_3)
"""`MIGRATIONS[n]` leads from version n to n + 1; version 0 is an empty file. Published ones never change."""

VERSION = len(MIGRATIONS)


@attrs.frozen
class FileFacts:
    """What the header and the catalogue of a file say."""

    application_id: int
    user_version: int
    tables: int


def plan_upgrade(facts: FileFacts, location: str) -> tuple[str, ...] | ToolError:
    """The statements that bring a file to `VERSION`, in one transaction; or why it is not to be touched."""
    empty = facts == FileFacts(0, 0, 0)
    if not empty and facts.application_id != APPLICATION_ID:
        return unreadable(location, "it is a database of another program")
    if facts.user_version > VERSION:
        return ToolError(
            code=ErrorCode.STORE_TOO_NEW,
            message=f"The store {location} has version {facts.user_version}, this program knows {VERSION}; "
            "update orchestrator, or choose another file with --store PATH.",
            details={"path": location, "version": facts.user_version, "known": VERSION},
        )
    if facts.user_version == VERSION:
        return ()
    steps = tuple(sql for migration in MIGRATIONS[facts.user_version :] for sql in migration)
    return (*steps, f"pragma application_id = {APPLICATION_ID}", f"pragma user_version = {VERSION}")


def unreadable(location: str, why: str) -> ToolError:
    """STORE_UNREADABLE: the file stays as it is, and the message says what a person can do."""
    return ToolError(
        code=ErrorCode.STORE_UNREADABLE,
        message=f"The store {location} cannot be read: {why}. It was left untouched; "
        "run `orchestrator doctor` to salvage it, or move it away to start with a new one.",
        details={"path": location, "reason": why},
    )

"""The fault lab: a session in a process of its own is killed, resumed, perhaps killed again, and judged.

A round is told by its seed alone: where the process dies is named (`program` lists the steps) or is a moment
counted in commits. After every death the files must be whole; after the last resume everything must be done,
once, and nothing may be left.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import shutil
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import msgspec
import trio

from agents.events import (
    EffectsTold,
    Event,
    ModelResponded,
    TaskFinished,
    TaskStartedEvent,
    TurnFinished,
)
from agents.messages import Message
from agents.rules.effects import EffectIntent
from agents.rules.transcripts import for_request
from agents.tools.family import carries, snapshot
from orchestrator.store.base import Store
from orchestrator.store.projection import PROJECTED
from orchestrator.store.sqlite import open_sqlite_store
from telemetry.check import check_trace
from tests.faults.forks import Forks, open_forks
from tests.faults.program import PROMPT
from tests.faults.worker import ITEMS, NESTED, TOP, lay_out

SESSION = "ses-fault"
SECONDS = 60.0
"""No process of a round may take so long."""
USUAL_COMMITS = 260
"""About how many groups of events one undisturbed run stores: moments are drawn from so many."""


@attrs.define
class Ran:
    """One process, as it was seen from outside."""

    status: int
    """Exit status; the negative number of the signal that ended it."""
    seqs: list[int] = attrs.field(factory=list)
    """What it knew to be stored."""
    turn: dict[str, Any] | None = None
    failure: dict[str, Any] | None = None
    errors: str = ""

    @property
    def killed(self) -> bool:
        return self.status == -9


@attrs.define
class Round:
    """One session from its start to its judgement."""

    root: Path
    kills: Sequence[dict[str, Any]]
    """Where each process dies, in order; the last one, which is not killed, comes on top."""
    ran: list[Ran] = attrs.field(factory=list)
    faults: list[str] = attrs.field(factory=list)
    """What is wrong, in words; empty is good."""

    async def play(self, forks: Forks) -> list[str]:
        """Run it and judge it; what is wrong."""
        lay_out(self.root / "repo")
        for kill in (*self.kills, None):
            ran = await self._run(forks, kill)
            self.ran.append(ran)
            if ran.killed:
                self.faults += list(torn_files(self.root))
            elif ran.turn is None:
                why = f"({ran.status}): {ran.failure} {ran.errors[-2000:]}"
                self.faults.append(f"the process ended by itself {why}")
                return self.faults
        self.faults += [fault async for fault in _judge(self)]
        return self.faults

    async def _run(self, forks: Forks, kill: Mapping[str, Any] | None) -> Ran:
        out, err = self.root / f"out-{len(self.ran)}", self.root / f"err-{len(self.ran)}"
        with trio.fail_after(SECONDS):
            status = await forks.run({"root": str(self.root), "session": SESSION, "kill": kill}, out, err)
        ran = Ran(status, errors=err.read_text())
        for line in out.read_text().splitlines():
            word, _, told = line.partition(" ")
            if word == "seq":
                ran.seqs.append(int(told))
            elif word == "turn":
                ran.turn = json.loads(told)
            elif word == "failure":
                ran.failure = json.loads(told)
        return ran


# ── after a death ──────────────────────────────────────────────────────────────────────────────────────


def torn_files(root: Path) -> Iterator[str]:
    """Files that are neither as they were nor as they were to become."""
    for path, allowed in _expected_hashes(root).items():
        found = _hash(Path(path))
        if found not in allowed:
            yield f"{path} is torn: {found} is none of {allowed}"


def _expected_hashes(root: Path) -> dict[str, set[str | None]]:
    store = root / "data" / "store.sqlite3"
    if not store.exists():
        return {}
    expected: dict[str, set[str | None]] = {}
    for row in _rows(store, "select intent, ok, after_hash from effects order by position"):
        intent = msgspec.json.decode(row["intent"], type=EffectIntent)
        if intent.kind != "file":
            continue
        if row["ok"] is None:
            expected[intent.target] = {intent.before_hash, intent.planned_hash}
        elif row["ok"]:
            expected[intent.target] = {intent.planned_hash}
        else:
            expected[intent.target] = {intent.before_hash}
    return expected


def _hash(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return None


def _rows(store: Path, sql: str) -> list[sqlite3.Row]:
    with contextlib.closing(sqlite3.connect(store, timeout=10)) as connection:
        connection.row_factory = sqlite3.Row
        try:
            return list(connection.execute(sql))
        except sqlite3.OperationalError as missing:
            if "no such table" in str(missing):  # it died while the store was being made
                return []
            raise


# ── at the end ─────────────────────────────────────────────────────────────────────────────────────────


async def _judge(round_: Round) -> Any:
    root = round_.root
    turn = round_.ran[-1].turn or {}
    if turn.get("status") != "nothing to do" and (
        turn.get("status"),
        turn.get("recovery"),
        turn.get("locks"),
    ) != ("completed", True, 0):
        yield f"the last turn ended with {turn}"
    for fault in (*_left_over(root), *_work_done(root / "repo")):
        yield fault
    path = root / "data" / "store.sqlite3"
    for fault in (*_sound(path), *torn_files(root)):
        yield fault
    async with open_sqlite_store(path) as store:
        async for fault in _story(store, round_):
            yield fault
        before = _tables(path)
        await store.rebuild()
        if _tables(path) != before:
            yield "the tables rebuilt from the events are not those that were kept"


def _left_over(root: Path) -> Iterator[str]:
    """Temporary files and processes."""
    for temporary in (root / "repo").rglob(".orchestrator-*"):
        yield f"a temporary file is left: {temporary}"
    if (root / "data" / "scratch" / SESSION).exists():
        yield "the scratch directory is left"
    left = _processes_of(root)
    if left:
        time.sleep(0.5)  # the killed may still be dying
        yield from (f"a process is left: {member}" for member in left if member in _processes_of(root))


def _processes_of(root: Path) -> list[str]:
    marks = {"ORCHESTRATOR_SESSION_ID": SESSION}
    return [
        str(member)
        for pid, member in snapshot().items()
        if not member.dead and carries(pid, marks) and str(root) in _directory_of(pid)
    ]


def _directory_of(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/cwd").readlink())
    except OSError:
        return ""


def _work_done(repo: Path) -> Iterator[str]:
    """Every line stands exactly once in all files together, every move and deletion was made."""
    lines = Counter(
        line for file in repo.rglob("*") if file.is_file() for line in file.read_text().splitlines()
    )
    for item in ITEMS:
        wanted = 0 if item.kind in ("move", "delete", "task") else 1
        if lines[item.line] != wanted:
            yield f"{item.key} ({item.kind}) was done {lines[item.line]} times"
    for name in (*TOP, NESTED):
        found = sorted(
            str(path.relative_to(repo / name)) for path in (repo / name).rglob("*") if path.is_file()
        )
        if found != ["a.txt", "deep/er/c.txt", "moved.txt"]:
            yield f"{name} has the files {found}"


def _sound(path: Path) -> Iterator[str]:
    (checked,) = _rows(path, "pragma integrity_check")
    if checked[0] != "ok":
        yield f"the store is damaged: {checked[0]}"
    if _rows(path, "select 1 from leases where holder is not null"):
        yield "a lease was not released"
    kept = {file.name for file in path.with_name(f"{path.name}.blobs").rglob("*") if file.is_file()}
    named = {row["image"] for row in _rows(path, "select image from effects where image is not null")}
    if named - kept:
        yield f"before-images are missing: {named - kept}"


def _tables(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    return {table: sorted(map(tuple, _rows(path, f"select * from {table}")), key=repr) for table in PROJECTED}


async def _story(store: Store, round_: Round) -> Any:
    """What the store tells of the session."""
    events = await store.events(SESSION)
    if [event.seq for event in events] != list(range(1, len(events) + 1)):
        yield "the seqs have gaps"
    lost = {seq for ran in round_.ran for seq in ran.seqs} - {event.seq for event in events}
    if lost:
        yield f"acknowledged and lost: {sorted(lost)}"
    for fault in _settled_once(events):
        yield fault
    tasks = await store.tasks(SESSION)
    for row in (*tasks, *await store.turns(SESSION)):
        if row.status == "running":
            yield f"{row} still runs"
    if open_requests := await store.requests(SESSION, only_open=True):
        yield f"requests are open: {open_requests}"
    completed = {row.task_id for row in tasks if row.status == "completed"}
    if again := [row.label for row in tasks if row.resumes in completed]:
        yield f"completed and run again: {again}"
    open_calls = [call.call_id for call in await store.calls(SESSION) if call.ok is None]
    if open_calls:
        yield f"calls are open: {open_calls}"
    chains = {row.chain_id: [run.task_id for run in tasks if run.chain_id == row.chain_id] for row in tasks}
    conversations = {"main": await store.messages(SESSION, None)}
    for row in tasks:
        conversations[row.agent_name] = await store.messages(SESSION, chains[row.chain_id])
    if len(conversations) != len(chains) + 1:
        yield f"some delegate was started twice: {[row.label for row in tasks]}"
    for name, messages in conversations.items():
        for fault in (*_valid(name, messages), *_briefed(name, messages)):
            yield fault
    spent = sum(e.payload.usage.input_tokens for e in events if isinstance(e.payload, ModelResponded))
    told = sum(e.payload.usage.input_tokens for e in events if isinstance(e.payload, TurnFinished))
    if spent != told:
        yield f"the model calls took {spent} tokens, the turns say {told}"
    async for fault in _told_once(store, events, conversations):
        yield fault
    for problem in check_trace(await store.spans(SESSION)):
        yield f"the trace is not whole: {problem}"


def _settled_once(events: Sequence[Event]) -> Iterator[str]:
    started = Counter(e.payload.task_id for e in events if isinstance(e.payload, TaskStartedEvent))
    ended = Counter(e.payload.task_id for e in events if isinstance(e.payload, TaskFinished))
    if set(started.values()) - {1} or started != ended:
        yield f"tasks started {started}, settled {ended}"
    turns = Counter(e.turn_id for e in events if e.type == "turn.started")
    finished = Counter(e.turn_id for e in events if e.type == "turn.finished")
    if turns != finished:
        yield f"turns started {turns}, finished {finished}"
    settled = Counter(e.payload.owner for e in events if e.type == "run.settled")  # type: ignore[union-attr]
    if set(settled.values()) - {1} or len(settled) != len(started) + len(turns):
        yield f"runs settled {settled}"
    called = Counter(e.payload.call_id for e in events if e.type == "tool.started")  # type: ignore[union-attr]
    answered = Counter(e.payload.call_id for e in events if e.type == "tool.finished")  # type: ignore[union-attr]
    if called != answered:
        yield f"calls started and not finished, or twice: {called - answered} {answered - called}"


def _valid(name: str, messages: Sequence[Message]) -> Iterator[str]:
    """Every call is answered by what is stored; only neighbouring prompts are joined for the model."""
    joined: list[tuple[str, Any]] = []
    for message in messages:
        if message.role == "user" and joined and joined[-1][0] == "user":
            joined[-1] = ("user", joined[-1][1] + message.parts)
        else:
            joined.append((message.role, message.parts))
    sent = [(message.role, message.parts) for message in for_request(messages)]
    if sent != joined:
        yield f"the conversation of {name} is not valid as it is stored"


def _briefed(name: str, messages: Sequence[Message]) -> Iterator[str]:
    """Whatever happened, the agent was told what to do."""
    wanted = PROMPT if name == "main" else f"Do the work of {name}."
    if not any(wanted in message.text for message in messages if message.role == "user"):
        yield f"{name} was never told what to do"


async def _told_once(
    store: Store, events: Sequence[Event], conversations: Mapping[str, Sequence[Message]]
) -> Any:
    told = Counter(
        effect_id
        for event in events
        if isinstance(event.payload, EffectsTold)
        for effect_id in event.payload.effect_ids
    )
    judged = {row.intent.effect_id for row in await store.effects(SESSION) if row.verdict is not None}
    if await store.effects(SESSION, only_open=True):
        yield "effects are open"
    if set(told.values()) - {1} or set(told) != judged:
        yield f"effects judged {judged}, told {dict(told)}"
    heads = sum(
        part.text.count("What became of them:")
        for messages in conversations.values()
        for message in messages
        if message.role == "user"
        for part in message.parts
    )
    tellings = sum(isinstance(event.payload, EffectsTold) for event in events)
    if heads != tellings:
        yield f"{heads} messages tell of effects, {tellings} were noted"


# ── rounds ─────────────────────────────────────────────────────────────────────────────────────────────

NAMED: Mapping[str, Sequence[dict[str, Any]]] = {
    "before the session is stored": [{"step": "append", "side": "before"}],
    "session started": [{"step": "event", "type": "session.started"}],
    "turn started": [{"step": "event", "type": "turn.started"}],
    "first answer of the model": [{"step": "event", "type": "model.responded", "agent": "w1"}],
    "batch asked for": [{"step": "event", "type": "message.appended", "agent": "w2", "nth": 2}],
    "task started": [{"step": "event", "type": "task.started", "nth": 3}],
    "delegate of a delegate": [{"step": "event", "type": "tool.started", "agent": "n1", "nth": 2}],
    "call started": [{"step": "event", "type": "tool.started", "agent": "w1", "nth": 2}],
    "call finished": [{"step": "event", "type": "tool.finished", "agent": "w1", "nth": 3}],
    "intent of a file": [{"step": "intend", "kind": "file", "nth": 20}],
    "half a temporary file": [{"step": "temporary", "nth": 12}],
    "before the rename": [{"step": "rename", "side": "before", "nth": 4}],
    "after the rename": [{"step": "rename", "nth": 4}],
    "between link and unlink": [{"step": "link", "nth": 5}],
    "after a removal": [{"step": "unlink", "nth": 22}],
    "effect without a result": [{"step": "finish", "side": "before", "nth": 15}],
    "result without its event": [{"step": "finish", "nth": 15}],
    "intent of a command": [{"step": "intend", "kind": "shell", "nth": 2}],
    "command running": [{"step": "intend", "kind": "shell", "nth": 3, "delay": 0.02}],
    "command ended": [{"step": "finish", "side": "before", "nth": 4}],
    "task settled, not delivered": [{"step": "event", "type": "task.finished", "agent": "w3"}],
    "wait answered, not in the conversation": [
        {"step": "event", "type": "tool.finished", "tool": "TaskWait"}
    ],
    "turn finished": [{"step": "event", "type": "turn.finished"}],
    "twice before a delegate was told": [
        {"step": "event", "type": "task.started", "agent": "w3"},
        {"step": "event", "type": "task.started", "agent": "w3"},
        {"step": "event", "type": "task.started", "agent": "w3"},
    ],
    "again while judging": [{"step": "intend", "kind": "file", "nth": 9}, {"step": "judge"}],
    "again before the telling": [
        {"step": "intend", "kind": "file", "nth": 9},
        {"step": "event", "type": "turn.started"},
    ],
    "again after the telling": [
        {"step": "intend", "kind": "file", "nth": 9},
        {"step": "event", "type": "effects.told"},
    ],
}
"""The steps of the journal and of a run's life at which a process dies, by name."""


def random_kills(seed: int) -> list[dict[str, Any]]:
    """One to three deaths at places that the seed chooses."""
    chance = random.Random(seed)
    kills: list[dict[str, Any]] = []
    for number in range(chance.choice((1, 1, 2, 3))):
        most = USUAL_COMMITS if number == 0 else USUAL_COMMITS // 4
        kills.append(
            chance.choice(
                (
                    {
                        "step": "append",
                        "side": chance.choice(("before", "after")),
                        "nth": chance.randint(1, most),
                    },
                    {
                        "step": "append",
                        "side": chance.choice(("before", "after")),
                        "nth": chance.randint(1, most),
                    },
                    {"step": "intend", "side": "after", "nth": chance.randint(1, 50)},
                    {
                        "step": "finish",
                        "side": chance.choice(("before", "after")),
                        "nth": chance.randint(1, 50),
                    },
                    {"step": "temporary", "nth": chance.randint(1, 40)},
                    {"step": "time", "seconds": round(chance.uniform(0.01, 1.0), 3)},
                    {"step": "time", "seconds": round(chance.uniform(0.01, 1.0), 3)},
                    {
                        "step": "rename",
                        "side": chance.choice(("before", "after")),
                        "nth": chance.randint(1, 24),
                    },
                    {
                        "step": "link",
                        "side": chance.choice(("before", "after")),
                        "nth": chance.randint(1, 30),
                    },
                    {
                        "step": "intend",
                        "kind": "shell",
                        "nth": chance.randint(1, 8),
                        "delay": chance.random() * 0.05,
                    },
                )
            )
        )
    return kills


async def play_all(root: Path, rounds: Mapping[str, Sequence[dict[str, Any]]], workers: int) -> list[str]:
    """Play every round, each in a folder of its own below `root`; what is wrong, under the rounds' names.

    A folder is removed when nothing is wrong with its round.
    """
    wrong: list[str] = []
    send, receive = trio.open_memory_channel[tuple[str, Sequence[dict[str, Any]]]](len(rounds))
    for one in rounds.items():
        send.send_nowait(one)
    send.close()

    async def work() -> None:
        async with open_forks() as forks:
            async for name, kills in receive:
                folder = root / f"round-{random.getrandbits(40):010x}"
                faults = await Round(folder, kills).play(forks)
                if faults:
                    wrong.append("\n    ".join([f"{name}: {list(kills)}, kept in {folder}", *faults]))
                else:
                    await trio.to_thread.run_sync(shutil.rmtree, folder)

    async with trio.open_nursery() as nursery:
        for _ in range(workers):
            nursery.start_soon(work)
    return wrong

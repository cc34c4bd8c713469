"""The process that is killed: `python -m tests.faults.program JSON` works on one session and reports.

`JSON` is `{"root": folder, "session": id, "kill": null or where}`. One line per fact on standard output, each
written at once: `seq N` for an event that is on disk, `turn JSON` for how the turn ended.

`kill` names the step at which the process kills itself:

    {"step": "event", "type": "tool.finished", "nth": 3, "agent": "w1"}      after its commit, not yet known
    {"step": "append"|"intend"|"finish"|"judge", "side": "before"|"after", "nth": 2, "kind": "shell"}
    {"step": "temporary"}                   half of the temporary file is written
    {"step": "rename"|"link"|"unlink", "side": …}      around the effect on a file
    {"step": "time", "seconds": 0.5}        wherever it is then
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import trio

from agents import descriptors
from agents.errors import ErrorCode, Failure
from agents.events import Event, to_wire
from agents.rules.effects import EffectIntent, EffectResult, Verdict
from orchestrator.api import open_session
from orchestrator.session import Session
from orchestrator.store.base import Store
from orchestrator.store.sqlite import open_sqlite_store
from tests.faults.worker import Worker, definitions

PROMPT = "Do all the work."


def report(*words: object) -> None:
    os.write(1, (" ".join(str(word) for word in words) + "\n").encode())


@attrs.define
class Trap:
    """Where this process dies."""

    where: dict[str, Any]
    _count: int = 0

    @property
    def _nth(self) -> int:
        return int(self.where.get("nth", 1))

    def springs_next(self, step: str) -> bool:
        """Whether this process dies when it reaches `step` the next time."""
        return self.where.get("step") == step and self._count == self._nth - 1

    def reached(self, step: str, side: str = "after", **facts: object) -> None:
        """Die here, if this is the place."""
        wanted = self.where
        if wanted.get("step") != step or wanted.get("side", "after") != side:
            return
        if any(wanted.get(name, fact) != fact for name, fact in facts.items()):
            return
        self._count += 1
        if self._count == self._nth:
            delay = wanted.get("delay", 0)
            threading.Timer(delay, die).start() if delay else die()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class TrappedStore:
    """A store with a trap at its steps; everything else is the store's own."""

    def __init__(self, store: Store, trap: Trap) -> None:
        self._store = store
        self._trap = trap

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, events: Sequence[Event]) -> tuple[Event, ...]:
        self._trap.reached("append", "before")
        stored = await self._store.append(events)
        self._trap.reached("append")
        return stored

    async def intend(self, intent: EffectIntent) -> None:
        self._trap.reached("intend", "before", kind=intent.kind)
        await self._store.intend(intent)
        self._trap.reached("intend", kind=intent.kind)

    async def finish(self, result: EffectResult) -> None:
        self._trap.reached("finish", "before")
        await self._store.finish(result)
        self._trap.reached("finish")

    async def judge(self, effect_id: str, verdict: Verdict) -> None:
        self._trap.reached("judge", "before")
        await self._store.judge(effect_id, verdict)
        self._trap.reached("judge")


def set_traps(trap: Trap) -> None:
    """Around the effects on files: these are the process's own copies of the functions."""
    if trap.where.get("step") == "time":
        clock = threading.Timer(trap.where["seconds"], die)
        clock.daemon = True
        clock.start()
    write = descriptors.write_temporary

    def write_temporary(parent: int, name: str, data: bytes, like: Any) -> None:
        half = trap.springs_next("temporary")
        write(parent, name, data[: len(data) // 2] if half else data, like)
        trap.reached("temporary")

    descriptors.write_temporary = write_temporary
    descriptors.put_new = _trapped(descriptors.put_new, "link", trap)
    for name in ("rename", "unlink"):
        setattr(os, name, _trapped(getattr(os, name), name, trap, only="dir_fd"))


def _trapped(function: Callable[..., Any], step: str, trap: Trap, only: str = "") -> Callable[..., Any]:
    def trapped(*values: Any, **named: Any) -> Any:
        ours = not only or any(key.endswith(only) for key in named)  # below a checked directory
        if ours:
            trap.reached(step, "before")
        answer = function(*values, **named)
        if ours:
            trap.reached(step)
        return answer

    return trapped


async def main(order: dict[str, Any]) -> None:
    root = Path(order["root"])
    trap = Trap(order.get("kill") or {})
    set_traps(trap)

    def committed(events: Sequence[Event]) -> None:
        for event in events:
            report("seq", event.seq)
            agent = None if event.agent is None else event.agent.name
            wire = to_wire(event)
            trap.reached("event", type=event.type, agent=agent, tool=wire.get("tool"))

    async with open_sqlite_store(root / "data" / "store.sqlite3") as store:
        store.listen(committed)
        row = await store.session(order["session"])
        async with open_session(
            root / "repo",
            model=Worker(root / "calls.txt"),
            permission_mode="auto",
            definitions=definitions(),
            max_depth=2,
            data_dir=root / "data",
            store=TrappedStore(store, trap),
            **{"session_id" if row is None else "resume": order["session"]},
        ) as session:
            report("open")
            await work(session, row is not None and row.turns > 0)


async def work(session: Session, resuming: bool) -> None:
    try:
        outcome = await (session.resume() if resuming else session.run(PROMPT))
    except Failure as refused:
        if refused.error.code is not ErrorCode.TASK_NOT_RESUMABLE:
            raise
        report("turn", json.dumps({"status": "nothing to do", "why": refused.error.message}))
        return
    assembly = session.assembly
    told = {
        "status": outcome.status,
        "error": None if outcome.error is None else outcome.error.message,
        "recovery": assembly.recovery.is_empty,
        "locks": assembly.locks.held,
    }
    report("turn", json.dumps(told))


def run(order: dict[str, Any]) -> int:
    """The whole program; its exit status."""
    try:
        trio.run(main, order)
    except Failure as failed:
        report("failure", json.dumps({"code": failed.error.code, "message": failed.error.message}))
        return 1
    except Exception:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(run(json.loads(sys.argv[1])))

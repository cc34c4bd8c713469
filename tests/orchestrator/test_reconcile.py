"""Start-up after a crash: each open effect is compared once, judged, and told to the agent whose call it was."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import attrs
import pytest

from agents.events import (
    AgentRef,
    AnyPayload,
    EffectsTold,
    Event,
    MessageAppended,
    SessionStarted,
    ToolFinished,
    ToolStarted,
    TurnStarted,
)
from agents.messages import Message, Text, ToolCall
from agents.results import Waits
from agents.rules.effects import EffectIntent, EffectResult, Verdict
from agents.rules.transcripts import for_request
from agents.workspace import Workspace
from orchestrator.reconcile import examine, reconcile
from orchestrator.store.memory import MemoryStore
from orchestrator.telling import Untold, read_untold, told_text

OLD, NEW = b"old\n", b"new\n"
TEMPORARY = ".orchestrator-0123456789abcdef.tmp"


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "repo").mkdir()
    data = tmp_path / "data"
    return Workspace(tmp_path / "repo", scratch=data / "scratch/s1", data_dir=data, home=tmp_path / "home")


def intent(path: Path, **changes: Any) -> EffectIntent:
    """An intent to turn OLD into NEW at `path`."""
    given: dict[str, Any] = {
        "effect_id": f"effect-{path.name}",
        "session_id": "s1",
        "owner": "turn-1",
        "call_id": "call-1",
        "kind": "file",
        "target": str(path),
        "inside": True,
        "before_hash": sha(OLD),
        "planned_hash": sha(NEW),
        "temporary": str(path.parent / TEMPORARY),
        "shown": path.name,
    }
    return EffectIntent(**(given | changes))


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (NEW, Verdict.APPLIED),
        (OLD, Verdict.NOT_APPLIED),
        (b"else\n", Verdict.CHANGED_BY_SOMEONE_ELSE),
        (None, Verdict.CHANGED_BY_SOMEONE_ELSE),
    ],
)
def test_a_file_is_judged_by_what_it_holds_now(
    workspace: Workspace, found: bytes | None, verdict: Verdict
) -> None:
    path = workspace.root / "a.txt"
    if found is not None:
        path.write_bytes(found)
    assert examine(intent(path), workspace) is verdict


def test_a_new_file_that_is_not_there_was_not_made_and_a_removed_one_that_is_gone_was_removed(
    workspace: Workspace,
) -> None:
    path = workspace.root / "a.txt"
    assert examine(intent(path, before_hash=None), workspace) is Verdict.NOT_APPLIED
    assert examine(intent(path, planned_hash=None, temporary=None), workspace) is Verdict.APPLIED
    path.write_bytes(OLD)
    assert examine(intent(path, planned_hash=None, temporary=None), workspace) is Verdict.NOT_APPLIED


def test_a_command_is_unknown(workspace: Workspace) -> None:
    shell = intent(workspace.root / "x", kind="shell", target="make", temporary=None)
    assert examine(shell, workspace) is Verdict.UNKNOWN


def test_no_link_is_followed_neither_at_the_file_nor_on_the_way(workspace: Workspace, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.txt").write_bytes(NEW)
    (workspace.root / "a.txt").symlink_to(outside / "a.txt")
    (workspace.root / "sub").symlink_to(outside)
    for path in (workspace.root / "a.txt", workspace.root / "sub/a.txt"):
        assert examine(intent(path), workspace) is Verdict.CHANGED_BY_SOMEONE_ELSE


def test_a_directory_in_the_files_place_is_somebody_elses_change(workspace: Workspace) -> None:
    (workspace.root / "a.txt").mkdir()
    assert examine(intent(workspace.root / "a.txt"), workspace) is Verdict.CHANGED_BY_SOMEONE_ELSE


def test_a_file_on_the_deny_list_is_not_opened(workspace: Workspace) -> None:
    path = workspace.root / ".env"
    path.write_bytes(NEW)
    assert examine(intent(path), workspace) is Verdict.UNKNOWN


def test_a_file_outside_the_workspace_is_compared_too(workspace: Workspace, tmp_path: Path) -> None:
    path = tmp_path / "outside.txt"
    path.write_bytes(NEW)
    assert examine(intent(path, inside=False), workspace) is Verdict.APPLIED


def test_the_temporary_file_is_removed_and_nothing_else_ever_is(workspace: Workspace, tmp_path: Path) -> None:
    path = workspace.root / "a.txt"
    path.write_bytes(OLD)
    own = workspace.root / TEMPORARY
    own.write_bytes(b"ne")
    examine(intent(path), workspace)
    assert not own.exists()
    elsewhere = tmp_path / TEMPORARY
    named = workspace.root / "precious.tmp"
    linked = workspace.root / TEMPORARY
    for kept in (elsewhere, named):
        kept.write_bytes(b"keep")
    linked.symlink_to(named)
    for temporary in (elsewhere, named, linked):
        examine(intent(path, temporary=str(temporary)), workspace)
    assert elsewhere.exists()
    assert named.exists()
    assert linked.is_symlink()


# ── the whole start-up ─────────────────────────────────────────────────────────────────────────────────


@attrs.define
class Crashed:
    """A session whose main agent was in the middle of a batch."""

    store: MemoryStore = attrs.field(factory=MemoryStore)

    async def add(self, *payloads: AnyPayload) -> None:
        main = AgentRef(id="turn-1", name="main", label="main", depth=0)
        await self.store.append(
            [
                Event(
                    session_id="s1",
                    turn_id="turn-1",
                    agent=main,
                    task_id=None,
                    payload=payload,
                    ts="2026-01-01T00:00:00.000Z",
                )
                for payload in payloads
            ]
        )

    async def begin(self, *asked: ToolCall) -> None:
        started = SessionStarted(
            workspace="/w", mode="agent", permission_mode="auto", model="m", resumed=False
        )
        await self.add(
            started,
            TurnStarted(prompt="Go", index=0),
            MessageAppended(message=Message(id="m1", role="user", parts=(Text(text="Go"),))),
            MessageAppended(message=Message(id="m2", role="assistant", parts=asked)),
        )

    async def texts(self) -> list[str]:
        messages = await self.store.messages("s1", None)
        assert for_request(messages) == messages
        return [result.text for result in messages[-1].results]


def asked(number: int, tool: str) -> ToolCall:
    return ToolCall(call_id=f"call-{number}", tool=tool, arguments={})


def start(number: int, tool: str) -> ToolStarted:
    return ToolStarted(call_id=f"call-{number}", tool=tool, arguments={})


def end(number: int, tool: str, result: Any) -> ToolFinished:
    return ToolFinished(
        call_id=f"call-{number}",
        tool=tool,
        ok=True,
        terminate=False,
        duration_ms=1,
        waits=Waits(),
        result=result,
    )


async def test_every_call_gets_one_answer_that_says_what_is_known(workspace: Workspace) -> None:
    crashed = Crashed()
    tools = ("Read", "Edit", "Write", "Bash", "Bash", "Task", "Write")
    await crashed.begin(*(asked(number, tool) for number, tool in enumerate(tools)))
    await crashed.add(
        start(0, "Read"),
        end(
            0,
            "Read",
            {"path": "a", "root": "workspace", "content": "1:x", "tag": "ABCD", "offset": 1}
            | {"lineCount": 1, "totalLines": 1, "fileBytes": 1, "encoding": "utf-8", "newline": "\n"}
            | {"truncated": False},
        ),
        *(start(number, tools[number]) for number in range(1, 6)),
    )
    done, open_ = workspace.root / "done.txt", workspace.root / "open.txt"
    open_.write_bytes(NEW)
    await crashed.store.intend(intent(done, call_id="call-1"))
    await crashed.store.finish(EffectResult(effect_id="effect-done.txt", ok=True, after_hash=sha(NEW)))
    await crashed.store.intend(intent(open_, call_id="call-2"))
    await crashed.store.intend(intent(done, effect_id="e3", kind="shell", target="make", call_id="call-3"))
    await reconcile(crashed.store, "s1", workspace)
    read, edited, written, made, unmade, task, never = await crashed.texts()
    assert read.endswith("--- content\n1:x")
    assert '"effects":[{"target":"done.txt","finding":"done"}]' in edited
    assert '"effects":[{"target":"open.txt","finding":"applied"}]' in written
    assert "not known whether the command ran" in made
    assert "had not been started" in unmade
    assert "TaskList" in task
    assert "Not executed" in never


async def test_a_second_start_answers_and_judges_nothing_again(workspace: Workspace) -> None:
    crashed = Crashed()
    await crashed.begin(asked(1, "Edit"))
    await crashed.add(start(1, "Edit"))
    path = workspace.root / "a.txt"
    path.write_bytes(NEW)
    await crashed.store.intend(intent(path))
    first = await reconcile(crashed.store, "s1", workspace)
    path.write_bytes(b"changed later\n")
    assert await reconcile(crashed.store, "s1", workspace) == first
    assert [effect.text for effect in first] == ["Edit of a.txt: applied"]
    assert [message.role for message in await crashed.store.messages("s1", None)] == [
        "user",
        "assistant",
        "tool",
    ]


async def test_a_wait_that_had_its_results_hands_them_over_with_its_answer(workspace: Workspace) -> None:
    crashed = Crashed()
    await crashed.begin(asked(1, "TaskWait"))
    report = {
        "taskId": "task-1",
        "runId": "run-1",
        "chainId": "chain-1",
        "agent": "fixer",
        "label": "fixer#1",
    }
    figures = {
        "status": "completed",
        "report": "All good.",
        "turns": 1,
        "toolCalls": 0,
        "usage": {},
        "durationMs": 1,
    }
    rest = {"waits": {}, "filesChanged": [], "resumable": True}
    await crashed.add(
        start(1, "TaskWait"),
        end(1, "TaskWait", {"results": [report | figures | rest], "running": [], "timedOut": False}),
    )
    await reconcile(crashed.store, "s1", workspace)
    (text,) = await crashed.texts()
    assert text.endswith("--- fixer#1 (task-1) report\nAll good.")
    events = await crashed.store.events("s1")
    assert events[-1].type == "results.delivered"


async def test_what_was_told_is_told_once_also_after_another_crash(workspace: Workspace) -> None:
    crashed = Crashed()
    await crashed.begin(asked(1, "Edit"))
    await crashed.store.intend(intent(workspace.root / "a.txt"))
    (effect,) = await reconcile(crashed.store, "s1", workspace)
    assert await read_untold(crashed.store, "s1") == (effect,)
    await crashed.add(EffectsTold(effect_ids=(effect.effect_id,)))
    assert await read_untold(crashed.store, "s1") == ()


async def test_each_agent_is_told_of_its_own_effects_only(workspace: Workspace) -> None:
    crashed = Crashed()
    await crashed.begin()
    for owner in ("turn-1", "run-1"):
        await crashed.store.intend(intent(workspace.root / f"{owner}.txt", owner=owner))
    untold = Untold(await reconcile(crashed.store, "s1", workspace))
    (mine,) = untold.of({"run-1"})
    assert "run-1.txt" in told_text((mine,))
    untold.told((mine,))
    assert untold.of({"run-1"}) == ()
    assert [effect.owner for effect in untold.all] == ["turn-1"]


async def test_a_long_command_is_told_in_part_and_on_one_line(workspace: Workspace) -> None:
    crashed = Crashed()
    await crashed.begin()
    command = "echo one\n" + "x" * 5000
    await crashed.store.intend(intent(workspace.root / "x", kind="shell", target=command, temporary=None))
    (effect,) = await reconcile(crashed.store, "s1", workspace)
    assert len(effect.text) < 400
    assert "\n" not in effect.text


def test_reconciling_needs_no_right_to_write_where_the_file_is(workspace: Workspace) -> None:
    folder = workspace.root / "locked"
    folder.mkdir()
    (folder / "a.txt").write_bytes(NEW)
    (folder / TEMPORARY).write_bytes(b"")
    folder.chmod(0o500)
    try:
        assert examine(intent(folder / "a.txt"), workspace) is Verdict.APPLIED
    finally:
        folder.chmod(0o700)
    assert os.listdir(workspace.root) == ["locked"]

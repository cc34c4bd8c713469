"""A model that works until everything is done exactly once, whatever the processes under it went through.

It remembers nothing: each answer is worked out from the conversation alone. It believes what it is told: a
change that it is told was made is not made again, one that was not made is made again, and where the answer
is "unknown" it looks first. So a wrong verdict, a lost or doubled effect shows in the files at the end.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import attrs
import trio

from agents.errors import ErrorCode, failure
from agents.messages import Message, ToolResult, Usage
from agents.models.base import CallChunk, Chunk, FinishChunk, ModelRequest, TextChunk
from agents.models.placeholders import head
from agents.spec import AgentSpec

TOP = ("w1", "w2", "w3", "w4", "w5")
NESTED = "n1"
"""The delegate of w5."""
LOG = "log.txt"
SHARED = "shared.txt"
MAX_TURNS = 60


@attrs.frozen
class Item:
    """One thing that shall be done exactly once."""

    key: str
    kind: Literal["write", "append", "move", "delete", "bash", "task"]
    path: str = ""
    to: str = ""

    @property
    def line(self) -> str:
        """What tells that it was done: a whole line of a file."""
        return f"[{self.key}]"


def _own(name: str) -> list[list[Item]]:
    """The stages of one delegate: what stands in one stage is asked for in one batch."""
    return [
        [
            Item(f"{name}.0", "write", f"{name}/a.txt"),
            Item(f"{name}.1", "write", f"{name}/b.txt"),
            Item(f"{name}.2", "bash"),
            Item(f"{name}.3", "write", f"{name}/deep/er/c.txt"),
        ],
        [Item(f"{name}.4", "append", f"{name}/a.txt"), Item(f"{name}.5", "append", f"{name}/b.txt")],
        [Item(f"{name}.6", "append", SHARED)],
        [Item(f"{name}.7", "move", f"{name}/b.txt", f"{name}/moved.txt"), Item(f"{name}.8", "bash")],
        [Item(f"{name}.9", "delete", f"{name}/gone.txt"), Item(f"{name}.10", "append", f"{name}/a.txt")],
    ]


PLANS: Mapping[str, list[list[Item]]] = {
    "main": [
        [Item("main.0", "write", "main.txt")],
        [Item(name, "task") for name in TOP],
        [Item("main.1", "append", "main.txt"), Item("main.2", "bash")],
    ],
    **{name: _own(name) for name in TOP[:-1]},
    TOP[-1]: [[Item(NESTED, "task")], *_own(TOP[-1])],
    NESTED: _own(NESTED),
}
ITEMS = [item for stages in PLANS.values() for stage in stages for item in stage]


def lay_out(workspace: Path) -> None:
    """The files that are there before."""
    workspace.mkdir(parents=True)
    (workspace / SHARED).write_text("shared\n")
    for name in (*TOP, NESTED):
        (workspace / name).mkdir()
        (workspace / name / "gone.txt").write_text("to be deleted\n")


def definitions() -> tuple[AgentSpec, ...]:
    """The delegates; the last one delegates itself."""
    tools = ("Read", "Write", "Edit", "Bash")
    return tuple(
        AgentSpec(
            name=name,
            description=f"Does the work of {name}.",
            prompt="Do your part.",
            tools=(*tools, "Task") if name == TOP[-1] else tools,
        )
        for name in (*TOP, NESTED)
    )


class Worker:
    """The model. `calls` is a file that gets one line per request, whatever becomes of its process."""

    name = "test:worker"
    provider = "test"

    def __init__(self, calls: Path) -> None:
        self._calls = calls

    def respond(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[Chunk]]:
        return self._respond(request)

    @asynccontextmanager
    async def _respond(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[Chunk]]:
        descriptor = os.open(self._calls, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(descriptor, f"{request.agent_label}\n".encode())
        os.close(descriptor)
        if sum(message.role == "assistant" for message in request.messages) > MAX_TURNS:
            raise failure(ErrorCode.PROVIDER_ERROR, "The worker does not come to an end.")
        async with aclosing(_stream(_answer(request))) as chunks:
            yield chunks


async def _stream(chunks: list[Chunk]) -> AsyncGenerator[Chunk, None]:
    for chunk in chunks:
        await trio.lowlevel.checkpoint()
        yield chunk


def _answer(request: ModelRequest) -> list[Chunk]:
    calls, text = _Mind(request.agent_name, request.messages).next()
    chunks: list[Chunk] = [TextChunk(text)]
    chunks += [
        CallChunk(tool=tool, arguments=arguments, provider_call_id=f"c{number}")
        for number, (tool, arguments) in enumerate(calls)
    ]
    return [*chunks, FinishChunk("tool_calls" if calls else "stop", Usage(input_tokens=10, output_tokens=5))]


Call = tuple[str, dict[str, Any]]


@attrs.define
class _Mind:
    name: str
    messages: tuple[Message, ...]

    def next(self) -> tuple[list[Call], str]:
        """The next batch, or the last word."""
        looked = self._looked()
        for stage in PLANS[self.name]:
            state = {item.key: self._state(item, looked) for item in stage}
            if "unknown" in state.values():
                return list(self._looks(item for item in stage if state[item.key] == "unknown")), "Looking."
            open_ones = [item for item in stage if state[item.key] in ("open", "half")]
            if open_ones:
                halves = {item.key for item in open_ones if state[item.key] == "half"}
                return self._batch(open_ones, halves), "Working."
            if any(item.kind == "task" for item in stage):
                waiting = self._await_tasks(stage)
                if waiting:
                    return waiting, "Waiting."
        return [], f"Everything of {self.name} is done."

    # what has been done

    def _state(self, item: Item, looked: Mapping[str, str]) -> str:
        """`done`, `open`, `half` of a move, or `unknown` until somebody has looked."""
        answers = [(asked, result) for asked, result in self._answers() if _is_for(asked, item)]
        if not answers:
            return "open"
        (_, arguments), result = answers[-1]
        if result.ok:
            return "done"
        error = head(result.text).get("error", {})
        if error.get("code") != "INTERRUPTED":
            return "open"
        effects = error.get("details", {}).get("effects", [])
        findings = [effect["finding"] for effect in effects]
        if item.kind == "task" or (item.kind == "bash" and findings):
            return looked.get(item.key, "unknown")
        if item.kind == "move" and findings and arguments["ops"][0]["op"] == "moveFile":
            return self._moved(findings)
        if not findings or findings[-1] == "failed" or findings[-1].startswith("not applied"):
            return "half" if item.kind == "move" and arguments["ops"][0]["op"] == "deleteFile" else "open"
        return "done" if findings[-1] in ("done", "applied") else "unknown"

    @staticmethod
    def _moved(findings: list[str]) -> str:
        """A move writes the new file, then removes the old one."""
        made = [finding in ("done", "applied") for finding in findings]
        return "done" if made == [True, True] else "half" if made[:1] == [True] else "open"

    def _looked(self) -> Mapping[str, str]:
        """What the latest looks, after the latest interruption, have shown."""
        found: dict[str, str] = {}
        for (tool, arguments), result in self._answers(since=self._newest_user()):
            if tool == "Read" and arguments["path"] == LOG:
                for item in ITEMS:
                    if item.kind == "bash":
                        found[item.key] = "done" if item.line in result.text else "open"
            if tool == "TaskList" and result.ok:
                names = {task["agent"] for task in head(result.text)["tasks"]}
                for item in ITEMS:
                    if item.kind == "task":
                        found[item.key] = "done" if item.key in names else "open"
        return found

    def _newest_user(self) -> int:
        return max(at for at, message in enumerate(self.messages) if message.role == "user")

    def _answers(self, since: int = 0) -> Iterator[tuple[Call, ToolResult]]:
        asked = {call.call_id: call for message in self.messages for call in message.calls}
        for message in self.messages[since:]:
            for result in message.results:
                call = asked[result.call_id]
                yield (call.tool, call.arguments), result

    # what to do

    def _looks(self, items: Iterator[Item]) -> Iterator[Call]:
        kinds = {item.kind for item in items}
        if "bash" in kinds:
            yield "Read", {"path": LOG}
        if "task" in kinds:
            yield "TaskList", {}
        if kinds - {"bash", "task"}:
            raise failure(ErrorCode.PROVIDER_ERROR, f"Nobody but us changes these files: {kinds}.")

    def _batch(self, items: list[Item], halves: set[str]) -> list[Call]:
        tags = self._tags()
        edited = {item.path for item in items if item.kind in ("append", "move", "delete")}
        missing = sorted(edited - set(tags))
        if missing:
            return [("Read", {"path": path}) for path in missing]
        return [
            _call(attrs.evolve(item, kind="delete") if item.key in halves else item, tags) for item in items
        ]

    def _tags(self) -> dict[str, str]:
        """The tags of the files that the newest message shows."""
        return {
            arguments["path"]: head(result.text)["tag"]
            for (tool, arguments), result in self._answers(since=len(self.messages) - 1)
            if tool == "Read" and result.ok
        }

    def _await_tasks(self, stage: list[Item]) -> list[Call]:
        """Wait for the delegates that are not reported as completed; continue those that ended otherwise."""
        status = self._status_of_tasks()
        if all(status.get(item.key, ("", ""))[0] == "completed" for item in stage):
            return []
        ended = [
            item for item in stage if status.get(item.key, ("running", ""))[0] not in ("running", "completed")
        ]
        if ended:
            return [
                ("Task", {"subagent_type": one.key, "prompt": "Go on.", "resume": status[one.key][1]})
                for one in ended
            ]
        return [("TaskWait", {"timeoutSeconds": 60})]

    def _status_of_tasks(self) -> dict[str, tuple[str, str]]:
        """By agent: the newest status and task id in the conversation."""
        asked = {call.call_id: call for message in self.messages for call in message.calls}
        status: dict[str, tuple[str, str]] = {}
        for message in self.messages:
            for result in message.results:
                call = asked[result.call_id]
                if call.tool == "Task" and result.ok:
                    task_id = head(result.text)["taskId"]
                    status[call.arguments["subagent_type"]] = ("running", task_id)
            texts = [result.text for result in message.results]
            texts += [message.text] if message.role == "user" else []
            for report in _reports("\n".join(texts)):
                status[report["agent"]] = (report["status"], report["taskId"])
        return status


def _reports(text: str) -> Iterator[dict[str, Any]]:
    """Every TaskResult in a text, in order."""
    for line in text.splitlines():
        if not line.startswith("{"):
            continue
        found = json.loads(line)
        for report in found.get("results", [found]):
            if {"agent", "status", "chainId"} <= set(report):
                yield report


def _is_for(asked: Call, item: Item) -> bool:
    tool, arguments = asked
    if item.kind == "task":
        return tool == "Task" and arguments["subagent_type"] == item.key
    if tool not in ("Write", "Edit", "Bash"):
        return False
    if item.kind in ("move", "delete"):
        return tool == "Edit" and arguments["path"] == item.path and _file_op(arguments)
    return item.line in json.dumps(arguments)


def _file_op(arguments: dict[str, Any]) -> bool:
    return any(op["op"] in ("moveFile", "deleteFile") for op in arguments["ops"])


def _call(item: Item, tags: Mapping[str, str]) -> Call:
    match item.kind:
        case "write":
            return "Write", {"path": item.path, "content": f"{item.line}\n"}
        case "append":
            return _edit(item.path, tags, {"op": "append", "text": item.line})
        case "move":
            return _edit(item.path, tags, {"op": "moveFile", "to": item.to})
        case "delete":
            return _edit(item.path, tags, {"op": "deleteFile"})
        case "bash":
            return "Bash", {"command": f"echo '{item.line}' >> {LOG}; sleep 9 >/dev/null 2>&1 & sleep 0.03"}
        case "task":
            return "Task", {"subagent_type": item.key, "prompt": f"Do the work of {item.key}."}


def _edit(path: str, tags: Mapping[str, str], op: dict[str, Any]) -> Call:
    return "Edit", {"path": path, "tag": tags[path], "ops": [op]}

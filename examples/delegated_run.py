"""A parent hands two tasks to delegates that work side by side, and judges what came back."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import trio

import orchestrator
from agents.events import TaskFinished, TaskStartedEvent, ToolFinished
from agents.models.script import read_script
from agents.models.scripted import ScriptedModel


def replace(path: str, line: int, text: str) -> dict[str, Any]:
    """An Edit call: the tag is the one that the agent's last Read of the file returned."""
    operation = {"op": "replace", "start": line, "text": text}
    return {"tool": "Edit", "arguments": {"path": path, "tag": f"${{tag:{path}}}", "ops": [operation]}}


def fixer(path: str, line: int, text: str) -> list[dict[str, Any]]:
    """What one delegate does: look, change, report."""
    return [
        {"calls": [{"tool": "Read", "arguments": {"path": path}}]},
        {"calls": [replace(path, line, text)]},
        {"text": f"{path}: line {line} now says {text!r}."},
    ]


def task(prompt: str) -> dict[str, Any]:
    return {"tool": "Task", "arguments": {"subagent_type": "fixer", "prompt": prompt}}


SCRIPT = {
    "agents": {
        "main": [
            {"calls": [task("Greet politely in greeting.py"), task("Say goodbye in parting.py")]},
            {"calls": [{"tool": "TaskWait", "arguments": {}}]},
            {"text": "Both files are changed as you asked."},
        ],
        "fixer#1": fixer("greeting.py", 1, 'print("Good morning")'),
        "fixer#2": fixer("parting.py", 1, 'print("Goodbye")'),
    }
}


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "greeting.py").write_text('print("Hey")\n')
        (root / "parting.py").write_text('print("Bye")\n')
        model = ScriptedModel(read_script(SCRIPT, "delegated run"))
        async with (
            orchestrator.open_memory_store() as store,
            orchestrator.open_session(
                root, model=model, permission_mode="accept-edits", store=store, data_dir=root / ".data"
            ) as session,
            session.events() as events,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(tell, events)
            outcome = await session.run("Be more polite in both files.")
            nursery.cancel_scope.cancel()
        print(f"\n{outcome.status}: {outcome.text}")
        for change in outcome.files_changed:
            print(f"{change.change} {change.path}: {(root / change.path).read_text().strip()}")


async def tell(events: trio.MemoryReceiveChannel[orchestrator.Event]) -> None:
    """Events come in the order in which they were stored."""
    async for event in events:
        who = event.agent.label if event.agent else "session"
        match event.payload:
            case TaskStartedEvent(description=what, prompt=prompt):
                print(f"{who} starts: {what or prompt}")
            case ToolFinished(tool=tool, ok=ok):
                print(f"{who} {tool}: {'ok' if ok else 'failed'}")
            case TaskFinished(result=result):
                print(f"{who} {result.status}: {result.report}")


if __name__ == "__main__":
    trio.run(main)

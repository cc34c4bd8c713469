"""A delegate fails with a code. A later session resumes its chain, with its own transcript."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import trio

import orchestrator
from agents.models.script import read_script
from agents.models.scripted import ScriptedModel


def edit(line: int) -> dict[str, Any]:
    operation = {"op": "replace", "start": line, "text": "answer = 42"}
    arguments = {"path": "answer.py", "tag": "${tag:answer.py}", "ops": [operation]}
    return {"calls": [{"tool": "Edit", "arguments": arguments}]}


READ = {"calls": [{"tool": "Read", "arguments": {"path": "answer.py"}}]}
SCRIPT = {
    "agents": {
        "main": [
            {
                "calls": [
                    {"tool": "Task", "arguments": {"subagent_type": "fixer", "prompt": "Correct the answer"}}
                ]
            },
            {"calls": [{"tool": "TaskWait", "arguments": {}}]},
            {"text": "The answer was not corrected: the fixer's edits named lines that do not exist."},
        ],
        # three edits out of range use up the budget; what follows is played by the resumed run
        "fixer": [READ, edit(40), edit(41), edit(42), READ, edit(1), {"text": "Corrected."}],
    }
}


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "answer.py").write_text("answer = 41\n")
        model = ScriptedModel(read_script(SCRIPT, "resume chain"))
        options: dict[str, Any] = {
            "model": model,
            "permission_mode": "accept-edits",
            "data_dir": root / ".data",
        }

        async with orchestrator.open_session(root, **options) as session:
            outcome = await session.run("Correct the answer.")
            (failed,) = await session.store.tasks(session.id)
            print(f"the parent says: {outcome.text}")
            assert failed.result is not None
            assert failed.result.error is not None
            print(f"{failed.label} {failed.status}: {failed.result.error.code}")

        async with orchestrator.open_session(root, resume=session.id, **options) as session:
            resumed = await session.resume_task(failed.label, "Look at the file before you edit it.")
            runs = await session.store.chain(failed.chain_id)
            print(f"{failed.label} resumed: {resumed.status}: {resumed.text}")
            print(f"its chain: {' → '.join(run.status for run in runs)}")
        print(f"the file: {(root / 'answer.py').read_text().strip()}")


if __name__ == "__main__":
    trio.run(main)

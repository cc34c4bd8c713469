"""The fake server as a process of its own, and what it refuses."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agents.models.http import HttpTransport
from agents.models.openai_chat_model import OpenAIChatModel
from tests.agents.models.conversations import request, response_of
from tests.fakes.chat_wire import complaint, label_of

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("options", [[], ["--json"]])
async def test_it_serves_a_script_from_a_process_of_its_own(tmp_path: Path, options: list[str]) -> None:
    script, record = tmp_path / "s.yaml", tmp_path / "requests.jsonl"
    script.write_text('agents: {main: [{text: main}], fixer: [{text: name}], "fixer#2": [{text: label}]}')
    command = [sys.executable, "-m", "tests.fakes.chat_server", "--port", "0", "--script", str(script)]
    with subprocess.Popen(  # noqa: ASYNC220  # a blocking start is fine here
        [*command, "--record", str(record), *options], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        async with HttpTransport({}) as transport:
            model = OpenAIChatModel("big", transport, url)
            texts = [
                (await response_of(model, request(label=label))).text
                for label in ("main", "fixer#1", "fixer#2")
            ]
        server.send_signal(signal.SIGTERM)
        assert server.wait(5) == 0
    assert texts == ["main", "name", "label"]
    assert len([json.loads(line) for line in record.read_text().splitlines()]) == 3


USER = {"role": "user", "content": "go"}
CALL = {"id": "a", "type": "function", "function": {"name": "T", "arguments": "{}"}}


def asked(*ids: str, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": [{**CALL, "id": i, **more} for i in ids]}


def told(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": "x"}


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"role": "robot", "content": "x"}],
        [{"role": "assistant", "content": "x"}],
        [USER, {"role": "system", "content": "late"}],
        [USER, asked("a")],
        [USER, asked("a"), USER],
        [USER, asked("a", "b"), told("a")],
        [USER, asked("a"), told("a"), told("a")],
        [USER, told("a")],
        [USER, asked("a", "a"), told("a")],
        [USER, asked("a", function={"name": "T", "arguments": "{"}), told("a")],
        [USER, asked("a", function={"name": "", "arguments": "{}"}), told("a")],
        [USER, {"role": "assistant", "content": None}],
        [USER, {"role": "assistant", "content": "x", "tool_calls": []}],
    ],
)
def test_a_conversation_out_of_order_is_refused(messages: list[Any]) -> None:
    assert complaint({"model": "big", "messages": messages}) is not None


def test_a_conversation_in_order_is_accepted() -> None:
    messages = [USER, asked("a", "b"), told("b"), told("a"), {"role": "assistant", "content": ""}, USER]
    assert complaint({"model": "big", "messages": messages}) is None


def test_the_label_stands_in_the_system_prompt() -> None:
    system = {"role": "system", "content": 'Hello.\nYou are the agent "fixer#2".'}
    assert label_of({"messages": [system, USER]}) == "fixer#2"
    assert label_of({"messages": [USER]}) == "main"

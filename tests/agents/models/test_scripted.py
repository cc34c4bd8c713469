"""The scripted model: files, streaming, delays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio
import trio.testing

from agents.errors import ErrorCode, Failure
from agents.models.base import TextChunk
from agents.models.scripted import ScriptedModel, load_script
from tests.agents.models.conversations import chunks_of, failure_of, request, response_of

YAML = """
agents:
  main:
    - text: "Hello."
      calls: [{tool: Task, arguments: {subagent_type: fixer, prompt: "Fix: ümlaut"}}]
  fixer#2: [{text: two}]
faults:
  - {agent: main, turn: 1, delay_ms: 5000}
"""


def model(folder: Path, text: str, name: str = "s.yaml") -> ScriptedModel:
    (folder / name).write_text(text, encoding="utf-8")
    return ScriptedModel(load_script(folder / name))


async def test_a_yaml_script_is_played(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    played = model(tmp_path, YAML)
    response = await response_of(played, request())
    assert response.text == "Hello."
    assert response.calls[0].arguments == {"subagent_type": "fixer", "prompt": "Fix: ümlaut"}
    assert (await response_of(played, request(label="fixer#2"))).text == "two"


async def test_a_json_script_is_played(tmp_path: Path) -> None:
    document = json.dumps({"agents": {"main": [{"text": "Hello."}]}})
    assert (await response_of(model(tmp_path, document, "s.json"), request())).text == "Hello."


async def test_what_only_yaml_knows_becomes_json(tmp_path: Path) -> None:
    document = "agents: {main: [{calls: [{tool: A, arguments: {day: 2026-01-02, 1: {x: !!set {y}}}}]}]}"
    response = await response_of(model(tmp_path, document), request())
    assert response.calls[0].arguments == {"day": "2026-01-02", "1": {"x": ["y"]}}


async def test_the_name_and_provider_of_a_script(tmp_path: Path) -> None:
    played = model(tmp_path, YAML)
    assert (played.name, played.provider) == (f"script:{tmp_path / 's.yaml'}", "script")


async def test_a_delay_comes_before_the_first_chunk(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    started = trio.current_time()
    async with model(tmp_path, YAML).respond(request()) as chunks:
        await anext(chunks)
        assert trio.current_time() - started == 5


async def test_a_delay_can_be_cancelled(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    with trio.move_on_after(1) as scope:
        await chunks_of(model(tmp_path, YAML), request())
    assert scope.cancelled_caught


async def test_stopping_early_leaves_nothing_open(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with model(tmp_path, YAML).respond(request()) as chunks:
        async for chunk in chunks:
            assert chunk == TextChunk("He")
            break


async def test_what_does_not_fit_the_script_is_raised(tmp_path: Path) -> None:
    error = (await failure_of(model(tmp_path, YAML), request(label="other"))).error
    assert error.code is ErrorCode.PROVIDER_ERROR
    assert "main, fixer#2" in error.message


async def test_a_cut_stream_just_ends(tmp_path: Path) -> None:
    document = "agents: {main: [{text: abc}]}\nfaults: [{agent: main, turn: 1, stream_cut: true}]"
    assert await chunks_of(model(tmp_path, document), request()) == [TextChunk("a")]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("s.yaml", b"agents: [unclosed"),
        ("s.yaml", b"agents: !!python/object/apply:os.getcwd []"),
        ("s.yaml", b"\xff\xfe\xff"),
        ("s.json", b"{"),
        ("s.json", b"\xff"),
        ("s.yaml", b""),
    ],
)
def test_an_unreadable_script_is_refused_by_its_name(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(Failure) as caught:
        load_script(tmp_path / name)
    assert caught.value.error.code is ErrorCode.INVALID_ARGUMENT
    assert name in caught.value.error.message


def test_a_missing_script_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(Failure, match=r"nowhere\.yaml cannot be read"):
        load_script(tmp_path / "nowhere.yaml")

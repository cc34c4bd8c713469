"""Names to models."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agents.errors import ErrorCode, Failure
from agents.models.catalog import open_models
from tests.agents.models.conversations import failure_of, request, response_of
from tests.fakes.chat_server import ChatServer

SCRIPT = {"agents": {"main": [{"text": "Hello."}]}}


async def refused(name: str | None) -> Failure:
    async with open_models({}, base_url=None) as models:
        with pytest.raises(Failure) as caught:
            models.resolve(name)
    return caught.value


async def test_a_chat_model_asks_the_base_url_with_the_key_of_the_environment() -> None:
    with ChatServer(SCRIPT, require_key="sk-1") as server:
        async with open_models({"OPENAI_API_KEY": "sk-1"}, base_url=server.url) as models:
            model = models.resolve("openai-chat:org/big:7b")
            assert (await response_of(model, request())).text == "Hello."
    assert model.name == "openai-chat:org/big:7b"
    assert server.requests[0].body["model"] == "org/big:7b"


async def test_without_a_key_in_the_environment_the_variable_is_named() -> None:
    with ChatServer(SCRIPT, require_key="sk-1") as server:
        async with open_models({}, base_url=server.url) as models:
            error = (await failure_of(models.resolve("openai-chat:big"), request())).error
    assert error.code is ErrorCode.PROVIDER_UNAUTHORIZED
    assert "OPENAI_API_KEY" in error.message


async def test_a_script_is_found_from_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "s.yaml").write_text("agents: {main: [{text: Hello.}]}")
    monkeypatch.chdir(tmp_path)
    async with open_models({}, base_url=None) as models:
        assert (await response_of(models.resolve("script:s.yaml"), request())).text == "Hello."


async def test_a_name_is_resolved_once(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("agents: {main: [{text: Hello.}]}")
    async with open_models({}, base_url=None) as models:
        assert models.resolve(f"script:{tmp_path}/s.yaml") is models.resolve(f"script:{tmp_path}/s.yaml")


@pytest.mark.parametrize("name", [None, "", "big", "openai-chat:", "script: ", "foo:bar", ":big"])
async def test_no_model_or_a_malformed_one_names_the_three_ways(name: str | None) -> None:
    error = (await refused(name)).error
    assert error.code is ErrorCode.MODEL_NOT_CONFIGURED
    for way in ("--model", "ORCHESTRATOR_MODEL", "configuration file", "openai-chat:NAME", "script:FILE"):
        assert way in error.message


@pytest.mark.parametrize("name", ["anthropic:big", "openai:big", "replay:s1"])
async def test_a_provider_of_another_version_names_what_there_is(name: str) -> None:
    error = (await refused(name)).error
    assert error.code is ErrorCode.MODEL_NOT_CONFIGURED
    assert "not available in this version" in error.message
    assert "openai-chat:NAME" in error.message


async def test_a_base_url_that_is_none_is_refused() -> None:
    async with open_models({}, base_url="http://[::1") as models:
        with pytest.raises(Failure) as caught:
            models.resolve("openai-chat:big")
    assert caught.value.error.code is ErrorCode.INVALID_ARGUMENT


def loaded_by(*modules: str) -> set[str]:
    code = f"import sys, {', '.join(modules)}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    return set(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()
    )


def test_importing_the_catalogue_loads_no_heavy_library() -> None:
    assert not loaded_by("agents.models.catalog") & {"httpcore2", "truststore", "h11", "yaml"}


def test_importing_the_pure_modules_loads_no_event_loop() -> None:
    pure = ("openai_chat", "sse", "retry", "script", "placeholders", "proxies", "provider_errors", "base")
    assert not loaded_by(*(f"agents.models.{name}" for name in pure)) & {
        "trio",
        "asyncio",
        "sqlite3",
        "httpcore2",
    }

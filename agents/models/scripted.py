"""`script:FILE`: a model that plays fixed turns, deterministic and offline. `script` has the format."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import trio

from agents.errors import ErrorCode, Failure, failure
from agents.models.base import Chunk, ModelRequest
from agents.models.provider_errors import Asked
from agents.models.script import Play, Script, read_script

PROVIDER = "script"


class ScriptedModel:
    """Plays a script. One object serves any number of agents and conversations at once."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._asked = Asked(model=self.name, address=script.source, key_variable="the script's key")

    @property
    def name(self) -> str:
        return f"{PROVIDER}:{self._script.source}"

    @property
    def provider(self) -> str:
        return PROVIDER

    def respond(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[Chunk]]:
        """See `Model.respond`."""
        return self._respond(request)

    @asynccontextmanager
    async def _respond(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[Chunk]]:
        play = self._script.play(request, self._asked)
        if play.delay_ms:
            await trio.sleep(play.delay_ms / 1000)
        if play.error is not None:
            raise Failure(play.error)
        async with aclosing(_stream(play)) as chunks:
            yield chunks


async def _stream(play: Play) -> AsyncGenerator[Chunk, None]:
    for chunk in play.chunks:
        await trio.lowlevel.checkpoint()
        yield chunk


def load_script(path: Path | str) -> Script:
    """Read and check a script file (`.json`, else YAML). Raises `Failure` with INVALID_ARGUMENT."""
    source = str(path)
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise failure(
            ErrorCode.INVALID_ARGUMENT,
            f"Script {source} cannot be read ({error.strerror}). Check the path after `script:`; "
            "a relative one starts at the current directory.",
        ) from None
    return read_script(_decode(data, source), source)


def _decode(data: bytes, source: str) -> Any:
    if source.endswith(".json"):
        try:
            return msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
            raise _unreadable(source, "JSON", error) from None
    import yaml  # only a script needs it

    try:
        return yaml.load(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError, UnicodeError, ValueError) as error:
        raise _unreadable(source, "YAML", error) from None


def _unreadable(source: str, kind: str, error: Exception) -> Failure:
    problem = " ".join(str(error).split())
    return failure(ErrorCode.INVALID_ARGUMENT, f"Script {source} is not {kind}: {problem}. Correct the file.")

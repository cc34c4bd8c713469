"""Model names to models: `openai-chat:NAME` and `script:FILE`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from agents.errors import ErrorCode, Failure, failure
from agents.models.base import Model
from agents.models.http import HttpTransport
from agents.models.openai_chat_model import DEFAULT_BASE_URL, KEY_VARIABLE, OpenAIChatModel
from agents.models.scripted import ScriptedModel, load_script

AVAILABLE = "openai-chat:NAME (every server with chat completions, see --base-url) and script:FILE"

_NOT_IN_THIS_VERSION = frozenset({"anthropic", "openai", "replay"})
_WAYS = (
    "Name one as PROVIDER:NAME in one of three ways: the flag --model, the environment variable "
    f"ORCHESTRATOR_MODEL, or `model` in the user's configuration file. Available are {AVAILABLE}."
)


class Models:
    """The models of one process: each name is resolved once, all share one transport."""

    def __init__(
        self, transport: HttpTransport, environment: Mapping[str, str], base_url: str | None
    ) -> None:
        self._transport = transport
        self._environment = environment
        self._base_url = base_url
        self._resolved: dict[str, Model] = {}

    def resolve(self, name: str | None) -> Model:
        """The model of `provider:name`. A script is read and checked here, relative to the current directory.

        Raises `Failure`: MODEL_NOT_CONFIGURED, or INVALID_ARGUMENT for a script or base URL that is wrong.
        """
        if not name:
            raise _unconfigured("No model is configured")
        if name not in self._resolved:
            self._resolved[name] = self._make(name)
        return self._resolved[name]

    def _make(self, name: str) -> Model:
        provider, _, rest = name.partition(":")
        if not rest.strip():
            raise _unconfigured(f"{name!r} is not a model's name")
        match provider:
            case "openai-chat":
                key = self._environment.get(KEY_VARIABLE)
                return OpenAIChatModel(rest, self._transport, self._base_url or DEFAULT_BASE_URL, key)
            case "script":
                return ScriptedModel(
                    load_script(Path(rest).expanduser().absolute())
                )  # a resume finds it from anywhere
            case _ if provider in _NOT_IN_THIS_VERSION:
                raise failure(
                    ErrorCode.MODEL_NOT_CONFIGURED,
                    f"{provider}: models are not available in this version. Use {AVAILABLE}.",
                )
            case _:
                raise _unconfigured(f"{name!r} names no provider that is known")


@asynccontextmanager
async def open_models(
    environment: Mapping[str, str], *, base_url: str | None, trace_requests: bool = False
) -> AsyncIterator[Models]:
    """The models for the length of the block; its end closes every connection.

    `environment` gives the key (OPENAI_API_KEY) and the proxies; `base_url` None is the provider's own.
    `trace_requests`: see `HttpTransport`.
    """
    async with HttpTransport(environment, trace_requests=trace_requests) as transport:
        yield Models(transport, environment, base_url)


def _unconfigured(problem: str) -> Failure:
    return failure(ErrorCode.MODEL_NOT_CONFIGURED, f"{problem}. {_WAYS}")

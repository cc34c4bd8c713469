"""The environment that a tool's processes get: the person's own, without keys and without our trace settings.

Left out: every `OTEL_*` (exporter headers carry tokens), the variables of model providers
(`PROVIDER_PREFIXES`, `PROVIDER_NAMES`), and whatever looks like a key to an interface (`KEY_ENDINGS`); also
`CDPATH`, with which `cd sub` may lead out of the workspace, and inherited trace context. Put in: the call's
marks, its scratch directory, its `TRACEPARENT` (the span of the tool call), and what keeps programs from
asking questions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

PROVIDER_PREFIXES = (
    "ANTHROPIC_",
    "OPENAI_",
    "AZURE_OPENAI_",
    "CLAUDE_CODE_",
    "GEMINI_",
    "GOOGLE_GENAI_",
    "MISTRAL_",
    "COHERE_",
    "GROQ_",
    "OPENROUTER_",
    "TOGETHER_",
    "FIREWORKS_",
    "DEEPSEEK_",
    "XAI_",
    "OTEL_",
)
PROVIDER_NAMES = frozenset(
    {
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SECRET_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_BEARER_TOKEN_BEDROCK",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GOOGLE_API_CREDENTIALS",
        "HF_TOKEN",
        "HUGGING_FACE_HUB_TOKEN",
        "HUGGINGFACEHUB_API_TOKEN",
        "REPLICATE_API_TOKEN",
    }
)
KEY_ENDINGS = ("_API_KEY", "_API_KEYS", "_APIKEY", "_AUTH_TOKEN", "_API_TOKEN", "_API_SECRET", "_SECRET_KEY")
_DROPPED = frozenset({"CDPATH", "TRACEPARENT", "TRACESTATE", "BAGGAGE"})
_MARKERS = (
    "ORCHESTRATOR_SESSION_ID",
    "ORCHESTRATOR_RUN_ID",
    "ORCHESTRATOR_CALL_ID",
    "ORCHESTRATOR_SCRATCH_DIR",
)
_QUIET = {"GIT_TERMINAL_PROMPT": "0", "PAGER": "cat", "GIT_PAGER": "cat", "TERM": "dumb"}


def is_secret(name: str) -> bool:
    """Whether a variable of this name is kept from tool processes."""
    upper = name.upper()
    return upper in PROVIDER_NAMES or upper.startswith(PROVIDER_PREFIXES) or upper.endswith(KEY_ENDINGS)


def child_environment(
    base: Mapping[str, str],
    *,
    markers: Mapping[str, str],
    scratch: str,
    traceparent: str | None,
    login_path_entries: Sequence[str] = (),
) -> dict[str, str]:
    """Build the environment of one call's processes from the orchestrator's own.

    `markers`: `ORCHESTRATOR_SESSION_ID`, `_RUN_ID` and `_CALL_ID`; processes that escape are found by them.
    `traceparent`: the tool span as a W3C header value. `login_path_entries` go behind the PATH there is, so
    an active virtual environment stays first.
    """
    kept = {
        name: value
        for name, value in base.items()
        if not is_secret(name) and name.upper() not in _DROPPED and name not in _MARKERS
    }
    own = [entry for entry in kept.get("PATH", "").split(":") if entry]
    kept["PATH"] = ":".join(dict.fromkeys([*own, *login_path_entries]))
    kept.update(_QUIET)
    kept.update(markers)
    kept["ORCHESTRATOR_SCRATCH_DIR"] = scratch
    if traceparent is not None:
        kept["TRACEPARENT"] = traceparent
    return kept

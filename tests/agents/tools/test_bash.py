"""The Bash tool, with a real shell in a real workspace."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from agents.errors import ErrorCode, ToolError
from agents.journal import Journal
from agents.locks import PathLocks
from agents.results import BashResult, model_text
from agents.tools.base import CallGroup, ToolContext, ToolOutput
from agents.tools.bash import BashTool
from agents.tools.environment import child_environment
from agents.tools.schema import decode_arguments
from telemetry import attributes as names
from tests.agents.tools.context import ListedEffects, call, error, make_context, make_workspace

BASH = BashTool()


def context(tmp_path: Path, base: dict[str, str] | None = None, **overrides: Any) -> ToolContext:
    workspace = make_workspace(tmp_path)
    environment = child_environment(
        {"PATH": os.environ["PATH"], **(base or {})},
        markers={
            "ORCHESTRATOR_SESSION_ID": "session-1",
            "ORCHESTRATOR_RUN_ID": "run-1",
            "ORCHESTRATOR_CALL_ID": secrets.token_hex(8),
        },
        scratch=str(workspace.scratch),
        traceparent="00-" + "a" * 32 + "-" + "b" * 16 + "-01",
    )
    return make_context(tmp_path, **{"workspace": workspace, "environment": environment, **overrides})


async def run(context: ToolContext, command: str, **arguments: Any) -> tuple[BashResult, ToolError | None]:
    output = await call(BASH, context, command=command, **arguments)
    assert isinstance(output, ToolOutput), output
    assert isinstance(output.result, BashResult)
    return output.result, output.error


async def test_a_command_runs_in_the_workspace(tmp_path: Path) -> None:
    here = context(tmp_path)
    result, failed = await run(here, "pwd")

    assert (result.stdout, result.exit_code, failed) == (f"{here.workspace.root}\n", 0, None)


async def test_the_dialect_is_bash(tmp_path: Path) -> None:
    result, _ = await run(context(tmp_path), '[[ a == a* ]] && echo "${BASH_VERSION:+bash}"')

    assert result.stdout == "bash\n"


async def test_every_call_starts_anew(tmp_path: Path) -> None:
    here = context(tmp_path)
    await run(here, "X=1; mkdir sub; cd sub")
    result, _ = await run(here, "echo ${X:-gone} ${PWD##*/}")

    assert result.stdout == "gone repo\n"


async def test_a_non_zero_exit_is_a_failure_that_keeps_the_whole_result(tmp_path: Path) -> None:
    output = await call(BASH, context(tmp_path), command="echo seen; echo why >&2; exit 3")

    assert isinstance(output, ToolOutput)
    assert output.error is not None
    assert output.error.code is ErrorCode.TOOL_FAILED
    assert "exit code 3" in output.error.message
    assert output.attributes == {names.EXIT_CODE: 3, names.TRUNCATED: False}
    assert output.result is not None
    text = model_text(output.result, output.error)
    assert "--- stdout\nseen\n" in text
    assert "--- stderr\nwhy\n" in text


async def test_a_timeout_is_an_error_that_keeps_what_was_printed(tmp_path: Path) -> None:
    with trio.fail_after(4):
        result, failed = await run(context(tmp_path), "echo start; sleep 300", timeoutSeconds=1)

    assert failed is not None
    assert failed.code is ErrorCode.TOOL_TIMEOUT
    assert "stopped after 1 s" in failed.message
    assert (result.stdout, result.timed_out, result.exit_code) == ("start\n", True, None)


async def test_what_is_left_running_is_named(tmp_path: Path) -> None:
    result, failed = await run(context(tmp_path), "sleep 60 & echo done")

    assert failed is None
    assert [name.split()[1] for name in result.survivors] == ["sleep"]


async def test_long_output_lies_in_scratch_and_the_result_says_where(tmp_path: Path) -> None:
    here = context(tmp_path)
    result, _ = await run(here, "seq 100000; echo verdict")

    assert result.truncated
    assert result.stdout.endswith("verdict\n")
    assert result.spill is not None
    spill = Path(result.spill["stdout"])
    assert spill.parent == here.workspace.scratch
    assert spill.read_text().splitlines()[-2:] == ["100000", "verdict"]


async def test_scratch_is_there_for_the_command(tmp_path: Path) -> None:
    here = context(tmp_path)
    _, failed = await run(here, 'echo x > "$ORCHESTRATOR_SCRATCH_DIR/note"')

    assert failed is None
    assert (here.workspace.scratch / "note").read_text() == "x\n"


async def test_no_key_and_no_exporter_header_reaches_the_command(tmp_path: Path) -> None:
    base = {
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=SENTINEL-3",
        "ANTHROPIC_API_KEY": "SENTINEL-4",
        "HOME": "/home/me",
    }
    result, _ = await run(context(tmp_path, base), "env")

    assert "SENTINEL" not in result.stdout
    assert "HOME=/home/me\n" in result.stdout
    assert "GIT_TERMINAL_PROMPT=0\n" in result.stdout


async def test_the_trace_context_of_the_call_reaches_the_command(tmp_path: Path) -> None:
    result, _ = await run(context(tmp_path, {"TRACEPARENT": "outer"}), "echo $TRACEPARENT")

    assert result.stdout == "00-" + "a" * 32 + "-" + "b" * 16 + "-01\n"


async def test_the_command_is_journalled_before_it_runs_and_masked(tmp_path: Path) -> None:
    log = ListedEffects()
    journal = Journal(log, session_id="session-1", owner="run-1")
    key = "-".join(["sk", "ant", "api03", "0123456789" * 3])
    await run(context(tmp_path, journal=journal), f"echo {key}")

    (intent,) = log.intents
    assert (intent.kind, intent.call_id, intent.inside) == ("shell", "call-1", False)
    assert key not in intent.target
    assert [(result.effect_id, result.ok) for result in log.results] == [(intent.effect_id, True)]


async def test_a_cancelled_command_is_journalled_as_not_done(tmp_path: Path) -> None:
    log = ListedEffects()
    journal = Journal(log, session_id="session-1", owner="run-1")
    with trio.move_on_after(0.3) as scope:
        await run(context(tmp_path, journal=journal), "sleep 300")

    assert scope.cancelled_caught
    assert [result.ok for result in log.results] == [False]


async def test_a_patch_waits_for_every_mutation_and_other_commands_for_none(tmp_path: Path) -> None:
    locks = PathLocks()
    waits: list[str] = []

    @contextlib.contextmanager
    def waiting(kind: str) -> Iterator[None]:
        waits.append(kind)
        yield

    here = context(tmp_path, locks=locks, waiting=waiting)
    async with trio.open_nursery() as nursery:
        async with locks.hold("/some/file", here.waiting):
            waits.clear()
            await run(here, "echo free")
            assert waits == []
            nursery.start_soon(run, here, "touch began; git apply --quiet nothing.diff")
            await trio.sleep(0.3)
            assert waits == ["lock"]
            assert not (here.workspace.root / "began").exists()
    assert (here.workspace.root / "began").exists()
    assert locks.held == 0


async def test_progress_is_shown_with_its_stream_and_not_for_every_line(tmp_path: Path) -> None:
    shown: list[tuple[str, str]] = []
    here = context(tmp_path, progress=lambda stream, text: shown.append((stream, text)))
    await run(here, "for i in $(seq 100); do echo $i; sleep 0.001; done; echo e >&2")

    assert {stream for stream, _ in shown} == {"stdout", "stderr"}
    assert 1 <= len(shown) < 40


@pytest.mark.parametrize(
    ("command", "said"), [("   ", "empty"), ("echo \0", "NUL"), ("echo \ud800", "surrogate")]
)
async def test_what_no_shell_can_run_is_refused(tmp_path: Path, command: str, said: str) -> None:
    refused = await error(BASH, context(tmp_path), command=command)

    assert refused.code is ErrorCode.INVALID_ARGUMENT
    assert said in refused.message


@pytest.mark.parametrize("seconds", [0, 301, -1])
def test_the_limit_has_bounds(seconds: int) -> None:
    refused = decode_arguments(BASH, {"command": "true", "timeoutSeconds": seconds})

    assert isinstance(refused, ToolError)
    assert refused.code is ErrorCode.INVALID_ARGUMENT


def test_the_description_names_the_dialect_and_its_limits() -> None:
    for word in ("bash", "60", "300", "32 KiB", "64 KiB", "96 KiB", "4000 lines", "64 MiB"):
        assert word in BASH.description


def test_a_command_is_a_group_of_its_own_and_high_risk() -> None:
    assert (BASH.group, BASH.risk) == (CallGroup.ALONE, "high")

"""The process shell, with real processes."""

# ruff: noqa: ASYNC109, ASYNC220 - what other processes do has no event, and a test may block for a file

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import trio

from agents.errors import ErrorCode, Failure
from agents.tools.capture import Capture, Limits
from agents.tools.environment import child_environment, is_secret
from agents.tools.family import PROC, snapshot
from agents.tools.process_table import PROCESSES, ProcessTable
from agents.tools.processes import (
    MARKS,
    Ended,
    find_bash,
    kill_all_groups,
    login_path_entries,
    run_command,
)

needs_proc = pytest.mark.skipif(not PROC.is_dir(), reason="escaped processes are found through /proc")


def marks() -> dict[str, str]:
    return {name: f"{name}-{secrets.token_hex(4)}" for name in MARKS}


def environment(**more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], **marks(), **more}


async def bash(
    command: str, tmp_path: Path, *, timeout: float = 20, env: Mapping[str, str] | None = None, **options: Any
) -> Ended:
    return await run_command(
        ["bash", "-c", command], cwd=tmp_path, env=env or environment(), timeout=timeout, **options
    )


def living(env: Mapping[str, str]) -> list[str]:
    """Processes that carry the marks of `env`, zombies left out."""
    found = []
    for member in snapshot().values():
        try:
            text = (PROC / str(member.pid) / "environ").read_bytes()
        except OSError:
            continue
        if not member.dead and f"ORCHESTRATOR_CALL_ID={env['ORCHESTRATOR_CALL_ID']}".encode() in text:
            found.append(str(member))
    return found


def zombies() -> list[str]:
    return [str(m) for m in snapshot().values() if m.dead and m.parent == os.getpid()]


# how it ends


@pytest.mark.parametrize(
    ("command", "code"), [("true", 0), ("false", 1), ("exit 42", 42), ("nosuchthing", 127)]
)
async def test_the_exit_code_is_a_result(tmp_path: Path, command: str, code: int) -> None:
    ended = await bash(command, tmp_path)

    assert (ended.exit_code, ended.signal, ended.timed_out) == (code, None, False)


async def test_a_signal_is_named_and_is_no_exit_code(tmp_path: Path) -> None:
    ended = await bash("kill -KILL $$", tmp_path)

    assert (ended.exit_code, ended.signal) == (None, "SIGKILL")


async def test_stdout_and_stderr_are_told_apart(tmp_path: Path) -> None:
    ended = await bash("echo out; echo err >&2", tmp_path)

    assert (ended.stdout.text, ended.stderr.text) == ("out\n", "err\n")


@pytest.mark.parametrize("command", ["cat", "read x; echo got:$x", "python3 -c 'input()'", "grep foo"])
async def test_a_command_that_waits_for_input_gets_its_end(tmp_path: Path, command: str) -> None:
    with trio.fail_after(5):
        ended = await bash(command, tmp_path)

    assert not ended.timed_out


async def test_there_is_no_terminal_to_ask_on(tmp_path: Path) -> None:
    ended = await bash("echo x > /dev/tty", tmp_path)

    assert ended.exit_code != 0


# what is left running


async def test_a_background_child_that_holds_the_pipe_does_not_hold_the_call(tmp_path: Path) -> None:
    env = environment()
    with trio.fail_after(2):
        ended = await bash("sleep 60 & echo done", tmp_path, env=env)

    assert (ended.exit_code, ended.stdout.text) == (0, "done\n")
    assert [name.split()[1] for name in ended.survivors] == ["sleep"]
    assert living(env) == []


async def test_a_background_child_without_our_pipes_is_killed_as_well(tmp_path: Path) -> None:
    env = environment()
    ended = await bash("sleep 60 >/dev/null 2>&1 & sleep 0.1; echo done", tmp_path, env=env)

    assert [name.split()[1] for name in ended.survivors] == ["sleep"]
    assert living(env) == []


async def test_a_child_that_keeps_printing_is_cut_off(tmp_path: Path) -> None:
    env = environment()
    with trio.fail_after(3):
        ended = await bash("(while :; do echo x; sleep 0.01; done) & echo done", tmp_path, env=env)

    assert ended.exit_code == 0
    assert "done\n" in ended.stdout.text
    assert living(env) == []


@needs_proc
async def test_a_child_that_escaped_into_its_own_session_is_killed_and_named(tmp_path: Path) -> None:
    env = environment()
    ended = await bash("setsid sleep 60 >/dev/null 2>&1 & sleep 0.1; echo done", tmp_path, env=env)

    assert [name.split()[1] for name in ended.survivors] == ["sleep"]
    assert living(env) == []
    assert zombies() == []


@needs_proc
async def test_a_child_of_an_escaped_child_is_killed_as_well(tmp_path: Path) -> None:
    env = environment()
    ended = await bash(
        "setsid bash -c 'env -i sleep 61 & sleep 62' >/dev/null 2>&1 & sleep 0.2", tmp_path, env=env
    )

    assert sorted(name.split()[1] for name in ended.survivors) == ["bash", "sleep", "sleep"]
    names = [m.name for m in snapshot().values() if m.name == "sleep" and m.parent == os.getpid()]
    assert names == []


@needs_proc
async def test_another_calls_processes_are_left_alone(tmp_path: Path) -> None:
    seen: list[Ended] = []

    async def other() -> None:
        seen.append(await bash("setsid sleep 0.8; echo whole", tmp_path))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        await trio.sleep(0.2)
        await bash("setsid sleep 60 >/dev/null 2>&1 &", tmp_path)

    assert [(ended.exit_code, ended.stdout.text) for ended in seen] == [(0, "whole\n")]


@needs_proc
async def test_a_daemon_that_ended_before_us_leaves_no_zombie(tmp_path: Path) -> None:
    table = ProcessTable()
    await bash("(setsid true &) ; sleep 0.1", tmp_path, table=table)
    with trio.fail_after(5):
        while zombies():
            await trio.sleep(0.3)
            await bash("true", tmp_path, table=table)


@needs_proc
async def test_a_child_of_other_code_is_not_waited_for(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "raise SystemExit(7)"]) as foreign:
        await trio.sleep(0.1)
        await bash("true", tmp_path)

        assert foreign.wait() == 7


# time and cancellation


async def test_a_timeout_keeps_the_output_and_leaves_no_process(tmp_path: Path) -> None:
    env = environment()
    with trio.fail_after(4):
        ended = await bash('echo start; (trap "" TERM; sleep 300) & wait', tmp_path, timeout=0.3, env=env)

    assert ended.timed_out
    assert ended.stdout.text == "start\n"
    assert (ended.exit_code, ended.signal) == (None, "SIGTERM")
    assert living(env) == []


async def test_a_shell_that_ignores_sigterm_is_killed_after_the_grace(tmp_path: Path) -> None:
    env = environment()
    with trio.fail_after(4):
        ended = await bash(
            'trap "" TERM; echo a; while :; do sleep 0.05; done', tmp_path, timeout=0.2, env=env
        )

    assert (ended.timed_out, ended.signal) == (True, "SIGKILL")
    assert living(env) == []


async def test_sigterm_lets_a_command_say_goodbye(tmp_path: Path) -> None:
    ended = await bash('trap "echo bye; exit 3" TERM; sleep 30 & wait', tmp_path, timeout=0.3)

    assert (ended.timed_out, ended.stdout.text, ended.exit_code) == (True, "bye\n", 3)


@pytest.mark.parametrize(
    "command",
    [
        "sleep 300",
        "(trap '' TERM; sleep 300) & wait",
        "setsid sleep 300 & wait",
        "yes | head -c 1000000000 > /dev/null; sleep 300",
    ],
)
async def test_a_cancelled_call_leaves_no_process(tmp_path: Path, command: str) -> None:
    env = environment()
    with trio.fail_after(4):
        with trio.move_on_after(0.2) as scope:
            await bash(command, tmp_path, env=env)

    assert scope.cancelled_caught
    assert living(env) == []
    assert not PROCESSES.running


async def test_a_cancel_around_the_start_leaves_no_process(tmp_path: Path) -> None:
    env = environment()
    for step in range(12):
        with trio.move_on_after(step * 0.002):
            await bash("sleep 300", tmp_path, env=env)

    assert living(env) == []
    assert not PROCESSES.running


async def test_the_emergency_exit_kills_every_group_at_once(tmp_path: Path) -> None:
    ended: list[Ended] = []

    async def one() -> None:
        ended.append(await bash("trap '' TERM; sleep 300", tmp_path))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(one)
        nursery.start_soon(one)
        with trio.fail_after(5):
            while len(PROCESSES.running) < 2:
                await trio.sleep(0.01)
            await trio.sleep(0.05)
            kill_all_groups()

    assert [end.signal for end in ended] == ["SIGKILL", "SIGKILL"]
    assert not PROCESSES.running


# output


async def test_large_output_is_bounded_and_kept_in_a_private_file(tmp_path: Path) -> None:
    ended = await bash(
        "echo first; head -c 52428800 /dev/zero | tr '\\0' x; echo; echo last; exit 3",
        tmp_path,
        scratch=tmp_path,
    )

    assert ended.exit_code == 3
    assert ended.stdout.truncated
    assert ended.stdout.total_bytes == 52428800 + 12
    assert ended.stdout.text.startswith("first\n")
    assert ended.stdout.text.endswith("\nlast\n")
    assert len(ended.stdout.text) < 97 * 1024 + 300
    spill = ended.stdout.spill
    assert spill is not None
    assert str(spill) in ended.stdout.text
    assert spill.stat().st_size == ended.stdout.total_bytes
    assert spill.stat().st_mode & 0o777 == 0o600


async def test_small_output_makes_no_file(tmp_path: Path) -> None:
    ended = await bash("seq 100; seq 100 >&2", tmp_path, scratch=tmp_path)

    assert not ended.stdout.truncated
    assert list(tmp_path.iterdir()) == []


async def test_of_stderr_the_end_is_kept(tmp_path: Path) -> None:
    ended = await bash("{ echo first; head -c 300000 /dev/zero | tr '\\0' y; echo last; } >&2", tmp_path)

    assert "first" not in ended.stderr.text
    assert ended.stderr.text.endswith("last\n")
    assert ended.stderr.truncated


async def test_many_short_lines_are_cut_by_their_number(tmp_path: Path) -> None:
    ended = await bash("seq 6000", tmp_path, scratch=tmp_path)

    lines = ended.stdout.text.splitlines()
    assert len(lines) == 4001
    assert (lines[0], lines[-1]) == ("1", "6000")
    assert ended.stdout.spill is not None
    assert ended.stdout.spill.read_text() == "".join(f"{n}\n" for n in range(1, 6001))


async def test_bytes_that_are_no_utf8_become_marks_and_the_rest_stays(tmp_path: Path) -> None:
    ended = await bash(r"printf 'ok\377\360end\0\xed\xa0\x80.'", tmp_path)

    assert ended.stdout.text == "ok\ufffd\ufffdend\0\ufffd\ufffd\ufffd."
    assert json.loads(json.dumps(ended.stdout.text)) == ended.stdout.text
    ended.stdout.text.encode("utf-8")


async def test_a_character_split_over_two_reads_stays_whole(tmp_path: Path) -> None:
    shown: list[str] = []
    ended = await bash(
        r"printf '\xe2'; sleep 0.1; printf '\x82'; sleep 0.1; printf '\xac'",
        tmp_path,
        on_output=lambda stream, text: shown.append(text),
    )

    assert ended.stdout.text == "€"
    assert "".join(shown) == "€"


async def test_output_is_passed_on_while_the_command_runs(tmp_path: Path) -> None:
    times: list[tuple[str, str, float]] = []
    began = time.monotonic()
    await bash(
        "echo a; sleep 0.4; echo b >&2",
        tmp_path,
        on_output=lambda stream, text: times.append((stream, text, time.monotonic() - began)),
    )

    assert [(stream, text) for stream, text, _ in times] == [("stdout", "a\n"), ("stderr", "b\n")]
    assert times[1][2] - times[0][2] > 0.2


def test_a_spill_ends_at_its_limit_and_says_so(tmp_path: Path) -> None:
    capture = Capture(Limits(head_bytes=4, tail_bytes=4, spill_bytes=20), tmp_path / "spill")
    for _ in range(10):
        capture.add(b"abcdefghi\n")
    capture.close()
    captured = capture.result("stdout")

    assert (tmp_path / "spill").read_bytes() == b"abcdefghi\nabcdefghi\n"
    assert captured.total_bytes == 100
    assert "its first 20 bytes are in" in captured.text


def test_a_spill_that_cannot_be_written_is_said_and_ends_nothing(tmp_path: Path) -> None:
    capture = Capture(Limits(head_bytes=4, tail_bytes=4), tmp_path / "missing" / "spill")
    capture.add(b"0123456789\n")
    captured = capture.result("stdout")

    assert captured.text.startswith(
        "0123\n[3 bytes of stdout are left out here; the whole output could not be kept"
    )
    assert captured.text.endswith("]\n789\n")
    assert captured.spill is None


def test_a_cut_falls_between_characters() -> None:
    capture = Capture(Limits(head_bytes=4, tail_bytes=4), None)
    capture.add("€€€€€".encode())
    captured = capture.result("stdout")

    assert captured.text.splitlines()[0] == "€"
    assert captured.text.splitlines()[-1] == "€"
    assert "\ufffd" not in captured.text


# what does not start


async def test_a_missing_program_is_a_missing_shell(tmp_path: Path) -> None:
    with pytest.raises(Failure) as caught:
        await run_command(["/nowhere/bash"], cwd=tmp_path, env={}, timeout=1)

    assert caught.value.error.code is ErrorCode.SHELL_NOT_FOUND


async def test_a_missing_folder_is_told_from_a_missing_shell(tmp_path: Path) -> None:
    with pytest.raises(Failure) as caught:
        await bash("true", tmp_path / "gone")

    assert caught.value.error.code is ErrorCode.NOT_FOUND


async def test_a_command_that_is_too_long_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(Failure) as caught:
        await bash("true " + "x" * 200_000, tmp_path)

    assert caught.value.error.code is ErrorCode.INVALID_ARGUMENT


EXHAUSTED = """
import resource, sys, trio
from pathlib import Path
from agents.errors import Failure
from agents.tools.processes import run_command
async def main():
    await trio.to_thread.run_sync(lambda: None)
    resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[1])))
    try:
        await run_command(["true"], cwd=Path("/"), env={}, timeout=5)
    except Failure as failed:
        print(failed.error.code)
trio.run(main)
"""


async def test_a_system_without_room_for_a_process_says_so() -> None:
    used = await trio.run_process([sys.executable, "-c", EXHAUSTED, "8"], capture_stdout=True)

    assert used.stdout.decode().strip() == "PROCESS_RESOURCE_EXHAUSTED"


def test_bash_is_found_by_the_path_of_the_call(tmp_path: Path) -> None:
    own = tmp_path / "bash"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)

    assert find_bash({"PATH": str(tmp_path)}) == str(own)
    assert Path(find_bash({"PATH": ""})).name == "bash"


# memory and environment

UNREADABLE = """
import os, sys, trio
from pathlib import Path
from agents.tools.processes import make_unreadable, run_command
if os.getuid() == 0:
    os.setgid(65534); os.setuid(65534)
done = make_unreadable()
me = os.getpid()
async def main():
    ended = await run_command(
        ["bash", "-c", f"cat /proc/{me}/environ; setsid sleep 60 >/dev/null 2>&1 & sleep 0.2; echo end"],
        cwd=Path("/"), env={"PATH": os.environ["PATH"], "ORCHESTRATOR_CALL_ID": f"c{me}"}, timeout=10)
    print(done, ended.exit_code, "SENTINEL" in ended.stdout.text, len(ended.survivors))
trio.run(main)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a Linux process attribute")
async def test_children_cannot_read_our_environment_and_are_still_found(tmp_path: Path) -> None:
    process = await trio.run_process(
        [sys.executable, "-c", UNREADABLE], capture_stdout=True, env={**os.environ, "KEY": "SENTINEL"}
    )

    assert process.stdout.decode().split() == ["True", "0", "False", "1"]


SECRETS = [
    "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "OPENAI_ORG_ID", "GEMINI_API_KEY",
    "my_api_key", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_SERVICE_NAME", "HF_TOKEN", "ORCHESTRATOR_API_KEY",
]  # fmt: skip


@pytest.mark.parametrize("name", SECRETS)
def test_keys_and_trace_settings_are_secret(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", ["PATH", "HOME", "GITHUB_TOKEN", "SSH_AUTH_SOCK", "AWS_PROFILE", "HOTEL_X"])
def test_other_variables_are_not(name: str) -> None:
    assert not is_secret(name)


def test_the_environment_of_a_child_is_scrubbed_and_marked() -> None:
    made = child_environment(
        {
            "PATH": "/venv/bin::/usr/bin",
            "CDPATH": "/elsewhere",
            "PAGER": "less",
            "TRACEPARENT": "old",
            "TRACESTATE": "old",
            "ORCHESTRATOR_CALL_ID": "outer",
            **dict.fromkeys(SECRETS, "SENTINEL"),
        },
        markers={"ORCHESTRATOR_SESSION_ID": "s", "ORCHESTRATOR_RUN_ID": "r", "ORCHESTRATOR_CALL_ID": "c"},
        scratch="/scratch",
        traceparent="00-aa-bb-01",
        login_path_entries=("/usr/bin", "/opt/tool/bin"),
    )

    assert made == {
        "PATH": "/venv/bin:/usr/bin:/opt/tool/bin",
        "GIT_TERMINAL_PROMPT": "0",
        "PAGER": "cat",
        "GIT_PAGER": "cat",
        "TERM": "dumb",
        "ORCHESTRATOR_SESSION_ID": "s",
        "ORCHESTRATOR_RUN_ID": "r",
        "ORCHESTRATOR_CALL_ID": "c",
        "ORCHESTRATOR_SCRATCH_DIR": "/scratch",
        "TRACEPARENT": "00-aa-bb-01",
    }


# the login shell


def login_shell(tmp_path: Path, body: str) -> str:
    shell = tmp_path / "shell"
    shell.write_text(f"#!/bin/sh\n{body}\n")
    shell.chmod(0o755)
    return str(shell)


async def test_the_login_shells_path_is_read(tmp_path: Path) -> None:
    shell = login_shell(
        tmp_path, 'echo "Welcome PATH=/no"; PATH=/login/bin:relative:/usr/bin exec /usr/bin/env'
    )

    assert await login_path_entries({"SHELL": shell, "PATH": "/usr/bin"}) == ("/login/bin", "/usr/bin")


@pytest.mark.parametrize("body", ["sleep 60", "exit 1", "echo nothing"])
async def test_a_login_shell_that_fails_or_hangs_adds_nothing(tmp_path: Path, body: str) -> None:
    with trio.fail_after(4):
        assert await login_path_entries({"SHELL": login_shell(tmp_path, body), "PATH": "/usr/bin:/bin"}) == ()


async def test_a_missing_login_shell_adds_nothing() -> None:
    assert await login_path_entries({"SHELL": "/nowhere/zsh"}) == ()
    assert await login_path_entries({}) == ()

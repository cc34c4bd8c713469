"""The real command in processes of its own, for tests."""

from __future__ import annotations

import fcntl
import os
import select
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

Done = subprocess.CompletedProcess[str]


def environment(home: Path, **more: str) -> dict[str, str]:
    """A process's variables with a home of its own and nothing that sends or configures anything."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ORCHESTRATOR_", "OTEL_", "GIT_", "XDG_", "TRACEPARENT"))
    }
    return {**kept, "HOME": str(home), "ORCHESTRATOR_DATA_DIR": str(home / "data"), **more}


def argv(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "orchestrator", *map(str, arguments)]


def orc(
    *arguments: str | Path,
    env: Mapping[str, str],
    cwd: Path | None = None,
    stdin: str | None = None,
    timeout: float = 30,
) -> Done:
    """Run the command to its end."""
    return subprocess.run(
        argv(*arguments),
        env=dict(env),
        cwd=cwd or env["HOME"],
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def started(*arguments: str | Path, env: Mapping[str, str], **options: Any) -> subprocess.Popen[str]:
    """Start the command, in a process group of its own."""
    return subprocess.Popen(
        argv(*arguments),
        env=dict(env),
        cwd=env["HOME"],
        stdin=subprocess.DEVNULL,
        stdout=options.get("stdout", subprocess.PIPE),
        stderr=options.get("stderr", subprocess.PIPE),
        text=True,
        start_new_session=True,
    )


def until(true: Callable[[], bool], seconds: float = 15) -> None:
    """Wait until something outside this process is so."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come to be in time"
        time.sleep(0.02)


def last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""


def objects(text: str) -> list[dict[str, Any]]:
    """The lines of JSON on standard output."""
    return [msgspec.json.decode(line) for line in text.splitlines()]


def script(folder: Path, agents: dict[str, Any], name: str = "script.json") -> str:
    """A script file; how it is named as a model."""
    path = folder / name
    path.write_bytes(msgspec.json.encode({"agents": agents}))
    return f"script:{path}"


class Terminal:
    """The command on a terminal of its own: what it shows, and what the person types."""

    def __init__(
        self, *arguments: str | Path, env: Mapping[str, str], columns: int = 100, controls: bool = False
    ) -> None:
        self._ours, theirs = os.openpty()
        termios.tcsetwinsize(theirs, (40, columns))
        self.shown = ""
        self.process = subprocess.Popen(
            argv(*arguments),
            env={"TERM": "xterm-256color", **env},
            cwd=env["HOME"],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=(lambda: fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)) if controls else None,
        )
        os.close(theirs)

    def until(self, text: str, seconds: float = 15) -> None:
        """Read until `text` has been shown."""
        end = time.monotonic() + seconds
        while text not in self.shown:
            left = end - time.monotonic()
            assert left > 0, f"{text!r} was not shown: {self.shown[-2000:]}"
            if select.select([self._ours], [], [], left)[0] and not self._read():
                assert text in self.shown, f"{text!r} was not shown: {self.shown[-2000:]}"

    def type(self, line: str) -> None:
        os.write(self._ours, f"{line}\n".encode())

    def end_of_input(self) -> None:
        """Ctrl-D."""
        os.write(self._ours, b"\x04")

    def close(self) -> None:
        """The window is closed."""
        os.close(self._ours)

    def end(self, seconds: float = 15) -> int:
        """Read to the end; the exit status."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if select.select([self._ours], [], [], 0.1)[0] and not self._read():
                break
        os.close(self._ours)
        return self.process.wait(timeout=5)

    def _read(self) -> bool:
        try:
            data = os.read(self._ours, 65536)
        except OSError:  # EIO: nobody has the other side open any more
            return False
        self.shown += data.decode("utf-8", "replace")
        return bool(data)

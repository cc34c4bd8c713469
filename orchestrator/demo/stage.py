"""The demo's folder: a git repository with the broken project, and all that the demo writes beside it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import attrs
import trio

from agents.errors import ErrorCode, failure
from agents.spec import PermissionMode
from orchestrator.settings import Settings

HERE = Path(__file__).parent
SCRIPT = HERE / "script.yaml"
PROJECT = HERE / "project"
PREFIX = "orchestrator-demo-"
GIT_SECONDS = 30
TESTS_SECONDS = 60


@attrs.frozen
class Stage:
    """One demo's folder. Nothing outside it is written."""

    folder: Path

    @property
    def project(self) -> Path:
        return self.folder / "project"

    @property
    def trace_file(self) -> Path:
        return self.folder / "trace.jsonl"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def settings(self, environment: Mapping[str, str]) -> Settings:
        """The scripted model on the project; calls run without asking, as nobody is asked here."""
        return Settings(
            workspace=self.project,
            model=f"script:{SCRIPT}",
            permission_mode=PermissionMode.AUTO,
            data_dir=self.data,
            trace_file=self.trace_file,
            home=self.folder / "home",
            environment=self.environment(environment),
        )

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """`given` without settings of the person's own, and with the Python that runs this first in PATH."""
        kept = {
            name: value for name, value in given.items() if not name.startswith(("ORCHESTRATOR_", "GIT_"))
        }
        paths = [str(self.folder / "bin"), given.get("PATH", os.defpath)]
        return {
            **kept,
            "PATH": os.pathsep.join(paths),
            "HOME": str(self.folder / "home"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
        }

    def git(self, *arguments: str) -> str:
        """Run git in the project; what it prints. Raises `Failure` TOOL_FAILED with its words."""
        try:
            done = subprocess.run(
                ["git", "-C", str(self.project), *arguments],
                env=self.environment(os.environ),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=GIT_SECONDS,
                check=True,
            )
        except FileNotFoundError:
            raise failure(
                ErrorCode.NOT_FOUND, "The demo needs `git`. Install it, then start the demo again."
            ) from None
        except subprocess.SubprocessError as error:
            words = " ".join(str(getattr(error, "stderr", "") or error).split())
            raise failure(
                ErrorCode.TOOL_FAILED,
                f"`git {' '.join(arguments)}` failed: {words}. Look at {self.project}, then "
                "start the demo again.",
            ) from None
        return done.stdout

    def commit(self, message: str, *paths: str) -> None:
        self.git("add", "--", *paths)
        self.git("commit", "--quiet", "--no-verify", "-m", message)

    async def run_tests(self) -> tuple[bool, str]:
        """The project's whole suite, in a process of its own: whether it passes, and its last words."""
        with trio.fail_after(TESTS_SECONDS):
            done = await trio.run_process(
                [sys.executable, "-B", "-m", "unittest", "-q"],
                cwd=self.project,
                capture_stdout=True,
                capture_stderr=True,
                check=False,
            )
        return done.returncode == 0, done.stderr.decode("utf-8", "replace").strip()

    def original(self, path: str) -> bytes:
        """A project file as it was before anybody touched it."""
        return (PROJECT / path).read_bytes()


def set_up(folder: Path | None) -> Stage:
    """A new demo in `folder` (new or empty; None: a temporary one that stays), its project committed once."""
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise failure(
            ErrorCode.INVALID_ARGUMENT, f"{folder} is not an empty folder. Name a new one with --keep."
        )
    stage = Stage(folder.absolute().resolve())
    (stage.folder / "home").mkdir(parents=True)
    _write_python(stage.folder / "bin")
    shutil.copytree(PROJECT, stage.project, ignore=shutil.ignore_patterns("__pycache__"))
    stage.git("init", "--quiet", "--template=")
    stage.git("symbolic-ref", "HEAD", "refs/heads/main")
    for name, value in (("user.name", "orchestrator demo"), ("user.email", "demo@localhost")):
        stage.git("config", name, value)
    stage.commit("The shop library, with three failing modules", ".")
    return stage


def _write_python(folder: Path) -> None:
    """`python3` as the Python that runs this, wherever that is installed and however it is called."""
    folder.mkdir()
    launcher = folder / "python3"
    quoted = sys.executable.replace("'", "'\\''")
    launcher.write_text(f"#!/bin/sh\nexec '{quoted}' \"$@\"\n", encoding="utf-8")
    launcher.chmod(0o755)

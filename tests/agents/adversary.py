"""Somebody who swaps folders and files for links while a tool works: at every step there is, or all the time."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs

STEPS = (
    *("open", "stat", "lstat", "readlink", "scandir", "listdir", "access", "fstat"),
    *("rename", "replace", "link", "unlink", "mkdir", "rmdir", "symlink", "chmod", "fchmod", "dup"),
)
"""What a tool does with the file system, one call each."""
SECRET = "SENTINEL"
HIDDEN = "hidden-name"


@attrs.define
class Ground:
    """`repo` is the workspace; `outside` looks the same from afar and holds the secret."""

    root: Path

    @property
    def repo(self) -> Path:
        return self.root / "repo"

    @property
    def outside(self) -> Path:
        return self.root / "outside"

    def lay_out(self) -> None:
        """Both trees as they are at the beginning."""
        for tree in (self.repo, self.outside):
            shutil.rmtree(tree, ignore_errors=True)
        for tree, text in ((self.repo, "inside"), (self.outside, SECRET)):
            (tree / "d" / "e").mkdir(parents=True)
            (tree / "d" / "e" / "a.txt").write_text(f"one {text}\ntwo {text}\n")
            (tree / "d" / ".gitignore").write_text("*.log\n")
        (self.outside / "d" / "e" / f"{HIDDEN}.txt").write_text(SECRET)
        (self.outside / "d" / "e" / "missinq.txt").write_text(SECRET)

    def outside_now(self) -> dict[str, str]:
        """Every file outside with its content."""
        return {
            str(path.relative_to(self.outside)): path.read_text() if path.is_file() else "/"
            for path in self.outside.rglob("*")
        }

    # what the adversary does, and takes back

    def swap_folder(self) -> None:
        os.rename(self.repo / "d", self.repo / "old")
        os.symlink(self.outside / "d", self.repo / "d")

    def swap_inner_folder(self) -> None:
        os.rename(self.repo / "d" / "e", self.repo / "old")
        os.symlink("../../outside/d/e", self.repo / "d" / "e")

    def swap_file(self) -> None:
        os.rename(self.repo / "d" / "e" / "a.txt", self.repo / "old")
        os.symlink(self.outside / "d" / "e" / "a.txt", self.repo / "d" / "e" / "a.txt")

    def move_folder_out(self) -> None:
        os.rename(self.repo / "d", self.root / "away")
        os.symlink(self.outside / "d", self.repo / "d")


@attrs.define
class Interruption:
    """Counts the steps of the code under test, and acts once, before the step with number `at`."""

    at: int
    act: Callable[[], None]
    seen: int = 0
    acting: bool = False

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Steps within the block count, whichever thread makes them."""
        real: dict[str, Any] = {name: getattr(os, name) for name in STEPS}

        def step(name: str) -> Callable[..., Any]:
            def stepped(*arguments: Any, **options: Any) -> Any:
                if not self.acting:
                    if self.seen == self.at:
                        self.acting = True
                        self.act()
                        self.acting = False
                    self.seen += 1
                return real[name](*arguments, **options)

            return stepped

        try:
            for name in STEPS:
                setattr(os, name, step(name))
            yield
        finally:
            for name, function in real.items():
                setattr(os, name, function)

    @property
    def came(self) -> bool:
        """Whether the call made so many steps."""
        return self.seen > self.at


_FLIPPING = textwrap.dedent(
    """
    import os, sys
    repo, outside = sys.argv[1:]
    parent = os.getppid()
    folder, old = repo + "/d", repo + "/old"
    file, spare = folder + "/e/a.txt", folder + "/e/spare"
    while os.getppid() == parent:
        os.rename(folder, old)
        os.symlink(outside + "/d", folder)
        os.unlink(folder)
        os.rename(old, folder)
        try:
            os.symlink(outside + "/d/e/a.txt", spare)
            os.rename(file, spare + "2")
            os.rename(spare, file)
            os.rename(spare + "2", file)
        except OSError:
            pass
    """
)


@contextlib.contextmanager
def flipping(ground: Ground) -> Iterator[None]:
    """A process that swaps a folder and a file back and forth during the block, as fast as it can."""
    arguments = [sys.executable, "-c", _FLIPPING, str(ground.repo), str(ground.outside)]
    with subprocess.Popen(arguments) as process:
        try:
            yield
        finally:
            process.kill()

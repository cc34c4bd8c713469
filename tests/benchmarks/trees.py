"""Real trees to search: what is installed, copied into a folder of the benchmark's own."""

from __future__ import annotations

import os
import shutil
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import attrs

from agents.rules.guarded import PRIVATE_KEYS, SECRET_EXCEPTIONS, SECRET_FILES
from agents.rules.ignore import APP_DEFAULTS

COPIES = 2
"""How often the third tree holds the installed packages."""
_NESTED_RULES = b"*.c\n!keep.c\n/build-*/\ndocs/**/*.rst\n"


@attrs.frozen
class Tree:
    """A folder with an ignore file that makes ripgrep leave out what our walk leaves out by itself."""

    name: str
    path: Path
    files: int


def trees(folder: Path) -> Iterator[Tree]:
    """The standard library, the installed packages, and a tree of several copies of both."""
    stdlib = Path(sysconfig.get_path("stdlib"))
    packages = Path(sysconfig.get_path("purelib"))
    first = folder / "stdlib"
    _copy(stdlib, first, leave_out={"site-packages"})
    yield _finished(first)
    second = folder / "packages"
    _copy(packages, second)
    yield _finished(second)
    third = folder / "copies"
    third.mkdir()
    for number in range(COPIES):
        _copy(packages, third / f"app-{number}" / "packages")
        _copy(stdlib, third / f"app-{number}" / "lib", leave_out={"site-packages"})
        (third / f"app-{number}" / ".gitignore").write_bytes(_NESTED_RULES)
    yield _finished(third)


def _copy(source: Path, target: Path, leave_out: frozenset[str] | set[str] = frozenset()) -> None:
    def ignored(folder: str, names: list[str]) -> set[str]:
        return (set(names) & leave_out) if Path(folder) == source else set()

    shutil.copytree(source, target, ignore=ignored, symlinks=True)


def _finished(tree: Path) -> Tree:
    """With a mark that makes it a repository, and rules for what our walk leaves out by itself."""
    (tree / ".git" / "info").mkdir(parents=True)
    names = "\n".join((*PRIVATE_KEYS, *SECRET_FILES, *(f"!{name}" for name in SECRET_EXCEPTIONS)))
    rules = APP_DEFAULTS + names.encode() + b"\n"
    (tree / ".git" / "info" / "exclude").write_bytes(rules)
    files = sum(len(names) for folder, _, names in os.walk(tree) if "/.git" not in folder)
    return Tree(tree.name, tree, files)

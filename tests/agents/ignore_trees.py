"""Generated trees full of ignore files, and what git lists of them."""

from __future__ import annotations

import os
import random
import subprocess
import threading
import time
from pathlib import Path

from agents.tools.search.walk import Tally, Walk
from agents.tools.search.worker import Clock
from agents.workspace import Workspace

DIRECTORIES = ["a", "b", "a/b", "b/c", "a/b/c", "foo", "foo/bar", "b/foo", "a/café"]
NAMES = [
    "foo",
    "bar",
    "x.log",
    "y.txt",
    "a",
    "b.c",
    "café.txt",
    ".hidden",
    "x y.txt",
    "z.tar.gz",
    "[q].md",
    "#n",
    "!m",
]
PATTERNS = [
    *(
        "foo",
        "bar",
        "a",
        "*.log",
        "*.txt",
        "*",
        "**",
        "*.*",
        "?",
        "?oo",
        "caf?",
        "caf*",
        "*é*",
        ".hidden",
        ".*",
    ),
    *(
        "foo/",
        "b/",
        "*/",
        "**/",
        "/foo",
        "/foo/",
        "/*",
        "/*/",
        "a/b",
        "a/b/",
        "/a/b",
        "b/*",
        "b/**",
        "**/foo",
    ),
    *(
        "**/b/",
        "a/**/c",
        "a/**",
        "/a/**/foo",
        "**/*.txt",
        "foo/**/",
        "/foo/**",
        "b/c/*.txt",
        "a/*/c",
        "**/**",
    ),
    *(
        "[a-c]",
        "[!a-c]*",
        "[^f]*",
        "b.[a-z]",
        "[[:alpha:]]",
        "x.l[o0]g",
        "[q].md",
        "\\[q].md",
        "foo\\",
        "fo\\o",
    ),
    *(
        "x y.txt",
        "x\\ y.txt",
        "\\#n",
        "#n",
        "\\!m",
        "*.log ",
        "foo\\ ",
        "*.gz",
        "*.tar.gz",
        "*r",
        "b.c\t",
        "//foo",
    ),
    *(
        "/",
        "a//b",
        "**foo",
        "foo**",
        "a**/b",
        "**/a/**/b",
        "*/foo",
        "*/*",
        "/**/foo",
        "a/b/c/../foo",
        "./foo",
        "",
    ),
]


def build_tree(root: Path, rng: random.Random) -> None:
    for directory in DIRECTORIES:
        (root / directory).mkdir(parents=True, exist_ok=True)
    for _ in range(30):
        path = root / rng.choice(["", *DIRECTORIES]) / rng.choice(NAMES)
        if not path.exists():
            path.write_text("")
    if not list(root.rglob("*.txt")):
        (root / "y.txt").write_text("")
    for directory in ["", *DIRECTORIES]:
        if directory == "" or rng.random() < 0.4:
            lines = [
                ("!" if rng.random() < 0.3 else "") + rng.choice(PATTERNS) for _ in range(rng.randint(1, 5))
            ]
            ending = rng.choice(["\n", "\n", "\r\n"])
            mark = rng.choice(["", "", "\ufeff"])
            (root / directory / ".gitignore").write_bytes((mark + ending.join(lines) + ending).encode())
    if rng.random() < 0.5:
        (root / ".git" / "info" / "exclude").write_text(rng.choice(PATTERNS) + "\n")


def git_lists(root: Path) -> set[str]:
    done = subprocess.run(
        ["git", "-c", "core.excludesFile=/dev/null", "ls-files", "-z", "-co", "--exclude-standard"],
        cwd=root,
        check=True,
        capture_output=True,
    )
    return {os.fsdecode(name) for name in done.stdout.split(b"\0") if name}


def git_ignores(root: Path, path: str) -> bool:
    """Whether a directory is left out, by a rule on itself or on one above it."""
    command = ["git", "-c", "core.excludesFile=/dev/null", "check-ignore", "-q", "--", path]
    return subprocess.run(command, cwd=root, check=False).returncode == 0


def empty_repository(folder: Path) -> Path:
    """A repository to copy: starting one takes longer than everything else."""
    root = folder / "template"
    root.mkdir()
    subprocess.run(["git", "init", "-q", "."], cwd=root, check=True)
    for hook in (root / ".git" / "hooks").iterdir():
        hook.unlink()
    return root


def walk_finds(workspace: Workspace, path: str) -> set[str]:
    """What our walk hands out below `path`, relative to it."""
    clock = Clock(time.monotonic() + 60, threading.Event())
    runs = Walk(workspace, workspace.resolve(path), clock, Tally()).runs()
    return {run.prefix + name for run in runs for name in run.names}


def differences(template: Path, folder: Path, seed: int) -> list[str]:
    """Where our walk and git disagree about the tree of `seed`, made in `folder` and left there.

    Three searches are compared: of the whole repository, of one directory in it, and of a workspace that lies
    in it. A directory that is itself ignored was named on purpose: then all of it is expected.
    """
    root = folder / f"tree{seed}"
    subprocess.run(["cp", "-r", template, root], check=True)
    rng = random.Random(seed)
    build_tree(root, rng)
    below = rng.choice(DIRECTORIES)
    ignored = git_ignores(root, below)
    everything = {str(path.relative_to(root / below)) for path in (root / below).rglob("*") if path.is_file()}
    whole, inner = workspace_at(root, folder), workspace_at(root / below, folder)
    expected = everything if ignored else git_lists(root / below)
    compared = [
        ("whole", git_lists(root), walk_finds(whole, ".")),
        (below, expected, walk_finds(whole, below)),
    ]
    if not ignored:
        compared.append((f"workspace {below}", expected, walk_finds(inner, ".")))
    return [
        f"seed {seed}, {where}: git has {sorted(theirs - ours)}, we have {sorted(ours - theirs)}"
        for where, theirs, ours in compared
        if theirs != ours
    ]


def workspace_at(root: Path, folder: Path) -> Workspace:
    data = folder / "data"
    return Workspace(root, scratch=data / "scratch" / "s", data_dir=data, home=folder / "home")

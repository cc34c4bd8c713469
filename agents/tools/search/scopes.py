"""Which ignore rules hold at the root of a search."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from agents import descriptors
from agents.errors import Failure
from agents.rules.ignore import APP_DEFAULTS, MAX_RULES_BYTES, RuleList, Scope, compile_rules
from agents.rules.paths import ResolvedPath, components, contains
from agents.workspace import Workspace, read_pointer

OWN_RULES = ".orchestratorignore"
GIT_RULES = ".gitignore"


def scope_at(workspace: Workspace, path: ResolvedPath) -> Scope:
    """The rules for a walk that starts at `path` (a directory), its own rule file not yet read.

    They come from the repository that the workspace lies in, from its top down. A path that is itself ignored
    was named on purpose: below it nothing is ignored.
    """
    top = _top_of(workspace, path)
    start = str(workspace.root) if contains(str(workspace.root), path.canonical) else top
    scope = _descend(_outermost(workspace, top), top, start, workspace)
    if scope is None:  # the workspace lies below an ignored directory: what is outside does not count
        top = start
        scope = _outermost(workspace, top)
    below = _descend(scope, start, path.canonical, workspace)
    return Scope() if below is None else below


def _top_of(workspace: Workspace, path: ResolvedPath) -> str:
    """The top of the repository that holds the search, or the place where the search starts without one."""
    inside = contains(str(workspace.root), path.canonical)
    start = str(workspace.root) if inside else path.canonical
    directory = start
    while True:
        if os.path.lexists(os.path.join(directory, ".git")):
            return directory
        if directory == "/":
            return start
        directory = os.path.dirname(directory)


def _outermost(workspace: Workspace, top: str) -> Scope:
    return Scope.of(
        compile_rules(APP_DEFAULTS),
        repository=_read_own(_exclude_file(Path(top))),
        last=_read_own(workspace.global_ignore),
    )


def _descend(scope: Scope, top: str, bottom: str, workspace: Workspace) -> Scope | None:
    """The scope at `bottom`, its own files not read; None if a directory on the way from `top` is ignored."""
    here = top
    for name in components(bottom)[len(components(top)) :]:
        scope = with_own_rules(scope, here, workspace)
        if scope.ignored(name, is_directory=True):
            return None
        scope = scope.enter(name)
        here = os.path.join(here, name)
    return scope


def with_own_rules(scope: Scope, directory: str, workspace: Workspace, *, nested: bool = True) -> Scope:
    """The scope in `directory` with the rule files that lie in it; `nested` False leaves out git's."""
    if directory == str(workspace.root):
        scope = scope.with_weaker(_read_rules(os.path.join(directory, OWN_RULES)))
    return scope.with_rules(_read_rules(os.path.join(directory, GIT_RULES))) if nested else scope


def _read_own(path: Path | None) -> RuleList:
    """Rules of a file of the user's or of git's own, which may lie behind links."""
    with contextlib.suppress(ValueError):  # a NUL in what a file says of its place
        return RuleList() if path is None else _read_rules(os.path.realpath(path))
    return RuleList()


def _read_rules(canonical: str) -> RuleList:
    """Rules of a plain file; none of a missing one or of a link (which git does not follow either)."""
    with contextlib.suppress(OSError, Failure), descriptors.directory(os.path.dirname(canonical)) as parent:
        return compile_rules(descriptors.read_plain(parent, os.path.basename(canonical), MAX_RULES_BYTES))
    return RuleList()


def _exclude_file(top: Path) -> Path | None:
    marker = top / ".git"
    with contextlib.suppress(OSError, ValueError):
        if marker.is_file():  # a worktree: its rules are the common repository's
            own = top / read_pointer(marker).removeprefix("gitdir:").strip()
            common = own / "commondir"
            marker = own / read_pointer(common).strip() if common.is_file() else own
        return marker / "info" / "exclude"
    return None

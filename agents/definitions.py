"""Agent definitions: which files there are, which one wins a name, and what was wrong with the rest.

Sources, in this order: the user's folders, the built-ins, the workspace's folders. The first definition of a
name wins. A repository's file never takes a name of the user's or a built-in one: it is offered as
`repo:<name>` instead. A file that cannot be used is a diagnostic and costs nothing else; the name that it
asks for stays taken, so that no other file, with other tools, silently steps in.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import attrs

from agents.definition_file import NOT_ASSIGNABLE, Draft, Refused, Rules, name_of, parse, spec_of
from agents.spec import AgentSpec

FOLDERS = (".orchestrator/agents", ".agents/agents", ".claude/agents")
"""Below the user's home and below the workspace, strongest first."""

BUILT_IN_FOLDER = Path(__file__).parent / "builtin"
BUILT_IN = "built-in"
MODEL_PROVIDERS = ("anthropic", "openai", "openai-chat", "script", "replay")
MAX_FILE_BYTES = 256 * 1024

Severity = Literal["error", "warning"]


@attrs.frozen
class Diagnostic:
    """One thing to tell the person about a definition file."""

    path: str
    """The file or folder; `built-in/NAME.md` for a built-in."""
    severity: Severity
    """`error`: the definition is unavailable; `warning`: what the message names is left out or renamed."""
    message: str


@attrs.frozen
class Definitions:
    """What was found."""

    specs: dict[str, AgentSpec]
    """By the name under which each is offered, strongest source first."""
    diagnostics: tuple[Diagnostic, ...]
    unavailable: dict[str, str] = attrs.field(factory=dict)
    """Names that a broken file holds → why: what to say when one is asked for."""


def load_definitions(
    *,
    home: Path,
    workspace: Path | None,
    model_aliases: Mapping[str, str] | None = None,
    known_tools: Sequence[str],
    nesting: bool = False,
    providers: Sequence[str] = MODEL_PROVIDERS,
) -> Definitions:
    """Read every definition that exists now. Blocking file reads; raises nothing for what the files hold.

    `known_tools`: names of the session's tools, plugin tools included. `model_aliases`: the user's own
    (`{"fast": "openai:…"}`); a value may be `inherit`. `nesting`: whether delegates may delegate, so that
    `Task` can be assigned. `providers`: prefixes that a model pin may have.
    """
    assignable = tuple(tool for tool in known_tools if tool not in NOT_ASSIGNABLE)
    collection = _Collection(Rules(model_aliases or {}, assignable, tuple(providers), nesting))
    for folder in FOLDERS:
        collection.add_folder(_Source(home / folder))
    collection.add_folder(_Source(BUILT_IN_FOLDER, built_in=True))
    # In the home folder itself the user's files are found once, as the user's.
    if workspace is not None and os.path.realpath(workspace) != os.path.realpath(home):
        for folder in FOLDERS:
            collection.add_folder(_Source(workspace / folder, repository=workspace))
    return Definitions(collection.specs, tuple(collection.diagnostics), collection.unavailable)


@attrs.frozen
class _Source:
    """One folder of definitions."""

    folder: Path
    repository: Path | None = None
    """The workspace, if the folder is its: no link may then lead out of it."""
    built_in: bool = False

    def shown(self, file: Path) -> str:
        return f"{BUILT_IN}/{file.name}" if self.built_in else str(file)


@attrs.define
class _Collection:
    """What has been found so far, source by source."""

    rules: Rules
    specs: dict[str, AgentSpec] = attrs.field(factory=dict)
    diagnostics: list[Diagnostic] = attrs.field(factory=list)
    unavailable: dict[str, str] = attrs.field(factory=dict)
    held: set[str] = attrs.field(factory=set)
    """Names, case-folded, that a repository's file cannot have."""

    def add_folder(self, source: _Source) -> None:
        try:
            files = _markdown_files(source)
        except OSError as error:
            text = f"The folder cannot be read ({error.strerror or error}). Check its permissions."
            self.diagnostics.append(Diagnostic(str(source.folder), "error", text))
            return
        for file in files:
            self._add(file, source)

    def _add(self, file: Path, source: _Source) -> None:
        """One file: a spec under the name it gets, or a diagnostic."""
        shown = source.shown(file)
        draft: Draft | None = None
        offered: str | None = None
        try:
            draft = parse(_text(file, source))
            name = name_of(draft)
            offered = self._offered(name, source)
            if source.repository is None:
                self.held.add(name.casefold())
            if offered in self.specs or offered in self.unavailable:
                self._overtaken(offered, shown, source)
                return
            if offered != name:
                draft.warnings.append(
                    f"{name} is the user's or a built-in; this one is offered as {offered}."
                )
            spec = spec_of(draft, offered, self.rules)
            self.specs[offered] = attrs.evolve(spec, source=BUILT_IN if source.built_in else shown)
        except Refused as refused:
            self._broken(file, source, offered, str(refused))
        for warning in draft.warnings if draft else ():
            self.diagnostics.append(Diagnostic(shown, "warning", warning))

    def _offered(self, name: str, source: _Source) -> str:
        taken = source.repository is not None and name.casefold() in self.held
        return f"repo:{name}" if taken else name

    def _overtaken(self, offered: str, shown: str, source: _Source) -> None:
        if source.built_in and offered in self.specs:
            return  # Replacing a built-in is what the user's own file of that name is for.
        why = (
            "an earlier, broken file holds it" if offered in self.unavailable else self.specs[offered].source
        )
        text = f"Not used: the name {offered} is already taken ({why}). Rename one of them."
        self.diagnostics.append(Diagnostic(shown, "warning", text))

    def _broken(self, file: Path, source: _Source, offered: str | None, why: str) -> None:
        self.diagnostics.append(Diagnostic(source.shown(file), "error", why))
        if offered is not None:
            self.unavailable[offered] = why
        elif source.repository is None:
            # Its name cannot be read. The file's own is most likely it: enough to keep a repository from it.
            self.held.add(file.stem.casefold())


def _markdown_files(source: _Source) -> list[Path]:
    """The folder's definition files by name; none where there is no such folder."""
    if source.repository is not None and not _inside(source.folder, source.repository):
        raise PermissionError("it is a link out of the workspace")
    try:
        with os.scandir(source.folder) as entries:
            names = sorted(entry.name for entry in entries)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [source.folder / name for name in names if name.endswith(".md")]


def _inside(path: Path, root: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))


def _text(file: Path, source: _Source) -> str:
    """The file's text. Nothing but a regular file of a sane size is read, and a FIFO never blocks."""
    if source.repository is not None and not _inside(file, source.repository):
        raise Refused("The file is a link out of the workspace. Put the definition itself into the folder.")
    try:
        data = _regular_bytes(file)
    except OSError as error:
        raise Refused(f"The file cannot be read ({error.strerror}). Check the file.") from None
    if len(data) > MAX_FILE_BYTES:
        raise Refused(f"The file is larger than {MAX_FILE_BYTES // 1024} KiB. Shorten it.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Refused("The file is not UTF-8 text. Save it as UTF-8.") from None


def _regular_bytes(file: Path) -> bytes:
    descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Refused("This is not a regular file. Put a Markdown file in its place.")
        with os.fdopen(descriptor, "rb", closefd=False) as handle:
            return handle.read(MAX_FILE_BYTES + 1)
    finally:
        os.close(descriptor)

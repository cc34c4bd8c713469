"""The path walk: what a spelling means, decided on facts that the caller brings. Pure.

`begin` takes an absolute spelling and asks for the kind of one path at a time; the caller answers with a
`Fact` and `step` asks for the next, until the walk ends in `Walked`. `classify` then says where that place
lies and whether a rule guards it. `..` after a link means what it means to the kernel (the parent of the
link's target), so a shell and a file tool agree about the same spelling; after anything else it is lexical.
"""

from __future__ import annotations

import enum

import attrs

from agents.errors import ErrorCode, failure
from agents.rules.guarded import DenyList, denied_place, protected_place

MAX_PATH_BYTES = 4096
MAX_LINKS = 40
"""As the kernel bounds them."""


class Root(enum.StrEnum):
    """Where a path lies."""

    WORKSPACE = "workspace"
    SCRATCH = "scratch"
    EXTERNAL = "external"


class PathKind(enum.StrEnum):
    """What stands at the canonical path."""

    FILE = "file"
    DIRECTORY = "directory"
    MISSING = "missing"
    OTHER = "other"
    """FIFO, socket, device: never opened."""


@attrs.frozen
class ResolvedPath:
    """One argument, resolved and classified. Made by `Workspace.resolve` alone."""

    given: str
    """As the model wrote it."""
    canonical: str
    """Absolute; every link of the deepest existing ancestor followed (a dangling link by its target)."""
    root: Root
    display: str
    """Workspace-relative with `/` inside the workspace, else the absolute canonical path."""
    kind: PathKind
    denied: str | None = None
    """Why no file tool may open it (the deny list), else None."""
    protected: str | None = None
    """Why writing it asks in every mode, else None."""

    @property
    def outside(self) -> bool:
        return self.root is Root.EXTERNAL


class NodeKind(enum.Enum):
    """What `lstat` says of one path."""

    FILE = "file"
    DIRECTORY = "directory"
    LINK = "link"
    MISSING = "missing"
    """Also below a plain file, and where no permission lets us look."""
    DEVICE = "device"
    OTHER = "other"
    """FIFO or socket."""


@attrs.frozen
class Fact:
    """The answer to a question of the walk."""

    kind: NodeKind
    target: str = ""
    """What `readlink` says of a link; empty for everything else."""


@attrs.frozen
class Ask:
    """The walk needs the `Fact` of `path`; hand it to `step` together with this."""

    path: str
    done: tuple[str, ...]
    """Components that are certain, below `/`."""
    left: tuple[str, ...]
    """Components still to walk, after the asked one."""
    links: tuple[str, ...]
    """Links followed so far, each by its own canonical place."""


@attrs.frozen
class Walked:
    """The end of a walk."""

    canonical: str
    kind: NodeKind
    links: tuple[str, ...] = ()
    """Links that were followed on the way."""


@attrs.frozen
class Places:
    """The directories that decide where a path lies; all canonical and absolute."""

    workspace: str
    scratch: str
    data_dir: str
    added: tuple[str, ...] = ()
    config_dirs: tuple[str, ...] = ()
    """The user's own configuration folders: protected."""
    repository_dirs: tuple[str, ...] = ()
    """Git directories that a pointer file of the workspace names: protected like `.git`."""
    deny: DenyList = attrs.field(factory=DenyList)


def absolute_spelling(given: str, *, start: str, home: str | None) -> str:
    """Check one spelling and make it absolute: `~` is the user's home, what is relative hangs below `start`.

    Raises `Failure` INVALID_ARGUMENT for an empty, over-long or unprintable spelling.
    """
    if not given:
        raise failure(
            ErrorCode.INVALID_ARGUMENT, "The path is empty; give a path such as `src/app.py` or `.`."
        )
    if "\0" in given:
        raise failure(ErrorCode.INVALID_ARGUMENT, "The path holds a NUL byte; give the path without it.")
    try:
        length = len(given.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        raise failure(
            ErrorCode.INVALID_ARGUMENT,
            "The path holds a character that no file name can have; spell the path as Glob shows it.",
        ) from None
    if length > MAX_PATH_BYTES:
        raise failure(
            ErrorCode.INVALID_ARGUMENT,
            f"The path is {length} bytes long, the limit is {MAX_PATH_BYTES}; give a shorter, relative path.",
        )
    if given == "~" or given.startswith("~/"):
        if home is None:
            raise failure(
                ErrorCode.INVALID_ARGUMENT,
                "The user's home is unknown; give an absolute path instead of `~`.",
            )
        return f"{home}/{given[2:]}"
    if given.startswith("~") and "/" in given:
        raise failure(
            ErrorCode.INVALID_ARGUMENT,
            f"Only the user's own `~` is known, not `{given.partition('/')[0]}`; give an absolute path, or "
            f"`./{given}` for what is really called that.",
        )
    return given if given.startswith("/") else f"{start}/{given}"


def components(path: str) -> tuple[str, ...]:
    """The parts of a path without empty ones and `.`."""
    return tuple(part for part in path.split("/") if part not in ("", "."))


def contains(directory: str, path: str) -> bool:
    """Whether `path` is `directory` or lies below it, by components. Both absolute and canonical."""
    outer = components(directory)
    return components(path)[: len(outer)] == outer


def relative_to(directory: str, path: str) -> str:
    """`path` below `directory` with `/`; `.` for the directory itself."""
    return "/".join(components(path)[len(components(directory)) :]) or "."


def begin(absolute: str) -> Ask | Walked:
    """Start walking an absolute spelling."""
    return _advance((), components(absolute), (), NodeKind.DIRECTORY)


def step(ask: Ask, fact: Fact) -> Ask | Walked:
    """Go on with the fact that was asked for.

    Raises `Failure` INVALID_ARGUMENT when more than `MAX_LINKS` links were followed.
    """
    name = ask.path.rsplit("/", 1)[1]
    if fact.kind is not NodeKind.LINK:
        return _advance((*ask.done, name), ask.left, ask.links, fact.kind)
    links = (*ask.links, ask.path)
    if len(links) > MAX_LINKS:
        raise failure(
            ErrorCode.INVALID_ARGUMENT,
            f"The path goes through more than {MAX_LINKS} symbolic links (a loop); "
            "give the path of the real file.",
        )
    if not fact.target.startswith("/") and ask.done[:1] == ("proc",) and ":" in fact.target:
        # A descriptor without a file, such as `pipe:[77]`: the text of the link is not a path.
        return Walked(ask.path, NodeKind.OTHER, links)
    start = () if fact.target.startswith("/") else ask.done
    return _advance(start, components(fact.target) + ask.left, links, NodeKind.DIRECTORY)


def _advance(
    done: tuple[str, ...], left: tuple[str, ...], links: tuple[str, ...], kind: NodeKind
) -> Ask | Walked:
    climbed = False
    while left and left[0] == "..":
        done, left, climbed, kind = done[:-1], left[1:], True, NodeKind.DIRECTORY
    here = "/" + "/".join(done)
    if not left:
        # After a lexical `..` nothing is known of the place where the walk stands now.
        return Ask(here, done[:-1], (), links) if climbed and done else Walked(here, kind, links)
    if kind is NodeKind.MISSING and ".." not in left:
        return Walked("/" + "/".join(done + left), NodeKind.MISSING, links)
    return Ask("/" + "/".join((*done, left[0])), done, left[1:], links)


def classify(given: str, walked: Walked, places: Places) -> ResolvedPath:
    """Say where a walked path lies and whether the deny list or the protection of writes applies."""
    canonical = walked.canonical
    root = _root_of(canonical, places)
    inside = contains(places.workspace, canonical) and root is Root.WORKSPACE
    return ResolvedPath(
        given=given,
        canonical=canonical,
        root=root,
        display=spelled_out(printable(relative_to(places.workspace, canonical) if inside else canonical)),
        kind=_KINDS.get(walked.kind, PathKind.OTHER),
        denied=_denied(walked, places),
        protected=_protected(walked, places),
    )


def spelled_out(path: str) -> str:
    """A path below the workspace so that it means the same when it is given back: `~` is a name in it."""
    return f"./{path}" if path.startswith("~") else path


def printable(path: str) -> str:
    """A file name as text: bytes that are not UTF-8 become replacement marks."""
    if path.isascii():
        return path
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


_KINDS = {
    NodeKind.FILE: PathKind.FILE,
    NodeKind.DIRECTORY: PathKind.DIRECTORY,
    NodeKind.MISSING: PathKind.MISSING,
}


def _root_of(canonical: str, places: Places) -> Root:
    if contains(places.scratch, canonical):
        return Root.SCRATCH
    if any(contains(directory, canonical) for directory in (places.workspace, *places.added)):
        return Root.WORKSPACE
    return Root.EXTERNAL


def _below_root(path: str, places: Places) -> tuple[str, ...]:
    """The components that are judged by name: those below the root; a root's own place condemns nothing."""
    for directory in (places.scratch, places.workspace, *places.added):
        if contains(directory, path):
            return components(path)[len(components(directory)) :]
    return components(path)


def _denied(walked: Walked, places: Places) -> str | None:
    if walked.kind is NodeKind.DEVICE:
        return "it is a device file"
    if _holds(places.data_dir, walked.canonical) and not contains(places.scratch, walked.canonical):
        return "it belongs to the orchestrator's own data directory"
    # A link is judged by its own name too: `.env` stays denied when it points to a file of another name.
    for path in (walked.canonical, *walked.links):
        reason = denied_place(components(path), _below_root(path, places), places.deny)
        if reason is not None:
            return reason
    return None


def _protected(walked: Walked, places: Places) -> str | None:
    for path in (walked.canonical, *walked.links):
        if any(_holds(directory, path) for directory in places.config_dirs):
            return "it belongs to the user's own configuration"
        if any(_holds(directory, path) for directory in places.repository_dirs):
            return "it belongs to the repository's own git directory"
        reason = protected_place(components(path), _below_root(path, places))
        if reason is not None:
            return reason
    return None


def _holds(directory: str, path: str) -> bool:
    """Containment that ignores case: right for refusing, wrong for allowing."""
    return contains(directory.casefold(), path.casefold())

"""Guarded names: what no file tool opens (the deny list), what nobody writes unasked (protected paths). Pure.

Names are compared without regard to case, to invisible characters and to the trailing dots and blanks that
some volumes drop: each of these spellings can reach the same file. Exceptions are compared exactly.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Sequence
from fnmatch import fnmatchcase, translate

import attrs

PRIVATE_KEYS = ("*.pem", "*.key", "id_rsa*", "id_ed25519*", "*.p12", "*.pfx")
SECRET_FILES = (".env", ".env.*", "credentials.json", ".npmrc", ".netrc")
SECRET_EXCEPTIONS = (".env.example", ".env.sample", ".env.template")

PROCESS_SECRETS = frozenset({"environ", "mem", "kcore"})
_PROTECTED_FOLDERS = {
    ".git": "it is git metadata (hooks and configuration run programs)",
    ".orchestrator": "it is the orchestrator's own configuration",
    ".agents": "it holds agent definitions",
    ".claude": "it holds agent definitions",
    ".ssh": "it is the configuration of ssh",
}
_PROTECTED_FILES = {
    ".mcp.json": "it declares plugin servers",
    ".envrc": "direnv runs it",
    ".gitconfig": "it is git's configuration",
}
_STARTUP_FILES = frozenset(
    {
        *(".profile", ".login", ".inputrc", ".kshrc", ".cshrc", ".tcshrc", "bash.bashrc"),
        *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases"),
        *(".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout"),
        *("config.fish", "profile.ps1", "microsoft.powershell_profile.ps1"),
    }
)
_SYSTEM_STARTUP = (("etc", "profile"), ("etc", "profile.d"), ("etc", "zsh"), ("etc", "environment"))
# Code points that HFS+ drops from file names when it compares them.
_INVISIBLE = dict.fromkeys(
    (*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF, 0x00AD)
)
_GIT_SHORT_NAME = "git~1"
_KEYS = re.compile("|".join(translate(pattern) for pattern in PRIVATE_KEYS))
_SECRETS = re.compile("|".join(translate(pattern) for pattern in SECRET_FILES))
_ENDINGS = tuple(pattern[1:] for pattern in PRIVATE_KEYS if pattern.startswith("*"))
_STARTS = tuple(
    pattern.rstrip("*") for pattern in (*PRIVATE_KEYS, *SECRET_FILES) if not pattern.startswith("*")
)

# What many names joined by NUL hold where one of them may be on a list, or be git's directory.
_SIGNS = (
    *("\0" + start for start in (*_STARTS, ".git")),
    *(ending + "\0" for ending in _ENDINGS),
    *(".\0", " \0"),
)


@attrs.frozen
class DenyList:
    """What the user's configuration changes of the built-in list: patterns on one path component."""

    extra: tuple[str, ...] = ()
    """Patterns that are denied as well (`*`, `?`, `[…]`)."""
    lifted: tuple[str, ...] = ()
    """Patterns that are allowed after all, compared exactly. Never lifts process secrets or devices."""


def fold_name(name: str) -> str:
    """One spelling for all names that some volume takes for the same file."""
    visible = name if name.isascii() else unicodedata.normalize("NFC", name.translate(_INVISIBLE))
    folded = visible.casefold()
    return folded.rstrip(". ") or folded


def denied_name(name: str, deny: DenyList = DenyList()) -> str | None:
    """Why a file or folder of this name is never opened, else None."""
    if not deny.extra and name.isascii() and _is_ordinary(name):
        return None
    folded = fold_name(name)
    if _KEYS.match(folded):
        reason = "its name is that of a private key"
    elif _SECRETS.match(folded):
        reason = "its name is that of a file with secrets"
    elif any(fnmatchcase(folded, pattern.casefold()) for pattern in deny.extra):
        reason = "the user's configuration denies its name"
    else:
        return None
    lifted = name in SECRET_EXCEPTIONS or any(fnmatchcase(name, pattern) for pattern in deny.lifted)
    return None if lifted else reason


def guarded_names(names: Sequence[str], deny: DenyList = DenyList()) -> set[str]:
    """Those of a directory's names that may be denied, or stand for git's own directory; few others.

    A walk asks it of every entry, so many are looked at in one go.
    """
    joined = "\0" + "\0".join(names).lower() + "\0"
    if not deny.extra and joined.isascii() and not any(sign in joined for sign in _SIGNS):
        return set()
    return {
        name
        for name in names
        if deny.extra or not name.isascii() or not _is_ordinary(name) or name.lower().startswith(".git")
    }


def _is_ordinary(name: str) -> bool:
    """Whether a name is certainly not on the built-in list."""
    lower = name.lower()
    return not lower.startswith(_STARTS) and not lower.rstrip(". ").endswith(_ENDINGS)


def denied_place(
    parts: tuple[str, ...],
    below: tuple[str, ...],
    deny: DenyList = DenyList(),
) -> str | None:
    """Why a path is never opened, else None. `parts`: all its components; `below`: those below its root."""
    if parts[:1] == ("proc",) and parts[-1] in PROCESS_SECRETS:
        return "it shows memory or the environment of a process"
    for name in below:
        reason = denied_name(name, deny)
        if reason is not None:
            return reason
    return None


def protected_place(parts: tuple[str, ...], below: tuple[str, ...]) -> str | None:
    """Why writing a path asks in every mode, else None. Arguments as for `denied_place`."""
    names = [fold_name(name) for name in below]
    for folded in names:
        # `.git` may also be a file that points to the real directory of a worktree.
        reason = _PROTECTED_FOLDERS.get(".git" if folded == _GIT_SHORT_NAME else folded)
        if reason is not None:
            return reason
    last = names[-1] if names else ""
    system = parts[1:] if parts[:1] == ("private",) else parts  # macOS keeps /etc in /private/etc
    if last in _STARTUP_FILES or any(system[: len(start)] == start for start in _SYSTEM_STARTUP):
        return "shells run it when they start"
    if last in _PROTECTED_FILES:
        return _PROTECTED_FILES[last]
    if any(pair == (".config", "git") for pair in itertools.pairwise(names)):
        return "it is git's configuration"
    return None

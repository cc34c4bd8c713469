"""The path contract in words: the one place that tool schemas and guidance take their sentences from. Pure.

A text may be shown to an agent that has only this one tool, so each names no tool but its own.
"""

from __future__ import annotations

PATHS = (
    "Paths are relative to the workspace, with `/` between the parts; prefer that spelling. Absolute "
    "paths, `./x` and `~` are understood too. A path is taken literally: `*` and `?` belong into "
    "patterns."
)

PATH_CONTRACT: dict[str, str] = {
    "Read": "`Read.path` is an existing regular text file, never a directory.",
    "Glob": (
        "`Glob.path` is a directory, never a file; without it the workspace is searched. `Glob.pattern` "
        "stays below that directory: it is neither absolute nor does it contain `..`."
    ),
    "Grep": (
        "`Grep.path` is one file or a directory tree; without it the workspace is searched. A file named "
        "so is searched itself and nothing beside it. `Grep.include` is a glob on the base name, without "
        "a separator, and filters that one file too. `Grep.outputMode` is `content`, `filesWithMatches` "
        "or `count`."
    ),
}
"""By tool: what its path argument may be."""

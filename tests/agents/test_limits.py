"""The numbers that the documentation promises, written out once more: no test takes them from the code alone."""

from __future__ import annotations

import pytest

from agents import large_files
from agents.rules import binary, ops, paths, text, tool_search
from agents.tools import bash, capture, edit, glob, grep, read
from agents.tools.search import content, reading, walk, worker

KIB, MIB = 1 << 10, 1 << 20


@pytest.mark.parametrize(
    ("number", "documented"),
    [
        (paths.MAX_LINKS, 40),
        (paths.MAX_PATH_BYTES, 4096),
        (text.MAX_LINE_CHARS, 2000),
        (binary.HEAD_BYTES, 4 * KIB),
        (binary.MAX_UNPRINTABLE, 0.30),
        (read.DEFAULT_LINES, 500),
        (read.MAX_LINES, 2000),
        (read.MAX_CONTENT_BYTES, 48 * KIB),
        (glob.DEFAULT_FILES, 100),
        (glob.MAX_FILES, 1000),
        (grep.DEFAULT_HEAD, 200),
        (grep.MAX_HEAD, 2000),
        (content.MAX_NAMED_BYTES, 64 * MIB),
        (reading.MAX_FILE_BYTES, 10 * MIB),
        (walk.MAX_DEPTH, 64),
        (walk.MAX_ENTRIES, 200_000),
        (worker.SEARCH_SECONDS, 10.0),
        (bash.DEFAULT_SECONDS, 60),
        (bash.MAX_SECONDS, 300),
        (capture.STDOUT_LIMITS, capture.Limits(head_bytes=32 * KIB, tail_bytes=64 * KIB)),
        (capture.STDERR_LIMITS, capture.Limits(head_bytes=0, tail_bytes=96 * KIB)),
        (ops.MAX_OPS, 200),
        (ops.MAX_TEXT_BYTES, 256 * KIB),
        (edit.MAX_EDIT_BYTES, 32 * MIB),
        (tool_search.MAX_MATCHES, 4),
    ],
)
def test_a_limit_is_the_documented_one(number: object, documented: object) -> None:
    assert number == documented


def test_a_large_file_is_read_in_pieces_that_fit_into_memory() -> None:
    assert large_files._CHUNK <= 4 * MIB

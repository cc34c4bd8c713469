from __future__ import annotations

import difflib

from hypothesis import given
from hypothesis import strategies as st

from agents.results import Hunk
from agents.rules.diffs import MAX_HUNKS, bounded, changes, counts, unified
from agents.rules.text import decode
from tests.agents.rules.edit_model import CALM

FILES = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "d\n", "x\r\n"]), max_size=30).map("".join)


def patched(old: str, diff: str) -> str:
    """Apply a unified diff to `old`, strictly."""
    rows, out, at = old.split("\n")[:-1], [], 0
    for row in diff.split("\n")[2:-1]:
        if row.startswith("@@"):
            first, count = row.split()[1][1:].split(",")
            start = int(first) - (1 if int(count) else 0)
            out += rows[at:start]
            at = start
            continue
        if row[0] in " -":
            assert rows[at] == row[1:]
            at += 1
        if row[0] in " +":
            out.append(row[1:])
    return "".join(f"{line}\n" for line in out + rows[at:])


@CALM
@given(FILES.map(lambda text: text.replace("\r", "")), FILES.map(lambda text: text.replace("\r", "")))
def test_the_diff_turns_the_old_text_into_the_new_one(old: str, new: str) -> None:
    assert patched(old, unified(decode(old.encode()), decode(new.encode()), "f")) == new


@CALM
@given(FILES, FILES)
def test_the_regions_account_for_every_line(old: str, new: str) -> None:
    first, second = decode(old.encode()), decode(new.encode())
    added, removed = counts(changes(first, second))
    assert added - removed == len(second.lines) - len(first.lines)
    assert bool(added or removed) == (old != new)


def test_it_looks_as_people_know_it() -> None:
    old, new = "a\nb\nc\nd\ne\nf\ng\nh\n", "a\nb\nc\nd\nE\nf\ng\nh\n"
    expected = "".join(difflib.unified_diff(old.splitlines(True), new.splitlines(True), "a/f", "b/f"))
    assert unified(decode(old.encode()), decode(new.encode()), "f") == expected


def test_a_missing_newline_at_the_end_is_shown() -> None:
    diff = unified(decode(b"a\nb"), decode(b"a\nB"), "f")
    assert diff.endswith("-b\n\\ No newline at end of file\n+B\n\\ No newline at end of file\n")


def test_a_new_file_comes_from_nowhere() -> None:
    assert (
        unified(decode(b""), decode(b"a\n"), "f", created=True)
        == "--- /dev/null\n+++ b/f\n@@ -0,0 +1,1 @@\n+a\n"
    )


def test_a_long_diff_is_cut_at_200_lines_and_says_so() -> None:
    rows = unified(decode(b""), decode(b"x\n" * 500), "f").split("\n")[:-1]
    assert len(rows) == 200
    assert rows[-1] == "… 304 more diff lines"


def test_a_long_line_is_clipped() -> None:
    assert len(unified(decode(b""), decode(b"x" * 5000), "f")) < 700


def test_a_record_keeps_at_most_200_regions_and_its_last_one_covers_the_rest() -> None:
    old = decode(b"".join(b"%d\n" % number for number in range(1000)))
    new = decode(b"".join(b"%s%d\n" % (b"x" if number % 3 == 0 else b"", number) for number in range(1000)))
    hunks = changes(old, new)
    kept = bounded(hunks)
    assert (len(hunks), len(kept)) == (334, MAX_HUNKS)
    assert kept[:-1] == hunks[: MAX_HUNKS - 1]
    assert kept[-1] == Hunk(old_start=598, old_lines=403, new_start=598, new_lines=403)
    assert bounded(hunks[:MAX_HUNKS]) == hunks[:MAX_HUNKS]


def test_a_diff_of_a_deletion_and_of_a_move_names_both_sides() -> None:
    text = decode(b"a\n")
    gone = unified(text, decode(b""), "f", deleted=True)
    assert gone == "--- a/f\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-a\n"
    assert unified(text, text, "f", moved_to="g") == "rename from f\nrename to g\n--- a/f\n+++ b/g\n"

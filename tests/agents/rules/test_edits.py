from __future__ import annotations

import codecs
from typing import Any

import attrs
import pytest
from hypothesis import given

from agents.errors import ErrorCode
from agents.results import Hunk
from agents.rules.edits import Planned, Refused, plan_edit
from agents.rules.text import decode
from tests.agents.rules.edit_model import CALM, Sample, done, edit, model, refused, request, samples, snapshot

TEN = b"".join(b"line %d\n" % number for number in range(1, 11))


def replace(start: int, text: str, end: int | None = None) -> dict[str, Any]:
    return {"op": "replace", "start": start, "end": end or start, "text": text}


def insert(text: str, **at: int) -> dict[str, Any]:
    return {"op": "insert", **at, "text": text}


def append(text: str) -> dict[str, Any]:
    return {"op": "append", "text": text}


def delete(start: int, end: int | None = None) -> dict[str, Any]:
    return {"op": "delete", "start": start, "end": end or start}


# what lands


@CALM
@given(samples())
def test_applying_operations_equals_an_independent_simple_model(sample: Sample) -> None:
    planned = edit(sample.data, *sample.ops)
    if isinstance(planned, Refused):
        assert planned.error.code is ErrorCode.EDIT_NO_CHANGE
        assert model(sample) == sample.data
    else:
        assert planned.data == model(sample)
        assert planned.before.encode() == sample.data
        assert planned.after.encode() == planned.data


@CALM
@given(samples())
def test_hunks_and_counts_describe_the_change_and_everything_outside_them_is_identical(
    sample: Sample,
) -> None:
    planned = edit(sample.data, *sample.ops)
    if isinstance(planned, Refused):
        return
    old, new = (list(zip(text.lines, text.endings, strict=True)) for text in (planned.before, planned.after))
    assert planned.additions - planned.deletions == len(new) - len(old)
    for hunk in reversed(planned.hunks):
        start_old, start_new = hunk.old_start - bool(hunk.old_lines), hunk.new_start - bool(hunk.new_lines)
        old[start_old : start_old + hunk.old_lines] = new[start_new : start_new + hunk.new_lines]
    assert old == new


def test_each_untouched_line_of_a_mixed_file_keeps_its_own_ending() -> None:
    assert done(edit(b"a\r\nb\nc\r\n", replace(2, "B"))) == b"a\r\nB\nc\r\n"


def test_inserted_lines_of_a_crlf_file_end_in_crlf() -> None:
    assert done(edit(b"x\r\ny\r\nz\r\n", replace(2, "Y\nw"))) == b"x\r\nY\r\nw\r\nz\r\n"


@pytest.mark.parametrize("foreign", [b"# caf\xe9\n", b"\xd6\xd0\xce\xc4\n"])
def test_bytes_of_an_unknown_encoding_survive_an_edit_of_another_line(foreign: bytes) -> None:
    assert done(edit(b"x = 1\n" + foreign, replace(1, "x = 2"))) == b"x = 2\n" + foreign


def test_text_that_the_files_encoding_cannot_hold_is_refused_and_nothing_else_is_applied() -> None:
    error = refused(edit(b"x = 1\n# caf\xe9\n", replace(1, "x = 2"), append("é")))
    assert error.code is ErrorCode.INVALID_ARGUMENT
    assert error.details["reason"] == "encoding"
    assert "U+00E9" in error.message


@pytest.mark.parametrize(
    "op", [replace(1, "hi"), replace(2, "w"), insert("top", after=0), replace(1, "\ufeffhi")]
)
def test_a_byte_order_mark_stays_the_only_one(op: dict[str, Any]) -> None:
    landed = done(edit(codecs.BOM_UTF8 + b"hello\nworld\n", op))
    assert landed.startswith(codecs.BOM_UTF8)
    assert landed.count(codecs.BOM_UTF8) == 1


def test_utf_16_stays_utf_16() -> None:
    data = codecs.BOM_UTF16_LE + "a\r\nb\r\n".encode("utf-16-le")
    assert done(edit(data, replace(2, "é"))) == codecs.BOM_UTF16_LE + "a\r\né\r\n".encode("utf-16-le")


@pytest.mark.parametrize(
    ("data", "op", "expected"),
    [
        (b"a\nb", replace(1, "A"), b"A\nb"),
        (b"a\nb\n", replace(2, "B"), b"a\nB\n"),
        (b"a\nb", replace(2, "B\n"), b"a\nB"),
        (b"a\nb\n", delete(2), b"a\n"),
        (b"a\nb", delete(2), b"a"),
        (b"a\nb", append("c"), b"a\nb\nc"),
        (b"a\nb\n", append("c"), b"a\nb\nc\n"),
        (b"a\nb", insert("c", after=2), b"a\nb\nc"),
        (b"a\r\nb", append("c"), b"a\r\nb\r\nc"),
        (b"", append("c"), b"c\n"),
        (b"", insert("c", after=0), b"c\n"),
        (b"a\n", delete(1), b""),
        (b"a", insert("b", before=1), b"b\na"),
        (b"a\n", insert("\n", after=1), b"a\n\n"),
    ],
)
def test_whether_the_file_ends_in_a_newline_stays_as_it_was(
    data: bytes, op: dict[str, Any], expected: bytes
) -> None:
    assert done(edit(data, op)) == expected


def test_a_trailing_newline_of_the_text_means_nothing() -> None:
    assert done(edit(TEN, replace(2, "x"))) == done(edit(TEN, replace(2, "x\n")))


def test_tabs_are_content_and_kept() -> None:
    assert done(edit(b"all:\n\tgcc a.c\n", replace(2, "\tgcc -O2 a.c"))) == b"all:\n\tgcc -O2 a.c\n"


def test_line_numbers_are_never_shifted_by_another_operation_of_the_call() -> None:
    landed = done(edit(TEN, insert("new\nnew", after=1), delete(3, 5), replace(9, "nine"), append("end")))
    assert landed == b"line 1\nnew\nnew\nline 2\nline 6\nline 7\nline 8\nnine\nline 10\nend\n"


def test_the_order_of_operations_in_the_call_means_nothing() -> None:
    ops = [insert("new", before=2), delete(3), replace(5, "five"), append("end"), insert("top", after=0)]
    assert done(edit(TEN, *ops)) == done(edit(TEN, *reversed(ops)))


def test_success_tells_hunks_additions_and_deletions() -> None:
    planned = edit(TEN, replace(2, "two\nmore"), delete(9))
    assert isinstance(planned, Planned)
    assert (planned.additions, planned.deletions, planned.warnings) == (2, 2, ())
    assert planned.hunks == (
        Hunk(old_start=2, old_lines=1, new_start=2, new_lines=2),
        Hunk(old_start=9, old_lines=1, new_start=9, new_lines=0),
    )


# ranges


@pytest.mark.parametrize(
    ("data", "ops", "step"),
    [
        (TEN, [replace(5, "x", end=4)], "start 4 and end 5"),
        (TEN, [replace(0, "x")], "from 1"),
        (TEN, [delete(-3)], "from 1"),
        (TEN, [replace(10, "x", end=11)], "1 to 10"),
        (TEN, [insert("x", after=11)], "1 to 10"),
        (TEN, [insert("x", after=-1)], "from 1"),
        (TEN, [insert("x", before=0)], "after"),
        (TEN, [insert("x", before=11)], "append"),
        (b"", [replace(1, "x")], "append"),
    ],
)
def test_a_range_that_is_reversed_or_out_of_bounds_is_range_invalid(
    data: bytes, ops: list[dict[str, Any]], step: str
) -> None:
    error = refused(edit(data, *ops))
    assert error.code is ErrorCode.EDIT_RANGE_INVALID
    assert step in error.details["hint"]


@pytest.mark.parametrize(
    "ops",
    [
        [replace(2, "x", end=4), delete(4, 6)],
        [replace(2, "x"), replace(2, "y")],
        [replace(2, "x", end=4), insert("y", after=3)],
        [replace(2, "x", end=4), insert("y", after=4)],
        [delete(2), insert("y", before=2)],
        [insert("x", after=3), insert("y", after=3)],
        [insert("x", before=3), insert("y", after=3)],
        [insert("x", after=3), insert("y", before=4)],
        [append("x"), append("y")],
        [append("x"), insert("y", after=10)],
    ],
)
def test_operations_that_overlap_or_share_an_anchor_are_range_invalid(ops: list[dict[str, Any]]) -> None:
    error = refused(edit(TEN, *ops))
    assert error.code is ErrorCode.EDIT_RANGE_INVALID
    assert "Operations 1 and 2" in error.message


def test_neighbouring_operations_do_not_overlap() -> None:
    landed = done(
        edit(TEN, delete(2, 4), replace(5, "five"), insert("x", before=6), delete(10), append("end"))
    )
    assert landed == b"line 1\nfive\nx\nline 6\nline 7\nline 8\nline 9\nend\n"


# version


def test_an_unknown_tag_carries_the_live_tag_and_the_lines_around_the_anchors() -> None:
    planned = plan_edit(request([replace(5, "x")], "0000"), None, TEN, path="f.txt")
    error = refused(planned)
    live = snapshot(TEN)
    assert error.code is ErrorCode.EDIT_TAG_UNKNOWN
    assert error.details["tag"] == live.tag
    assert error.details["content"].startswith(f"[f.txt#{live.tag}]\n1:line 1\n")
    assert live.tag in error.message
    assert isinstance(planned, Refused)
    assert set(planned.live_seen or ()) == set(range(1, 11))


def test_an_unknown_tag_is_answered_before_the_ranges_are_judged() -> None:
    assert (
        refused(plan_edit(request([replace(99, "x")], "0000"), None, TEN, path="f.txt")).code
        is ErrorCode.EDIT_TAG_UNKNOWN
    )


def test_ranges_are_judged_against_the_tagged_version() -> None:
    longer = TEN + b"line 11\n"
    assert refused(edit(longer, replace(11, "x"), tagged=TEN)).code is ErrorCode.EDIT_RANGE_INVALID


def test_a_mismatch_shows_at_most_40_lines_and_clipped_ones_are_not_seen() -> None:
    old = b"".join(b"row %d\n" % number for number in range(200))
    live = old.replace(b"row 100\n", b"changed " + b"x" * 600 + b"\n")
    planned = edit(live, replace(101, "x"), tagged=old)
    error = refused(planned)
    assert error.code is ErrorCode.EDIT_TAG_MISMATCH
    assert error.details["tag"] == snapshot(live).tag
    rows = error.details["content"].split("\n")[1:]
    assert len(rows) <= 40
    assert any(row.startswith("101:changed") and "clipped" in row for row in rows)
    assert isinstance(planned, Refused)
    seen = set(planned.live_seen or ())
    assert 101 not in seen
    assert {100, 102} <= seen


def test_a_mismatch_with_many_anchors_still_shows_at_most_40_lines() -> None:
    old = b"".join(b"row %d\n" % number for number in range(300))
    live = old.replace(b"row", b"ROW")
    error = refused(edit(live, *(replace(number, "x") for number in range(1, 300, 3)), tagged=old))
    assert len(error.details["content"].split("\n")) == 41


def test_the_corrected_call_after_a_mismatch_needs_no_read() -> None:
    live = TEN.replace(b"line 5", b"other")
    planned = edit(live, replace(5, "x"), tagged=TEN)
    assert isinstance(planned, Refused)
    version = attrs.evolve(snapshot(live), seen=planned.live_seen)
    again = plan_edit(request([replace(5, "x")], version.tag), version, live, path="f.txt")
    assert done(again) == live.replace(b"other", b"x")


def test_two_versions_with_one_tag_are_told_apart_by_their_whole_content() -> None:
    old = attrs.evolve(snapshot(b"a\nb\n"), tag=snapshot(TEN).tag)
    planned = plan_edit(request([replace(2, "x")], old.tag), old, TEN, path="f.txt")
    assert refused(planned).code is ErrorCode.EDIT_TAG_MISMATCH
    planned = plan_edit(request([replace(2, "x")], old.tag), old, TEN, path="f.txt", known=snapshot(TEN))
    assert done(planned) == TEN.replace(b"line 2", b"x")


# provenance


@pytest.mark.parametrize(
    "op", [replace(3, "x", end=5), delete(4), insert("x", before=4), insert("x", after=4)]
)
def test_a_range_or_anchor_with_an_unseen_line_is_lines_unseen(op: dict[str, Any]) -> None:
    planned = edit(TEN, op, seen=[1, 2, 3, 5])
    error = refused(planned)
    assert error.code is ErrorCode.EDIT_LINES_UNSEEN
    assert "4:line 4" in error.details["content"]
    assert error.details["complete"] is True
    assert isinstance(planned, Refused)
    assert set(planned.tagged_seen) == {4}


@pytest.mark.parametrize("op", [append("x"), insert("x", after=0)])
def test_the_head_and_the_end_need_no_line_to_have_been_seen(op: dict[str, Any]) -> None:
    assert isinstance(edit(TEN, op, seen=[]), Planned)


def test_a_reveal_of_40_lines_is_complete_and_the_same_call_then_succeeds() -> None:
    data = b"".join(b"row %d\n" % number for number in range(40))
    planned = edit(data, delete(1, 40), seen=[])
    assert isinstance(planned, Refused)
    assert done(edit(data, delete(1, 40), seen=planned.tagged_seen)) == b""


@pytest.mark.parametrize("data", [b"row\n" * 41, b"x" * 513 + b"\n"])
def test_a_truncated_reveal_marks_nothing_and_says_which_range_to_read(data: bytes) -> None:
    count = data.count(b"\n")
    planned = edit(data, delete(1, count), seen=[])
    error = refused(planned)
    assert error.details["complete"] is False
    assert f"offset 1 and limit {count}" in error.message
    assert isinstance(planned, Refused)
    assert not planned.tagged_seen


def test_what_the_edit_wrote_and_what_it_moved_are_seen_in_the_new_version() -> None:
    planned = edit(TEN, replace(2, "two\nmore"), delete(5), seen=[2, 5, 9])
    assert isinstance(planned, Planned)
    assert set(planned.seen) == {2, 3, 9}


# drift


def test_head_and_end_operations_apply_to_a_changed_file_with_a_warning() -> None:
    live = b"new\n" + TEN[:-8]
    planned = edit(live, insert("top", after=0), append("end"), tagged=TEN, seen=[])
    assert done(planned) == b"top\n" + live + b"end\n"
    assert isinstance(planned, Planned)
    assert "head or end" in planned.warnings[0]


def test_a_change_elsewhere_is_recovered_from_with_a_warning() -> None:
    live = TEN.replace(b"line 9", b"nine")
    planned = edit(live, replace(2, "two"), tagged=TEN)
    assert done(planned) == live.replace(b"line 2", b"two")
    assert isinstance(planned, Planned)
    assert "Something else changed f.txt" in planned.warnings[0]
    assert "in place" in planned.warnings[0]


def test_lines_that_moved_are_followed_and_the_warning_says_how_far() -> None:
    live = b"a\nb\n" + TEN
    planned = edit(live, replace(2, "two", end=3), insert("x", after=7), tagged=TEN)
    assert done(planned) == b"a\nb\nline 1\ntwo\nline 4\nline 5\nline 6\nline 7\nx\nline 8\nline 9\nline 10\n"
    assert isinstance(planned, Planned)
    assert "moved by +2" in planned.warnings[0]


def test_a_stale_tag_of_the_agents_own_is_told_from_an_external_change() -> None:
    live = TEN.replace(b"line 9", b"nine")
    planned = edit(live, replace(2, "two"), tagged=TEN, known=snapshot(live))
    assert isinstance(planned, Planned)
    assert "not the newest you know" in planned.warnings[0]


def test_anchors_that_moved_by_different_offsets_are_a_mismatch() -> None:
    live = TEN.replace(b"line 5\n", b"line 5\nput in\n")
    assert isinstance(edit(live, replace(2, "two"), tagged=TEN), Planned)
    assert isinstance(edit(live, replace(9, "nine"), tagged=TEN), Planned)
    error = refused(edit(live, replace(2, "two"), replace(9, "nine"), tagged=TEN))
    assert error.code is ErrorCode.EDIT_TAG_MISMATCH


def test_a_line_put_into_a_replaced_range_is_a_mismatch() -> None:
    live = TEN.replace(b"line 3\n", b"line 3\nput in\n")
    assert refused(edit(live, replace(2, "x", end=5), tagged=TEN)).code is ErrorCode.EDIT_TAG_MISMATCH


def test_a_changed_anchor_is_a_mismatch() -> None:
    live = TEN.replace(b"line 3", b"three")
    assert refused(edit(live, insert("x", after=3), tagged=TEN)).code is ErrorCode.EDIT_TAG_MISMATCH


def test_a_repeated_line_whose_neighbour_changed_is_a_mismatch() -> None:
    old = b"def a():\n    pass\n\ndef b():\n    pass\n\nend\n"
    live = old.replace(b"def b", b"def c")
    assert refused(edit(live, replace(5, "    return 1"), tagged=old)).code is ErrorCode.EDIT_TAG_MISMATCH
    assert isinstance(edit(live, replace(2, "    return 1"), tagged=old), Planned)


def test_the_provenance_gate_stands_before_the_replay_on_the_tagged_lines() -> None:
    live = b"new\n" + TEN
    planned = edit(live, replace(5, "x"), tagged=TEN, seen=[1])
    error = refused(planned)
    assert error.code is ErrorCode.EDIT_LINES_UNSEEN
    assert "5:line 5" in error.details["content"]
    assert isinstance(planned, Refused)
    assert isinstance(edit(live, replace(5, "x"), tagged=TEN, seen=planned.tagged_seen), Planned)


def test_replay_keeps_the_live_files_own_endings() -> None:
    live = TEN.replace(b"\n", b"\r\n")
    assert done(edit(live, replace(2, "two"), tagged=TEN)) == live.replace(b"line 2", b"two")


def test_a_version_whose_text_was_not_kept_is_verified_by_its_digest_and_never_recovered() -> None:
    kept = attrs.evolve(snapshot(TEN), data=None)
    ops = request([replace(2, "two")], kept.tag)
    assert done(plan_edit(ops, kept, TEN, path="f.txt")) == TEN.replace(b"line 2", b"two")
    changed = TEN + b"more\n"
    assert refused(plan_edit(ops, kept, changed, path="f.txt")).code is ErrorCode.EDIT_TAG_MISMATCH
    end = request([append("end")], kept.tag)
    assert done(plan_edit(end, kept, changed, path="f.txt")) == changed + b"end\n"


# no change


def test_a_result_identical_to_the_input_is_no_change() -> None:
    error = refused(edit(TEN, replace(3, "line 3"), replace(5, "line 5\nline 6", end=6)))
    assert error.code is ErrorCode.EDIT_NO_CHANGE
    assert "lines 3, 5-6" in error.message
    assert "nothing was written" in error.message
    assert error.retriable is False


def test_an_edit_that_somebody_else_made_already_is_no_change_only_if_the_lines_are_the_tagged_ones() -> None:
    live = TEN.replace(b"line 3", b"three")
    assert refused(edit(live, replace(3, "three"), tagged=TEN)).code is ErrorCode.EDIT_TAG_MISMATCH


def test_every_refusal_ends_in_its_next_step() -> None:
    live = TEN.replace(b"line 5", b"other")
    for planned in (
        edit(TEN, replace(11, "x")),
        edit(TEN, replace(3, "line 3")),
        edit(TEN, replace(3, "x"), seen=[]),
        edit(live, replace(5, "x"), tagged=TEN),
        edit(b"", replace(1, "x"), tagged=b"a\n"),
        plan_edit(request([append("x")], "0000"), None, b"", path="f.txt"),
    ):
        error = refused(planned)
        assert error.message.endswith(error.details["hint"])


def test_line_numbers_agree_with_the_splitter_of_reading() -> None:
    data = "a\x0cb\u2028c\x85d\re\nf\n".encode()
    assert decode(data).lines[1] == "f"
    assert done(edit(data, replace(2, "g"))) == data.replace(b"f\n", b"g\n")

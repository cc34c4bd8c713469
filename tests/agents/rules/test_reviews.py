from __future__ import annotations

import itertools
from typing import Any

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.errors import ErrorCode, ToolError
from agents.results import Hunk
from agents.rules.effects import EffectIntent, EffectResult, Verdict
from agents.rules.reviews import (
    Refused,
    Remove,
    Restore,
    Review,
    Rollback,
    plan_rollback,
    reviews,
    touched,
)
from tests.agents.rules.edit_model import CALM

_ids = itertools.count(1)


@attrs.frozen
class Row:
    intent: EffectIntent
    result: EffectResult | None
    verdict: str | None = None
    at: str = "2026-01-01T00:00:00Z"


def effect(
    path: str,
    before: str | None,
    after: str | None,
    *,
    ok: bool | None = True,
    verdict: Verdict | None = None,
    identifier: str | None = None,
    **fields: Any,
) -> Row:
    values: dict[str, Any] = {
        "effect_id": identifier or f"e{next(_ids)}",
        "session_id": "s",
        "owner": "run-1",
        "call_id": "call-1",
        "kind": "file",
        "target": f"/w/{path}",
        "inside": True,
        "before_hash": before,
        "planned_hash": after,
        "shown": path,
        "before_mode": None if before is None else 0o644,
    }
    intent = EffectIntent(**{**values, **fields})
    result = None if ok is None else EffectResult(effect_id=intent.effect_id, ok=ok, after_hash=after)
    return Row(intent, result, verdict)


def planned(*effects: Row, **current: str | None) -> Rollback:
    plan = plan_rollback(effects, {f"/w/{name}": value for name, value in current.items()})
    assert isinstance(plan, Rollback), plan
    return plan


def refused(*effects: Row, **current: str | None) -> ToolError:
    plan = plan_rollback(effects, {f"/w/{name}": value for name, value in current.items()})
    assert isinstance(plan, Refused), plan
    assert plan.error.code is ErrorCode.CONFLICT
    return plan.error


# reviews


def test_every_mutation_inside_the_workspace_has_a_review() -> None:
    hunk = Hunk(old_start=1, old_lines=1, new_start=1, new_lines=1)
    rows = [
        effect("a", "h0", "h1", identifier="e1", hunks=(hunk,)),
        effect("b", None, "h2", identifier="e2"),
        effect("c", "h3", None, identifier="e3"),
    ]
    first, *others = reviews(rows)
    assert first == Review(
        review_id="e1",
        session_id="s",
        owner="run-1",
        call_id="call-1",
        path="a",
        canonical="/w/a",
        change="modified",
        before_hash="h0",
        after_hash="h1",
        hunks=(hunk,),
        reversible=True,
        at="2026-01-01T00:00:00Z",
    )
    assert [(r.review_id, r.change, r.before_hash, r.after_hash) for r in others] == [
        ("e2", "created", None, "h2"),
        ("e3", "deleted", "h3", None),
    ]


def test_what_did_not_take_place_or_lies_outside_has_none() -> None:
    rows = [
        effect("a", "h0", "h1", ok=False),
        effect("a", "h0", "h1", ok=None),
        effect("a", "h0", "h1", ok=None, verdict=Verdict.NOT_APPLIED),
        effect("a", "h0", "h1", ok=None, verdict=Verdict.CHANGED_BY_SOMEONE_ELSE),
        effect("a", "h0", "h1", inside=False),
        effect("make", None, None, kind="shell", inside=False),
    ]
    assert reviews(rows) == ()


def test_an_effect_that_start_up_found_applied_has_a_review() -> None:
    (review,) = reviews([effect("a", "h0", "h1", ok=None, verdict=Verdict.APPLIED)])
    assert review.after_hash == "h1"


def test_what_was_moved_in_from_outside_is_not_reversible() -> None:
    rows = [effect("a", None, "h1"), effect("x", "h1", None, inside=False, target="/out/x")]
    assert [review.reversible for review in reviews(rows)] == [False]
    other_call = attrs.evolve(rows[1], intent=_with(rows[1].intent, call_id="call-2"))
    assert [review.reversible for review in reviews([rows[0], other_call])] == [True]


def _with(intent: EffectIntent, **changes: Any) -> EffectIntent:
    return msgspec.structs.replace(intent, **changes)


# rollback


def test_a_created_file_is_removed_a_deleted_one_restored_a_modified_one_put_back() -> None:
    rows = [
        effect("new", None, "h1"),
        effect("gone", "h2", None, identifier="e-gone", before_mode=0o750),
        effect("old", "h3", "h4", identifier="e-old"),
    ]
    assert touched(rows) == ("/w/new", "/w/gone", "/w/old")
    plan = planned(*rows, new="h1", gone=None, old="h4")
    assert plan.removes == (Remove("new", "/w/new", "h1"),)
    assert plan.restores == (
        Restore("gone", "/w/gone", None, "e-gone", "h2", 0o750),
        Restore("old", "/w/old", "h4", "e-old", "h3", None),
    )


def test_several_effects_on_one_file_are_one_step_back_to_the_oldest() -> None:
    rows = [effect("a", "h0", "h1", identifier="first"), effect("a", "h1", "h2"), effect("a", "h2", "h3")]
    assert planned(*rows, a="h3").restores == (Restore("a", "/w/a", "h3", "first", "h0", None),)


def test_a_file_that_was_gone_in_between_gets_its_old_bits_back() -> None:
    rows = [effect("a", "h0", None, identifier="e", before_mode=0o755), effect("a", None, "h1")]
    assert planned(*rows, a="h1").restores == (Restore("a", "/w/a", "h1", "e", "h0", 0o755),)


def test_what_came_and_went_needs_nothing() -> None:
    plan = planned(effect("a", None, "h1"), effect("a", "h1", None), a=None)
    assert (plan.removes, plan.restores) == ((), ())


def test_a_move_is_undone_on_both_sides() -> None:
    rows = [effect("b", None, "h0"), effect("a", "h0", None, identifier="e")]
    plan = planned(*rows, a=None, b="h0")
    assert plan.removes == (Remove("b", "/w/b", "h0"),)
    assert plan.restores == (Restore("a", "/w/a", None, "e", "h0", 0o644),)


@pytest.mark.parametrize("now", ["theirs", None])
def test_a_file_that_changed_later_is_a_conflict_that_names_it_and_nothing_is_rolled_back(
    now: str | None,
) -> None:
    rows = [effect("a", "h0", "h1"), effect("b", "h2", "h3")]
    error = refused(*rows, a=now, b="h3")
    assert error.details["paths"] == ["a"]
    assert error.message.startswith("a changed after")


def test_a_created_file_that_was_changed_by_hand_is_not_removed() -> None:
    assert refused(effect("a", None, "h1"), a="theirs").details["paths"] == ["a"]


def test_a_deleted_file_that_somebody_made_anew_is_not_overwritten() -> None:
    assert refused(effect("a", "h0", None), a="theirs").details["paths"] == ["a"]


def test_a_change_between_two_chosen_effects_is_a_conflict_even_if_the_newest_fits() -> None:
    rows = [effect("a", "h0", "h1"), effect("a", "h2", "h3")]
    assert refused(*rows, a="h3").details["paths"] == ["a"]


def test_what_is_as_before_already_needs_nothing() -> None:
    """So a rollback that was broken off goes on where it stopped."""
    rows = [effect("a", "h0", "h1"), effect("b", "h2", "h3", identifier="e")]
    plan = planned(*rows, a="h0", b="h3")
    assert plan.restores == (Restore("b", "/w/b", "h3", "e", "h2", None),)


def test_a_rollback_that_is_itself_among_the_effects_is_undone_with_them() -> None:
    rows = [effect("a", "h0", "h1"), effect("a", "h1", "h0", owner="rollback-1")]
    assert planned(*rows, a="h0").restores == ()
    assert planned(rows[1], a="h0").restores[0].content == "h1"


def test_effects_that_did_not_take_place_are_passed_over() -> None:
    rows = [
        effect("a", "h0", "h1", identifier="e"),
        effect("a", "h1", "h9", ok=False),
        effect("a", "h1", "h8", ok=None, verdict=Verdict.NOT_APPLIED),
    ]
    assert planned(*rows, a="h1").restores[0].effect_id == "e"


def test_an_effect_whose_end_is_not_known_is_told_by_the_file() -> None:
    open_effect = effect("a", "h1", "h2", ok=None)
    first = effect("a", "h0", "h1")
    assert planned(first, open_effect, a="h2").restores[0].content == "h0"
    assert planned(first, open_effect, a="h1").restores[0].content == "h0"
    assert planned(open_effect, a="h1").restores == ()
    assert refused(first, open_effect, a="theirs").details["paths"] == ["a"]


def test_the_only_copy_of_a_file_from_outside_is_never_removed() -> None:
    rows = [effect("a", None, "h1"), effect("x", "h1", None, inside=False, target="/out/x", shown="/out/x")]
    error = refused(*rows, a="h1")
    assert "the only copy" in error.message
    edited = [*rows, effect("a", "h1", "h2", call_id="call-2")]
    assert refused(*edited, a="h2").details["paths"] == ["a"]


def test_a_file_that_was_moved_out_comes_back_and_its_copy_outside_stays() -> None:
    rows = [
        effect("x", None, "h1", inside=False, target="/out/x", shown="/out/x"),
        effect("a", "h1", None, identifier="e"),
    ]
    plan = planned(*rows, a=None)
    assert plan.restores == (Restore("a", "/w/a", None, "e", "h1", 0o644),)
    assert plan.left == ("/out/x, outside the workspace",)


def test_commands_are_left_and_named_once() -> None:
    make = effect("", None, None, kind="shell", inside=False, target="make", shown=None)
    failed = effect("", None, None, kind="shell", inside=False, target="not run", shown=None, ok=False)
    plan = planned(make, make, failed)
    assert plan == Rollback((), (), (), ("effects of the command `make`",))


def test_directories_that_were_made_go_innermost_first() -> None:
    rows = [
        effect("d/e/f", None, "h1", new_directories=("/w/d", "/w/d/e")),
        effect("d/g/h", None, "h2", new_directories=("/w/d/g",)),
        effect("z/y", None, "h3", ok=False, new_directories=("/w/z",)),
    ]
    plan = plan_rollback(rows, {"/w/d/e/f": "h1", "/w/d/g/h": "h2", "/w/z/y": None})
    assert isinstance(plan, Rollback)
    assert plan.directories == ("/w/d/e", "/w/d/g", "/w/d")


def test_a_message_names_at_most_ten_paths() -> None:
    rows = [effect(f"f{number}", "h0", "h1") for number in range(12)]
    error = refused(*rows, **{f"f{number}": "theirs" for number in range(12)})
    assert "f9 and 2 more changed" in error.message
    assert len(error.details["paths"]) == 12


STATES = st.sampled_from([None, "h1", "h2", "h3"])


@CALM
@given(st.lists(st.tuples(st.sampled_from("abc"), STATES), max_size=12), st.data())
def test_a_rollback_of_a_tail_of_the_history_leads_to_the_state_before_it(
    history: list[tuple[str, str | None]], data: st.DataObject
) -> None:
    states: list[dict[str, str | None]] = [{"a": "h0", "b": None, "c": "h9"}]
    rows: list[Row] = []
    for path, after in history:
        before = states[-1][path]
        if before == after:
            continue
        rows.append(effect(path, before, after))
        states.append({**states[-1], path: after})
    cut = data.draw(st.integers(0, len(rows)))
    now, then = states[-1], states[cut]
    plan = planned(*rows[cut:], **now)
    result = dict(now)
    for remove in plan.removes:
        assert result[remove.path] == remove.expected
        result[remove.path] = None
    for restore in plan.restores:
        assert result[restore.path] == restore.expected
        result[restore.path] = restore.content
    assert result == then

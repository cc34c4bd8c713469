"""The mutation guard: what counts, what is graced, what clears, what ends a run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.errors import ErrorCode, ToolError
from agents.rules.recovery import (
    GRACED,
    LIMIT,
    NOT_FAILURES,
    PATCH_TARGET,
    Count,
    Counted,
    Exhausted,
    Grace,
    Key,
    Ledger,
    NotCounted,
    RecoveryBook,
    Verdict,
    annotate,
    cleared_by,
    exhausted_error,
    hint_for,
    key_of,
)

MISMATCH = ErrorCode.EDIT_TAG_MISMATCH
UNKNOWN = ErrorCode.EDIT_TAG_UNKNOWN
UNSEEN = ErrorCode.EDIT_LINES_UNSEEN
PARSE = ErrorCode.EDIT_PARSE_FAILED
FAILED = ErrorCode.TOOL_FAILED
SUCCESS = None

EDIT_A = Key("run-1", "edit", "/w/a.py")
PATCH = Key("run-1", "patch-command", PATCH_TARGET)

Step = tuple[Key, ErrorCode | None]


def play(*steps: Step) -> tuple[Ledger, list[Verdict]]:
    """Apply the steps to an empty ledger; a code of None is a success."""
    ledger, verdicts = Ledger(), []
    for key, code in steps:
        if code is None:
            ledger = ledger.succeeded(key)
        else:
            ledger, verdict = ledger.failed(key, code)
            verdicts.append(verdict)
    return ledger, verdicts


def on(key: Key, *codes: ErrorCode | None) -> list[Step]:
    return [(key, code) for code in codes]


def count(ledger: Ledger, key: Key) -> int:
    return ledger.counts.get(key, Count()).attempts


# -- the worked sequences


def test_two_different_graced_codes_count_nothing() -> None:
    ledger, verdicts = play(*on(EDIT_A, MISMATCH, UNSEEN))
    assert [Grace(MISMATCH), Grace(UNSEEN)] == verdicts
    assert count(ledger, EDIT_A) == 0


def test_the_second_occurrence_of_a_graced_code_counts() -> None:
    _, verdicts = play(*on(EDIT_A, MISMATCH, MISMATCH))
    assert [Grace(MISMATCH), Counted(1)] == verdicts


def test_two_counted_failures_leave_the_run_going() -> None:
    ledger, verdicts = play(*on(EDIT_A, PARSE, PARSE))
    assert [Counted(1), Counted(2)] == verdicts
    assert ledger.exhausted("run-1") is None


def test_three_counted_failures_exhaust_the_key() -> None:
    ledger, verdicts = play(*on(EDIT_A, PARSE, PARSE, PARSE))
    assert [Counted(1), Counted(2), Exhausted(3, 3)] == verdicts
    assert ledger.exhausted("run-1") == EDIT_A


def test_counting_starts_anew_after_a_success() -> None:
    ledger, verdicts = play(*on(EDIT_A, PARSE, PARSE, SUCCESS, PARSE))
    assert verdicts[-1] == Counted(1)
    assert count(ledger, EDIT_A) == 1


def test_a_success_gives_the_grace_back() -> None:
    _, verdicts = play(*on(EDIT_A, MISMATCH, SUCCESS, MISMATCH))
    assert [Grace(MISMATCH), Grace(MISMATCH)] == verdicts


def test_two_delegates_and_the_parent_may_each_fail_twice_on_one_file() -> None:
    owners = ("turn-1", "run-1", "run-2")
    steps = [(Key(owner, "edit", "/w/a.py"), PARSE) for _ in range(2) for owner in owners]
    ledger, verdicts = play(*steps)
    assert [Counted(1)] * 3 + [Counted(2)] * 3 == verdicts
    assert [ledger.exhausted(owner) for owner in owners] == [None, None, None]


def test_the_first_failure_of_one_delegate_is_its_first_even_after_another_was_ended_on_that_path() -> None:
    other = Key("run-2", "edit", "/w/a.py")
    _, verdicts = play(*on(EDIT_A, PARSE, PARSE, PARSE), (other, PARSE))
    assert verdicts[-1] == Counted(1)


def test_a_run_started_or_resumed_after_settlement_starts_at_zero() -> None:
    ledger, _ = play(*on(EDIT_A, MISMATCH, PARSE, PARSE, PARSE))
    ledger, _ = ledger.release("run-1")
    for owner in ("run-1", "run-2"):
        key = Key(owner, "edit", "/w/a.py")
        assert ledger.failed(key, MISMATCH)[1] == Grace(MISMATCH)
        assert ledger.failed(key, PARSE)[1] == Counted(1)


def test_three_failed_patch_commands_exhaust_their_key() -> None:
    _, verdicts = play(*on(PATCH, FAILED, FAILED, FAILED))
    assert verdicts[-1] == Exhausted(3, 3)


def test_a_successful_patch_command_clears_the_patch_count() -> None:
    _, verdicts = play(*on(PATCH, FAILED, FAILED, SUCCESS, FAILED))
    assert verdicts[-1] == Counted(1)


def test_edits_and_patch_commands_are_counted_apart() -> None:
    ledger, _ = play(*on(EDIT_A, PARSE, PARSE), *on(PATCH, FAILED, FAILED))
    assert ledger.exhausted("run-1") is None
    assert (count(ledger, EDIT_A), count(ledger, PATCH)) == (2, 2)


def test_a_successful_write_clears_the_edit_count_of_its_path() -> None:
    written = cleared_by("run-1", "Write", "/w/a.py", False)
    assert written == EDIT_A
    ledger, _ = play(*on(EDIT_A, PARSE, PARSE), (EDIT_A, SUCCESS))
    assert ledger.is_empty


# -- the single rules


@pytest.mark.parametrize("code", sorted(NOT_FAILURES))
def test_what_was_denied_refused_aborted_or_is_our_fault_is_not_a_failure(code: ErrorCode) -> None:
    ledger, verdict = Ledger().failed(EDIT_A, code)
    assert NotCounted() == verdict
    assert ledger.is_empty


def test_the_codes_that_are_no_failures_are_exactly_these() -> None:
    assert {
        ErrorCode.TOOL_DENIED,
        ErrorCode.TOOL_ABORTED,
        ErrorCode.INTERNAL,
        ErrorCode.WRITE_DISABLED_IN_PLAN,
        ErrorCode.EDIT_DISABLED_IN_PLAN,
        ErrorCode.PLUGIN_DISABLED_IN_PLAN,
        ErrorCode.TOOL_DISABLED_IN_PLAN,
    } == NOT_FAILURES


@pytest.mark.parametrize("code", sorted(set(ErrorCode) - NOT_FAILURES - GRACED))
def test_every_other_code_counts_at_once(code: ErrorCode) -> None:
    assert Counted(1) == Ledger().failed(EDIT_A, code)[1]


def test_each_graced_code_has_one_grace_of_its_own_per_key() -> None:
    _, verdicts = play(*on(EDIT_A, MISMATCH, UNKNOWN, UNSEEN, MISMATCH, UNKNOWN, UNSEEN))
    graces = [Grace(MISMATCH), Grace(UNKNOWN), Grace(UNSEEN)]
    assert [*graces, Counted(1), Counted(2), Exhausted(3)] == verdicts


def test_a_grace_says_how_many_failures_have_counted_so_far() -> None:
    _, verdicts = play(*on(EDIT_A, PARSE, PARSE, MISMATCH))
    assert verdicts[-1] == Grace(MISMATCH, attempt=2)


def test_the_same_path_has_graces_of_its_own_for_each_owner() -> None:
    _, verdicts = play((EDIT_A, MISMATCH), (Key("run-2", "edit", "/w/a.py"), MISMATCH))
    assert [Grace(MISMATCH), Grace(MISMATCH)] == verdicts


def test_success_on_one_path_does_nothing_for_another() -> None:
    other = Key("run-1", "edit", "/w/b.py")
    _, verdicts = play(*on(EDIT_A, PARSE, PARSE), (other, SUCCESS), (EDIT_A, PARSE))
    assert verdicts[-1] == Exhausted(3)


def test_an_edit_that_changes_nothing_counts_like_any_other_failure() -> None:
    no_change = ErrorCode.EDIT_NO_CHANGE
    _, verdicts = play(*on(EDIT_A, no_change, no_change, no_change))
    assert [Counted(1), Counted(2), Exhausted(3)] == verdicts
    assert "nothing was needed" in hint_for(no_change)


def test_a_later_success_does_not_undo_a_termination() -> None:
    ledger, _ = play(*on(EDIT_A, PARSE, PARSE, PARSE, SUCCESS))
    assert ledger.exhausted("run-1") == EDIT_A


def test_a_run_is_ended_once_however_many_failures_follow_in_its_batch() -> None:
    other = Key("run-1", "edit", "/w/b.py")
    _, verdicts = play(
        *on(other, PARSE, PARSE), *on(EDIT_A, PARSE, PARSE, PARSE), (EDIT_A, PARSE), (other, PARSE)
    )
    assert [NotCounted(), NotCounted()] == verdicts[-2:]
    assert sum(isinstance(verdict, Exhausted) for verdict in verdicts) == 1


def test_release_gives_back_what_the_owner_had_used_up() -> None:
    other = Key("run-2", "edit", "/w/a.py")
    ledger, _ = play(*on(EDIT_A, MISMATCH, PARSE), (other, PARSE), (PATCH, FAILED))
    rest, dropped = ledger.release("run-1")
    assert ((EDIT_A, Count(1, frozenset({MISMATCH}))), (PATCH, Count(1))) == dropped
    assert (other,) == rest.keys("run-2")
    assert not rest.keys("run-1")


def test_release_of_an_owner_without_keys_is_an_empty_release() -> None:
    assert (Ledger().release("run-9")[1], Ledger().release("run-9")[0].is_empty) == ((), True)


def test_a_ledger_never_changes() -> None:
    before = Ledger()
    after, _ = before.failed(EDIT_A, PARSE)
    after.succeeded(EDIT_A)
    assert before.is_empty
    assert count(after, EDIT_A) == 1
    with pytest.raises(TypeError):
        after.counts[EDIT_A] = Count()  # type: ignore[index]


# -- which call has which key


@pytest.mark.parametrize(
    ("tool", "canonical", "patch", "expected"),
    [
        ("Edit", "/w/a.py", False, EDIT_A),
        ("Edit", None, False, None),
        ("Bash", None, True, PATCH),
        ("Bash", None, False, None),
        ("Write", "/w/a.py", False, None),
        ("Read", "/w/a.py", False, None),
        ("Task", None, False, None),
    ],
)
def test_only_edits_with_a_path_and_patch_commands_have_a_key(
    tool: str, canonical: str | None, patch: bool, expected: Key | None
) -> None:
    assert expected == key_of("run-1", tool, canonical, patch)


@pytest.mark.parametrize(
    ("tool", "canonical", "patch", "expected"),
    [
        ("Edit", "/w/a.py", False, EDIT_A),
        ("Write", "/w/a.py", False, EDIT_A),
        ("Write", None, False, None),
        ("Bash", None, True, PATCH),
        ("Bash", None, False, None),
        ("Read", "/w/a.py", False, None),
    ],
)
def test_a_success_clears_the_key_of_its_path_or_of_the_patch_command(
    tool: str, canonical: str | None, patch: bool, expected: Key | None
) -> None:
    assert expected == cleared_by("run-1", tool, canonical, patch)


# -- what the model and the person are told


def test_a_counted_error_keeps_its_code_and_says_attempt_limit_and_hint() -> None:
    error = ToolError(code=PARSE, message="op 1 has no text", details={"op": 1}, retriable=True)
    told = annotate(error, Counted(2))
    assert (
        told.code,
        told.message,
        told.retriable,
        told.terminate,
    ) == (PARSE, "op 1 has no text", True, False)
    assert {"op": 1, "attempt": 2, "limit": 3, "hint": hint_for(PARSE)} == told.details


def test_the_third_error_keeps_its_code_and_terminates() -> None:
    told = annotate(ToolError(code=PARSE, message="m"), Exhausted(), "look first")
    assert (told.code, told.terminate) == (PARSE, True)
    assert told.details == {"attempt": 3, "limit": 3, "hint": "look first"}


def test_a_graced_error_is_hinted_but_shows_no_attempt() -> None:
    told = annotate(ToolError(code=MISMATCH, message="m"), Grace(MISMATCH))
    assert {"hint": hint_for(MISMATCH)} == told.details
    assert not told.terminate


def test_an_uncounted_error_is_left_as_it_is() -> None:
    error = ToolError(code=ErrorCode.TOOL_DENIED, message="m", details={"reason": "user"})
    assert error is annotate(error, NotCounted())


def test_the_hint_of_the_tool_itself_is_kept() -> None:
    error = ToolError(code=UNSEEN, message="m", details={"hint": "read lines 40 to 80"})
    assert annotate(error, Counted(1)).details["hint"] == "read lines 40 to 80"


@pytest.mark.parametrize(
    "code", [code for code in ErrorCode if code.startswith("EDIT_") and code not in NOT_FAILURES]
)
def test_every_edit_code_has_a_hint_of_its_own(code: ErrorCode) -> None:
    assert hint_for(code) != hint_for(ErrorCode.PROVIDER_ERROR)


def test_the_terminal_error_says_three_and_names_the_next_step() -> None:
    error = exhausted_error(EDIT_A, PARSE, display="a.py")
    assert error.code == ErrorCode.MUTATION_RETRY_BUDGET_EXHAUSTED
    assert error.retriable
    assert "three" in error.message
    assert error.details["recovery"] in error.message
    assert tuple(error.details[name] for name in ("kind", "target", "attempts", "lastCode")) == (
        "edit",
        "a.py",
        3,
        "EDIT_PARSE_FAILED",
    )
    assert {"kind", "target", "attempts", "lastCode", "recovery"} == set(error.details)


def test_the_terminal_error_shows_the_canonical_target_where_no_display_is_given() -> None:
    assert exhausted_error(EDIT_A, PARSE).details["target"] == "/w/a.py"


def test_an_exhausted_patch_key_recommends_editing_instead() -> None:
    error = exhausted_error(PATCH, FAILED)
    assert (error.details["kind"], error.details["target"]) == ("patch-command", PATCH_TARGET)
    assert "Edit" in error.details["recovery"]


# -- properties

OWNERS = ("turn-1", "run-1", "run-2")
KEYS = [Key(owner, "edit", path) for owner in OWNERS for path in ("/w/a.py", "/w/b.py")] + [
    Key(owner, "patch-command", PATCH_TARGET) for owner in OWNERS
]
CODES = [MISMATCH, UNKNOWN, UNSEEN, PARSE, FAILED, ErrorCode.TOOL_DENIED, ErrorCode.INTERNAL]

steps = st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from([*CODES, SUCCESS])), max_size=40)
"""Any interleaving of failures and successes of three owners."""


def reference(history: Sequence[Step]) -> list[Verdict]:
    """The rules once more, told from the whole history of an owner instead of from counters."""
    verdicts: list[Verdict] = []
    ended: set[str] = set()
    for index, (key, code) in enumerate(history):
        if code is None:
            continue
        if key.owner in ended or code in NOT_FAILURES:
            verdicts.append(NotCounted())
            continue
        earlier = [c for k, c in history[:index] if k == key]
        if None in earlier:
            earlier = earlier[len(earlier) - earlier[::-1].index(None) :]
        real = [c for c in earlier if c not in NOT_FAILURES]
        spent = len(real) - len(GRACED.intersection(real))
        if code in GRACED and code not in real:
            verdicts.append(Grace(code, spent))
        elif spent + 1 < LIMIT:
            verdicts.append(Counted(spent + 1))
        else:
            verdicts.append(Exhausted())
            ended.add(key.owner)
    return verdicts


@given(steps)
def test_the_rules_told_from_the_history_give_the_same_verdicts(history: list[Step]) -> None:
    assert reference(history) == play(*history)[1]


@given(steps)
def test_no_owner_influences_another_under_any_interleaving(history: list[Step]) -> None:
    verdict_of = iter(play(*history)[1])
    together = [(key.owner, next(verdict_of)) for key, code in history if code is not None]
    for owner in OWNERS:
        alone = play(*[step for step in history if step[0].owner == owner])[1]
        assert alone == [verdict for who, verdict in together if who == owner]


@given(steps, st.sampled_from(OWNERS))
def test_release_empties_exactly_one_owner(history: list[Step], owner: str) -> None:
    ledger, _ = play(*history)
    rest, dropped = ledger.release(owner)
    assert tuple(key for key, _ in dropped) == ledger.keys(owner)
    assert not rest.keys(owner)
    assert {**rest.counts, **dict(dropped)} == ledger.counts


@given(steps)
def test_no_key_ever_counts_beyond_the_limit(history: list[Step]) -> None:
    ledger, verdicts = play(*history)
    assert all(count.attempts <= LIMIT for count in ledger.counts.values())
    assert all(1 <= v.attempt < LIMIT for v in verdicts if isinstance(v, Counted))
    assert all(v.attempt == LIMIT for v in verdicts if isinstance(v, Exhausted))


@given(steps, st.sampled_from(KEYS))
def test_success_always_resets_a_key_that_has_not_ended_its_run(history: list[Step], key: Key) -> None:
    ledger, _ = play(*history)
    after = ledger.succeeded(key)
    assert (key in after.counts) == (ledger.exhausted(key.owner) == key)
    assert {k: c for k, c in after.counts.items() if k != key} == {
        k: c for k, c in ledger.counts.items() if k != key
    }


@given(steps)
def test_nothing_is_left_once_every_owner_has_settled(history: list[Step]) -> None:
    book = RecoveryBook()
    for key, code in history:
        if code is None:
            book.succeeded(key)
        else:
            book.failed(key, code)
    assert book.ledger == play(*history)[0]
    for owner in OWNERS:
        book.release(owner)
    assert book.is_empty


def test_importing_the_rule_loads_no_event_loop_no_database_and_no_telemetry_sdk() -> None:
    heavy = ("trio", "asyncio", "sqlite3", "opentelemetry.sdk")
    code = f"import sys, agents.rules.recovery; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

"""What has to be true at the end of the demo, and what is wrong otherwise. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

EXPECTED = {"fixer#1": "completed", "fixer#2": "completed", "fixer#3": "failed"}
CODE = "MUTATION_RETRY_BUDGET_EXHAUSTED"
FAILED = "fixer#3"


@attrs.frozen(kw_only=True)
class Facts:
    """What was found, in the store, in the files and by running the tests."""

    first_status: str
    first_text: str
    first_runs: tuple[tuple[str, str, str], ...]
    """(label, status, error code) of the first turn's tasks."""
    side_by_side: int
    """How many delegates worked at one time."""
    failed_file_untouched: bool
    resumed_status: str
    resumed_runs: tuple[str, ...]
    """Statuses of the failed chain's runs, in order."""
    tests_pass: bool
    tests_said: str
    spans: int
    trace_problems: tuple[str, ...]


def problems(facts: Facts) -> tuple[str, ...]:
    """One sentence per thing that did not end as it should; empty when all is well."""
    ended = {label: status for label, status, _ in facts.first_runs}
    codes = {label: code for label, _, code in facts.first_runs}
    rules: Sequence[tuple[bool, str]] = (
        (facts.first_status == "completed", f"The first turn ended {facts.first_status}, not completed."),
        (ended == EXPECTED, f"The delegates ended {ended}, not {EXPECTED}."),
        (codes.get(FAILED) == CODE, f"{FAILED} has the code {codes.get(FAILED) or 'none'}, not {CODE}."),
        (facts.side_by_side == 3, f"{facts.side_by_side} delegates worked at one time, not 3."),
        (CODE in facts.first_text, f"The parent's report does not name {CODE}."),
        (facts.failed_file_untouched, f"The file of {FAILED} was changed by a run that failed."),
        (
            facts.resumed_status == "completed",
            f"The resumed run ended {facts.resumed_status}, not completed.",
        ),
        (
            facts.resumed_runs == ("failed", "completed"),
            f"The chain of {FAILED} has the runs {facts.resumed_runs}, not failed and completed.",
        ),
        (facts.tests_pass, f"The project's tests do not pass: {facts.tests_said}"),
        (facts.spans > 0, "No span was recorded."),
        (not facts.trace_problems, f"The trace file has problems: {' '.join(facts.trace_problems)}"),
    )
    return tuple(problem for holds, problem in rules if not holds)


def most_at_once(spans: Sequence[tuple[int, int]]) -> int:
    """The largest number of (start, end) intervals that share an instant."""
    return max((sum(start <= at < end for start, end in spans) for at, _ in spans), default=0)

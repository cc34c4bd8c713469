"""The reports of settled delegates as their parent reads them, bounded together. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from agents.results import TaskResult, model_text
from orchestrator.settlement import bounded_report

MAX_JOINED_CHARS = 50_000
BY_ITSELF = "TaskWait for this task alone gives more of it"


def bounded(results: Sequence[TaskResult], limit: int = MAX_JOINED_CHARS) -> tuple[TaskResult, ...]:
    """`results` with their reports cut, longest first, so that together they have `limit` characters."""
    whole = sum(len(result.report) for result in results)
    if whole <= limit or not results:
        return tuple(results)
    share = _share(sorted(len(result.report) for result in results), limit)
    return tuple(
        msgspec.structs.replace(result, report=bounded_report(result.report, share, BY_ITSELF))
        if len(result.report) > share
        else result
        for result in results
    )


def _share(lengths: list[int], limit: int) -> int:
    """The longest cut that fits: short reports stay whole and leave their room to the long ones."""
    left = limit
    for position, length in enumerate(lengths):
        fair = left // (len(lengths) - position)
        if length > fair:
            return max(200, fair)
        left -= length
    return limit


def hand_over_text(results: Sequence[TaskResult]) -> str:
    """The user message that hands joined reports to the parent."""
    head = (
        "Your delegates have ended. Their results follow; judge each by its `status` and `error`, not by "
        "its prose, and say plainly what was not achieved."
    )
    return "\n\n".join([head, *(model_text(result, None) for result in bounded(results))])

"""How one batch of tool calls is cut into groups, and a group into lanes. Pure.

Groups run one after the other, in call order: neighbours that only read (and Task starts) form one, neighbouring
Writes and Edits form one, everything else stands alone. So a test run never sees a half-edited tree, and
a Read after an Edit sees it. The lanes of a group run side by side, the calls of a lane in call order.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from agents.tools.groups import CallGroup


@attrs.frozen
class PlannedCall:
    """One call of a batch as far as its order matters."""

    index: int
    group: CallGroup
    lane: str | None
    """Calls of one group with the same lane keep their order (the canonical path of a mutation); None: its own."""


def cut(calls: Sequence[PlannedCall]) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """Groups of lanes of call indices: `result[group][lane]` runs in order, lanes side by side."""
    groups: list[list[PlannedCall]] = []
    for call in calls:
        joins = groups and call.group is not CallGroup.ALONE and groups[-1][0].group is call.group
        if joins:
            groups[-1].append(call)
        else:
            groups.append([call])
    return tuple(_lanes(group) for group in groups)


def _lanes(group: Sequence[PlannedCall]) -> tuple[tuple[int, ...], ...]:
    lanes: dict[str, list[int]] = {}
    for call in group:
        key = f"#{call.index}" if call.lane is None else f"={call.lane}"
        lanes.setdefault(key, []).append(call.index)
    return tuple(tuple(indices) for indices in lanes.values())

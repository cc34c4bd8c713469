"""How a batch is cut into groups and lanes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agents.rules.batches import PlannedCall, cut
from agents.tools.groups import CallGroup

T, M, A = CallGroup.TOGETHER, CallGroup.MUTATION, CallGroup.ALONE


def plan(*calls: tuple[CallGroup, str | None]) -> list[PlannedCall]:
    return [PlannedCall(index, group, lane) for index, (group, lane) in enumerate(calls)]


def test_neighbouring_reads_run_side_by_side() -> None:
    assert cut(plan((T, None), (T, None))) == (((0,), (1,)),)


def test_mutations_of_one_path_keep_their_order_and_others_run_beside_them() -> None:
    assert cut(plan((M, "/a"), (M, "/b"), (M, "/a"))) == (((0, 2), (1,)),)


def test_each_bash_wait_or_stop_stands_alone() -> None:
    assert cut(plan((A, None), (A, None))) == (((0,),), ((1,),))


def test_a_read_after_an_edit_is_in_a_later_group() -> None:
    assert cut(plan((M, "/a"), (T, None), (M, "/a"))) == (((0,),), ((1,),), ((2,),))


def test_task_starts_share_a_lane_so_that_labels_are_numbered_in_call_order() -> None:
    assert cut(plan((T, "Task"), (T, None), (T, "Task"))) == (((0, 2), (1,)),)


CALLS = st.lists(st.tuples(st.sampled_from([T, M, A]), st.sampled_from([None, "/a", "/b"])), max_size=20)


@given(CALLS)
def test_every_call_runs_exactly_once(calls: list[tuple[CallGroup, str | None]]) -> None:
    flat = [index for group in cut(plan(*calls)) for lane in group for index in lane]
    assert sorted(flat) == list(range(len(calls)))


@given(CALLS)
def test_groups_keep_the_order_of_the_calls(calls: list[tuple[CallGroup, str | None]]) -> None:
    groups = [sorted(index for lane in group for index in lane) for group in cut(plan(*calls))]
    assert [index for group in groups for index in group] == list(range(len(calls)))


@given(CALLS)
def test_a_lane_keeps_the_order_of_its_calls(calls: list[tuple[CallGroup, str | None]]) -> None:
    for group in cut(plan(*calls)):
        for lane in group:
            assert list(lane) == sorted(lane)

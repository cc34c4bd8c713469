"""The session's queue of permission requests."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import msgspec
import pytest
import trio
import trio.testing

from agents.errors import ErrorCode, Failure
from agents.events import timestamp
from agents.permit import Permit
from agents.requests import Answer, Decision, PermissionRequest
from agents.rules.permission_rules import Grant
from orchestrator.approvals import Approvals, ApproverSurface, Grants, seconds_to_answer
from tests.agents.gate_world import World, a_write

_numbers = itertools.count(1)


def a_request(*, seconds: float = 120, owner: str = "run-1", tool: str = "Write") -> PermissionRequest:
    return PermissionRequest(
        id=f"req-{next(_numbers):012x}",
        session_id="s-1",
        owner=owner,
        agent_label=owner,
        agent_chain=("main", owner),
        task_id=None,
        call_id="call-1",
        tool=tool,
        risk="high",
        reason="because",
        preview="path: a.txt",
        created=timestamp(0),
        deadline=timestamp(round(seconds * 1e9)),
    )


YES = Answer(decision=Decision.ALLOW_ONCE, source="inbox")
NO = Answer(decision=Decision.DENY, source="inbox", feedback="use b.txt")


class Screen:
    """A surface that notes what it showed and answers as the test says."""

    def __init__(self, respond: Callable[[PermissionRequest], Awaitable[Answer]] | None = None) -> None:
        self.shown: list[str] = []
        self.queues: list[tuple[str, ...]] = []
        self.withdrawn: list[str] = []
        self.at_once = 0
        self.most_at_once = 0
        self._respond = respond

    async def show(self, request: PermissionRequest, queue: tuple[PermissionRequest, ...]) -> Answer:
        self.shown.append(request.id)
        self.queues.append(tuple(r.id for r in queue))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if self._respond is None:
                await trio.sleep_forever()
                raise AssertionError
            return await self._respond(request)
        except trio.Cancelled:
            self.withdrawn.append(request.id)
            raise
        finally:
            self.at_once -= 1


async def test_nobody_to_ask_is_no_approver_at_once() -> None:
    answer = await Approvals().ask(a_request())
    assert (answer.decision, answer.source) == (Decision.NO_APPROVER, "policy")


async def test_seven_requests_of_one_instant_can_be_answered_in_reverse_order(
    autojump_clock: trio.testing.MockClock,
) -> None:
    screen = Screen()
    approvals = Approvals(screen)
    requests = [a_request(owner=f"run-{n}") for n in range(7)]
    answers: dict[str, Answer] = {}

    async def ask(request: PermissionRequest) -> None:
        answers[request.id] = await approvals.ask(request)

    async with trio.open_nursery() as nursery:
        for request in requests:
            nursery.start_soon(ask, request)
        await trio.testing.wait_all_tasks_blocked()
        assert len(approvals.pending) == 7
        for number, request in enumerate(reversed(requests)):
            approvals.answer(request.id, YES if number % 2 else NO)
            await trio.testing.wait_all_tasks_blocked()
    assert [answers[r.id].decision for r in reversed(requests)] == [
        Decision.ALLOW_ONCE if n % 2 else Decision.DENY for n in range(7)
    ]
    assert sorted(answers[r.id].queue_position for r in requests) == list(range(7))
    assert screen.most_at_once == 1
    assert approvals.pending == ()


async def test_requests_are_shown_one_at_a_time_in_the_order_of_their_arrival(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def respond(_: PermissionRequest) -> Answer:
        await trio.sleep(1)
        return YES

    screen = Screen(respond)
    approvals = Approvals(screen)
    requests = [a_request() for _ in range(4)]
    async with trio.open_nursery() as nursery:
        for request in requests:
            nursery.start_soon(approvals.ask, request)
            await trio.sleep(0.01)
    assert screen.shown == [r.id for r in requests]
    assert screen.most_at_once == 1
    assert screen.queues[1] == (requests[2].id, requests[3].id)


async def test_the_deadline_counts_from_arrival_also_for_a_request_that_was_never_shown(
    autojump_clock: trio.testing.MockClock,
) -> None:
    screen = Screen()
    approvals = Approvals(screen)
    first, second = a_request(seconds=100), a_request(seconds=5)
    ended: dict[str, tuple[float, Answer]] = {}

    async def ask(request: PermissionRequest) -> None:
        answer = await approvals.ask(request)
        ended[request.id] = (trio.current_time() - start, answer)

    start = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, first)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(ask, second)
    assert ended[second.id][0] == pytest.approx(5)
    assert ended[first.id][0] == pytest.approx(100)
    assert {answer.decision for _, answer in ended.values()} == {Decision.TIMEOUT}
    assert screen.shown == [first.id]
    assert ended[second.id][1].queue_position == 1


async def test_a_late_answer_conflicts_and_changes_nothing(autojump_clock: trio.testing.MockClock) -> None:
    approvals = Approvals(inbox=True)
    request = a_request(seconds=1)
    answer = await approvals.ask(request)
    assert answer.decision is Decision.TIMEOUT
    with pytest.raises(Failure) as late:
        approvals.answer(request.id, YES)
    assert late.value.error.code is ErrorCode.CONFLICT
    assert answer.decision is Decision.TIMEOUT


async def test_an_answer_after_the_deadline_is_late_even_before_the_asker_has_woken(
    mock_clock: trio.testing.MockClock,
) -> None:
    approvals = Approvals(inbox=True)
    request = a_request(seconds=1)
    answers: list[Answer] = []

    async def ask() -> None:
        answers.append(await approvals.ask(request))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(1.5)
        with pytest.raises(Failure):
            approvals.answer(request.id, YES)
    assert answers[0].decision is Decision.TIMEOUT


async def test_the_first_of_two_answers_counts_and_the_second_conflicts() -> None:
    approvals = Approvals(inbox=True)
    request = a_request()
    answers: list[Answer] = []

    async def ask() -> None:
        answers.append(await approvals.ask(request))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        approvals.answer(request.id, NO)
        with pytest.raises(Failure) as second:
            approvals.answer(request.id, YES)
    assert second.value.error.code is ErrorCode.CONFLICT
    assert answers == [NO]


async def test_an_unknown_id_conflicts() -> None:
    with pytest.raises(Failure) as unknown:
        Approvals(inbox=True).answer("req-none", YES)
    assert unknown.value.error.code is ErrorCode.CONFLICT


async def test_an_answer_by_id_takes_the_request_off_the_screen_and_the_next_one_is_shown(
    autojump_clock: trio.testing.MockClock,
) -> None:
    screen = Screen()
    approvals = Approvals(screen)
    first, second = a_request(), a_request()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(approvals.ask, first)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(approvals.ask, second)
        await trio.testing.wait_all_tasks_blocked()
        approvals.answer(first.id, YES)
        await trio.testing.wait_all_tasks_blocked()
        assert screen.withdrawn == [first.id]
        assert screen.shown == [first.id, second.id]
        approvals.answer(second.id, NO)


async def test_cancelling_the_asker_withdraws_its_request_on_screen_and_in_line(
    autojump_clock: trio.testing.MockClock,
) -> None:
    screen = Screen()
    approvals = Approvals(screen)
    on_screen, in_line, other = a_request(owner="a"), a_request(owner="a"), a_request(owner="b")
    async with trio.open_nursery() as nursery:
        async with trio.open_nursery() as turn:
            turn.start_soon(approvals.ask, on_screen)
            await trio.testing.wait_all_tasks_blocked()
            turn.start_soon(approvals.ask, in_line)
            nursery.start_soon(approvals.ask, other)
            await trio.testing.wait_all_tasks_blocked()
            assert approvals.waits("a")
            turn.cancel_scope.cancel()
        assert screen.withdrawn == [on_screen.id]
        assert not approvals.waits("a")
        await trio.testing.wait_all_tasks_blocked()
        assert approvals.pending == (other,)
        assert screen.shown[-1] == other.id
        with pytest.raises(Failure):
            approvals.answer(in_line.id, YES)
        nursery.cancel_scope.cancel()
    assert approvals.pending == ()


async def test_an_answer_for_the_session_answers_what_its_grant_covers_and_nothing_else(
    autojump_clock: trio.testing.MockClock,
) -> None:
    approvals = Approvals(Screen())
    every_write = {"grant": "every Write inside the workspace"}
    first, same, other, once = (
        msgspec.structs.replace(a_request(), **changes)
        for changes in (every_write, every_write, {"grant": "every Write outside"}, {"grant": ""})
    )
    answers: dict[str, Answer] = {}

    async def ask(request: PermissionRequest) -> None:
        answers[request.id] = await approvals.ask(request)

    async with trio.open_nursery() as nursery:
        for request in (first, same, other, once):
            nursery.start_soon(ask, request)
        await trio.testing.wait_all_tasks_blocked()
        approvals.answer(first.id, Answer(decision=Decision.ALLOW_SESSION, source="inbox"))
        await trio.testing.wait_all_tasks_blocked()
        assert {request.id for request in approvals.pending} == {other.id, once.id}
        assert (answers[same.id].decision, answers[same.id].source) == (Decision.ALLOW_ONCE, "grant")
        nursery.cancel_scope.cancel()


async def test_an_approver_that_raises_denies_and_the_next_request_is_still_asked() -> None:
    async def respond(request: PermissionRequest) -> Answer:
        if request.owner == "broken":
            raise ExceptionGroup("both", [KeyError("x"), ValueError("y")])
        return YES

    approvals = Approvals(Screen(respond))
    first = await approvals.ask(a_request(owner="broken"))
    assert (first.decision, first.source) == (Decision.DENY, "approver failed")
    assert (await approvals.ask(a_request())).decision is Decision.ALLOW_ONCE


class _Objects:
    class Yes:
        async def approve(self, request: PermissionRequest) -> bool:
            return True

    class No:
        async def approve(self, request: PermissionRequest) -> bool:
            return False

    class Whole:
        async def approve(self, request: PermissionRequest) -> Answer:
            return Answer(decision=Decision.ALLOW_SESSION, source="mine")

    class Plain:
        def approve(self, request: PermissionRequest) -> bool:
            return True

    class Nonsense:
        async def approve(self, request: PermissionRequest) -> str:
            return "yes"

    class Raises:
        async def approve(self, request: PermissionRequest) -> bool:
            raise RuntimeError("no")


@pytest.mark.parametrize(
    ("approver", "decision", "source"),
    [
        (_Objects.Yes(), Decision.ALLOW_ONCE, "api"),
        (_Objects.No(), Decision.DENY, "api"),
        (_Objects.Whole(), Decision.ALLOW_SESSION, "mine"),
        (_Objects.Plain(), Decision.ALLOW_ONCE, "api"),
        (_Objects.Nonsense(), Decision.DENY, "approver failed"),
        (_Objects.Raises(), Decision.DENY, "approver failed"),
    ],
)
async def test_an_approver_object_answers_with_a_bool_or_an_answer_and_anything_else_denies(
    approver: object, decision: Decision, source: str
) -> None:
    answer = await Approvals(ApproverSurface(approver)).ask(a_request())  # type: ignore[arg-type]
    assert (answer.decision, answer.source) == (decision, source)


async def test_an_approver_object_that_never_answers_is_a_timeout(
    autojump_clock: trio.testing.MockClock,
) -> None:
    class Silent:
        async def approve(self, request: PermissionRequest) -> bool:
            await trio.sleep_forever()
            return True

    answer = await Approvals(ApproverSurface(Silent())).ask(a_request(seconds=3))
    assert answer.decision is Decision.TIMEOUT


def test_grants_are_kept_for_all_who_share_the_book() -> None:
    grants = Grants()
    grants.add(Grant("Write", outside=True))
    grants.add(Grant("Write", outside=True))
    assert grants.all() == {Grant("Write", outside=True)}
    assert Grants().all() == frozenset()


def test_the_time_to_answer_is_read_from_the_request_itself() -> None:
    assert seconds_to_answer(a_request(seconds=1.25)) == pytest.approx(1.25)
    past = msgspec.structs.replace(a_request(), created=timestamp(10**12), deadline=timestamp(0))
    assert seconds_to_answer(past) == 0.0


# with real gates in front


async def test_seven_delegates_that_ask_at_once_each_get_their_own_answer(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    approvals = Approvals(Screen())
    worlds = [World(tmp_path, label=f"fixer#{n}", approver=approvals) for n in range(7)]
    results: dict[str, object] = {}

    async def work(world: World) -> None:
        results[world.label] = await world.perform(a_write(), path=f"{world.label}.txt", content="x")

    async with trio.open_nursery() as nursery:
        for world in worlds:
            nursery.start_soon(work, world)
        await trio.testing.wait_all_tasks_blocked()
        for request in reversed(approvals.pending):
            allowed = int(request.agent_label[-1]) % 2 == 0
            approvals.answer(request.id, YES if allowed else NO)
    for n, world in enumerate(worlds):
        assert isinstance(results[world.label], Permit) is (n % 2 == 0)
        assert (tmp_path / "repo" / f"{world.label}.txt").exists() is (n % 2 == 0)
        assert len(world.sink.requests) == len(world.sink.resolved) == 1
        assert world.sink.requests[0].agent_chain[-1] == world.label


async def test_a_grant_holds_for_every_agent_of_the_session(tmp_path: Path) -> None:
    grants = Grants()
    always = msgspec.structs.replace(YES, decision=Decision.ALLOW_SESSION)
    parent = World(tmp_path, label="main", book=grants, answers=[always])
    delegate = World(tmp_path, label="fixer#1", book=grants, answers=[NO])
    assert isinstance(await parent.admit(a_write(), path="a.txt"), Permit)
    assert isinstance(await delegate.admit(a_write(), path="b.txt"), Permit)
    assert delegate.sink.requests == []


async def test_without_anybody_to_ask_a_delegate_is_denied_at_once(tmp_path: Path) -> None:
    world = World(tmp_path, approver=Approvals())
    await world.admit(a_write(), path="../outside/x.txt")
    assert [resolved.decision for resolved in world.sink.resolved] == ["no-approver"]
    assert [denial.reason for denial in world.denials] == ["no-approver"]


async def test_an_answer_after_the_deadline_changes_nothing_and_the_gate_says_timeout(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    approvals = Approvals(Screen())
    world = World(tmp_path, approver=approvals, timeout=1)
    await world.perform(a_write(), path="a.txt", content="x")
    with pytest.raises(Failure):
        approvals.answer(world.sink.requests[0].id, YES)
    assert [(r.decision, r.wait_ms) for r in world.sink.resolved] == [("timeout", 1000)]
    assert not (tmp_path / "repo/a.txt").exists()


async def test_cancelling_a_turn_closes_all_its_requests_and_leaves_the_others(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    approvals = Approvals(Screen())
    turn = [World(tmp_path, label=f"fixer#{n}", approver=approvals) for n in range(3)]
    other = World(tmp_path, label="other#1", approver=approvals)
    async with trio.open_nursery() as session:
        async with trio.open_nursery() as nursery:
            for world in turn:
                nursery.start_soon(partial(world.admit, a_write(), path="a.txt"))
            await trio.testing.wait_all_tasks_blocked()
            session.start_soon(partial(other.admit, a_write(), path="a.txt"))
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        assert [[r.decision for r in world.sink.resolved] for world in turn] == [["cancelled"]] * 3
        assert [request.agent_label for request in approvals.pending] == ["other#1"]
        approvals.answer(approvals.pending[0].id, NO)
    assert [r.decision for r in other.sink.resolved] == ["deny"]

from __future__ import annotations

import stat
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import attrs
import msgspec
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.errors import ErrorCode, Failure
from agents.events import Event
from agents.rules.effects import EffectIntent
from orchestrator.rollback import RolledBack, Scope, roll_back, scope_of_call, scope_of_found, stored_reviews
from orchestrator.store.base import Found, Store
from orchestrator.store.memory import open_memory_store
from orchestrator.store.sqlite import open_sqlite_store
from tests.agents.tools.edit_context import Hand, Place, fails, make_place
from tests.orchestrator.store.stories import story, task_started

Opener = Callable[[], AbstractAsyncContextManager[Store]]
GONE = {"op": "deleteFile"}
ALL = Scope("session-1")


@attrs.define
class World:
    place: Place
    store: Store

    def hand(self, call_id: str = "call-1", owner: str = "run-1") -> Hand:
        return Hand(self.place, owner, call_id=call_id)

    async def edit(
        self, path: str, *ops: dict[str, Any], call_id: str = "call-1", owner: str = "run-1"
    ) -> None:
        hand = self.hand(call_id, owner)
        await hand.edit(path, hand.read(path), *ops)

    async def write(self, path: str, content: str, *, call_id: str = "call-1", owner: str = "run-1") -> None:
        hand = self.hand(call_id, owner)
        if (self.place.root / path).exists():
            hand.read(path)
        await hand.write(path, content)

    async def back(self, scope: Scope = ALL) -> RolledBack:
        return await roll_back(self.store, scope, workspace=self.place.workspace)

    def tree(self) -> dict[str, tuple[bytes | None, int]]:
        """Every file with bytes and mode, every directory with its mode."""
        return {
            str(path.relative_to(self.place.root)): (
                path.read_bytes() if path.is_file() else None,
                stat.S_IMODE(path.stat().st_mode),
            )
            for path in sorted(self.place.root.rglob("*"))
        }


@pytest.fixture(params=["sqlite", "memory"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    open_one: Opener = open_memory_store
    if request.param == "sqlite":
        open_one = lambda: open_sqlite_store(tmp_path / "store.sqlite3")  # noqa: E731
    async with open_one() as store:
        place = make_place(tmp_path)
        place.log = store
        yield World(place, store)


async def test_a_modified_file_gets_its_bytes_back(world: World) -> None:
    path = world.place.write("f.txt", b"a\r\nb\n")
    path.chmod(0o755)
    await world.edit("f.txt", {"op": "replace", "start": 1, "text": "x"})
    done = await world.back()
    assert path.read_bytes() == b"a\r\nb\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o755
    assert [(change.path, change.change) for change in done.changes] == [("f.txt", "modified")]
    assert world.place.leftovers() == []


async def test_a_created_file_goes_with_the_directories_that_were_made_for_it(world: World) -> None:
    world.place.write("kept/f.txt", b"")
    before = world.tree()
    await world.write("kept/new/deep/g.txt", "x")
    await world.back()
    assert world.tree() == before


async def test_a_directory_that_holds_something_else_by_now_stays(world: World) -> None:
    await world.write("new/f.txt", "x")
    world.place.write("new/theirs.txt", b"y")
    await world.back()
    assert world.tree().keys() == {"new", "new/theirs.txt"}


async def test_a_deleted_file_comes_back_with_bytes_and_mode(world: World) -> None:
    world.place.write("d/f.sh", b"\xffx\n").chmod(0o750)
    world.place.write("d/g.txt", b"a\n").chmod(0o600)
    before = world.tree()
    for name in ("d/f.sh", "d/g.txt"):
        await world.edit(name, GONE)
    await world.back()
    assert world.tree() == before


async def test_a_move_is_undone_with_the_edits_that_went_with_it(world: World) -> None:
    world.place.write("f.txt", b"a\nb\n").chmod(0o640)
    before = world.tree()
    await world.edit("f.txt", {"op": "moveFile", "to": "x/g.txt"}, {"op": "delete", "start": 1})
    done = await world.back()
    assert world.tree() == before
    assert [(c.path, c.change) for c in done.changes] == [("x/g.txt", "deleted"), ("f.txt", "created")]


async def test_a_later_change_is_a_conflict_and_nothing_is_lost(world: World) -> None:
    first, second = world.place.write("f.txt", b"a\n"), world.place.write("g.txt", b"a\n")
    await world.edit("f.txt", {"op": "append", "text": "b"})
    await world.edit("g.txt", {"op": "append", "text": "b"})
    second.write_bytes(b"theirs\n")
    with fails(ErrorCode.CONFLICT) as errors:
        await world.back()
    assert errors[0].details["paths"] == ["g.txt"]
    assert first.read_bytes() == b"a\nb\n"
    assert second.read_bytes() == b"theirs\n"


async def test_a_change_that_comes_in_while_it_is_rolled_back_stays_and_the_rest_can_be_done_again(
    world: World,
) -> None:
    paths = [world.place.write(name, b"a\n") for name in ("f.txt", "g.txt")]
    for name in ("f.txt", "g.txt"):
        await world.edit(name, {"op": "append", "text": "b"})
    store = world.store
    intend = store.intend

    class Touching:
        """The store, with somebody who writes just before the second step."""

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        async def intend(self, intent: EffectIntent) -> None:
            await intend(intent)
            if intent.target == str(paths[0]):
                paths[1].write_bytes(b"theirs\n")

    touching: Any = Touching()
    with fails(ErrorCode.CONFLICT) as errors:
        await roll_back(touching, ALL, workspace=world.place.workspace)
    assert errors[0].details["done"] == ["f.txt"]
    assert [path.read_bytes() for path in paths] == [b"a\n", b"theirs\n"]
    paths[1].write_bytes(b"a\nb\n")
    await world.back()
    assert [path.read_bytes() for path in paths] == [b"a\n", b"a\n"]


async def test_a_rollback_is_journalled_and_can_be_rolled_back_itself(world: World) -> None:
    world.place.write("f.txt", b"a\n")
    world.place.write("g.txt", b"g\n")
    await world.edit("f.txt", {"op": "moveFile", "to": "h.txt"})
    await world.edit("g.txt", {"op": "append", "text": "b"})
    after = world.tree()
    done = await world.back()
    rows = await world.store.effects("session-1")
    assert {row.intent.owner for row in rows[3:]} == {done.call_id}
    assert all(row.result is not None and row.result.ok for row in rows)
    await world.back(await scope_of_call(world.store, done.call_id, ["session-1"]))
    assert world.tree() == after


async def test_rolling_back_twice_does_nothing_the_second_time(world: World) -> None:
    world.place.write("f.txt", b"a\n")
    await world.edit("f.txt", {"op": "append", "text": "b"})
    before = len((await world.back()).changes)
    assert (before, (await world.back()).changes) == (1, ())
    run = Scope("session-1", owners=frozenset({"run-1"}))
    assert (await world.back(run)).changes == ()


async def test_one_call_or_one_owner_is_rolled_back_and_the_others_stay(world: World) -> None:
    paths = {name: world.place.write(name, b"a\n") for name in ("f.txt", "g.txt", "h.txt")}
    await world.edit("f.txt", {"op": "append", "text": "b"}, call_id="c1", owner="run-1")
    await world.edit("g.txt", {"op": "append", "text": "b"}, call_id="c2", owner="run-1")
    await world.edit("h.txt", {"op": "append", "text": "b"}, call_id="c3", owner="run-2")
    await world.back(await scope_of_call(world.store, "c1", ["other", "session-1"]))
    assert [path.read_bytes() for path in paths.values()] == [b"a\n", b"a\nb\n", b"a\nb\n"]
    await world.back(Scope("session-1", owners=frozenset({"run-2"})))
    assert [path.read_bytes() for path in paths.values()] == [b"a\n", b"a\nb\n", b"a\n"]


async def test_a_call_that_another_one_built_on_is_a_conflict(world: World) -> None:
    path = world.place.write("f.txt", b"a\n")
    await world.edit("f.txt", {"op": "append", "text": "b"}, call_id="c1")
    await world.edit("f.txt", {"op": "append", "text": "c"}, call_id="c2")
    with fails(ErrorCode.CONFLICT):
        await world.back(Scope("session-1", call_ids=frozenset({"c1"})))
    assert path.read_bytes() == b"a\nb\nc\n"


async def test_an_unknown_call_is_not_found(world: World) -> None:
    with fails(ErrorCode.NOT_FOUND):
        await scope_of_call(world.store, "nothing", ["session-1"])


async def test_a_file_may_take_the_place_of_a_directory_and_back(world: World) -> None:
    world.place.write("a", b"file\n")
    world.place.write("b/c", b"inner\n")
    before = world.tree()
    await world.edit("a", GONE)
    await world.write("a/x", "x")
    await world.edit("b/c", GONE)
    (world.place.root / "b").rmdir()
    await world.write("b", "b")
    await world.back()
    assert world.tree() == before


async def test_what_lies_outside_and_what_commands_did_is_left_and_named(world: World) -> None:
    place = world.place
    place.write("f.txt", b"a\n")
    outside = place.outside / "f.txt"
    await world.edit("f.txt", {"op": "moveFile", "to": str(outside)})
    journal = world.hand().context().journal
    async with journal.shell("make all", call_id="call-2"):
        pass
    done = await world.back()
    assert done.left == (f"{outside}, outside the workspace", "effects of the command `make all`")
    assert (place.root / "f.txt").read_bytes() == b"a\n"
    assert outside.read_bytes() == b"a\n"


async def test_a_file_moved_in_from_outside_is_not_removed(world: World) -> None:
    outside = world.place.outside / "f.txt"
    outside.write_bytes(b"a\n")
    await world.edit(str(outside), {"op": "moveFile", "to": "f.txt"})
    with fails(ErrorCode.CONFLICT):
        await world.back()
    assert (world.place.root / "f.txt").read_bytes() == b"a\n"


async def test_a_path_that_became_a_link_out_of_the_workspace_is_a_conflict(world: World) -> None:
    path = world.place.write("d/f.txt", b"a\n")
    await world.edit("d/f.txt", {"op": "append", "text": "b"})
    path.rename(world.place.outside / "f.txt")
    path.parent.rmdir()
    path.parent.symlink_to(world.place.outside)
    with fails(ErrorCode.CONFLICT):
        await world.back()
    assert (world.place.outside / "f.txt").read_bytes() == b"a\nb\n"


async def test_bytes_that_are_no_longer_kept_stop_the_rollback_before_its_first_step(tmp_path: Path) -> None:
    async with open_sqlite_store(tmp_path / "store.sqlite3") as store:
        place = make_place(tmp_path)
        place.log = store
        world = World(place, store)
        path = place.write("f.txt", b"a\n")
        await world.write("new.txt", "x")
        await world.edit("f.txt", {"op": "append", "text": "b"})
        for blob in (tmp_path / "store.sqlite3.blobs").rglob("*"):
            if blob.is_file():
                blob.unlink()
        with fails(ErrorCode.STORE_UNREADABLE):
            await world.back()
        assert path.read_bytes() == b"a\nb\n"
        assert (place.root / "new.txt").exists()


async def test_the_reviews_show_what_was_done(world: World) -> None:
    world.place.write("f.txt", b"a\nb\n")
    await world.edit("f.txt", {"op": "replace", "start": 2, "text": "B"}, {"op": "moveFile", "to": "g.txt"})
    await world.write("h.txt", "x\n", call_id="call-2")
    shown = await stored_reviews(world.store, ALL)
    assert [(r.path, r.change, r.call_id, r.reversible) for r in shown] == [
        ("g.txt", "created", "call-1", True),
        ("f.txt", "deleted", "call-1", True),
        ("h.txt", "created", "call-2", True),
    ]
    assert [(h.old_lines, h.new_lines) for h in shown[2].hunks] == [(0, 1)]
    assert await stored_reviews(world.store, Scope("session-1", owners=frozenset())) == ()


def child(number: int, parent: str) -> Event:
    started = task_started(number)
    payload = msgspec.structs.replace(started.payload, parent_owner=parent)
    return msgspec.structs.replace(started, payload=payload)


async def test_ids_lead_to_the_owners_with_all_their_delegates() -> None:
    async with open_memory_store() as store:
        await store.append(story())
        await store.append([child(2, "turn-1"), child(3, "r2"), child(4, "turn-1")])
        assert await scope_of_found(store, Found("session", "s1", "s1")) == Scope("s1")
        found = await scope_of_found(store, Found("task", "t2", "s1"))
        assert found.owners == {"r2", "r3"}
        assert (await scope_of_found(store, Found("run", "r3", "s1"))).owners == {"r3"}
        turn = await scope_of_found(store, Found("turn", "turn-1", "s1"))
        assert turn.owners is not None
        assert {"turn-1", "r2", "r3", "r4"} <= turn.owners


# any history

NAMES = ["a", "b", "d/a", "d/e/b"]
STEPS = st.tuples(
    st.sampled_from(["write", "edit", "move", "delete"]),
    st.sampled_from(NAMES),
    st.sampled_from([*NAMES, "n/x"]),
    st.sampled_from(["x", "y\n", "é\nz"]),
)


@settings(deadline=None, max_examples=25)
@given(st.lists(STEPS, max_size=10), st.booleans())
def test_any_sequence_of_mutations_rolled_back_whole_restores_the_tree(
    steps: list[tuple[str, str, str, str]], again: bool
) -> None:
    async def one() -> None:
        with tempfile.TemporaryDirectory() as folder:
            async with open_memory_store() as store:
                place = make_place(canonical(folder))
                place.log = store
                world = World(place, store)
                place.write("a", b"\xffa\r\nb\n").chmod(0o755)
                place.write("d/a", b"d\n").chmod(0o600)
                before = world.tree()
                for step in steps:
                    await perform(world, *step)
                after = world.tree()
                done = await world.back()
                assert world.tree() == before
                assert place.leftovers() == []
                if again and done.changes:
                    await world.back(Scope("session-1", owners=frozenset({done.call_id})))
                    assert {n: v[0] for n, v in world.tree().items() if v[0]} == {
                        n: v[0] for n, v in after.items() if v[0]
                    }

    trio.run(one)


def canonical(folder: str) -> Path:
    return Path(folder).resolve()


async def perform(world: World, kind: str, path: str, to: str, text: str) -> None:
    """One step; one that cannot be done is refused and changes nothing."""
    try:
        match kind:
            case "write":
                await world.write(path, text)
            case "edit":
                await world.edit(path, {"op": "append", "text": text.replace("é", "e")})
            case "move":
                await world.edit(path, {"op": "moveFile", "to": to})
            case _:
                await world.edit(path, GONE)
    except Failure:
        pass

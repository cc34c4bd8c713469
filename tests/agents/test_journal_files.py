"""Moving and deleting through the journal: what is on disk and what is written down, whatever happens."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import trio

import agents.journal
from agents.errors import ErrorCode
from agents.journal import Deletion, Journal, Move
from agents.results import Hunk
from agents.rules.effects import EffectIntent, EffectResult, Verdict, reconcile
from agents.workspace import FileBytes
from tests.agents.tools.edit_context import KeptLog, Place, fails, make_place


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path)


def same(before: FileBytes | None) -> bytes:
    assert before is not None
    return before.data


async def move(place: Place, path: str, to: str, new: bytes | None = None) -> Move:
    return await Journal(place.log, session_id="session-1", owner="run-1").move(
        place.workspace.resolve(path),
        place.workspace.resolve(to),
        same if new is None else lambda before: new,
        call_id="call-1",
        workspace=place.workspace,
        locks=place.locks,
        waiting=place.waiting,
    )


async def delete(place: Place, path: str) -> Deletion:
    return await Journal(place.log, session_id="session-1", owner="run-1").delete(
        place.workspace.resolve(path),
        same,
        call_id="call-1",
        workspace=place.workspace,
        locks=place.locks,
        waiting=place.waiting,
    )


async def test_a_move_is_two_effects_the_new_file_first_each_between_its_intent_and_its_result(
    place: Place,
) -> None:
    old, new = place.write("f.txt", b"old\n"), place.root / "a/b/g.txt"
    seen: list[tuple[str, bool, bool]] = []

    class Watching(KeptLog):
        async def intend(self, intent: EffectIntent) -> None:
            seen.append(("intend", old.exists(), new.exists()))
            await super().intend(intent)

        async def finish(self, result: EffectResult) -> None:
            seen.append(("finish", old.exists(), new.exists()))
            await super().finish(result)

    place.log = Watching()
    await move(place, "f.txt", "a/b/g.txt", b"new\n")
    assert seen == [
        ("intend", True, False),
        ("finish", True, True),
        ("intend", True, True),
        ("finish", False, True),
    ]
    create, gone = place.log.intents
    assert (create.target, create.before_hash, create.planned_hash) == (str(new), None, sha(b"new\n"))
    assert create.new_directories == (str(place.root / "a"), str(place.root / "a/b"))
    assert (create.shown, create.before_image, create.before_mode) == ("a/b/g.txt", None, None)
    assert create.hunks == (Hunk(old_start=0, old_lines=0, new_start=1, new_lines=1),)
    assert (gone.target, gone.before_hash, gone.planned_hash) == (str(old), sha(b"old\n"), None)
    assert (gone.shown, gone.before_image, gone.before_mode) == ("f.txt", b"old\n", 0o644)
    assert gone.hunks == (Hunk(old_start=1, old_lines=1, new_start=0, new_lines=0),)
    assert [(entry.ok, entry.after_hash) for entry in place.log.results] == [
        (True, sha(b"new\n")),
        (True, None),
    ]


async def test_a_written_file_notes_its_hunks_its_name_and_its_mode(place: Place) -> None:
    place.write("f.txt", b"a\nb\n").chmod(0o640)
    await Journal(place.log, session_id="s", owner="r").mutate(
        place.workspace.resolve("f.txt"),
        lambda before: b"a\nB\n",
        call_id="c",
        workspace=place.workspace,
        locks=place.locks,
        waiting=place.waiting,
    )
    (intent,) = place.log.intents
    assert (intent.shown, intent.before_mode, intent.new_directories) == ("f.txt", 0o640, ())
    assert intent.hunks == (Hunk(old_start=2, old_lines=1, new_start=2, new_lines=1),)


async def test_where_the_old_file_cannot_go_its_copy_goes_again(place: Place) -> None:
    old = place.write("f.txt", b"old\n")

    class Touching(KeptLog):
        async def intend(self, intent: EffectIntent) -> None:
            await super().intend(intent)
            if intent.target == str(old):
                old.write_bytes(b"somebody else's\n")

    place.log = Touching()
    with fails(ErrorCode.CONFLICT):
        await move(place, "f.txt", "g.txt")
    assert old.read_bytes() == b"somebody else's\n"
    assert not (place.root / "g.txt").exists()
    assert [entry.ok for entry in place.log.results] == [True, False, True]
    assert place.locks.held == 0


async def test_where_the_copy_cannot_go_either_the_error_names_it(place: Place) -> None:
    old, new = place.write("f.txt", b"old\n"), place.root / "g.txt"

    class Touching(KeptLog):
        async def intend(self, intent: EffectIntent) -> None:
            await super().intend(intent)
            if intent.target == str(old):
                old.write_bytes(b"somebody else's\n")
                new.write_bytes(b"this too\n")

    place.log = Touching()
    with fails(ErrorCode.CONFLICT) as errors:
        await move(place, "f.txt", "g.txt")
    assert errors[0].details["copy"] == "g.txt"
    assert (old.read_bytes(), new.read_bytes()) == (b"somebody else's\n", b"this too\n")


async def test_a_file_that_was_exchanged_is_not_deleted(place: Place) -> None:
    path = place.write("f.txt", b"old\n")

    class Touching(KeptLog):
        async def intend(self, intent: EffectIntent) -> None:
            await super().intend(intent)
            path.write_bytes(b"other\n")

    place.log = Touching()
    with fails(ErrorCode.CONFLICT):
        await delete(place, "f.txt")
    assert path.read_bytes() == b"other\n"
    assert [entry.ok for entry in place.log.results] == [False]


async def test_a_deletion_tells_of_other_names(place: Place) -> None:
    path = place.write("f.txt", b"old\n")
    os.link(path, place.root / "g.txt")
    assert (await delete(place, "f.txt")).broke_hard_link
    assert not (await delete(place, "g.txt")).broke_hard_link


@pytest.mark.parametrize("at", [0, 1, 2, 3])
async def test_a_move_cancelled_from_the_first_intent_on_is_whole_with_its_rows(
    place: Place, at: int
) -> None:
    old = place.write("f.txt", b"old\n")
    scope = trio.CancelScope()
    steps = [0]

    class Cancelling(KeptLog):
        def step(self) -> None:
            if steps[0] == at:
                scope.cancel()
            steps[0] += 1

        async def intend(self, intent: EffectIntent) -> None:
            self.step()
            await super().intend(intent)

        async def finish(self, result: EffectResult) -> None:
            self.step()
            await super().finish(result)

    place.log = Cancelling()
    with scope:
        await move(place, "f.txt", "g.txt")
    assert not old.exists()
    assert (place.root / "g.txt").read_bytes() == b"old\n"
    assert [entry.ok for entry in place.log.results] == [True, True]
    assert place.locks.held == 0


async def test_a_journal_that_does_not_answer_ends_a_deletion_at_its_deadline(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents.journal, "EFFECT_SECONDS", 0.05)
    place.write("f.txt", b"old\n")
    place.log.pause = 5.0
    with fails(ErrorCode.STORE_WRITE_FAILED):
        await delete(place, "f.txt")
    assert (place.root / "f.txt").exists()


KILLED = """
    import sys, trio
    from pathlib import Path
    from agents.journal import Journal
    from tests.agents.tools.edit_context import KeptLog, make_place

    class Telling(KeptLog):
        async def intend(self, intent):
            print(intent.effect_id, intent.target, intent.before_hash, intent.planned_hash, flush=True)

    async def main():
        place = make_place(Path(sys.argv[1]))
        place.write("f.txt", b"0" * 3_000_000)
        journal = Journal(Telling(), session_id="s", owner="r")
        here, there = "f.txt", "g.txt"
        while True:
            await journal.move(
                place.workspace.resolve(here), place.workspace.resolve(there), lambda before: before.data,
                call_id="c", workspace=place.workspace, locks=place.locks, waiting=place.waiting)
            here, there = there, here

    trio.run(main)
"""


@pytest.mark.parametrize("delay", [0.0, 0.007, 0.021])
async def test_a_process_killed_while_it_moves_leaves_the_file_at_one_end_at_least(
    tmp_path: Path, delay: float
) -> None:
    def kill_it() -> list[str]:
        child = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path)],
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
            text=True,
        )
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(3)]
        time.sleep(delay)
        child.send_signal(signal.SIGKILL)
        lines += child.stdout.readlines()
        child.wait()
        child.stdout.close()
        return [line for line in lines if line.endswith("\n")]

    last = (await trio.to_thread.run_sync(kill_it))[-1].split()
    found = [tmp_path / "work" / name for name in ("f.txt", "g.txt")]
    there = [path for path in found if path.exists()]
    assert there
    assert all(path.read_bytes() == b"0" * 3_000_000 for path in there)
    before, planned = (None if part == "None" else part for part in last[2:4])
    intent = EffectIntent(
        effect_id=last[0],
        session_id="s",
        owner="r",
        call_id="c",
        kind="file",
        target=last[1],
        inside=True,
        before_hash=before,
        planned_hash=planned,
    )
    now = next((sha(path.read_bytes()) for path in there if str(path) == last[1]), None)
    assert reconcile(intent, now) in (Verdict.APPLIED, Verdict.NOT_APPLIED)

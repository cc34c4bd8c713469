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

from agents import journal as journal_module
from agents.errors import ErrorCode, Failure, failure
from agents.journal import Journal, Mutation
from agents.rules.effects import EffectIntent, EffectResult, Verdict, reconcile
from agents.workspace import FileBytes
from tests.agents.tools.edit_context import KeptLog, Place, fails, make_place


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path)


async def mutate(place: Place, path: str, new: bytes, log: KeptLog | None = None) -> Mutation:
    journal = Journal(log or place.log, session_id="session-1", owner="run-1")
    return await journal.mutate(
        place.workspace.resolve(path),
        lambda before: new,
        call_id="call-1",
        workspace=place.workspace,
        locks=place.locks,
        waiting=place.waiting,
    )


async def test_the_intent_is_durable_before_the_effect_and_the_result_after_it(place: Place) -> None:
    path = place.write("f.txt", b"old")
    seen: list[bytes] = []

    class Watching(KeptLog):
        async def intend(self, intent: EffectIntent) -> None:
            seen.append(path.read_bytes())
            await super().intend(intent)

        async def finish(self, result: EffectResult) -> None:
            seen.append(path.read_bytes())
            await super().finish(result)

    log = Watching()
    mutation = await mutate(place, "f.txt", b"new", log)
    assert seen == [b"old", b"new"]
    (intent,), (result,) = log.intents, log.results
    assert (intent.kind, intent.target, intent.inside) == ("file", str(path), True)
    assert (intent.before_hash, intent.planned_hash, intent.before_image) == (
        sha(b"old"),
        sha(b"new"),
        b"old",
    )
    assert intent.temporary is not None
    assert os.path.dirname(intent.temporary) == str(place.root)
    assert os.path.basename(intent.temporary).startswith(".orchestrator-")
    assert (result.effect_id, result.ok, result.after_hash) == (intent.effect_id, True, sha(b"new"))
    assert mutation.after.data == b"new"
    assert mutation.after.stat.st_ino == path.stat().st_ino
    assert mutation.change is not None
    assert (mutation.change.path, mutation.change.change) == ("f.txt", "modified")
    assert (mutation.change.before, mutation.change.after) == (sha(b"old"), sha(b"new"))
    assert place.leftovers() == []


async def test_a_new_file_has_no_hash_and_no_image_before(place: Place) -> None:
    mutation = await mutate(place, "a/b/f.txt", b"new")
    assert (place.root / "a/b/f.txt").read_bytes() == b"new"
    (intent,) = place.log.intents
    assert (intent.before_hash, intent.before_image) == (None, None)
    assert mutation.change is not None
    assert (mutation.change.path, mutation.change.change, mutation.change.before) == (
        "a/b/f.txt",
        "created",
        None,
    )


async def test_outside_the_workspace_there_is_a_row_but_no_image_and_no_change(place: Place) -> None:
    path = place.outside / "f.txt"
    path.write_bytes(b"old")
    mutation = await mutate(place, str(path), b"new")
    (intent,) = place.log.intents
    assert (intent.inside, intent.before_image, intent.before_hash) == (False, None, sha(b"old"))
    assert mutation.change is None
    assert path.read_bytes() == b"new"


async def test_what_cannot_be_computed_leaves_no_row(place: Place) -> None:
    place.write("f.txt", b"old")
    journal = Journal(place.log, session_id="session-1", owner="run-1")

    def refuse(before: FileBytes | None) -> bytes:
        raise failure(ErrorCode.EDIT_NO_CHANGE, "no")

    with fails(ErrorCode.EDIT_NO_CHANGE):
        await journal.mutate(
            place.workspace.resolve("f.txt"),
            refuse,
            call_id="call-1",
            workspace=place.workspace,
            locks=place.locks,
            waiting=place.waiting,
        )
    assert place.log == KeptLog()
    assert place.locks.held == 0


async def test_a_failing_write_is_journalled_and_raised(place: Place) -> None:
    path = place.write("f.txt", b"old")

    class Meddling(KeptLog):
        async def intend(self, intent: EffectIntent) -> None:
            await super().intend(intent)
            path.write_bytes(b"somebody else's")

    log = Meddling()
    with fails(ErrorCode.CONFLICT):
        await mutate(place, "f.txt", b"new", log)
    assert [(result.ok, result.after_hash) for result in log.results] == [(False, None)]
    assert path.read_bytes() == b"somebody else's"
    assert place.locks.held == 0


async def test_a_call_cancelled_from_the_intent_on_ends_with_the_effect_and_its_row_whole(
    place: Place,
) -> None:
    path = place.write("f.txt", b"old")
    reached = []

    class Cancelling(KeptLog):
        async def intend(self, intent: EffectIntent) -> None:
            scope.cancel()
            await trio.lowlevel.checkpoint()
            await super().intend(intent)

    log = Cancelling()
    with trio.CancelScope() as scope:
        mutation = await mutate(place, "f.txt", b"new", log)
        reached.append(mutation.change)
        await trio.lowlevel.checkpoint()
        reached.append(None)
    assert scope.cancelled_caught
    assert len(reached) == 1
    assert path.read_bytes() == b"new"
    assert [result.ok for result in log.results] == [True]
    assert place.locks.held == 0


async def test_a_call_cancelled_before_its_intent_has_neither_effect_nor_row(place: Place) -> None:
    path = place.write("f.txt", b"old")
    with trio.CancelScope() as scope:
        scope.cancel()
        await mutate(place, "f.txt", b"new")
    assert scope.cancelled_caught
    assert path.read_bytes() == b"old"
    assert place.log == KeptLog()
    assert place.locks.held == 0


async def test_a_journal_that_does_not_answer_ends_the_call_at_its_deadline(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = place.write("f.txt", b"old")
    monkeypatch.setattr(journal_module, "EFFECT_SECONDS", 0.05)
    with fails(ErrorCode.STORE_WRITE_FAILED):
        await mutate(place, "f.txt", b"new", KeptLog(pause=60))
    assert path.read_bytes() == b"old"
    assert place.locks.held == 0


async def test_mutations_of_one_path_wait_for_each_other(place: Place) -> None:
    place.write("f.txt", b"0")
    journal = Journal(place.log, session_id="session-1", owner="run-1")

    def add_one(before: FileBytes | None) -> bytes:
        assert before is not None
        time.sleep(0.002)
        return b"%d" % (int(before.data) + 1)

    async def work(spelling: str) -> None:
        await journal.mutate(
            place.workspace.resolve(spelling),
            add_one,
            call_id="call-1",
            workspace=place.workspace,
            locks=place.locks,
            waiting=place.waiting,
        )

    async with trio.open_nursery() as nursery:
        for spelling in ("f.txt", "./f.txt", "x/../f.txt", str(place.root / "f.txt")) * 3:
            nursery.start_soon(work, spelling)
    assert (place.root / "f.txt").read_bytes() == b"12"
    assert set(place.waits) == {"lock"}


async def test_a_shell_command_is_journalled_around_its_block() -> None:
    log = KeptLog()
    journal = Journal(log, session_id="session-1", owner="run-1")
    async with journal.shell("make test", call_id="call-1"):
        assert [(intent.kind, intent.target) for intent in log.intents] == [("shell", "make test")]
        assert log.results == []
    with pytest.raises(Failure):
        async with journal.shell("boom", call_id="call-2"):
            raise failure(ErrorCode.TOOL_FAILED, "no")
    with trio.move_on_after(0.01):
        async with journal.shell("sleep", call_id="call-3"):
            await trio.sleep_forever()
    assert [result.ok for result in log.results] == [True, False, False]


async def test_a_shell_command_cancelled_during_its_intent_does_not_run_and_has_a_whole_row() -> None:
    class Cancelling(KeptLog):
        async def intend(self, intent: EffectIntent) -> None:
            scope.cancel()
            await super().intend(intent)

    log = Cancelling()
    with trio.CancelScope() as scope:
        async with Journal(log, session_id="session-1", owner="run-1").shell("make", call_id="call-1"):
            raise AssertionError("ran")
    assert (len(log.intents), [result.ok for result in log.results]) == (1, [False])


KILLED = """
    import os, sys, trio
    from pathlib import Path
    from agents.journal import Journal
    from tests.agents.tools.edit_context import KeptLog, make_place

    class Telling(KeptLog):
        async def intend(self, intent):
            Path(sys.argv[2] + ".new").write_text(intent.temporary)
            os.replace(sys.argv[2] + ".new", sys.argv[2])

    async def main():
        place = make_place(Path(sys.argv[1]))
        place.write("f.txt", b"0" * 3_000_000)
        journal = Journal(Telling(), session_id="s", owner="r")
        print("ready", flush=True)
        for number in range(1, 10_000):
            await journal.mutate(
                place.workspace.resolve("f.txt"), lambda before: b"%d" % (number % 10) * 3_000_000,
                call_id="c", workspace=place.workspace, locks=place.locks, waiting=place.waiting)

    trio.run(main)
"""


@pytest.mark.parametrize("delay", [0.0, 0.013, 0.04])
async def test_a_process_killed_at_the_write_leaves_the_file_wholly_old_or_wholly_new(
    tmp_path: Path, delay: float
) -> None:
    def kill_it() -> None:
        child = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path), str(tmp_path / "temporary")],
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        while not (tmp_path / "temporary").exists() and child.poll() is None:
            time.sleep(0.001)
        time.sleep(delay)
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()

    await trio.to_thread.run_sync(kill_it)
    data = (tmp_path / "work" / "f.txt").read_bytes()
    assert len(data) == 3_000_000
    assert len(set(data)) == 1
    named = Path((tmp_path / "temporary").read_text())
    assert all(path == named for path in named.parent.glob(".orchestrator-*"))


def test_recovery_tells_what_became_of_an_open_effect() -> None:
    intent = EffectIntent(
        effect_id="e",
        session_id="s",
        owner="r",
        call_id="c",
        kind="file",
        target="/f",
        inside=True,
        before_hash=sha(b"old"),
        planned_hash=sha(b"new"),
    )
    assert reconcile(intent, sha(b"old")) is Verdict.NOT_APPLIED
    assert reconcile(intent, sha(b"new")) is Verdict.APPLIED
    assert reconcile(intent, sha(b"other")) is Verdict.CHANGED_BY_SOMEONE_ELSE

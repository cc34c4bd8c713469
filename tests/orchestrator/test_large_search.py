"""A Grep over a large tree in a session: its helpers belong to the session and end with it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import trio

from agents.tools.family import snapshot
from tests.harness import call, calls, events_of, say, scripted, session_on


def children() -> set[int]:
    """The processes that this one has started and that still run."""
    return {pid for pid, one in snapshot().items() if one.parent == os.getpid() and not one.dead}


def large_tree(root: Path, files: int = 1200) -> None:
    for number in range(files):
        path = root / "repo" / f"d{number % 20}" / f"f{number:04}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("hay\n" if number % 100 else f"needle {number}\n")


async def test_searches_of_a_session_share_helpers_that_end_with_it(tmp_path: Path) -> None:
    large_tree(tmp_path)
    before = children()
    grep = call("Grep", pattern="needle", outputMode="count")
    script = {"main": [calls(grep), calls(call("Bash", command="sleep 0.5")), calls(grep, grep), say("done")]}
    async with session_on(tmp_path, scripted(script), defer_tools=False) as session:
        outcome = await session.run("search")
        assert outcome.status == "completed"
        helpers = {helper.process.pid for helper in session.assembly.helpers._idle}
        assert helpers <= children()
        assert helpers or os.cpu_count() == 1 or len(os.sched_getaffinity(0)) == 1
        finished = [event.payload for event in await events_of(session, "tool.finished")]
        found = [one.result for one in finished if one.tool == "Grep"]
        assert len(found) == 3
        assert all(result == found[0] for result in found)
        assert found[0]["count"] == 12
    assert children() <= before


async def test_a_cancelled_session_leaves_no_helper(tmp_path: Path) -> None:
    large_tree(tmp_path)
    before = children()
    grep = call("Grep", pattern="needle", outputMode="count")
    script = {"main": [calls(*[grep] * 8) for _ in range(50)] + [say("done")]}
    with trio.move_on_after(1.0):
        async with session_on(tmp_path, scripted(script), defer_tools=False) as session:
            await session.run("search")
    deadline = time.monotonic() + 5
    while not children() <= before and time.monotonic() < deadline:
        await trio.sleep(0.05)
    assert children() <= before

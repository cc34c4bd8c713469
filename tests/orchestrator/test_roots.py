"""Where a session's agents may work, and in what order their calls run, seen from outside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from agents.requests import Answer, Decision, PermissionRequest
from agents.spec import AgentSpec
from orchestrator.config import load_settings
from orchestrator.opening import Extras, open_settings
from orchestrator.session import Session
from orchestrator.settings import Settings
from tests.harness import call, calls, edit, events_of, say, scripted, session_on


@attrs.define
class Answering:
    """Gives each request the answer `decide` finds; keeps the requests."""

    decide: Any
    asked: list[PermissionRequest] = attrs.field(factory=list)

    async def approve(self, request: PermissionRequest) -> Answer:
        self.asked.append(request)
        return Answer(decision=await self.decide(request), source="test")


async def allow_for_the_session(request: PermissionRequest) -> Decision:
    return Decision.ALLOW_SESSION if request.tool == "Read" else Decision.DENY


async def finished(session: Session, tool: str) -> list[Any]:
    return [e.payload for e in await events_of(session, "tool.finished") if e.payload.tool == tool]


async def by_path(session: Session, tool: str) -> dict[str, Any]:
    """The ends of the calls of a tool by their `path`: calls of one batch may end in any order."""
    begun = {e.payload.call_id: e.payload for e in await events_of(session, "tool.started")}
    return {begun[done.call_id].arguments["path"]: done for done in await finished(session, tool)}


# scratch


async def test_scratch_is_the_sessions_own_and_goes_with_it(tmp_path: Path) -> None:
    command = 'echo x > "$ORCHESTRATOR_SCRATCH_DIR/made"; echo "$ORCHESTRATOR_SCRATCH_DIR"'
    model = scripted({"main": [calls(call("Bash", command=command)), say("done")]})
    async with session_on(tmp_path, model) as session:
        scratch = tmp_path / "data" / "scratch" / session.id
        assert not scratch.exists()  # made on first use
        await session.run("go")
        (done,) = await finished(session, "Bash")
        assert done.result["stdout"].strip() == str(scratch)
        assert (scratch / "made").exists()
    assert not scratch.exists()


async def test_a_write_to_scratch_asks_nobody_and_to_other_sessions_scratch_is_denied(tmp_path: Path) -> None:
    own = tmp_path / "data" / "scratch" / "ses-own"
    other = tmp_path / "data" / "scratch" / "ses-other" / "n.txt"
    writes = [call("Write", path=str(path), content="x\n") for path in (own / "n.txt", other)]
    model = scripted({"main": [calls(*writes), say("done")]})
    async with session_on(tmp_path, model, permission_mode="ask", session_id="ses-own") as session:
        await session.run("go")
        written = await by_path(session, "Write")
    mine, theirs = written[str(own / "n.txt")], written[str(other)]
    assert (mine.ok, mine.result["root"]) == (True, "scratch")
    assert theirs.error.code == "TOOL_DENIED"
    assert theirs.error.details["reason"] == "deny-list"
    assert not other.exists()


# added directories and outside places


async def test_an_added_directory_is_judged_as_workspace(tmp_path: Path) -> None:
    (tmp_path / "added").mkdir()
    path = str(tmp_path / "added" / "a.txt")
    model = scripted({"main": [calls(call("Write", path=path, content="x\n")), say("done")]})
    options = {"permission_mode": "accept-edits", "add_dirs": [tmp_path / "added"]}
    async with session_on(tmp_path, model, **options) as session:
        await session.run("go")
        (done,) = await finished(session, "Write")
    assert (done.ok, done.result["root"]) == (True, "workspace")


async def test_an_approval_never_makes_a_place_a_root(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "s.txt").write_text("needle\n")
    approver = Answering(allow_for_the_session)
    model = scripted(
        {
            "main": [
                calls(call("Read", path=str(outside / "s.txt")), call("Read", path=str(outside / "s.txt"))),
                calls(
                    call("ToolSearch", query="Grep"),
                    call("Grep", pattern="needle"),
                    call("Grep", pattern="needle", path=str(outside)),
                    call("Write", path=str(outside / "n.txt"), content="x\n"),
                    call("Bash", command="pwd"),
                ),
                say("done"),
            ]
        }
    )
    async with session_on(tmp_path, model, permission_mode="accept-edits", approver=approver) as session:
        await session.run("go")
        implicit, explicit = sorted(await finished(session, "Grep"), key=lambda call: call.error is not None)
        (written,) = await finished(session, "Write")
    assert implicit.result["count"] == 0
    assert explicit.error.code == "TOOL_DENIED"
    assert written.error.code == "TOOL_DENIED"
    # The grant covers Read alone: one question for it, and one for each other tool.
    assert [request.tool for request in approver.asked] == ["Read", "Grep", "Write", "Bash"]
    assert not (outside / "n.txt").exists()


# the deny list


async def test_the_user_widens_and_narrows_the_deny_list_and_a_repository_cannot(tmp_path: Path) -> None:
    repo, home = tmp_path / "repo", tmp_path / "home"
    for folder, text in (
        (home, 'denied_names = ["*.secret"]\nlifted_names = ["test.pem"]\n'),
        (repo, 'denied_names = ["README.md"]\nlifted_names = [".env"]\n'),
    ):
        (folder / ".orchestrator").mkdir(parents=True)
        (folder / ".orchestrator" / "config.toml").write_text(text)
    loaded = load_settings({"permission_mode": "auto"}, {"HOME": str(home)}, repo)
    assert (loaded.settings.denied_names, loaded.settings.lifted_names) == (("*.secret",), ("test.pem",))
    assert len(loaded.warnings) == 2
    names = ("a.secret", "test.pem", "other.pem", ".env", "README.md")
    for name in names:
        (repo / name).write_text("x\n")
    model = scripted({"main": [calls(*(call("Read", path=name) for name in names)), say("done")]})
    settings = attrs.evolve(loaded.settings, data_dir=tmp_path / "data", model="script:test")
    async with open_settings(settings, Extras(model=model)) as session:
        await session.run("go")
        reads = await by_path(session, "Read")
    assert [name for name in names if reads[name].ok] == ["test.pem", "README.md"]


@pytest.mark.parametrize("name", ["a/b", "", "*", "**"])
def test_a_pattern_that_is_no_name_is_refused_for_the_deny_list(tmp_path: Path, name: str) -> None:
    with pytest.raises(Exception, match=r"--denied-names"):
        load_settings({"denied_names": [name]}, {"HOME": str(tmp_path)}, None)


def test_without_configuration_nothing_is_added_to_the_deny_list(tmp_path: Path) -> None:
    settings = Settings(workspace=tmp_path)
    assert (settings.denied_names, settings.lifted_names) == ((), ())


# the order of calls


async def test_a_lock_is_never_held_while_a_permission_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    path = tmp_path / "repo" / "a.txt"
    path.write_text("1\n")
    asked = trio.Event()

    async def once_the_other_has_written(request: PermissionRequest) -> Decision:
        asked.set()
        while path.read_text() != "edited\n":
            await trio.sleep(0.01)
        return Decision.ALLOW_ONCE

    async def wait_for_the_question() -> str:
        """Wait until the other agent is asked for."""
        await asked.wait()
        return "asked"

    second = AgentSpec(
        name="second", description="Edits.", prompt="", tools=("Read", "Edit", "wait_for_the_question")
    )
    model = scripted(
        {
            "main": [
                calls(
                    call("Task", subagent_type="fixer", prompt="go"),
                    call("Task", subagent_type="second", prompt="go"),
                ),
                say("waiting"),
                say("done"),
            ],
            "fixer": [
                calls(call("Read", path="a.txt")),
                calls(call("Write", path="a.txt", content="written\n")),
                say("done"),
            ],
            "second": [
                calls(call("Read", path="a.txt"), call("wait_for_the_question")),
                calls(edit("a.txt", {"op": "replace", "start": 1, "text": "edited"})),
                say("done"),
            ],
        }
    )
    options: dict[str, Any] = {
        "permission_mode": "ask",
        "approver": Answering(once_the_other_has_written),
        "allow": ["Edit", "wait_for_the_question"],
        "tools": [wait_for_the_question],
        "definitions": [second],
    }
    with trio.fail_after(20):
        async with session_on(tmp_path, model, **options) as session:
            await session.run("go")
            (edited,) = await finished(session, "Edit")
            (refused,) = await finished(session, "Write")
    assert edited.ok
    # The writer was never shown the edited version, so it may not wipe it.
    assert refused.error.code in ("WRITE_STALE", "CONFLICT")
    assert path.read_text() == "edited\n"


async def test_a_command_between_edits_sees_those_before_it_and_none_after_it(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "a.txt").write_text("1\n2\n")
    (tmp_path / "repo" / "b.txt").write_text("1\n")
    change = {"op": "replace", "start": 1, "text": "changed"}
    model = scripted(
        {
            "main": [
                calls(call("Read", path="a.txt"), call("Read", path="b.txt")),
                calls(
                    edit("a.txt", change),
                    edit("b.txt", change),
                    call("Bash", command="cat a.txt b.txt"),
                    call("Write", path="c.txt", content="c\n"),
                    call("Bash", command="ls; cat a.txt"),
                    call("Read", path="c.txt"),
                ),
                say("done"),
            ]
        }
    )
    async with session_on(tmp_path, model) as session:
        await session.run("go")
        first, second = await finished(session, "Bash")
        reads = await finished(session, "Read")
    assert first.result["stdout"] == "changed\n2\nchanged\n"
    assert second.result["stdout"].split() == ["a.txt", "b.txt", "c.txt", "changed", "2"]
    assert reads[-1].ok

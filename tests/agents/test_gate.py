"""The gate, on a real workspace with real files and links."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
import trio
import trio.testing

from agents.errors import ErrorCode, Failure, ToolError, failure
from agents.gate import MAX_QUESTIONS
from agents.messages import ToolCall
from agents.permit import Permit
from agents.requests import Answer, Decision, PermissionRequest
from agents.rules.permissions import Grant
from agents.spec import OperatingMode, PermissionMode
from agents.tools.base import PathUse
from agents.workspace import Workspace
from telemetry import attributes as names
from tests.agents.gate_world import (
    ALWAYS,
    NO,
    YES,
    BashTool,
    FileTool,
    PathArguments,
    World,
    a_read,
    a_write,
    an_edit,
)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path.resolve()


def denied(result: Permit | ToolError, reason: str) -> ToolError:
    assert isinstance(result, ToolError)
    assert (result.code, result.details.get("reason")) == (ErrorCode.TOOL_DENIED, reason)
    assert not result.retriable
    return result


# what runs unasked


async def test_a_read_inside_runs_unasked_and_leaves_no_event(base: Path) -> None:
    world = World(base)
    (base / "repo/a.txt").write_text("x")
    permit = await world.admit(a_read(), path="a.txt")
    assert isinstance(permit, Permit)
    assert permit.answer is None
    assert permit.paths[0].canonical == str(base / "repo/a.txt")
    assert world.sink.events == []


async def test_a_link_to_the_workspace_and_links_inside_it_ask_nothing(base: Path) -> None:
    world = World(base)
    (base / "repo/src/a.txt").write_text("x")
    (base / "repo/x").symlink_to("src")
    (base / "link").symlink_to("repo")
    linked = Workspace(
        base / "link", scratch=base / "data/scratch/s-1", data_dir=base / "data", home=base / "home"
    )
    world.gate._workspace = linked
    for path in (
        "src/a.txt",
        "x/a.txt",
        f"{base}/link/src/a.txt",
        f"{base}/repo/x/a.txt",
        "./src/../x/a.txt",
    ):
        assert isinstance(await world.admit(a_read(), path=path), Permit), path
    assert world.approver.asked == []


async def test_a_path_that_cannot_be_resolved_is_an_error_and_nobody_is_asked(base: Path) -> None:
    world = World(base)
    result = await world.admit(a_write(), path="a\0b")
    assert isinstance(result, ToolError)
    assert result.code is ErrorCode.INVALID_ARGUMENT
    assert world.sink.events == []


# the request


async def test_a_request_is_stored_before_anybody_is_asked_and_says_who_asks_for_what(base: Path) -> None:
    stored: list[int] = []

    async def look(request: PermissionRequest) -> Answer:
        stored.append(len(world.sink.requests))
        return YES

    world = World(base, answers=[look])
    tool = a_write()
    permit = await world.admit(tool, path="src/new.txt", content="hello")
    assert isinstance(permit, Permit)
    assert stored == [1]
    (request,) = world.sink.requests
    assert request.id.startswith("req-")
    assert len(request.id) == 16
    assert request.agent_chain == ("main", "planner#1", "fixer#2")
    assert (request.session_id, request.owner, request.task_id) == ("s-1", "run-fixer#2", "task-7")
    assert (request.tool, request.risk, request.call_id) == ("Write", "high", "call-1")
    assert request.resolved_path == str(base / "repo/src/new.txt")
    assert request.external_path is None
    assert request.diff == "+hello\n"
    assert "inside the workspace" in request.grant
    assert tool.checked == [request.resolved_path]


async def test_what_was_allowed_is_byte_for_byte_what_was_asked(base: Path) -> None:
    world = World(base, answers=[YES])
    tool = a_write()
    arguments = PathArguments(path="a.txt", content="x")
    call = ToolCall(call_id="call-1", tool="Write", arguments={})
    permit = await world.gate.admit(call, tool, arguments, world.context)
    assert isinstance(permit, Permit)
    assert permit.arguments is arguments
    assert permit.answer == YES
    with pytest.raises(TypeError):
        Permit("call-1", "Write", arguments, (), None)


async def test_the_closing_event_carries_the_whole_wait_as_a_span_of_the_person(
    base: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async def slowly(_: PermissionRequest) -> Answer:
        await trio.sleep(2)
        return msgspec.structs.replace(YES, queue_position=3)

    world = World(base, mode=PermissionMode.ACCEPT_EDITS, answers=[slowly])
    assert isinstance(await world.admit(a_read(), path="../outside/x"), Permit)
    opened, closed = world.sink.events
    record = closed.span
    assert record is not None
    assert opened.span is None
    assert opened.span_id == closed.span_id == record.span_id
    assert (record.name, record.service, record.status) == ("permission wait", "person", "UNSET")
    assert record.parent_span_id == world.context.span.span_id
    request = world.sink.requests[0]
    expected = {
        names.PERMISSION_REQUEST: request.id,
        names.PERMISSION_TOOL: "Read",
        names.PERMISSION_MODE: "accept-edits",
        names.PERMISSION_DECISION: "allow-once",
        names.PERMISSION_SOURCE: "test",
        names.PERMISSION_SCOPE: "once",
        names.PERMISSION_QUEUE: 3,
        names.PERMISSION_EXTERNAL: True,
    }
    assert expected.items() <= record.attributes.items()
    assert names.TOOL_NAME not in record.attributes
    assert not any("outside" in str(value) for value in record.attributes.values())
    (resolved,) = world.sink.resolved
    assert (resolved.request_id, resolved.decision, resolved.wait_ms) == (request.id, "allow-once", 2000)


async def test_a_failing_check_is_returned_at_once_and_nobody_is_asked(base: Path) -> None:
    world = World(base, answers=[YES])
    error = ToolError(code=ErrorCode.EDIT_TAG_MISMATCH, message="Read the file again.")
    assert await world.admit(FileTool("Edit", PathUse.WRITE, refuses=error), path="a.txt") == error
    assert world.sink.events == []
    assert world.denials == []


async def test_nothing_outside_is_looked_at_before_the_answer(base: Path) -> None:
    world = World(base)
    tool = FileTool("Edit", PathUse.WRITE, refuses=ToolError(code=ErrorCode.NOT_FOUND, message="no"))
    ops = [{"op": "replace", "start": 3, "text": "new line"}]
    missing = await world.admit(tool, path="../outside/none.txt", ops=ops)
    (base / "outside/there.txt").write_text("x")
    there = await world.admit(tool, path="../outside/there.txt", ops=ops)
    assert tool.checked == []
    first, second = world.sink.requests
    assert first.diff is None
    assert '"replace"' in first.preview
    assert "new line" in first.preview
    texts = [denied(result, "user").message for result in (missing, there)]
    assert texts[0] == texts[1]
    assert first.external_path == str(base / "outside/none.txt")
    assert second.external_path == str(base / "outside/there.txt")


# places


@pytest.mark.parametrize(
    "spelling",
    [
        "{base}/repo-evil/s.txt",
        "../repo-evil/s.txt",
        "src/../../repo-evil/s.txt",
        "{base}/repo/../repo-evil/s.txt",
    ],
)
async def test_a_sibling_that_shares_a_text_prefix_is_outside(base: Path, spelling: str) -> None:
    (base / "repo-evil").mkdir()
    (base / "repo-evil/s.txt").write_text("SENTINEL")
    world = World(base)
    error = denied(await world.admit(a_read(), path=spelling.format(base=base)), "user")
    assert world.sink.requests[0].external_path == str(base / "repo-evil/s.txt")
    everything = repr((error, world.sink.events, world.denials))
    assert "SENTINEL" not in everything


async def test_a_tilde_is_the_users_home_and_outside(base: Path) -> None:
    world = World(base)
    denied(await world.admit(a_read(), path="~/s.txt"), "user")
    assert world.sink.requests[0].external_path == str(base / "home/s.txt")


@pytest.mark.parametrize("mode", [PermissionMode.ASK, PermissionMode.ACCEPT_EDITS])
@pytest.mark.parametrize("tool", ["Write", "Edit", "Grep"])
async def test_a_call_through_a_link_is_asked_for_where_it_lands(
    base: Path, mode: PermissionMode, tool: str
) -> None:
    world = World(base, mode=mode)
    (base / "outside/old.txt").write_text("old")
    (base / "repo/outbox").symlink_to(base / "outside")
    use = PathUse.READ if tool == "Grep" else PathUse.WRITE
    for name in ("new.txt", "old.txt"):
        denied(await world.perform(FileTool(tool, use), path=f"outbox/{name}", content="x"), "user")
    assert [r.external_path for r in world.sink.requests] == [
        str(base / "outside/new.txt"),
        str(base / "outside/old.txt"),
    ]
    assert (base / "outside/old.txt").read_text() == "old"
    assert not (base / "outside/new.txt").exists()
    assert (base / "repo/outbox").is_symlink()


async def test_a_dangling_link_is_judged_by_its_target(base: Path) -> None:
    world = World(base, mode=PermissionMode.ACCEPT_EDITS)
    (base / "repo/notes.txt").symlink_to(base / "outside/notyet.txt")
    denied(await world.perform(a_write(), path="notes.txt", content="x"), "user")
    assert world.sink.requests[0].external_path == str(base / "outside/notyet.txt")
    assert not (base / "outside/notyet.txt").exists()
    assert (base / "repo/notes.txt").is_symlink()


async def test_a_linked_file_does_not_slip_past_as_an_inside_read(base: Path) -> None:
    world = World(base)
    (base / "outside/secret.txt").write_text("SENTINEL")
    (base / "repo/key.md").symlink_to(base / "outside/secret.txt")
    denied(await world.admit(a_read(), path="key.md"), "user")


async def test_auto_runs_an_outside_path_unasked(base: Path) -> None:
    world = World(base, mode=PermissionMode.AUTO)
    assert isinstance(await world.perform(a_write(), path="../outside/x.txt", content="x"), Permit)
    assert (base / "outside/x.txt").read_text() == "x"
    assert world.sink.events == []


@pytest.mark.parametrize("path", [".env", "keys/server.pem", "../outside/.netrc", "link.txt"])
async def test_a_denied_place_is_refused_without_asking_also_in_auto(base: Path, path: str) -> None:
    world = World(base, mode=PermissionMode.AUTO, answers=[YES])
    (base / "outside/.env").write_text("K=V")
    (base / "repo/link.txt").symlink_to(base / "outside/.env")
    error = denied(await world.admit(a_read(), path=path), "deny-list")
    assert str(base / "outside") not in error.message
    assert world.approver.asked == []
    assert [(d.reason, d.request_id) for d in world.denials] == [("deny-list", None)]


@pytest.mark.parametrize(
    "path", [".git/hooks/pre-commit", ".git/config", ".orchestrator/config.toml", ".envrc"]
)
@pytest.mark.parametrize("mode", list(PermissionMode))
async def test_settings_that_would_free_the_agent_are_asked_for_in_every_mode(
    base: Path, path: str, mode: PermissionMode
) -> None:
    world = World(base, mode=mode, allow=("Write", "Bash"))
    denied(await world.perform(a_write(), path=path, content="x"), "user")
    denied(await world.perform(BashTool(), command=f"mkdir -p .git/hooks; echo x > {path}"), "user")
    assert [request.grant for request in world.sink.requests] == ["", ""]
    assert not (base / "repo" / path).exists()


# how a request ends without a yes


async def test_a_denial_gives_the_persons_words_to_the_model(base: Path) -> None:
    world = World(base, answers=[NO])
    error = denied(await world.admit(a_write(), path="a.txt"), "user")
    assert "use b.txt" in error.message
    assert error.details["requestId"] == world.sink.requests[0].id
    (denial,) = world.denials
    assert (denial.agent, denial.tool, denial.call_id, denial.reason) == (
        "fixer#2",
        "Write",
        "call-1",
        "user",
    )
    assert denial.request_id == world.sink.requests[0].id


async def test_silence_is_a_timeout_and_not_a_no(base: Path, autojump_clock: trio.testing.MockClock) -> None:
    world = World(base, timeout=1, answers=[Answer(decision=Decision.TIMEOUT, source="deadline")])
    error = denied(await world.admit(a_write(), path="a.txt"), "timeout")
    assert "nobody answered" in error.message
    record = world.sink.events[-1].span
    assert record is not None
    assert record.status == "ERROR"
    assert "timeout" in record.status_description
    assert record.attributes[names.ERROR_TYPE] == "TOOL_DENIED"


async def test_an_approver_that_keeps_no_deadline_is_not_waited_for(
    base: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async def never(_: PermissionRequest) -> Answer:
        await trio.sleep_forever()
        raise AssertionError

    world = World(base, timeout=1, answers=[never])
    denied(await world.admit(a_write(), path="a.txt"), "timeout")
    assert [r.decision for r in world.sink.resolved] == ["timeout"]


async def test_with_nobody_to_ask_the_message_names_the_flags(base: Path) -> None:
    world = World(base, answers=[Answer(decision=Decision.NO_APPROVER, source="policy")])
    error = denied(await world.admit(a_write(), path="a.txt"), "no-approver")
    for flag in ("--permission-mode auto", "accept-edits", "--allow", "--permission-prompts inbox"):
        assert flag in error.message
    record = world.sink.events[-1].span
    assert record is not None
    assert record.status == "UNSET"


@pytest.mark.parametrize(
    "trouble",
    [RuntimeError("x"), failure(ErrorCode.TOOL_ABORTED, "not the batch"), ExceptionGroup("g", [OSError()])],
)
async def test_an_approver_that_raises_denies(base: Path, trouble: Exception) -> None:
    async def fails(_: PermissionRequest) -> Answer:
        raise trouble

    world = World(base, answers=[fails])
    denied(await world.admit(a_write(), path="a.txt"), "user")
    (resolved,) = world.sink.resolved
    assert (resolved.decision, resolved.source) == ("deny", "approver failed")


async def test_a_wait_that_the_batch_cuts_is_closed_as_cancelled(
    base: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async def never(_: PermissionRequest) -> Answer:
        world.cuttable[0].cancel()
        await trio.sleep_forever()
        raise AssertionError

    world = World(base, answers=[never])
    denied(await world.admit(a_write(), path="a.txt"), "cancelled")
    assert [r.decision for r in world.sink.resolved] == ["cancelled"]
    record = world.sink.events[-1].span
    assert record is not None
    assert record.status == "UNSET"
    assert [d.reason for d in world.denials] == ["cancelled"]


async def test_cancelling_the_turn_closes_the_request_and_the_cancellation_goes_on(base: Path) -> None:
    async def never(_: PermissionRequest) -> Answer:
        scope.cancel()
        await trio.sleep_forever()
        raise AssertionError

    world = World(base, answers=[never])
    returned = False
    with trio.CancelScope() as scope:
        await world.admit(a_write(), path="a.txt")
        returned = True
    assert scope.cancelled_caught
    assert not returned
    assert [r.decision for r in world.sink.resolved] == ["cancelled"]
    assert world.sink.events[-1].span is not None
    assert [d.reason for d in world.denials] == ["cancelled"]


async def test_a_request_opened_in_a_cancelled_turn_is_closed_too(base: Path) -> None:
    world = World(base, answers=[YES])
    with trio.CancelScope() as scope:
        scope.cancel()
        await world.admit(a_write(), path="a.txt")
    assert scope.cancelled_caught
    assert len(world.sink.requests) == len(world.sink.resolved) <= 1
    assert world.approver.asked == []


async def test_a_request_that_cannot_be_stored_is_asked_of_nobody(base: Path) -> None:
    world = World(base, answers=[YES])
    world.sink.refuse = "permission.requested"
    with pytest.raises(Failure) as failed:
        await world.admit(a_write(), path="a.txt")
    assert failed.value.error.code is ErrorCode.STORE_WRITE_FAILED
    assert world.approver.asked == []
    assert world.sink.events == []
    assert world.denials == []


async def test_an_answer_that_cannot_be_stored_lets_nothing_run(base: Path) -> None:
    world = World(base, answers=[YES])
    world.sink.refuse = "permission.resolved"
    with pytest.raises(Failure):
        await world.perform(a_write(), path="a.txt", content="x")
    assert not (base / "repo/a.txt").exists()


# what changes while the person decides


@pytest.mark.parametrize("inside", [True, False])
async def test_a_path_swapped_while_the_person_decides_is_asked_again_and_not_executed(
    base: Path, inside: bool
) -> None:
    parent = base / ("repo/d" if inside else "outside/ok")

    async def swap(_: PermissionRequest) -> Answer:
        parent.rename(parent.with_name("moved"))
        parent.symlink_to(base / "outside/other")
        return YES

    world = World(base, answers=[swap, NO])
    parent.mkdir(exist_ok=True)
    path = "d/x.txt" if inside else f"{base}/outside/ok/x.txt"
    denied(await world.perform(a_write(), path=path, content="x"), "user")
    first, second = world.sink.requests
    assert first.resolved_path == str(parent / "x.txt")
    assert second.resolved_path == str(base / "outside/other/x.txt")
    assert second.external_path == str(base / "outside/other/x.txt")
    assert "changed" in second.reason
    assert list((base / "outside/other").iterdir()) == []
    assert [r.decision for r in world.sink.resolved] == ["allow-once", "deny"]


async def test_a_swap_is_asked_again_even_where_the_new_place_would_run_unasked(base: Path) -> None:
    async def swap(_: PermissionRequest) -> Answer:
        (base / "outside/ok").rename(base / "outside/moved")
        (base / "outside/ok").symlink_to(base / "repo/src")
        return YES

    world = World(base, mode=PermissionMode.ACCEPT_EDITS, answers=[swap, NO])
    denied(await world.perform(a_write(), path="../outside/ok/x.txt", content="x"), "user")
    assert len(world.sink.requests) == 2
    assert not (base / "repo/src/x.txt").exists()


async def test_a_path_that_becomes_denied_while_the_person_decides_is_denied(base: Path) -> None:
    async def swap(_: PermissionRequest) -> Answer:
        (base / "repo/a.txt").symlink_to(base / "outside/.env")
        return YES

    world = World(base, answers=[swap])
    denied(await world.perform(a_write(), path="a.txt", content="x"), "deny-list")
    assert not (base / "outside/.env").exists()


async def test_a_path_that_never_stands_still_is_given_up(base: Path) -> None:
    async def swap(request: PermissionRequest) -> Answer:
        target = base / f"outside/other/{len(world.sink.requests)}"
        (base / "repo/a.txt").unlink(missing_ok=True)
        (base / "repo/a.txt").symlink_to(target)
        return YES

    world = World(base, answers=[swap])
    result = await world.perform(a_write(), path="a.txt", content="x")
    assert isinstance(result, ToolError)
    assert result.code is ErrorCode.CONFLICT
    assert len(world.sink.requests) == len(world.sink.resolved) == MAX_QUESTIONS
    assert list((base / "outside/other").iterdir()) == []


async def test_a_file_that_appears_meanwhile_at_the_same_place_is_no_swap(base: Path) -> None:
    async def create(_: PermissionRequest) -> Answer:
        (base / "repo/a.txt").write_text("somebody else")
        return YES

    world = World(base, answers=[create])
    assert isinstance(await world.admit(a_write(), path="a.txt"), Permit)
    assert len(world.sink.requests) == 1


async def test_a_switch_to_plan_while_the_person_decides_stands_above_the_answer(base: Path) -> None:
    async def switch(_: PermissionRequest) -> Answer:
        world.operating = OperatingMode.PLAN
        return YES

    world = World(base, answers=[switch])
    result = await world.admit(a_write(), path="a.txt")
    assert isinstance(result, ToolError)
    assert result.code is ErrorCode.WRITE_DISABLED_IN_PLAN


# grants


async def test_an_outside_grant_given_through_a_link_is_asked_for_once(base: Path) -> None:
    (base / "outside/docs").mkdir(parents=True)
    (base / "repo").mkdir()
    (base / "repo/docs").symlink_to(base / "outside/docs")
    world = World(base, answers=[ALWAYS, NO])
    for path in ("docs/a.md", "docs/b.md", f"{base}/outside/docs/a.md"):
        assert isinstance(await world.perform(an_edit(), path=path, content="x"), Permit)
    assert len(world.sink.requests) == 1
    assert "outside the workspace" in world.sink.requests[0].grant
    assert world.book.given == {Grant("Edit", outside=True)}
    denied(await world.admit(an_edit(), path="inside.md"), "user")
    denied(await world.admit(a_write(), path="docs/c.md"), "user")


async def test_an_inside_grant_does_not_reach_outside_or_to_protected_places(base: Path) -> None:
    world = World(base, answers=[ALWAYS, NO])
    assert isinstance(await world.admit(a_write(), path="a.txt"), Permit)
    assert isinstance(await world.admit(a_write(), path="b.txt"), Permit)
    denied(await world.admit(a_write(), path="../outside/a.txt"), "user")
    denied(await world.admit(a_write(), path=".git/config"), "user")


async def test_a_session_answer_where_none_is_offered_allows_once(base: Path) -> None:
    world = World(base, answers=[ALWAYS, NO])
    assert isinstance(await world.admit(a_write(), path=".git/config"), Permit)
    assert world.book.given == set()
    denied(await world.admit(a_write(), path=".git/config"), "user")


async def test_a_grant_for_these_commands_covers_no_other_line(base: Path) -> None:
    only = msgspec.structs.replace(ALWAYS, scope="commands")
    world = World(base, answers=[only, NO])
    assert isinstance(await world.admit(BashTool(), command="git status && ls"), Permit)
    assert world.sink.requests[0].grant_commands == ("git status", "ls")
    assert isinstance(await world.admit(BashTool(), command="ls"), Permit)
    for line in (
        "git status; touch PWN",
        "git status > PWN",
        "git status $(touch PWN)",
        "git status\ntouch PWN",
    ):
        denied(await world.perform(BashTool(), command=line), "user")
        assert line.split("\n")[-1] in world.sink.requests[-1].preview
    assert not (base / "repo/PWN").exists()


async def test_a_grant_for_these_commands_that_was_not_offered_grants_nothing(base: Path) -> None:
    world = World(base, answers=[msgspec.structs.replace(ALWAYS, scope="commands")])
    assert isinstance(await world.admit(BashTool(), command="X=1 make"), Permit)
    assert world.sink.requests[0].grant_commands == ()
    assert world.book.given == set()


# command lines


@pytest.mark.parametrize(
    ("command", "target"),
    [
        ("echo x > ../outside/f", "outside/f"),
        ("echo x >> {base}/outside/f", "outside/f"),
        ("echo x 2>{base}/outside/f", "outside/f"),
        ("printf x | tee {base}/outside/f", "outside/f"),
        ("cp a ../outside", "outside"),
        ("cd .. && echo x > outside/f", "outside/f"),
        ("ln -s {base}/outside o && echo x > o/f", "outside"),
    ],
)
async def test_a_redirection_to_the_outside_is_asked_for_by_its_target(
    base: Path, command: str, target: str
) -> None:
    world = World(base, mode=PermissionMode.ACCEPT_EDITS, allow=("Bash",))
    denied(await world.perform(BashTool(), command=command.format(base=base)), "user")
    request = world.sink.requests[0]
    assert request.external_path == str(base / target)
    assert str(base / target) in request.reason
    assert request.grant == ""
    assert [path.name for path in (base / "outside").iterdir() if path.is_file()] == []


async def test_a_program_cannot_be_looked_into_and_so_the_line_asks(base: Path) -> None:
    world = World(base, mode=PermissionMode.ACCEPT_EDITS)
    command = f"python3 -c \"open('{base}/outside/f','w')\""
    denied(await world.perform(BashTool(), command=command), "user")
    assert not (base / "outside/f").exists()


@pytest.mark.parametrize(
    "command", ["ls 2>/dev/null", "make >/dev/null 2>&1", "echo x >/dev/stderr", "ls > /dev/fd/2"]
)
async def test_output_to_the_commands_own_streams_is_no_place(base: Path, command: str) -> None:
    world = World(base, allow=("Bash",))
    assert isinstance(await world.admit(BashTool(), command=command), Permit)


async def test_a_line_that_writes_a_denied_place_is_denied(base: Path) -> None:
    world = World(base, mode=PermissionMode.AUTO)
    denied(await world.perform(BashTool(), command="echo K=V > .env"), "deny-list")
    assert not (base / "repo/.env").exists()


@pytest.mark.parametrize(
    "command",
    [
        "echo x > .git/hooks/$(echo pre-commit)",
        'd=.git/hooks; echo x > "$d/post-commit"',
        "xargs -I{} cp a.txt .git/hooks/{} <<< xa",
        "touch .git/hooks/{a,b}",
        "cd .git && echo x > $(echo config)",
        'echo x >> "$HOME/.bashrc"',
    ],
)
async def test_a_line_that_visibly_writes_below_a_protected_place_asks_in_every_mode(
    base: Path, command: str
) -> None:
    world = World(base, mode=PermissionMode.AUTO)
    denied(await world.perform(BashTool(), command=command), "user")
    assert "is protected" in world.sink.requests[0].reason


@pytest.mark.parametrize(
    "command",
    [
        *("rm -rf .", 'rm -rf "$PWD"', "rm -rf ../repo", "cd sub && rm -rf ..", "rm -rf * .*", "rm -r .??*"),
        *(
            "rm -rf * .[^.]*",
            "rm -rf .[[:alpha:]]*",
            "rm -rf .*/",
            "rm -rf ../*",
            "cd .. && rm -rf *",
            'rm -rf "$HOME"',
        ),
        *(
            "rm -rf ~",
            "rm -rf ./.[a-z]*",
            "rm -rf sub/..",
            "rmdir ../repo",
            "d=..; rm -rf $d",
            "sudo rm -rf ../repo",
        ),
    ],
)
async def test_a_line_that_takes_the_whole_workspace_away_asks_in_every_mode(
    base: Path, command: str
) -> None:
    world = World(base, mode=PermissionMode.AUTO)
    denied(await world.admit(BashTool(), command=command), "user")  # judged, never run
    assert "is protected" in world.sink.requests[0].reason


@pytest.mark.parametrize(
    "command", ["rm -rf none", "rm -rf sub/*", "rm -f *.o", "rm -rf *", "rm -rf .cache", "rm -f .*.swp"]
)
async def test_a_line_that_takes_a_part_of_it_away_does_not(base: Path, command: str) -> None:
    world = World(base, mode=PermissionMode.AUTO)
    assert isinstance(await world.admit(BashTool(), command=command), Permit)
    assert world.sink.requests == []


@pytest.mark.parametrize(
    "command",
    [
        *("cat .env", "tar cf - .env", "cat < .env", "head .env", "less .env", "grep X .env", "cp .env x"),
        *("echo $(< .env)", "f=.env; sort $f", "cat .env*", "base64 ./sub/../.env", "echo x > .env$(true)"),
    ],
)
async def test_a_line_that_visibly_reads_a_denied_place_is_denied(base: Path, command: str) -> None:
    world = World(base, mode=PermissionMode.AUTO)
    denied(await world.perform(BashTool(), command=command), "deny-list")


@pytest.mark.parametrize(
    "command",
    [
        *("cat a $x", "head -c 9 /dev/urandom | base64", "grep -r .env .", "cat .env.example", "rm build/*"),
        *('d=build; echo x > "$d/log"', "cat /etc/hostname", "sort -t / a", "git diff main"),
    ],
)
async def test_in_auto_a_line_whose_visible_places_are_free_runs(base: Path, command: str) -> None:
    world = World(base, mode=PermissionMode.AUTO)
    assert isinstance(await world.admit(BashTool(), command=command), Permit)


async def test_a_command_is_shown_to_its_end_and_what_is_hidden_is_counted(base: Path) -> None:
    world = World(base, allow=("Bash(ls)",))
    (base / "repo/sub").mkdir()
    denied(await world.perform(BashTool(), command="ls" + "\n" * 41 + "rm -rf sub"), "user")
    assert world.sink.requests[-1].preview == "ls\n⟨40 empty lines⟩\nrm -rf sub"
    denied(await world.perform(BashTool(), command="cat <<'E'\ntext\nE\nrm -rf sub"), "user")
    assert world.sink.requests[-1].preview.endswith("\nrm -rf sub")
    denied(await world.perform(BashTool(), command=f"ls{' ' * 300}; rm -rf sub"), "user")
    assert world.sink.requests[-1].preview == "ls ⟨300 blanks⟩ ; rm -rf sub"
    denied(await world.perform(BashTool(), command="echo '\u202egnp.exe' \x1b[2K"), "user")
    assert "\\u202egnp.exe" in world.sink.requests[-1].preview
    assert "\\x1b[2K" in world.sink.requests[-1].preview
    long = "".join(f"echo {n}\n" for n in range(1000)) + "rm -rf sub"
    denied(await world.perform(BashTool(), command=long), "user")
    request = world.sink.requests[-1]
    assert len(request.preview.encode()) <= 2048
    assert "lines," in request.preview
    assert request.preview.endswith("rm -rf sub")
    assert request.arguments is not None
    assert "echo 500\n" in request.arguments["command"]
    assert (base / "repo/sub").is_dir()


async def test_secrets_are_masked_in_what_is_shown_and_code_is_not(base: Path) -> None:
    world = World(base)
    await world.admit(
        BashTool(), command="API_KEY=abc12345def67890 TOKEN=$(rm -rf x) curl https://u:pa55word@h"
    )
    preview = world.sink.requests[0].preview
    assert preview == "API_KEY=[redacted] TOKEN=$(rm -rf x) curl https://u:[redacted]@h"


async def test_plan_refuses_every_change_at_any_depth_and_asks_for_the_rest(base: Path) -> None:
    world = World(base, operating=OperatingMode.PLAN, mode=PermissionMode.AUTO, answers=[YES])
    codes = []
    for tool, arguments in (
        (a_write(), {"path": "a"}),
        (an_edit(), {"path": "a"}),
        (FileTool("mcp__fs__put", PathUse.WRITE), {"path": "a"}),
        (FileTool("Task", PathUse.READ), {"path": "a"}),
        (BashTool(), {"command": "git apply p"}),
    ):
        result = await world.admit(tool, **arguments)
        assert isinstance(result, ToolError)
        codes.append(result.code.value)
    assert codes == [
        "WRITE_DISABLED_IN_PLAN",
        "EDIT_DISABLED_IN_PLAN",
        "PLUGIN_DISABLED_IN_PLAN",
        "TOOL_DISABLED_IN_PLAN",
        "TOOL_DISABLED_IN_PLAN",
    ]
    assert world.sink.events == []
    assert world.denials == []
    assert isinstance(await world.admit(BashTool(), command="touch x"), Permit)
    assert len(world.sink.requests) == 1


async def test_a_change_of_mode_binds_from_the_next_call(base: Path) -> None:
    world = World(base, mode=PermissionMode.ACCEPT_EDITS)
    assert isinstance(await world.admit(a_write(), path="a.txt"), Permit)
    world.operating = OperatingMode.PLAN
    assert isinstance(await world.admit(a_write(), path="a.txt"), ToolError)
    world.operating = OperatingMode.AGENT
    world.mode = PermissionMode.ASK
    denied(await world.admit(a_write(), path="a.txt"), "user")


async def test_names_with_bytes_that_are_no_text_do_not_break_a_request(base: Path) -> None:
    world = World(base)
    odd = os.fsdecode(b"caf\xe9\x1b.txt")
    denied(await world.admit(a_write(), path=f"../outside/{odd}"), "user")
    request = world.sink.requests[0]
    assert "\x1b" not in msgspec.json.encode(request).decode()
    assert request.external_path is not None
    assert "\x1b" not in request.external_path

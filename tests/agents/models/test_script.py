"""The script format, and the turn that a conversation is at."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from agents.errors import ErrorCode, Failure, ToolError
from agents.messages import Message, Text, Usage
from agents.models.base import CallChunk, FinishChunk, TextChunk
from agents.models.provider_errors import Asked
from agents.models.script import Play, Script, read_script
from agents.results import EditResult, GrepContentResult, ReadResult, TaskStarted, model_text
from tests.agents.models.conversations import request, turn, user

ASKED = Asked(model="script:s.yaml", address="s.yaml", key_variable="KEY")


def script(*turns: dict[str, Any], agent: str = "main", faults: list[Any] | None = None) -> Script:
    return read_script({"agents": {agent: list(turns)}, "faults": faults or []}, "s.yaml")


def play(played: Script, *messages: Message, label: str = "main", attempt: int = 1) -> Play:
    return played.play(request(*messages, label=label, attempt=attempt), ASKED)


def text_of(answer: Play) -> str:
    assert answer.error is None, answer.error
    return "".join(chunk.text for chunk in answer.chunks if isinstance(chunk, TextChunk))


def arguments_of(answer: Play, position: int = 0) -> Any:
    assert answer.error is None, answer.error
    return [chunk for chunk in answer.chunks if isinstance(chunk, CallChunk)][position].arguments


def problem_of(answer: Play) -> str:
    assert answer.error is not None
    assert (answer.error.code, answer.error.retriable) == (ErrorCode.PROVIDER_ERROR, False)
    return answer.error.message


def said(text: str) -> Message:
    return Message(id="a", role="assistant", parts=(Text(text=text),))


# ── which turn


def test_a_new_conversation_plays_the_first_turn() -> None:
    assert text_of(play(script({"text": "one"}, {"text": "two"}))) == "one"


def test_the_turn_played_is_the_one_after_the_assistant_messages_of_the_conversation() -> None:
    played = script({"text": "one"}, {"text": "two"}, {"text": "three"})
    assert text_of(play(played, user(), said("one"), user("next"))) == "two"
    assert text_of(play(played, user(), *turn(1, ("Read", {}, "x")), *turn(2, ("Read", {}, "x")))) == "three"


def test_conversations_do_not_share_a_place() -> None:
    played = script({"text": "one"}, {"text": "two"})
    assert [
        text_of(play(played)),
        text_of(play(played)),
        text_of(play(played, user(), said("one"), user())),
    ] == [*("one", "one", "two")]


def test_a_label_wins_over_the_agents_name() -> None:
    played = read_script({"agents": {"fixer": [{"text": "name"}], "fixer#2": [{"text": "label"}]}}, "s.yaml")
    assert text_of(play(played, label="fixer")) == "name"
    assert text_of(play(played, label="fixer#2")) == "label"
    assert text_of(play(played, label="fixer#3")) == "name"


def test_an_agent_without_a_script_is_told_which_ones_have_one() -> None:
    played = read_script({"agents": {"main": [{"text": "a"}], "fixer": [{"text": "b"}]}}, "s.yaml")
    problem = problem_of(play(played, label="helper#1"))
    assert all(word in problem for word in ("'helper#1'", "main, fixer", "s.yaml"))


def test_a_script_that_runs_out_says_so_with_file_agent_and_turn() -> None:
    problem = problem_of(play(script({"text": "one"}), user(), said("one"), user()))
    assert "run out after 1 turns" in problem
    assert "Script s.yaml, agent 'main', turn 2" in problem


# ── what a turn gives


def test_text_comes_before_the_calls_in_a_few_pieces_and_the_finish_last() -> None:
    answer = play(script({"text": "abcde", "calls": [{"tool": "A"}, {"tool": "B", "arguments": {"x": 1}}]}))
    assert answer.chunks == (
        TextChunk("ab"),
        TextChunk("cd"),
        TextChunk("e"),
        CallChunk("A", {}, "call_1_1"),
        CallChunk("B", {"x": 1}, "call_1_2"),
        FinishChunk("tool_calls", Usage()),
    )


def test_an_empty_text_is_an_empty_answer() -> None:
    assert play(script({"text": ""})).chunks == (FinishChunk("stop", Usage()),)


@pytest.mark.parametrize(
    "usage", [{"inputTokens": 7, "cacheReadTokens": 2}, {"input_tokens": 7, "cache_read_tokens": 2}]
)
def test_usage_may_be_given_in_either_spelling(usage: dict[str, int]) -> None:
    assert play(script({"text": "", "usage": usage})).chunks == (
        FinishChunk("stop", Usage(input_tokens=7, cache_read_tokens=2)),
    )


def test_the_finish_reason_may_be_given() -> None:
    assert play(script({"text": "", "finish": "length"})).chunks == (FinishChunk("length", Usage()),)


def test_the_ids_of_calls_never_repeat_in_a_conversation() -> None:
    played = script({"calls": [{"tool": "A"}, {"tool": "A"}]}, {"calls": [{"tool": "A"}, {"tool": "A"}]})
    answers = [play(played), play(played, user(), *turn(1, ("A", {}, "x")))]
    ids = [
        chunk.provider_call_id
        for answer in answers
        for chunk in answer.chunks
        if isinstance(chunk, CallChunk)
    ]
    assert len(set(ids)) == 4


# ── ${tag:PATH}

READ = ReadResult(
    path="src/a.py",
    root="workspace",
    content="[src/a.py#1A2B]\n1:x = 1",
    tag="1A2B",
    offset=1,
    line_count=1,
    total_lines=1,
    file_bytes=5,
    encoding="utf-8",
    newline="lf",
    truncated=False,
)
EDITED = EditResult(
    path="src/a.py", root="workspace", tag="FFFF", warnings=(), additions=1, deletions=1, hunks=()
)
FOUND = GrepContentResult(
    matches=(), tags={"src/a.py": "3C4D", "b.py": "0000"}, count=0, files=0, truncated=False
)
MISMATCH = ToolError(code=ErrorCode.EDIT_TAG_MISMATCH, message="stale", details={"tag": "9999"})
USES_TAG = {"calls": [{"tool": "Edit", "arguments": {"path": "src/a.py", "tag": "${tag:src/a.py}"}}]}


def tag_after(*calls: tuple[str, Any, str]) -> Any:
    """The tag that the script fills in after `calls`, one message each."""
    filler = [{"text": "…"}] * len(calls)
    messages = [message for number, call in enumerate(calls, start=1) for message in turn(number, call)]
    return arguments_of(play(script(*filler, USES_TAG), user(), *messages))["tag"]


@pytest.mark.parametrize(
    ("tool", "text", "tag"),
    [
        ("Read", model_text(READ, None), "1A2B"),
        ("Read", "[src/a.py#1A2B]\n1:x = 1", "1A2B"),
        ("Edit", model_text(EDITED, None), "FFFF"),
        ("Grep", model_text(FOUND, None), "3C4D"),
        ("Edit", model_text(None, MISMATCH), "9999"),
    ],
)
def test_a_tag_is_found_in_every_kind_of_result(tool: str, text: str, tag: str) -> None:
    assert tag_after((tool, {"path": "src/a.py"}, text)) == tag


def test_the_tag_received_last_counts() -> None:
    read, edited = model_text(READ, None), model_text(EDITED, None)
    assert tag_after(("Read", {}, read), ("Edit", {}, edited)) == "FFFF"
    assert tag_after(("Edit", {}, edited), ("Read", {}, read)) == "1A2B"


def test_the_tag_of_another_path_is_not_taken() -> None:
    other = model_text(
        msgspec.structs.replace(READ, path="src/b.py", content="[src/b.py#7777]", tag="7777"), None
    )
    assert tag_after(("Read", {}, model_text(READ, None)), ("Read", {}, other)) == "1A2B"


def test_what_only_looks_like_a_tag_in_a_shells_output_is_not_taken() -> None:
    fooled = '{"exitCode": 0}\n--- stdout\n[src/a.py#0BAD]'
    assert tag_after(("Read", {}, model_text(READ, None)), ("Bash", {}, fooled)) == "1A2B"


def test_paths_are_compared_after_tidying() -> None:
    turns = script({"text": "…"}, {"text": "${tag:./src//a.py}"})
    assert text_of(play(turns, user(), *turn(1, ("Read", {}, model_text(READ, None))))) == "1A2B"


def test_a_tag_that_was_never_received_is_an_error_that_says_what_to_do() -> None:
    problem = problem_of(play(script({"text": "${tag:src/a.py}"})))
    assert "${tag:src/a.py}" in problem
    assert "Read the file first" in problem


# ── ${task:N}


def started(task_id: str) -> tuple[str, dict[str, Any], str]:
    return "Task", {}, model_text(TaskStarted(task_id=task_id, run_id="r", label="fixer"), None)


def test_tasks_are_numbered_from_one_in_the_order_they_were_started() -> None:
    played = script({"text": "…"}, {"text": "…"}, {"text": "${task:1} ${task:2} ${task:3}"})
    messages = (*turn(1, started("t-a"), started("t-b")), *turn(2, started("t-c")))
    assert text_of(play(played, user(), *messages)) == "t-a t-b t-c"


def test_a_task_that_could_not_be_started_has_no_number() -> None:
    refused = ("Task", {}, model_text(None, ToolError(code=ErrorCode.DELEGATION_LIMIT, message="no")))
    played = script({"text": "…"}, {"text": "${task:1}"})
    assert text_of(play(played, user(), *turn(1, refused, started("t-a")))) == "t-a"


@pytest.mark.parametrize("number", ["2", "0", "x", "", "-1"])
def test_a_task_that_does_not_exist_is_an_error(number: str) -> None:
    played = script({"text": "…"}, {"text": f"${{task:{number}}}"})
    assert "is not set" in problem_of(play(played, user(), *turn(1, started("t-a"))))


def test_substitution_reaches_every_text_inside_the_arguments_and_nothing_else() -> None:
    arguments = {"a": ["${task:1}", {"b": "<${task:1}>"}], "n": 1, "none": None, "shell": "${HOME} $task"}
    played = script({"text": "…"}, {"calls": [{"tool": "X", "arguments": arguments}]})
    assert arguments_of(play(played, user(), *turn(1, started("t")))) == {
        "a": ["t", {"b": "<t>"}],
        "n": 1,
        "none": None,
        "shell": "${HOME} $task",
    }


def test_what_is_filled_in_is_not_filled_in_again() -> None:
    played = script({"text": "…"}, {"text": "${task:1}"})
    assert text_of(play(played, user(), *turn(1, started("${task:1}")))) == "${task:1}"


# ── expect

DENIED = model_text(None, ToolError(code=ErrorCode.TOOL_DENIED, message="no"))


def expecting(expect: dict[str, str], *results: str) -> Play:
    played = script({"text": "…"}, {"text": "fine", "expect": expect})
    return play(played, user(), *turn(1, *(("Bash", {}, result) for result in results)))


@pytest.mark.parametrize(
    "expect", [{"code": "TOOL_DENIED"}, {"contains": "exitCode"}, {"code": "TOOL_DENIED", "contains": "no"}]
)
def test_an_expectation_that_any_result_meets_lets_the_turn_play(expect: dict[str, str]) -> None:
    assert text_of(expecting(expect, '{"exitCode": 0}', DENIED)) == "fine"


@pytest.mark.parametrize(
    "expect",
    [{"code": "NOT_FOUND"}, {"contains": "nowhere"}, {"code": "TOOL_DENIED", "contains": "exitCode"}],
)
def test_an_expectation_that_is_not_met_shows_both(expect: dict[str, str]) -> None:
    problem = problem_of(expecting(expect, '{"exitCode": 0}', DENIED))
    assert all(value in problem for value in expect.values())
    assert '{"exitCode": 0}' in problem
    assert "TOOL_DENIED" in problem


def test_an_expectation_looks_at_the_latest_tool_message_only() -> None:
    played = script({"text": "…"}, {"text": "…"}, {"text": "fine", "expect": {"contains": "old"}})
    messages = (*turn(1, ("Bash", {}, "old")), *turn(2, ("Bash", {}, "new")))
    assert "new" in problem_of(play(played, user(), *messages))


def test_an_expectation_without_any_tool_result_is_not_met() -> None:
    assert "no tool result" in problem_of(play(script({"text": "x", "expect": {"contains": "x"}})))


def test_a_long_result_is_cut_in_the_complaint() -> None:
    assert len(problem_of(expecting({"contains": "y"}, "x" * 10_000))) < 1000


# ── faults


def faulty(**fault: Any) -> Script:
    turns = [{"text": "abcdef", "calls": [{"tool": "A", "arguments": {"x": 1}}, {"tool": "B"}]}] * 2
    return read_script({"agents": {"fixer": turns}, "faults": [{"agent": "fixer", "turn": 1, **fault}]}, "s")


@pytest.mark.parametrize(
    ("status", "code", "retriable"),
    [
        (401, ErrorCode.PROVIDER_UNAUTHORIZED, False),
        (404, ErrorCode.MODEL_NOT_CONFIGURED, False),
        (429, ErrorCode.PROVIDER_RATE_LIMITED, True),
        (400, ErrorCode.PROVIDER_ERROR, False),
        (500, ErrorCode.PROVIDER_ERROR, True),
        ("NETWORK_ERROR", ErrorCode.NETWORK_ERROR, True),
        ("STREAM_FAILED", ErrorCode.STREAM_FAILED, True),
    ],
)
def test_an_error_is_what_the_real_adapter_would_make_of_it(
    status: int | str, code: ErrorCode, retriable: bool
) -> None:
    error = play(faulty(error=status), label="fixer").error
    assert error is not None
    assert (error.code, error.retriable) == (code, retriable)


def test_an_error_may_ask_for_a_wait_and_say_something() -> None:
    error = play(faulty(error=429, retry_after=2, message="slow down"), label="fixer").error
    assert error is not None
    assert error.details == {"status": 429, "retryAfter": 2.0}
    assert "slow down" in error.message
    overflow = play(faulty(error=400, message="context_length_exceeded"), label="fixer").error
    assert overflow is not None
    assert overflow.code is ErrorCode.CONTEXT_OVERFLOW


def test_a_fault_hits_its_first_attempts_only() -> None:
    played = faulty(error=500, times=2)
    errors = [play(played, label="fixer", attempt=attempt).error is not None for attempt in (1, 2, 3)]
    assert errors == [True, True, False]


def test_a_fault_hits_its_turn_only() -> None:
    assert play(faulty(error=500), user(), said("…"), user(), label="fixer").error is None


@pytest.mark.parametrize(("agent", "hits"), [("fixer", [True, True]), ("fixer#2", [False, True])])
def test_a_fault_names_an_agent_by_label_or_name(agent: str, hits: list[bool]) -> None:
    played = faulty(agent=agent, error=500)
    assert [play(played, label=label).error is not None for label in ("fixer#1", "fixer#2")] == hits


def test_a_cut_stream_has_some_text_and_neither_calls_nor_finish() -> None:
    assert play(faulty(stream_cut=True), label="fixer").chunks == (TextChunk("ab"),)


def test_malformed_breaks_the_first_calls_arguments_only() -> None:
    answer = play(faulty(malformed=True), label="fixer")
    broken = arguments_of(answer)
    assert isinstance(broken, str)
    with pytest.raises(ValueError, match=r"Expecting"):
        json.loads(broken)
    assert arguments_of(answer, 1) == {}


def test_a_delay_is_waited_before_whatever_comes() -> None:
    assert play(faulty(delay_ms=70), label="fixer").delay_ms == 70
    both = play(faulty(delay_ms=70, error=500), label="fixer")
    assert (both.delay_ms, both.error is not None) == (70, True)


# ── what is refused when it is read


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (None, ["agents"]),
        ([], ["agents"]),
        ({"agents": {}}, ["agents"]),
        ({"agents": {"main": [{"text": "a"}]}, "fualts": []}, ["'fualts'"]),
        ({"agents": {"main": {"text": "a"}}}, ["'main'", "list of turns"]),
        ({"agents": {"main": [{"text": "a"}, {"txt": "b"}]}}, ["'main', turn 2", "txt"]),
        ({"agents": {"main": ["a"]}}, ["'main', turn 1"]),
        ({"agents": {"main": [{}]}}, ["'main', turn 1", "text"]),
        ({"agents": {"main": [{"text": 5}]}}, ["'main', turn 1", "text"]),
        ({"agents": {"main": [{"calls": [{"arguments": {}}]}]}}, ["turn 1", "tool"]),
        ({"agents": {"main": [{"calls": [{"tool": "A", "arguments": []}]}]}}, ["turn 1", "arguments"]),
        ({"agents": {"main": [{"text": "a", "expect": {}}]}}, ["turn 1", "expect"]),
        (
            {"agents": {"main": [{"text": "a", "usage": {"tokens": 1}}]}},
            ["turn 1", "'tokens'", "inputTokens"],
        ),
        ({"agents": {"main": [{"text": "a"}]}, "faults": {}}, ["faults", "list"]),
        (
            {"agents": {"main": [{"text": "a"}]}, "faults": [{"agent": "x", "turn": 1, "error": 1}]},
            ["fault 1", "'x'"],
        ),
        (
            {"agents": {"main": [{"text": "a"}]}, "faults": [{"agent": "main", "turn": 1, "error": 200}]},
            ["200"],
        ),
        (
            {"agents": {"main": [{"text": "a"}]}, "faults": [{"agent": "main", "turn": 1, "error": "OOPS"}]},
            ["OOPS"],
        ),
        (
            {"agents": {"main": [{"text": "a"}]}, "faults": [{"agent": "main", "turn": 0, "error": 500}]},
            ["turn"],
        ),
        ({"agents": {"main": [{"text": "a"}]}, "faults": [{"agent": "main", "turn": 1}]}, ["stream_cut"]),
    ],
)
def test_a_wrong_script_is_refused_with_the_place_and_the_problem(document: Any, words: list[str]) -> None:
    with pytest.raises(Failure) as caught:
        read_script(document, "s.yaml")
    assert caught.value.error.code is ErrorCode.INVALID_ARGUMENT
    assert all(word in caught.value.error.message for word in ["s.yaml", "Correct the file", *words])

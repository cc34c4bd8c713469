"""The command as people and programs use it: real processes, real files, a scripted model."""

from __future__ import annotations

import os
import shlex
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest

from tests.command import Done, environment, last_line, objects, orc, script, started, until
from tests.harness import bad_edit, call, calls, edit, say

UNPRINTED = {"lock.waited", "run.settled", "results.delivered"}
TEN_LINES = "".join(f"line {n}\n" for n in range(1, 11))
AUTO = ("--permission-mode", "auto")
EXHAUSTING = [calls(call("Read", path="a.txt")), *([calls(bad_edit("a.txt"))] * 3)]


def task(prompt: str = "Do it") -> dict[str, Any]:
    return call("Task", subagent_type="fixer", prompt=prompt)


@attrs.frozen
class Place:
    """A home and a workspace of a test's own."""

    home: Path
    repo: Path
    env: dict[str, str]

    def orc(self, *arguments: str | Path, **options: Any) -> Done:
        return orc(*arguments, env=self.env, **options)

    def run(self, agents: dict[str, Any], *arguments: str | Path, prompt: str = "Go", **options: Any) -> Done:
        model = script(self.home, agents)
        return self.orc("run", prompt, "-C", self.repo, "--model", model, *arguments, **options)

    def rows(self, *tables: str) -> list[Any]:
        with sqlite3.connect(self.home / "data/store.sqlite3") as store:
            return [store.execute(f"select * from {table} order by 1, 2").fetchall() for table in tables]


def place(root: Path) -> Place:
    (root / "home").mkdir()
    (root / "repo").mkdir()
    (root / "repo/a.txt").write_text(TEN_LINES)
    return Place(root / "home", root / "repo", environment(root / "home"))


@pytest.fixture
def here(tmp_path: Path) -> Place:
    return place(tmp_path)


@attrs.frozen
class Story:
    """A finished session that is only read: one delegate completed, one failed."""

    place: Place
    events: list[dict[str, Any]]

    @property
    def session(self) -> str:
        return str(self.events[0]["sessionId"])

    @property
    def results(self) -> dict[str, dict[str, Any]]:
        return {e["result"]["label"]: e["result"] for e in self.events if e["type"] == "task.finished"}


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    told = place(tmp_path_factory.mktemp("story"))
    good = [
        calls(call("Read", path="a.txt")),
        calls(edit("a.txt", {"op": "replace", "start": 2, "text": "LINE 2"}), text="I see it."),
        say("Line 2 shouts now."),
    ]
    agents = {
        "main": [calls(task("good"), task("bad")), calls(call("TaskWait")), say("One of two.\nHere is why.")],
        "fixer#1": good,
        "fixer#2": [*EXHAUSTING, calls(call("Read", path="a.txt")), say("It is fine as it is.")],
    }
    done = told.run(agents, "--permission-mode", "auto", "--output-format", "stream-json")
    assert (done.returncode, done.stderr) == (0, "")
    return Story(told, objects(done.stdout))


# exit statuses


def test_a_completed_turn_exits_0_with_its_text_alone_on_standard_output(here: Place) -> None:
    done = here.run({"main": [calls(call("Read", path="a.txt")), say("It has\nten lines.")]})
    assert (done.returncode, done.stdout) == (0, "It has\nten lines.\n")
    assert "✓ main Read a.txt" in done.stderr
    assert "outcome  completed in" in done.stderr
    assert "\x1b" not in done.stderr


def test_a_failed_turn_exits_1_with_its_code_as_the_last_line_on_standard_error(here: Place) -> None:
    done = here.run({"main": EXHAUSTING}, "--permission-mode", "auto")
    assert done.returncode == 1
    assert last_line(done.stderr).startswith("MUTATION_RETRY_BUDGET_EXHAUSTED: ")
    assert "✗ main failed" in done.stderr
    assert done.stdout == ""


def test_a_truncated_turn_exits_1_with_the_limit_it_ran_into(here: Place) -> None:
    looking = [calls(call("Read", path="a.txt"), text="Looking.")] * 5
    done = here.run({"main": looking}, "--max-turns", "2")
    assert done.returncode == 1
    assert last_line(done.stderr).startswith("TURN_LIMIT: ")


def test_without_a_model_it_exits_2_and_names_the_three_ways_to_set_one(here: Place) -> None:
    done = here.orc("run", "Go", "-C", here.repo)
    assert done.returncode == 2
    assert last_line(done.stderr).startswith("MODEL_NOT_CONFIGURED: ")
    for way in ("--model", "ORCHESTRATOR_MODEL", "configuration file"):
        assert way in last_line(done.stderr)
    assert done.stdout == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ("run",),
        ("run", "Go", "--no-such-option"),
        ("run", "Go", "--model", "script:/nowhere.yaml"),
        ("run", "Go", "-C", "/nowhere", "--model", "openai-chat:x"),
        ("run", "Go", "--max-turns", "none"),
        ("run", "Go", "--sandbox"),
        ("run", "Go", "--session-id", "../../up"),
        ("rollback", "ses-1", "--anything"),
        ("show", "ses-1"),
        ("no-such-verb",),
    ],
)
def test_usage_and_configuration_exit_2_with_a_code_on_the_last_line(
    here: Place, arguments: tuple[str, ...]
) -> None:
    done = here.orc(*arguments)
    assert done.returncode == 2
    code, _, message = last_line(done.stderr).partition(": ")
    assert code in ("INVALID_ARGUMENT", "NOT_FOUND")
    assert message
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_denial_that_nobody_could_answer_exits_3_and_names_the_flags(here: Place) -> None:
    agents = {"main": [calls(call("Write", path="b.txt", content="x")), say("I was not allowed to.")]}
    done = here.run(agents)
    assert done.returncode == 3
    assert last_line(done.stderr).startswith("TOOL_DENIED: ")
    assert "--allow" in last_line(done.stderr)
    assert not (here.repo / "b.txt").exists()
    allowed = here.run(agents, "--allowedTools", "Read,Write Edit")
    assert allowed.returncode == 0
    assert (here.repo / "b.txt").read_text() == "x"


def test_resuming_something_unknown_exits_4(here: Place, story: Story) -> None:
    assert here.orc("resume", "ses-nothing").returncode == 4
    done = story.place.orc("resume", "task-nothing")
    assert done.returncode == 4
    assert last_line(done.stderr).startswith("TASK_UNKNOWN: ")
    assert story.session in last_line(done.stderr)


def test_resuming_what_is_completed_without_a_prompt_exits_4_and_asks_for_one(story: Story) -> None:
    for name in (story.session, story.results["fixer#1"]["taskId"]):
        done = story.place.orc("resume", name)
        assert done.returncode == 4
        assert last_line(done.stderr).startswith("TASK_NOT_RESUMABLE: ")
        assert "Give a prompt" in last_line(done.stderr)


def test_a_session_that_another_process_holds_exits_4_naming_it(here: Place) -> None:
    model = script(here.home, {"main": [calls(call("Bash", command="echo > began; sleep 100"))]})
    options = ("-C", here.repo, "--model", model, "--permission-mode", "auto", "--session-id", "held")
    running = started("run", "Go", *options, env=here.env)
    try:
        until((here.repo / "began").exists)
        for more in ((), ("--dry-run",)):
            done = here.orc("resume", "held", "More", *more)
            assert done.returncode == 4
            assert last_line(done.stderr).startswith("CHAIN_LOCKED: ")
            assert str(running.pid) in last_line(done.stderr)
    finally:
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=15)
    assert running.returncode == 130


def sleeping(here: Place, *, session: str) -> tuple[subprocess.Popen[str], list[int]]:
    """A run whose three delegates are in `sleep`, and the ids of those processes."""
    sleeper = [calls(call("Bash", command="echo $$ >> pids; sleep 100")), say("Slept.")]
    agents = {
        "main": [calls(task(), task(), task()), calls(call("TaskWait")), say("All slept."), say("Again.")],
        "fixer": sleeper,
    }
    model = script(here.home, agents)
    options = ("-C", here.repo, "--model", model, "--permission-mode", "auto", "--session-id", session)
    running = started("run", "Go", *options, env=here.env)
    pids = here.repo / "pids"
    until(lambda: pids.exists() and len(pids.read_text().split()) == 3)
    return running, [int(pid) for pid in pids.read_text().split()]


def is_alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def test_ctrl_c_ends_the_turn_and_every_process_and_leaves_a_session_to_resume(here: Place) -> None:
    running, pids = sleeping(here, session="slept")
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=8)
    assert running.returncode == 130
    assert "Traceback" not in err
    assert [pid for pid in pids if is_alive(pid)] == []
    assert (out, "stopped" in err) == ("", True)
    listed = objects(here.orc("tasks", "slept", "--json").stdout)
    assert [row["status"] for row in listed] == ["aborted"] * 3
    plan = here.orc("resume", "slept", "--dry-run")
    assert plan.returncode == 0
    assert plan.stdout.count("continue") == 3


def test_a_second_ctrl_c_leaves_at_once_and_the_next_start_settles(here: Place) -> None:
    stubborn = [calls(call("Bash", command="trap '' TERM INT; echo $$ > pid; while :; do sleep 1; done"))]
    model = script(here.home, {"main": [*stubborn, say("Well then.")]})
    options = ("-C", here.repo, "--model", model, "--permission-mode", "auto", "--session-id", "twice")
    running = started("run", "Go", *options, env=here.env)
    until(lambda: (here.repo / "pid").exists() and (here.repo / "pid").read_text().strip() != "")
    running.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        running.wait(timeout=0.3)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=3)
    assert running.returncode == 130
    assert not is_alive(int((here.repo / "pid").read_text()))
    resumed = here.orc("resume", "twice", "--output-format", "json")
    assert resumed.returncode == 0
    assert objects(resumed.stdout)[0]["text"] == "Well then."


def test_a_failed_delegate_of_a_completed_turn_is_in_the_card_with_the_command_that_goes_on(
    here: Place,
) -> None:
    agents = {
        "main": [calls(task(), task()), calls(call("TaskWait")), say("One of two.")],
        "fixer#1": EXHAUSTING,
        "fixer#2": [say("Fine.")],
    }
    store = here.home / "my store.sqlite3"
    done = here.run(agents, "--permission-mode", "auto", "--store", store)
    assert (done.returncode, done.stdout) == (0, "One of two.\n")
    rows = [line for line in done.stderr.splitlines() if line.startswith(("delegates ", "go on "))]
    assert rows[0].split(maxsplit=1)[1] == "1 completed, 1 failed: fixer#1 MUTATION_RETRY_BUDGET_EXHAUSTED"
    assert rows[1].endswith(f" --store '{store}' --permission-mode auto")
    command = rows[1].removeprefix("go on").strip()
    plan = subprocess.run(
        f"{command} --dry-run",
        shell=True,
        env=here.env,
        cwd=here.home,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (plan.returncode, plan.stdout.startswith("continue  fixer#1")) == (0, True)


def test_each_denial_is_told_with_advice_that_can_work_or_with_none(here: Place) -> None:
    agents = {
        "main": [
            calls(
                call("Read", path="a.txt"),
                call("Write", path=".git/hooks/x", content="x"),
                call("Bash", command="ls -l a.txt"),
                call("Bash", command="ls -l a.txt"),
                call("Read", path=".env"),
            ),
            say("Not much."),
        ]
    }
    (here.repo / ".env").write_text("KEY=1\n")
    done = here.run(agents, "--deny", "Read(a.txt)")
    assert done.returncode == 3
    card = done.stderr[done.stderr.index("\noutcome") :]
    for told in (
        "Read a.txt (main): your deny rule Read(a.txt)\n",
        "Write .git/hooks/x (main): nobody to ask, and no option allows it in advance",
        "Bash ls -l a.txt (main), 2×: nobody to ask; allow with --allow 'Bash(ls -l a.txt)'\n",
        "Read .env (main): on the list of places that no tool opens\n",
    ):
        assert told in card
    line = last_line(done.stderr)
    assert line.startswith("TOOL_DENIED: 5 calls denied: Read 2×, Write, Bash 2×. ")
    assert "No option allows this in advance: Write .git/hooks/x" in line
    assert "--permission-mode" not in line
    ruled = here.run({"main": [calls(call("Read", path="a.txt")), say("No.")]}, "--deny", "Read")
    assert "--allow" not in last_line(ruled.stderr)
    assert "nobody" not in last_line(ruled.stderr).lower()


def test_the_rule_that_the_card_names_does_allow_the_call(here: Place) -> None:
    agents = {"main": [calls(call("Bash", command="ls -l 'a.txt'")), say("Listed.")]}
    denied = here.run(agents)
    option = denied.stderr.split("allow with --allow ")[1].split("\n")[0]
    assert here.run(agents, "--allow", shlex.split(option)[0]).returncode == 0


def test_a_commands_row_has_its_status_and_its_telling_line_instead_of_the_models_hint(here: Place) -> None:
    command = (
        "echo begun; printf 'Traceback\\nAssertionError: 3.0 != 2\\n\\nFAILED (failures=1)\\n' >&2; exit 7"
    )
    done = here.run({"main": [calls(call("Bash", command=command)), say("It fails.")]}, "--allow", "Bash")
    row = next(line for line in done.stderr.splitlines() if line.startswith("  ✗ "))
    assert row.endswith(" · exit 7 · AssertionError: 3.0 != 2")
    shown = here.orc("show", "ses-").stdout
    assert "      │ AssertionError: 3.0 != 2\n" in shown
    assert "      │ begun\n" in shown


def test_show_has_the_diff_of_an_edit_and_no_brief_twice(here: Place, story: Story) -> None:
    shown = story.place.orc("show", story.session).stdout
    assert "      │ -line 2\n      │ +LINE 2\n" in shown
    here.run(
        {"main": [calls(task()), calls(call("TaskWait")), say("No.")], "fixer": [*EXHAUSTING, say("So.")]},
        *AUTO,
    )
    here.orc("resume", "fixer#1", *AUTO)
    told = here.orc("show", "ses-").stdout
    assert told.count("[Your previous run of this task ended") == 1


def test_a_script_is_named_without_detours(here: Place) -> None:
    script(here.home, {"main": [say("Done.")]})
    done = here.orc("run", "Go", "-C", here.repo, "--model", f"script:{here.repo}/../home/script.json")
    assert f" · script:{here.home}/script.json · " in done.stderr


# output for programs


def test_json_prints_the_turns_result_alone(here: Place) -> None:
    done = here.run({"main": [say("Done.")]}, "--output-format", "json")
    (result,) = objects(done.stdout)
    assert result["type"] == "turn.finished"
    assert (result["status"], result["text"], result["denials"]) == ("completed", "Done.", [])
    assert set(result) >= {"v", "seq", "ts", "sessionId", "turnId", "traceId", "usage", "durationMs", "waits"}


def test_stream_json_prints_every_printable_event_once_in_seq_order(story: Story) -> None:
    printed = [event["seq"] for event in story.events if "seq" in event]
    assert printed == sorted(set(printed))
    stored = objects(story.place.orc("show", story.session, "--json").stdout)
    assert [event["seq"] for event in stored] == list(range(1, len(stored) + 1))
    assert printed == [event["seq"] for event in stored if event["type"] not in UNPRINTED]
    assert story.events[0]["type"] == "session.started"
    assert story.events[-1]["type"] == "turn.finished"
    assert {event["v"] for event in story.events} == {1}


def test_only_json_goes_to_standard_output_and_warnings_go_to_standard_error(here: Place) -> None:
    (here.home / ".orchestrator").mkdir()
    (here.home / ".orchestrator/config.toml").write_text('modle = "x"\n')
    done = here.run({"main": [say("Done.")]}, "--output-format", "stream-json")
    assert objects(done.stdout)[-1]["text"] == "Done."
    assert "did you mean `model`?" in done.stderr


def test_a_reader_that_leaves_early_ends_the_command_quietly(here: Place) -> None:
    agents = {"main": [*([calls(call("Read", path="a.txt"))] * 30), say("Done.")]}
    model = script(here.home, agents)
    running = started(
        "run", "Go", "-C", here.repo, "--model", model, "--output-format", "stream-json", env=here.env
    )
    assert running.stdout is not None
    assert '"session.started"' in running.stdout.readline()
    running.stdout.close()
    assert running.stderr is not None
    with running.stderr:
        assert running.stderr.read() == ""
    assert running.wait(timeout=10) == 130


@pytest.mark.parametrize("verb", ["schema", "sessions"])
def test_a_listing_ends_quietly_for_a_reader_that_is_gone(story: Story, verb: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    running = started(verb, env=story.place.env, stdout=writing)
    os.close(writing)
    _, err = running.communicate(timeout=10)
    assert (running.returncode, err) == (0, "")


# prompts, ids, resume


def test_the_prompt_comes_from_standard_input(here: Place) -> None:
    done = here.run(
        {"main": [say("Read.")]}, "--output-format", "stream-json", prompt="-", stdin="From ∆ pipe\n"
    )
    assert next(e for e in objects(done.stdout) if e["type"] == "turn.started")["prompt"] == "From ∆ pipe"


def test_an_empty_prompt_is_refused(here: Place) -> None:
    done = here.run({"main": [say("Read.")]}, prompt="-", stdin="  \n")
    assert done.returncode == 2
    assert "prompt is empty" in last_line(done.stderr)


@pytest.mark.parametrize("prompt", ["", " \n"])
def test_an_empty_prompt_stores_no_session(here: Place, prompt: str) -> None:
    done = here.run({"main": [say("Read.")]}, prompt=prompt)
    assert (done.returncode, done.stdout) == (2, "")
    assert "prompt is empty" in last_line(done.stderr)
    assert not (here.home / "data/store.sqlite3").exists()


def test_the_spellings_of_claude_code_are_accepted(here: Place) -> None:
    model = script(
        here.home, {"main": [calls(call("Write", path="b.txt", content="x")), say("One."), say("Two.")]}
    )
    options = ("--model", model, "--output-format", "stream-json")
    done = here.orc("-p", "Go", "--permission-mode", "acceptEdits", *options, cwd=here.repo)
    assert done.returncode == 0
    first = objects(done.stdout)
    assert first[0]["permissionMode"] == "accept-edits"
    assert (here.repo / "b.txt").exists()
    again = objects(here.orc("-c", "-p", "More", *options, cwd=here.repo).stdout)
    assert again[0]["sessionId"] == first[0]["sessionId"]
    assert again[0]["resumed"]
    assert again[-1]["text"] == "Two."
    third = here.orc("run", "-r", first[0]["sessionId"], "--permission-mode", "plan", "Plan", *options)
    assert objects(third.stdout)[0]["mode"] == "plan"


def test_a_failed_task_is_resumed_by_a_prefix_of_its_id_in_a_new_process(here: Place) -> None:
    agents = {
        "main": [calls(task()), calls(call("TaskWait")), say("It failed.")],
        "fixer": [*EXHAUSTING, calls(call("Read", path="a.txt")), say("It is fine as it is.")],
    }
    done = here.run(agents, "--permission-mode", "auto", "--output-format", "stream-json")
    (finished,) = [e for e in objects(done.stdout) if e["type"] == "task.finished"]
    prefix = finished["taskId"][:10]
    plan = here.orc("resume", prefix, "--dry-run")
    assert (plan.returncode, plan.stderr) == (0, "")
    assert "MUTATION_RETRY_BUDGET_EXHAUSTED" in plan.stdout
    resumed = here.orc("resume", prefix, "--output-format", "stream-json", cwd=here.home)
    assert resumed.returncode == 0
    (warning,) = resumed.stderr.splitlines()
    assert "permission mode was auto, is ask now; pass --permission-mode auto to keep it" in warning
    events = objects(resumed.stdout)
    assert events[0]["type"] == "session.started"
    assert events[0]["resumed"]
    assert events[0]["seq"] > finished["seq"]
    assert [e["resumesTask"] for e in events if e["type"] == "turn.started"] == [finished["taskId"]]
    assert events[-1]["text"] == "It is fine as it is."
    by_label = here.orc("show", "fixer#1", cwd=here.repo)
    assert "It is fine as it is." in by_label.stdout


def test_a_prefix_of_several_ids_lists_them(story: Story) -> None:
    done = story.place.orc("resume", "task-")
    assert done.returncode == 2
    for result in story.results.values():
        assert result["taskId"] in last_line(done.stderr)


def test_a_resume_in_another_workspace_is_refused(story: Story) -> None:
    done = story.place.orc("resume", story.session, "Go on", "-C", story.place.home)
    assert done.returncode == 2
    assert "Leave out -C" in last_line(done.stderr)


def test_a_dry_run_prints_the_plan_and_writes_nothing(story: Story) -> None:
    tables = ("events", "sessions", "turns", "tasks", "leases", "effects")
    before = story.place.rows(*tables)
    done = story.place.orc("resume", story.session, "--failed", "--dry-run")
    assert done.returncode == 0
    assert "reuse     fixer#1" in done.stdout
    assert "continue  fixer#2" in done.stdout
    assert story.place.rows(*tables) == before


def test_a_session_id_is_used_once(here: Place) -> None:
    agents = {"main": [say("Done.")]}
    first = here.run(agents, "--session-id", "mine", "--output-format", "json")
    assert objects(first.stdout)[0]["sessionId"] == "mine"
    second = here.run(agents, "--session-id", "mine")
    assert second.returncode == 2
    assert "orchestrator resume mine" in last_line(second.stderr)


# looking


def test_show_tells_what_happened_with_every_error_code_and_the_row_that_ended_the_run(story: Story) -> None:
    whole = story.place.orc("show", story.session).stdout
    assert whole.count("EDIT_RANGE_INVALID") >= 2
    assert whole.count("ends this run") == 1
    for told in (
        "Go",
        "One of two.",
        "Line 2 shouts now.",
        "a.txt (modified)",
        "MUTATION_RETRY_BUDGET_EXHAUSTED",
    ):
        assert told in whole
    task_id = story.results["fixer#1"]["taskId"]
    one = story.place.orc("show", task_id).stdout
    assert "fixer#1 Edit a.txt" in one
    assert "fixer#2" not in one
    stored = objects(story.place.orc("show", task_id, "--json").stdout)
    assert {event["taskId"] for event in stored} == {task_id}


def test_tasks_and_sessions_list_how_everything_ended(story: Story) -> None:
    rows = objects(story.place.orc("tasks", story.session, "--json").stdout)
    assert [(row["label"], row["status"], row["errorCode"]) for row in rows] == [
        ("fixer#1", "completed", None),
        ("fixer#2", "failed", "MUTATION_RETRY_BUDGET_EXHAUSTED"),
    ]
    text = story.place.orc("tasks").stdout.splitlines()
    assert text[0].split()[:5] == ["TASK", "LABEL", "AGENT", "STATUS", "CODE"]
    assert len(text) == 3
    (session,) = objects(story.place.orc("sessions", "--json").stdout)
    assert (session["sessionId"], session["status"], session["title"]) == (story.session, "completed", "Go")


def test_listings_of_an_empty_home_are_empty_and_create_nothing(here: Place) -> None:
    for verb in ("sessions", "tasks"):
        done = here.orc(verb, "--json")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not (here.home / "data").exists()


def test_trace_draws_the_tree_and_names_what_to_open_and_to_resume(story: Story) -> None:
    trace_id = story.events[-1]["traceId"]
    for name in (story.session, trace_id, trace_id[:8], story.results["fixer#2"]["taskId"]):
        done = story.place.orc("trace", name)
        assert done.returncode == 0
        for told in (
            "* turn ",
            "MUTATION_RETRY_BUDGET_EXHAUSTED",
            "waiting for you",
            f"not exported; {sys.executable} -m orchestrator trace export {trace_id} FILE",
            "turn completed; 1 task failed (fixer#2), 3 failed calls",
            "Task fixer#1",
            "agent fixer#2",
            "Edit a.txt",
            f"orchestrator resume {story.results['fixer#2']['taskId']}",
            story.results["fixer#2"]["taskId"],
        ):
            assert told in done.stdout
    spans = objects(story.place.orc("trace", trace_id, "--json").stdout)
    assert {span["traceId"] for span in spans} == {trace_id}


def test_a_trace_file_is_written_and_passes_its_own_check(here: Place) -> None:
    trace = here.home / "trace.jsonl"
    assert here.run({"main": [say("Done.")]}, "--trace-file", trace).returncode == 0
    done = here.orc("trace", "check", trace)
    assert done.returncode == 0
    assert "all in order" in done.stdout
    drawn = here.orc("trace", "ses-", "--jaeger-url", "http://jaeger.example/").stdout
    assert f"not sent; upload {trace} on Jaeger's page" in drawn
    assert "http://jaeger.example/trace/" in drawn
    assert "PROMPT" in drawn[drawn.index("go on") :]
    trace.write_text("nonsense\n")
    assert here.orc("trace", "check", trace).returncode == 2


def test_agents_lists_the_built_in_ones_and_what_is_wrong_with_a_file(here: Place) -> None:
    folder = here.repo / ".orchestrator/agents"
    folder.mkdir(parents=True)
    (folder / "broken.md").write_text("no front matter")
    done = here.orc("agents", "-C", here.repo)
    assert done.returncode == 0
    for name in ("explorer", "reviewer", "tester", "fixer"):
        assert name in done.stdout
    assert f"error: {folder / 'broken.md'}" in done.stdout


def test_config_prints_each_value_and_where_it_came_from(here: Place) -> None:
    env = {**here.env, "ORCHESTRATOR_MAX_TURNS": "7"}
    (values,) = objects(orc("config", "--json", env=env).stdout)
    assert values["max_turns"] == {"value": 7, "source": "ORCHESTRATOR_MAX_TURNS"}
    assert values["mode"] == {"value": "agent", "source": "built-in"}
    told = orc("config", env=env).stdout
    rows = {line.split()[0]: line.split()[1:] for line in told.splitlines() if line and ":" not in line}
    assert rows["max_turns"][0] == "7"
    assert rows["store"][0] == "~/data/store.sqlite3"
    assert rows["permission_timeout"][:2] == ["120", "s"]
    assert "Your file: ~/.orchestrator/config.toml (does not exist)" in told


# starting


def test_help_imports_nothing_heavy(here: Place) -> None:
    program = (
        "import sys\n"
        "from orchestrator.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'trio', 'rich', 'sqlite3', 'asyncio', 'opentelemetry', 'yaml'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=here.env, capture_output=True, text=True, check=False, timeout=20
    )
    assert done.stderr == ""
    assert last_line(done.stdout) == "[]"
    for verb in ("run", "resume", "demo", "trace"):
        assert f"  {verb} " in done.stdout


def test_the_version_is_printed(here: Place) -> None:
    done = here.orc("--version")
    assert (done.returncode, done.stdout.split()[0]) == (0, "orchestrator")


def test_a_fault_is_told_shortly_and_its_traceback_goes_to_the_log(here: Place) -> None:
    program = (
        "import orchestrator.cli.show as show\n"
        "def fault(*a, **k): raise RuntimeError('nobody foresaw this')\n"
        "show.load_settings = fault\n"
        "from orchestrator.cli.main import main\n"
        "main(['agents'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=here.env, capture_output=True, text=True, check=False, timeout=20
    )
    log = here.home / "data/log/orchestrator.log"
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert last_line(done.stderr).startswith("INTERNAL: ")
    assert str(log) in last_line(done.stderr)
    assert "nobody foresaw this" in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600

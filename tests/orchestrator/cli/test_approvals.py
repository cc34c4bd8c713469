"""`approvals`, `approve`, `deny`, `stop`: a second process answers and stops what a first one works on."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from tests.command import Done, Terminal, environment, last_line, objects, orc, script, started, until
from tests.harness import call, calls, say

INBOX = ("--permission-prompts", "inbox")


def write(path: str) -> dict[str, Any]:
    return call("Write", path=path, content="x\n")


def bash(command: str, **more: Any) -> dict[str, Any]:
    return call("Bash", command=command, **more)


def task(prompt: str = "Do it") -> dict[str, Any]:
    return call("Task", subagent_type="fixer", prompt=prompt)


@attrs.define
class Place:
    """A home and a workspace of a test's own; the runs it started are ended with it."""

    home: Path
    repo: Path
    env: dict[str, str]
    runs: list[subprocess.Popen[str]] = attrs.field(factory=list)

    def orc(self, *arguments: str | Path, **options: Any) -> Done:
        return orc(*arguments, env=self.env, **options)

    def start(self, agents: dict[str, Any], *arguments: str) -> subprocess.Popen[str]:
        model = script(self.home, agents)
        run = started("run", "Go", "-C", self.repo, "--model", model, *arguments, env=self.env)
        self.runs.append(run)
        return run

    def waiting(self, count: int = 1) -> list[dict[str, Any]]:
        """The open requests, once there are so many, as the command lists them."""
        self.until_stored("select count(*) from requests where decision is null", count)
        return objects(self.orc("approvals", "--json").stdout)

    def until_stored(self, sql: str, count: int) -> None:
        """Wait until a query counts at least so much: asking the command itself would take longer."""
        path = self.home / "data/store.sqlite3"

        def arrived() -> bool:
            if not path.exists():
                return False
            with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as store:
                try:
                    return bool(store.execute(sql).fetchone()[0] >= count)
                except sqlite3.Error:  # it is being made
                    return False

        until(arrived)

    def session_id(self) -> str:
        return str(objects(self.orc("sessions", "--json").stdout)[0]["sessionId"])


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Place]:
    (tmp_path / "home").mkdir()
    (tmp_path / "repo").mkdir()
    place = Place(tmp_path / "home", tmp_path / "repo", environment(tmp_path / "home"))
    yield place
    for run in place.runs:
        if run.poll() is None:
            run.kill()
        run.communicate()


def ended(run: subprocess.Popen[str], seconds: float = 20) -> tuple[int, str, str]:
    out, err = run.communicate(timeout=seconds)
    return run.returncode, out, err


WRITES = {"main": [calls(write("a.txt")), say("Done.")]}


def test_without_anybody_to_ask_a_call_is_denied_at_once_and_the_flag_is_named(here: Place) -> None:
    code, _, err = ended(here.start(WRITES))
    assert code == 3
    assert "--permission-prompts inbox" in last_line(err)
    shown = here.orc("show", here.session_id()).stdout
    assert "--permission-prompts inbox" in shown
    assert not (here.repo / "a.txt").exists()


def test_an_approval_from_a_second_process_lets_the_run_continue(here: Place) -> None:
    run = here.start(WRITES, *INBOX)
    (request,) = here.waiting()
    done = here.orc("approve", request["id"][:8])
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{request['id']} (Write of main): allowed once." in done.stdout
    code, out, err = ended(run)
    assert (code, out, (here.repo / "a.txt").read_text()) == (0, "Done.\n", "x\n")
    assert request["id"] in err  # whoever watches the run sees what to answer
    shown = here.orc("show", here.session_id()).stdout
    assert "allowed once (inbox, " in shown
    audit = shown.splitlines()[-1]
    assert audit.endswith(request["id"])
    assert audit.split()[1:5] == ["main", "Write", "allowed", "once"]


def test_what_a_rule_decided_is_in_the_audit_with_its_rule(here: Place) -> None:
    agents = {"main": [calls(write("a.txt"), bash("ls"), bash("rm x")), say("Done.")]}
    rules = ("--allow", "Write(*.txt)", "--allow", "Bash(ls)", "--deny", "Bash(rm *)")
    ended(here.start(agents, *rules))
    shown = here.orc("show", here.session_id()).stdout
    rows = [line.split(maxsplit=3)[1:] for line in shown[shown.index("WHEN") :].splitlines()[1:]]
    assert [[agent, tool, " ".join(rest.split())] for agent, tool, rest in rows] == [
        ["main", "Write", "allowed rule Write(*.txt) - -"],
        ["main", "Bash", "allowed rule Bash(ls) - -"],
        ["main", "Bash", "denied deny-rule Bash(rm *) - -"],
    ]


def test_a_denial_reaches_the_model_with_its_message_and_ends_nothing(here: Place) -> None:
    agents = {"main": [calls(write("a.txt")), {**say("As you say."), "expect": {"contains": "use b.txt"}}]}
    run = here.start(agents, *INBOX, "--output-format", "json")
    (request,) = here.waiting()
    done = here.orc("deny", request["id"], "--message", "use b.txt")
    assert (done.returncode, "denied" in done.stdout) == (0, True)
    code, out, _ = ended(run)
    (told,) = objects(out)
    assert (code, told["status"], told["denials"][0]["reason"]) == (0, "completed", "user")
    assert not (here.repo / "a.txt").exists()


def test_a_request_is_shown_whole_before_it_is_answered(here: Place) -> None:
    command = "printf 'a\u202eb' \\\n  ; ls" + " " * 60 + "; touch PWN\n" + "\n" * 40 + "rm -rf sub # the end"
    agents = {
        "main": [calls(task(), task()), calls(call("TaskWait")), say("Told.")],
        "fixer#1": [calls(bash(command)), say("Done.")],
        "fixer#2": [calls(call("Read", path="/etc/hostname")), say("Done.")],
    }
    here.start(agents, *INBOX)
    rows = {one["tool"]: one for one in here.waiting(2)}
    shown = here.orc("approvals").stdout
    assert "main → fixer#1" in shown
    assert "\\u202e" in shown
    assert "\u202e" not in shown
    assert "rm -rf sub # the end" in shown
    assert "touch PWN" in shown
    assert "empty lines⟩" in shown
    assert "main → fixer#2" in shown
    assert str(Path("/etc/hostname").resolve()) in shown
    assert " left" in shown
    assert "1 more of this session" in shown
    assert rows["Bash"]["agentChain"] == ["main", "fixer#1"]
    assert 0 < rows["Bash"]["leftMs"] <= 120_000
    assert {one["behind"] for one in rows.values()} == {0, 1}


def test_a_session_grant_answers_later_calls_and_is_refused_where_it_is_not_offered(here: Place) -> None:
    agents = {
        "main": [
            calls(write(".git/hooks/x")),
            calls(write("a.txt")),
            calls(write("b.txt")),
            say("Done."),
        ]
    }
    run = here.start(agents, *INBOX)
    (protected,) = here.waiting()
    refused = here.orc("approve", protected["id"], "--session")
    assert refused.returncode == 2
    assert "is not offered for this call" in refused.stderr
    assert here.orc("deny", protected["id"]).returncode == 0
    (request,) = here.waiting()
    done = here.orc("approve", request["id"], "--session")
    assert (done.returncode, "allowed for the session" in done.stdout) == (0, True)
    assert ended(run)[0] == 0
    assert sorted(path.name for path in here.repo.glob("*.txt")) == ["a.txt", "b.txt"]


def test_just_these_commands_are_allowed_for_the_session(here: Place) -> None:
    agents = {
        "main": [
            calls(bash("touch a.txt")),
            calls(bash("touch a.txt")),
            calls(bash("touch b.txt")),
            say("Done."),
        ]
    }
    run = here.start(agents, *INBOX)
    (first,) = here.waiting()
    done = here.orc("approve", first["id"], "--commands")
    assert (done.returncode, "allowed for the session: just these commands" in done.stdout) == (0, True)
    (second,) = here.waiting()
    assert second["preview"] == "touch b.txt"
    assert here.orc("deny", second["id"]).returncode == 0
    assert ended(run)[0] == 0
    assert [path.name for path in here.repo.iterdir()] == ["a.txt"]
    shown = here.orc("show", here.session_id()).stdout
    assert "Bash allowed for the session: just these commands (inbox" in shown


def test_an_answer_that_comes_too_late_is_a_conflict_with_exit_status_4(here: Place) -> None:
    run = here.start(WRITES, *INBOX, "--permission-timeout", "4")
    (request,) = here.waiting()
    ended(run)
    done = here.orc("approve", request["id"])
    assert done.returncode == 4
    line = last_line(done.stderr)
    assert line.startswith("CONFLICT: ")
    assert "nobody answered in time" in line
    assert "orchestrator approvals" in line
    assert not (here.repo / "a.txt").exists()


def test_requests_of_a_killed_process_are_not_shown_as_answerable(here: Place) -> None:
    run = here.start(WRITES, *INBOX)
    (request,) = here.waiting()
    run.kill()
    run.wait()
    assert objects(here.orc("approvals", "--json").stdout) == []
    assert "1 request of ended processes" in here.orc("approvals").stdout
    done = here.orc("approve", request["id"])
    assert (done.returncode, done.stderr.startswith("CONFLICT: ")) == (4, True)


def test_ids_that_name_nothing_or_too_much_are_usage_errors(here: Place) -> None:
    agents = {
        "main": [calls(task(), task()), calls(call("TaskWait")), say("Told.")],
        "fixer": [calls(write("a.txt")), say("Done.")],
    }
    assert here.orc("approve", "req-1").returncode == 2
    here.start(agents, *INBOX)
    rows = here.waiting(2)
    unknown = here.orc("deny", "req-zzz")
    assert (unknown.returncode, "orchestrator approvals" in unknown.stderr) == (2, True)
    several = here.orc("approve", "req-")
    assert several.returncode == 2
    assert all(row["id"] in several.stderr for row in rows)
    assert here.orc("approve", rows[0]["id"], "--session", "--commands").returncode == 2


def test_a_terminal_s_question_is_answered_from_elsewhere_and_goes_away(here: Place) -> None:
    model = script(here.home, WRITES)
    terminal = Terminal("run", "Go", "-C", here.repo, "--model", model, env=here.env)
    terminal.until("n deny, or")
    (request,) = here.waiting()
    assert here.orc("approve", request["id"]).returncode == 0
    terminal.until("no longer asked")
    assert terminal.end() == 0
    assert (here.repo / "a.txt").read_text() == "x\n"


def test_watching_shows_requests_as_they_come_and_how_they_are_closed(here: Place) -> None:
    run = here.start(WRITES, *INBOX)
    (request,) = here.waiting()
    watcher = started("approvals", "--watch", "--json", env=here.env)
    here.runs.append(watcher)
    assert watcher.stdout is not None
    assert request["id"] in watcher.stdout.readline()
    here.orc("approve", request["id"])
    (closed,) = objects(watcher.stdout.readline())
    assert (closed["id"], closed["decision"]) == (request["id"], "allow-once")
    assert ended(run)[0] == 0


# stop


SLEEPS = {
    "main": [calls(task(), task()), calls(call("TaskWait")), say("Told.")],
    "fixer#1": [calls(bash("sleep 60", timeoutSeconds=60)), say("Never.")],
    "fixer#2": [calls(bash("until [ -e go ]; do sleep 0.05; done", timeoutSeconds=30)), say("Fixed.")],
}
AUTO = ("--permission-mode", "auto")


def running(here: Place, count: int) -> None:
    here.until_stored("select count(*) from calls where tool = 'Bash' and ok is null", count)


def test_a_task_is_stopped_by_its_label_and_the_rest_goes_on(here: Place) -> None:
    run = here.start(SLEEPS, *AUTO)
    running(here, 2)
    done = here.orc("stop", "fixer#1")
    assert (done.returncode, done.stdout.startswith("fixer#1 ("), "stopped" in done.stdout) == (0, True, True)
    (here.repo / "go").touch()
    assert ended(run)[0] == 0
    rows = {one["label"]: one["status"] for one in objects(here.orc("tasks", "--json").stdout)}
    assert rows == {"fixer#1": "stopped", "fixer#2": "completed"}
    again = here.orc("stop", "fixer#1")
    assert (again.returncode, again.stderr.startswith("CONFLICT: ")) == (4, True)


def test_a_session_is_stopped_with_its_delegates(here: Place) -> None:
    run = here.start(SLEEPS, *AUTO)
    running(here, 2)
    done = here.orc("stop", here.session_id())
    assert (done.returncode, ": stopped" in done.stdout) == (0, True)
    assert ended(run)[0] == 130
    assert {one["status"] for one in objects(here.orc("tasks", "--json").stdout)} == {"aborted"}
    again = here.orc("stop", here.session_id())
    assert (again.returncode, again.stderr.startswith("CONFLICT: ")) == (4, True)


def test_what_is_unknown_cannot_be_stopped(here: Place) -> None:
    ended(here.start({"main": [say("Done.")]}))
    assert here.orc("stop", "task-nothing").returncode == 2


# no self-approval


@pytest.mark.parametrize(
    ("verb", "disguise"),
    [
        ("approve", "{}"),
        ("approve", "(setsid env -i {} &)"),
        ("deny", "env -i HOME=$HOME PATH=$PATH {}"),
        ("stop", "setsid --wait env -i {}"),
    ],
)
def test_what_a_tool_runs_answers_and_stops_nothing(here: Place, verb: str, disguise: str) -> None:
    """A protected write of one delegate waits; a script that another one runs tries to answer it."""
    said = here.home / "said"
    root = Path(__file__).parents[3]
    store = here.home / "data/store.sqlite3"
    call_it = disguise.format(f"sh {here.repo}/inner.sh")
    orchestrator = f"PYTHONPATH={root} {sys.executable} -m orchestrator"
    (here.repo / "inner.sh").write_text(
        f"export HOME={here.home} PATH=/usr/bin:/bin\ncd {here.home}\n"
        f"id=$(cat id)\n{orchestrator} {verb} $id --store {store} 2>err\necho $? >code\nmv err said\n"
    )
    (here.repo / "outer.sh").write_text(
        f"until [ -s {here.home}/id ]; do sleep 0.05; done\n{call_it}\n"
        f"for i in $(seq 300); do [ -s {said} ] && exit 0; sleep 0.05; done; exit 1\n"
    )
    agents = {
        "main": [calls(task(), task()), calls(call("TaskWait")), say("Told.")],
        "fixer#1": [calls(write(".git/hooks/x")), say("Done.")],
        "fixer#2": [calls(bash("sh outer.sh", timeoutSeconds=30)), say("Done.")],
    }
    run = here.start(agents, *INBOX, *AUTO)
    (request,) = here.waiting()
    (here.home / "id").write_text(request["id"] if verb != "stop" else request["sessionId"])
    until(said.exists, 30)
    assert (here.home / "code").read_text().strip() == "4"
    assert said.read_text().startswith("TOOL_DENIED: Refused: this process ")
    assert here.orc("deny", request["id"]).returncode == 0
    assert ended(run)[0] == 0
    assert not (here.repo / ".git").exists()

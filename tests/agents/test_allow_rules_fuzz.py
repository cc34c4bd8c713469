"""What an allow rule lets through is really run: nothing happens but what the rules spell.

Command lines are made around allow rules, well-formed and broken; each line that the gate lets through
without asking is run by a real bash in a sandbox folder whose PATH holds recorders alone: programs that note
their arguments and do nothing else. `ORCHESTRATOR_FUZZ_EXAMPLES=5000` runs more than the usual few hundred.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
import trio
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agents.permit import Permit
from tests.agents.gate_world import BashTool, World

EXAMPLES = int(os.environ.get("ORCHESTRATOR_FUZZ_EXAMPLES", "300"))
RULES = ("git status", "git log *", "ls *", "make t-*", "cd sub")
PROGRAMS = ("git", "ls", "make", "evil", "touch", "sh", "cat", "xargs", "env", "tee", "rm")
WRAPPERS = ("timeout", "nice", "nohup", "stdbuf")
BASH = shutil.which("bash") or "/bin/bash"

RECORDER = """#!/bin/sh
printf '%s\\0' "${{INJECTED-}}" "$#" "$0" "$@" >>"{log}/$$"
"""
WRAPPER = """#!/bin/sh
while :; do case "$1" in -*|[0-9]*) shift;; *) break;; esac; done
exec "$@"
"""


@attrs.frozen
class Sandbox:
    """A workspace, a PATH of recorders, and what they have noted."""

    base: Path
    world: World
    bin: Path
    log: Path

    def allowed(self, line: str) -> bool:
        """Whether the gate lets the line run without asking anybody."""
        self.world.sink.events.clear()
        admitted = trio.run(lambda: self.world.admit(BashTool(), command=line))
        return isinstance(admitted, Permit) and not self.world.sink.requests

    def run(self, line: str) -> list[list[str]]:
        """Run the line; the arguments of every program that ran, its name first."""
        shutil.rmtree(self.log, ignore_errors=True)
        self.log.mkdir()
        subprocess.run(
            [BASH, "-c", line],
            cwd=self.world.workspace.root,
            env={"PATH": str(self.bin), "HOME": str(self.base / "home")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=10,
            check=False,
        )
        return [argv for file in sorted(self.log.iterdir()) for argv in self._runs(file.read_bytes())]

    def _runs(self, noted: bytes) -> Iterator[list[str]]:
        fields = [part.decode("utf-8", "replace") for part in noted.split(b"\0")[:-1]]
        while fields:
            injected, count, program, *rest = fields
            arguments, fields = rest[: int(count)], rest[int(count) :]
            name = program.removeprefix(f"{self.bin}/")
            yield [f"INJECTED={injected}", name, *arguments] if injected else [name, *arguments]

    def files(self) -> set[str]:
        """Every file and folder that a line could have made."""
        places = (self.base / "repo", self.base / "outside", self.base / "home")
        return {str(path) for place in places for path in place.rglob("*")}


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    base = tmp_path_factory.mktemp("fuzz").resolve()
    world = World(base, allow=tuple(f"Bash({rule})" for rule in RULES))
    (base / "repo/sub").mkdir()
    (base / "repo/s").write_text("evil from-a-file\n")
    made, log = base / "bin", base / "log"
    made.mkdir()
    log.mkdir()
    for names, text in ((PROGRAMS, RECORDER.format(log=log)), (WRAPPERS, WRAPPER)):
        for name in names:
            (made / name).write_text(text)
            (made / name).chmod(0o755)
    return Sandbox(base, world, made, log)


def covers(pattern: list[str], argv: list[str]) -> bool:
    """What a rule's pattern means, written a second time and as plainly as possible."""
    if not pattern:
        return not argv
    first, rest = pattern[0], pattern[1:]
    if first == "*":
        return any(covers(rest, argv[taken:]) for taken in range(len(argv) + 1))
    expression = ".*".join(re.escape(piece) for piece in first.split("*"))
    return bool(argv) and re.fullmatch(expression, argv[0], re.DOTALL) is not None and covers(rest, argv[1:])


COVERED = (
    "git status",
    "git log",
    "git log -3 --oneline",
    "ls a b",
    "ls 'x y'",
    "ls *.txt",
    'ls "$HOME"',
    "make t-unit",
    "cd sub",
    "'git' status",
    'g"i"t status',
    "git sta\\tus",
    "timeout 5 git status",
    "nice -n 5 ls a",
    "git status </dev/null",
    "git log 2>/dev/null",
    "ls a >/dev/null 2>&1",
)
UNCOVERED = (
    "evil",
    "evil x",
    "git statusx",
    "git push",
    "git -c core.pager=evil log",
    "./s",
    "touch PWN",
    "ls $(evil)",
    "ls `evil`",
    "ls <(evil)",
    'ls "$(evil)"',
    'ls "`evil`"',
    "git status >PWN",
    "git log >>PWN",
    "git status >|PWN",
    "git log &>PWN",
    "ls <>PWN",
    "INJECTED=1 git status",
    "INJECTED=1",
    "export INJECTED=1",
    "PATH=. git status",
    "eval evil",
    "eval 'git status; evil'",
    "exec evil",
    "command evil",
    "builtin eval evil",
    "source s",
    ". ./s",
    "trap evil EXIT",
    "alias ls=evil",
    "git() { evil; }",
    "function ls { evil; }",
    "xargs evil",
    "env evil",
    "timeout 5 evil",
    "nohup evil",
    "tee PWN",
    "cat <<E\n$(evil)\nE",
    "ls <<E\n`evil`\nE",
    "ls <<'E'\n$(evil)\nE",
    "ls <<<$(evil)",
    "[[ -n $(evil) ]]",
    "[[ x -ef `evil` ]]",
    "(( x[$(evil)] ))",
    "echo $(( $(evil) ))",
    "ls ${x:-$(evil)}",
    "ls ${x:=`evil`}",
    "ls {a,$(evil)}",
    "ls $'a' $\"b\"",
    "coproc evil",
    "! evil",
    "time evil",
    "mapfile -C evil -c 1 <s",
    "printf -v x[$(evil)] y",
    "read x < <(evil)",
    "test -v 'x[$(evil)]'",
    "hash -p ./s git",
    "enable -f ./s x",
    "shopt -s expand_aliases",
    "set -- evil; $1",
    "$BASH -c evil",
    "${BASH} s",
    "~/s",
    "sub/../s",
    "declare -n x=y",
    "let x[`evil`]=1",
)
GLUE = (
    ";",
    "; ",
    " && ",
    " || ",
    " | ",
    " & ",
    "\n",
    "|& ",
    "\r",
    "\r\n",
    " \\\n",
    "\\\n",
    " # ",
    "#",
    "\t",
    " ",
)
SHAPES = (
    "({})",
    "{{ {}; }}",
    "if {}; then git status; fi",
    "if git status; then {}; else ls; fi",
    "for i in 1 2; do {}; done",
    "for i in $(evil); do {}; done",
    "until {}; do ls; done",
    "case x in x) {};; esac",
    "! {}",
    "time {}",
    "{} &",
    "ls $({})",
    "ls `{}`",
    "ls <({})",
    "git log <<E\n{}\nE",
    "git log <<'E'\n{}\nE",
    "git log <<-E\n\t{}\n\tE\nls",
    "ls '{}'",
    'ls "{}"',
    "ls $'{}'",
    "bash -c '{}'",
    "ls {} # {}",
    "#{}\nls",
    "f() {{ {}; }}; f",
    "timeout 5 {}",
    "nice {}",
    "[[ a && {} ]]",
    "ls \\\n{}",
    "{} \\",
)
SIGNS = (
    *"'\"`$(){}[]<>|&;\\#!~*?=\n\r\t %^+-@:.,0x/",
    *("$(", "${", "<(", ">(", "<<", "<<<", "$((", "\u202e", "\x0b", "é"),
)

commands = st.one_of(st.sampled_from(COVERED), st.sampled_from(COVERED), st.sampled_from(UNCOVERED))


@st.composite
def lines(draw: st.DrawFn) -> str:
    """Commands in a row, in a shape, with a sign or two put anywhere."""
    parts = [draw(commands)]
    for _ in range(draw(st.integers(0, 3))):
        parts += [draw(st.sampled_from(GLUE)), draw(commands)]
    line = "".join(parts)
    for _ in range(draw(st.integers(0, 2))):
        line = draw(st.sampled_from(SHAPES)).replace("{}", line).replace("{{", "{").replace("}}", "}")
    for _ in range(draw(st.sampled_from((0, 0, 0, 1, 2)))):
        where = draw(st.integers(0, len(line)))
        cut = draw(st.integers(0, 1))
        line = line[:where] + draw(st.sampled_from(SIGNS)) + line[where + cut :]
    return line


seen = {"lines": 0, "allowed": 0}


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(line=lines())
@example(line="git status; git log -3 | ls a")
@example(line="git log <<'E'\n$(evil)\nE\nls a")
@example(line="for i in 1 2; do ls $i; done")
@example(line="timeout 5 git status && (ls a & git status)")
def test_a_line_that_was_allowed_runs_nothing_but_what_the_rules_spell(sandbox: Sandbox, line: str) -> None:
    seen["lines"] += 1
    if not sandbox.allowed(line):
        return
    seen["allowed"] += 1
    before = sandbox.files()
    ran = sandbox.run(line)
    patterns = [shlex.split(rule) for rule in RULES]
    beyond = [argv for argv in ran if not any(covers(pattern, argv) for pattern in patterns)]
    assert beyond == [], f"{line!r} ran {beyond}"
    assert sandbox.files() == before, f"{line!r} made files"


def test_the_lines_above_were_allowed_often_enough_to_prove_something() -> None:
    assert seen["lines"] >= EXAMPLES
    assert seen["allowed"] >= seen["lines"] // 20, seen


def test_the_sandbox_sees_what_runs(sandbox: Sandbox) -> None:
    ran = sandbox.run("git status; INJECTED=1 evil 'a b' $(touch x); timeout 5 sh y; echo > made")
    assert sorted(ran) == [
        ["INJECTED=1", "evil", "a b"],
        ["git", "status"],
        ["sh", "y"],
        ["touch", "x"],
    ]
    made = sandbox.base / "repo/made"
    assert str(made) in sandbox.files()
    made.unlink()


@pytest.mark.parametrize("line", COVERED)
def test_what_the_rules_spell_is_allowed_and_runs(sandbox: Sandbox, line: str) -> None:
    assert sandbox.allowed(line)
    assert sandbox.run(line) or line.startswith("cd")


@pytest.mark.parametrize("line", UNCOVERED)
def test_what_the_rules_do_not_spell_is_not_allowed(sandbox: Sandbox, line: str) -> None:
    if line == "ls $'a' $\"b\"" or line.startswith("ls <<'E'"):
        return  # these run no other program: the sandbox above has the last word
    assert not sandbox.allowed(line)
    assert not sandbox.allowed(f"git status; {line}")


LONG = {
    "many commands": "git status; " * 850,
    "one pipeline": "git log | " * 1000 + "ls",
    "nested substitutions": "ls " + "$(ls " * 1400 + ")" * 1400,
    "nested groups": "(" * 3000 + "ls" + ")" * 3000,
    "one word": "ls " + "a" * 10_000,
    "many words": "ls " + "a " * 5000,
    "open quotes": "ls '" * 2500,
    "expansions": "ls " + "${a:-b}" * 1400,
    "a heredoc": "git log <<E\n" + "$x text\n" * 1200 + "E",
    "line ends": "ls \\\n" * 1700,
    "comments": "ls # x\n" * 1400,
    "redirections": "ls " + "2>&1 " * 2000,
}


@pytest.mark.parametrize("shape", LONG)
def test_checking_a_line_of_ten_kilobytes_stays_fast(sandbox: Sandbox, shape: str) -> None:
    began = time.monotonic()
    sandbox.allowed(LONG[shape])
    assert time.monotonic() - began < 5.0

"""A shell line is known by every command in it, by where it writes, and by what a rule says of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.rules.shell import (
    ShellLine,
    allows,
    calls_own_command,
    denies,
    matches,
    parse_line,
    patch_command,
    write_targets,
)


def commands(line: str) -> list[list[str | None]]:
    """The words of every simple command, in order."""
    return [[word.text for word in command.words] for command in parse_line(line).simple if command.words]


def names(line: str) -> list[str | None]:
    return [words[0] for words in commands(line)]


def places(line: str) -> list[tuple[str | None, str | None]]:
    """(directory, path) of everything that is written."""
    return [(target.directory, target.path) for target in write_targets(parse_line(line)) if target.write]


# every simple command is found


@pytest.mark.parametrize(
    "line",
    [
        "first; second",
        "first && second",
        "first || second",
        "first | second",
        "first |& second",
        "first & second",
        "first\nsecond",
        "first\n\n\n\n\n\n\n\nsecond",
        "first $(second)",
        'first "$(second)"',
        "first `second`",
        "first <(second)",
        "first > >(second)",
        "first <<EOF\n$(second)\nEOF",
        "first <<'EOF'\ntext\nEOF\nsecond",
        "first <<EOF && second\ntext\nEOF",
        "first <<EOF | second\ntext\nEOF",
        "(first; second)",
        "{ first; second; }",
        "if first; then second; fi",
        "if first; then :; else second; fi",
        "while first; do second; done",
        "for x in $(first); do second; done",
        "case $(first) in a) second;; esac",
        "case x in $(first)) second;; esac",
        "f() { first; }; second",
        "! first && second",
        "x=$(first) second",
        "x=$(first); second",
        "x=(a $(first)); second",
        "export x=$(first); second",
        "[[ -n $(first) ]] && second",
        '[ "$(first)" ] && second',
        "(( $(first) )) || second",
        "first $((1 + $(second)))",
        "first ${x:-$(second)}",
        "first ${a[$(second)]}",
        'first `echo "\\`second\\`"`',
        "first <<< $(second)",
        "> out first; second",
        "first > out $(second)",
        "first # a comment\nsecond",
        "first \\\n  && second",
        "first $x$(second)y",
    ],
)
def test_every_command_of_a_line_is_found(line: str) -> None:
    found = parse_line(line)

    assert found.problem is None
    assert {"first", "second"} <= set(names(line))


@pytest.mark.parametrize(
    "line",
    [
        "env A=1 inner",
        "env -i -u X -C dir inner",
        "env --chdir=dir -- inner",
        "command inner",
        "command -p inner",
        "exec -a name inner",
        "nice inner",
        "nice -n 5 inner",
        "nice -10 inner",
        "nohup inner &",
        "time inner",
        "time -p inner",
        "timeout 5 inner",
        "timeout -s KILL --kill-after=2 5m inner",
        "stdbuf -oL inner",
        "setsid -w inner",
        "xargs inner",
        "xargs -0 -n 1 -I {} inner",
        "sudo inner",
        "sudo -u me A=1 inner",
        "find . -name x -exec inner {} +",
        "find . -exec inner {} \\; -exec other \\;",
        "bash -c inner",
        "bash -lc 'true; inner'",
        "bash -euo pipefail -c 'inner'",
        "sh -c \"sh -c 'inner'\"",
        "/bin/sh -c 'inner' name",
        "eval inner",
        'eval "true; inner"',
        "trap inner EXIT",
        "env nice timeout 5 sudo bash -c inner",
        'bash -c "cd $DIR && inner"',
        "time { true; }; inner",
    ],
)
def test_wrappers_are_looked_through_and_listed_themselves(line: str) -> None:
    assert "inner" in names(line)
    assert len(names(line)) > 1


def test_the_words_of_a_wrapped_command_are_its_own() -> None:
    assert ["git", "status"] in commands("env A=1 timeout 5 git status")
    assert ["touch", None] in commands("xargs touch")


def test_an_assignment_through_env_belongs_to_the_inner_command() -> None:
    inner = parse_line("env PATH=/x git status").simple[-1]

    assert [word.text for word in inner.assignments] == ["PATH=/x"]


@pytest.mark.parametrize(
    "line", ["sudo --new-option x git status", "xargs $OPTIONS git status", "env -S 'git status'"]
)
def test_what_follows_an_unknown_option_is_unknown(line: str) -> None:
    assert commands(line)[-1] == [None]


@pytest.mark.parametrize(
    "line",
    [
        "echo 'rm x'",
        'echo "rm x; rm y"',
        "cat <<'EOF'\nrm x\n$(rm y)\nEOF",
        "cat <<EOF\nrm x\n\\$(rm y)\nEOF",
        "echo a # rm x",
        "echo a\\;rm",
        "git commit -m \"$(cat <<'EOF'\nrm `rm` $(rm)\nEOF\n)\"",
    ],
)
def test_text_is_no_command(line: str) -> None:
    assert parse_line(line).problem is None
    assert "rm" not in names(line)


def test_quotes_are_removed_from_words() -> None:
    assert commands("g'i't \"st\"atus a\\ b $'x\\ty\\'z' \"\\$v\\\"\" ''") == [
        ["git", "status", "a b", "x\ty'z", '$v"', ""]
    ]


def test_words_that_only_the_run_can_tell_are_unknown() -> None:
    assert commands('echo $x "$y" a$z {a,b} {1..3} `c` ${d} lit') == [
        ["echo", None, None, None, None, None, None, None, "lit"],
        ["c"],
    ]


def test_redirections_are_known_with_descriptor_and_direction() -> None:
    (command,) = parse_line("cmd < in > out 2>> err 2>&1 >&- &> all").simple

    assert [(r.fd, r.operator, r.target and r.target.text, r.write) for r in command.redirects] == [
        (None, "<", "in", False),
        (None, ">", "out", True),
        ("2", ">>", "err", True),
        ("2", ">&", "1", False),
        (None, ">&-", None, False),
        (None, "&>", "all", True),
    ]


def test_arguments_behind_a_redirection_are_arguments() -> None:
    assert commands("cmd > out a 2>&1 b && > f rm x") == [["cmd", "a", "b"], ["rm", "x"]]


def test_a_redirection_belongs_to_the_last_command_of_a_list() -> None:
    first, second = parse_line("a && b > f").simple

    assert (first.redirects, len(second.redirects)) == ((), 1)


def test_the_text_of_a_command_has_single_blanks() -> None:
    assert parse_line("A=1   git    log  \\\n  -1 >out").simple[0].text == "A=1 git log -1 >out"


def test_a_heredoc_is_kept_as_text() -> None:
    assert parse_line("cat > f <<'EOF'\na $b\nEOF").simple[0].heredoc == "a $b\n"


# what cannot be judged


@pytest.mark.parametrize(
    "line",
    [
        'echo "unbalanced',
        "echo 'unbalanced",
        "echo $(unbalanced",
        "cat <<EOF\nno end",
        "if true; then",
        "git status\rtouch PWN",
        "git status \x00",
        "git\u202e status",
        "echo a\\\n#b; rm x",
        "git sta\\\ntus",
        'echo "$\\\n(rm x)"',
        "cat <<EOF\n`rm x`\nEOF",
        "cat <<EOF\nx\nEOF \nEOF\nrm y",
        "cat <<EOF\nx\\\nEOF\nrm y\nEOF",
        "cat <<A <<B\nx\nA\ny\nB",
        "coproc rm x",
        "time { rm x; }",
        "echo ${x%$(rm y)}",
        "[[ 'a[$(rm x)]' -eq 0 ]]",
        "echo $(( a['$(rm x)'] ))",
        "printf -v 'a[$(rm x)]' y",
        'echo $"a"',
        "[ -f x\n]",
    ],
)
def test_a_line_that_bash_may_read_otherwise_is_a_problem(line: str) -> None:
    assert parse_line(line).problem is not None


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("true; " * 250 + "touch PWN", "more than 200 commands"),
        ("echo " + "x" * 200_000, "larger than 64 KiB"),
        ("$(" * 30 + "x" + ")" * 30, "nested more than 20"),
        ("(; " * 30 + "x" + ")" * 30, ""),
        ("{ " * 30 + "x; " + "}; " * 30, "nested more than 20"),
        ("`" * 3000, ""),
        (")" * 60_000, "too tangled"),
        (");|&<" * 13_000, "too tangled"),
        ("x=(" * 20_000, "too tangled"),
        ("a && " * 5_000 + "a", "more than 200 commands"),
        ("a > x && " * 190 + "a", None),
        ("a | " * 190 + "a", None),
        ("echo $((" + "1+" * 5_000 + "1))", None),
        ("[[ " * 10_000, ""),
    ],
    ids=range(14),
)
def test_beyond_its_limits_a_line_is_a_problem_and_never_a_crash(line: str, why: str | None) -> None:
    problem = parse_line(line).problem

    if why is None:
        assert problem is None
    else:
        assert problem is not None
        assert why in problem


def test_sixty_commands_are_all_listed() -> None:
    line = parse_line("true; " * 60 + "touch PWN")

    assert line.problem is None
    assert len(line.simple) == 61
    assert line.simple[-1].name == "touch"


def test_importing_the_rules_loads_no_parser() -> None:
    code = (
        "import sys, agents.rules.shell; "
        "print([name for name in ('tree_sitter', 'trio', 'asyncio') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


# rules

RIDERS = [
    "; T", " && T", " || T", " | T", " & T", "\nT", " $(T)", " `T`", " <(T)", " > PWN", " >> PWN", " 2> PWN",
    "x",
    "\rT", " <<E\n$(T)\nE", " | tee PWN", " &> PWN", " >| PWN",
]  # fmt: skip


@pytest.mark.parametrize("rider", RIDERS)
def test_nothing_rides_on_an_allowed_command(rider: str) -> None:
    line = parse_line("git status" + rider.replace("T", "touch /w/repo/PWN"))

    assert not allows(["git status"], line)


@pytest.mark.parametrize(
    "line",
    [
        "git status",
        "git  status",
        "git status 2>/dev/null",
        "git status 2>&1",
        "g'it' status",
        "git status; git status",
        "timeout 5 git status",
        "nice git status && git status",
        "(git status)",
        "{ git status; } > /dev/null",
        "git status # comment",
    ],
)
def test_a_line_of_allowed_commands_is_allowed(line: str) -> None:
    assert allows(["git status"], parse_line(line))


@pytest.mark.parametrize(
    "line",
    [
        "PATH=/evil git status",
        "PATH=/evil; git status",
        "export PATH=/evil; git status",
        "for PATH in /evil; do git status; done",
        "env PATH=/evil git status",
        "echo $((PATH=1)); git status",
        "git status -s",
        "git",
        "/evil/git status",
        "sudo git status",
        "xargs git status",
        "eval git status",
        "git {status,-c}",
        "$GIT status",
        "git $verb",
        "gi? status",
        "",
        "# only a comment",
    ],
)
def test_what_the_rule_does_not_spell_is_not_allowed(line: str) -> None:
    assert not allows(["git status", "echo:*", "git log:*"], parse_line(line))


SNEAKY = [
    'sed -n "w /w/repo/PWN" f', 'sed "1e touch PWN" f', "find . -exec touch PWN {} +", "find . -fprint PWN",
    "sort -o PWN f", "git -c core.pager=x log", "git diff --output=PWN", "rg --pre sh x", "tee PWN",
    'awk "BEGIN{system(\\"touch PWN\\")}"', "xargs touch",
]  # fmt: skip


@pytest.mark.parametrize("line", SNEAKY)
def test_no_command_is_allowed_for_looking_harmless(line: str) -> None:
    assert not allows([], parse_line(line))


@pytest.mark.parametrize(
    ("pattern", "line", "expected"),
    [
        ("git status", "git status", True),
        ("git status", "git status -s", False),
        ("git log:*", "git log", True),
        ("git log:*", "git log --oneline -3", True),
        ("git log:*", "git logx", False),
        ("git log *", "git log -1", True),
        ("npm run *", "npm run test -- -x", True),
        ("npm run *", "npm runx", False),
        ("npm run test:*", "npm run test:unit", False),
        ("npm run test*", "npm run test:unit", True),
        ("git * main", "git push origin main", True),
        ("git * main", "git push origin other", False),
        ("*", "anything at all", True),
        ("*", "A=1 anything", False),
        ("git commit -m *", "git commit -m 'a b'", True),
        ("git commit -m 'a b'", 'git commit -m "a b"', True),
        ("ls *.py", "ls *.py", True),
        ("ls *.py", "ls a.py b.py", False),
        ("echo *", "echo $x", True),
        ("echo a*", "echo a$x", False),
        ("A=1 make", "A=1 make", True),
        ("A=* make", "A=1 make", True),
        ("A=* make", "make", False),
        ("make", "A=1 make", False),
        ("* make", "A=1 make", False),
        ("", "git", False),
        ("git 'status", "git status", False),
    ],
)
def test_a_pattern_matches_word_by_word(pattern: str, line: str, expected: bool) -> None:
    assert matches(pattern, parse_line(line).simple[0]) is expected


@pytest.mark.parametrize(
    "line",
    [
        "rm x",
        "true && rm x",
        "A=1 rm x",
        "/bin/rm x",
        "\\rm x",
        "r'm' x",
        "env A=1 rm x",
        "sudo rm x",
        "xargs rm",
        "bash -c 'true; rm x'",
        "find . -exec rm {} +",
        "echo $(rm x)",
        "if true; then rm x; fi",
        "f() { rm x; }",
        'echo "unbalanced $(rm x)',
    ],
)
def test_a_deny_rule_finds_its_command_anywhere(line: str) -> None:
    assert denies(["rm:*"], parse_line(line))


def test_a_deny_rule_does_not_read_text() -> None:
    assert not denies(["rm:*"], parse_line("echo 'rm x'; git commit -m 'rm x'"))


# patches


@pytest.mark.parametrize(
    "line",
    [
        "apply_patch <<'PATCH-1'\n*** Begin Patch\n*** End Patch\nPATCH-1",
        'bash -lc "apply_patch <<EOF\n*** Begin Patch\nEOF\n"',
        "cd sub && apply_patch < p",
        "applypatch p",
        "git apply p.diff",
        "git -C sub apply p.diff",
        "git -c a=b --git-dir=.git apply p.diff",
        "git apply --index p.diff",
        "patch -p1 < p.diff",
        "cat p | patch -p0",
        "env A=1 patch -p1 -i p",
        "command patch p",
        "/usr/bin/patch -p1",
        "sudo timeout 5 git apply p",
        "cat <<'EOF' | git apply\n--- a\nEOF",
        "x=$(git apply p)",
        "apply_patch <<EOF\nx\nEOF\necho done",
    ],
)
def test_a_patch_command_is_recognised_in_every_dress(line: str) -> None:
    assert patch_command(parse_line(line))


@pytest.mark.parametrize(
    "line",
    [
        "git apply --check p.diff",
        "git apply --stat p.diff",
        "git -C sub apply --cached p.diff",
        "echo apply_patch",
        "echo 'git apply p'",
        "cat <<'EOF'\napply_patch\ngit apply p\nEOF",
        "cat > patch",
        "git log --grep apply",
        "git commit -m 'patch -p1'",
        "man patch",
        "ls apply_patch",
        "git add patch",
    ],
)
def test_what_only_speaks_of_patches_is_none(line: str) -> None:
    assert not patch_command(parse_line(line))


def test_the_files_of_a_patch_in_a_heredoc_are_known_from_the_right_folder() -> None:
    line = "cd sub && apply_patch <<'P'\n*** Update File: a.py\n*** Add File: ../b.py\nP\necho live"

    assert places(line) == [("sub", "a.py"), ("sub", "../b.py")]
    assert names(line) == ["cd", "apply_patch", "echo"]
    assert places("git -C x apply <<'P'\n--- a/f\n+++ b/f\nP") == [("", "x"), ("x", "f")]


@pytest.mark.parametrize("line", ["git apply p.diff", "patch -p1 < p.diff", "cat p | patch -p0"])
def test_a_patch_from_elsewhere_writes_at_an_unknown_place(line: str) -> None:
    assert ("", None) in places(line)


# our own command


@pytest.mark.parametrize(
    "line",
    [
        "orchestrator approve r1",
        "orc deny r1",
        "/usr/bin/orc --data-dir x approve r1",
        "python -m orchestrator approve r1",
        "python3 -morchestrator.cli.main approve r1",
        "uv run orchestrator approve r1",
        "env A=1 orc approve r1",
        "bash -c 'sleep 1; orc approve r1' &",
        "echo $(orc approve r1)",
        "xargs orc approve",
        "orc $verb r1",
    ],
)
def test_a_line_that_answers_for_the_person_is_known(line: str) -> None:
    assert calls_own_command(parse_line(line))


@pytest.mark.parametrize(
    "line", ["orc ls", "echo orc approve", "git commit -m 'orc approve'", "ls orchestrator"]
)
def test_other_uses_of_our_name_are_free(line: str) -> None:
    assert not calls_own_command(parse_line(line))


# where a line writes


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("echo x > ../outside/f", [("", "../outside/f")]),
        ("echo x >> /w/outside/f", [("", "/w/outside/f")]),
        ("echo x 2>/w/outside/f", [("", "/w/outside/f")]),
        ("printf x | tee /w/outside/f", [("", "/w/outside/f")]),
        ("cp a ../outside", [("", "../outside")]),
        ("cp -t ../outside a b", [("", "../outside")]),
        ("cd .. && echo x > outside/f", [("..", "outside/f")]),
        ("ln -s /w/outside o && echo x > o/f", [("", "/w/outside"), ("", "o"), ("", "o/f")]),
        ("mv a b", [("", "a"), ("", "b")]),
        ("{ a; b; } > f", [("", "f")]),
        ("while a; do b; done > f", [("", "f")]),
        ("> f", [("", "f")]),
        ("rm -rf -- a -b", [("", "a"), ("", "-b")]),
        ("mkdir -p -m 700 d/e", [("", "d/e")]),
        ("touch -d yesterday f", [("", "f")]),
        ("chmod +x f", [("", "f")]),
        ("chown me:me f g", [("", "f"), ("", "g")]),
        ("dd if=a of=b", [("", "b")]),
        ("install -m 755 a b", [("", "b")]),
        ("truncate -s 0 f", [("", "f")]),
        ("sed -i s/a/b/ f g", [("", "f"), ("", "g")]),
        ("sed -i.bak -e s/a/b/ f", [("", "f")]),
        ("sed s/a/b/ f", []),
        ("sort -o f g", [("", "f")]),
        ("git diff --output=f", [("", "f")]),
        ("git -C ../x diff --output f", [("../x", "f")]),
        ("git -C ../x checkout .", [("", "../x")]),
        ("git -C ../x status", []),
        ("git clone url ../x", [("", "../x")]),
        ("curl -o f url", [("", "f")]),
        ("tar -xf a.tar -C ../x", [("", "../x")]),
        ("find .. -delete", [("", "..")]),
        ("find . -fprint f", [("", "f")]),
        ("rsync -a a/ b/", [("", "b/")]),
        ("env A=1 rm f", [("", "f")]),
        ("env -C sub rm f", [("sub", "f")]),
        ("bash -c 'cd sub && rm f'", [("sub", "f")]),
        ("rm $x", [("", None)]),
        ('echo > "$x"', [("", None)]),
        ("xargs rm", [("", None)]),
        ("rm .git/hooks/*", [("", ".git/hooks/"), ("", None)]),
        ("rm *", [("", "."), ("", None)]),
        ("echo > ~/x", [("", "~/x")]),
        ("echo > '~/x'", [("", "./~/x")]),
        ("echo > ~other/x", [("", None)]),
        ("echo > link/../x", [("", "link/../x"), ("", None)]),
        ("echo > ../../x", [("", "../../x")]),
        ("echo > /dev/null 2>&1", []),
        ("echo > /dev/tcp/host/80", [("", "/dev/tcp/host/80")]),
        ("cat < in", []),
        ("python3 -c 'open(1)'", []),
    ],
)
def test_the_places_that_a_line_writes_are_known(
    line: str, expected: list[tuple[str | None, str | None]]
) -> None:
    assert places(line) == expected


def test_a_source_is_a_place_that_is_read() -> None:
    targets = write_targets(parse_line("cp .env x"))

    assert [(target.path, target.write) for target in targets] == [(".env", False), ("x", True)]


@pytest.mark.parametrize(
    ("line", "directories"),
    [
        ("cd a && > f", {"a"}),
        ("cd a && cd b && > f", {"a/b"}),
        ("cd a && cd .. && > f", {""}),
        ("cd /abs && > f", {"/abs"}),
        ("cd ~ && > f", {"~"}),
        ("cd && > f", {"~"}),
        ("cd a; > f", {"", "a"}),
        ("cd a || > f", {""}),
        ("cd a || exit 1; > f", {"", "a"}),
        ("(cd a) && > f", {""}),
        ("(cd a && > f)", {"a"}),
        ("cd a | > f", {""}),
        ("cd a & > f", {""}),
        ("x=$(cd a) && > f", {""}),
        ("{ cd a; } && > f", {"a"}),
        ("if cd a; then > f; fi", {"", "a"}),
        ("cd $x && > f", {None}),
        ("cd - && > f", {None}),
        ("pushd a && > f", {"a"}),
        ("pushd a && popd && > f", {None, "a"}),
        ("command cd a && > f", {"a"}),
        ("eval 'cd a' && > f", {"a"}),
        ("bash -c 'cd a' && > f", {""}),
        ("source x && > f", {None, ""}),
        ("$x && > f", {None, ""}),
        ("f() { cd a; }; f; > f", {None, ""}),
        ("while x; do > f; cd a; done", {None}),
    ],
)
def test_literal_changes_of_directory_are_followed(line: str, directories: set[str | None]) -> None:
    found = {directory for directory, path in places(line) if path == "f"}

    assert found == directories


# whatever is built around a command, it is found

NAMES = st.sampled_from([f"c{index}" for index in range(1, 9)])
FRAMES = st.sampled_from(
    [
        "{0}; {1}", "{0} && {1}", "{0} || {1}", "{0} | {1}", "{0} & {1}", "{0}\n{1}", "({0}; {1})",
        "{{ {0}; {1}; }}", 'echo $({0}) "$({1})"', "echo <({0}) >({1})", "if {0}; then {1}; fi",
        "while {0}; do {1}; break; done", "for i in a; do {0}; {1}; done", "case x in x) {0};; y) {1};; esac",
        "f() {{ {0}; {1}; }}", "! {0}; {1}", "x=$({0}) env y=$({1}) true", "cat <<E\n$({0})\nE\n{1}",
        "cat <<'E'\nplain\nE\n{0}; {1}", "{0} > out; {1}", "echo ${{x:-$({0})}} $((1 + $({1})))",
        "[[ -n $({0}) ]] && {1}", "{0} # x\n{1}", "{0} 2>&1 \\\n && {1}",
    ]
)  # fmt: skip
LINES = st.recursive(
    NAMES, lambda inner: st.builds(lambda frame, a, b: frame.format(a, b), FRAMES, inner, inner), max_leaves=8
)


@given(LINES)
@settings(max_examples=150, deadline=None)
def test_no_frame_hides_a_command(line: str) -> None:
    found = parse_line(line)
    used = {f"c{index}" for index in range(1, 9) if f"c{index}" in line}

    assert found.problem is not None or used <= set(names(line))


@given(st.text(max_size=200))
@settings(max_examples=150, deadline=None)
def test_any_text_gives_a_line(text: str) -> None:
    line = parse_line(text)

    assert isinstance(line, ShellLine)
    write_targets(line)
    patch_command(line)
    calls_own_command(line)
    assert not (line.problem and allows(["*"], line))


TOKENS = st.sampled_from(
    [
        "c1", "c2", "c3", " ", " ", " ", "\n", ";", "|", "&", "&&", "(", ")", "<", ">", '"', "'", "`", "$(",
        ")", "${x:-", "}", "$((", "))", "{ ", "; }", "if ", "; then ", "; fi", "case x in x) ", ";; esac",
        "[[ ", " ]]", "<<E\n", "\nE\n", "<<'E'\n", "\\", "\\\n", "#", "=", "!", "a=", "$x", "*", "<(", "$'",
        '$"', "<<<", "time ", "f() ", "2>", "&>", ",", "{", "[", "]", "eval ", "trap ", "exec ", "command ",
        "-", "c1 $(c2)", "c1; c2",
    ]
)  # fmt: skip


@given(st.lists(TOKENS, min_size=2, max_size=12).map("".join))
@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
def test_what_bash_runs_of_a_judged_line_was_listed(line: str) -> None:
    found = parse_line(line)
    if found.problem is None and any(f"c{index}" in line for index in (1, 2, 3)):
        listed = set(names(line)) | {name for name in names(line) if name is None}
        ran = run_by_bash(line)
        assert None in listed or ran <= listed, (line, ran)


def run_by_bash(line: str) -> set[str | None]:
    """Which of `c1`, `c2`, `c3` bash ran: none exists, and the handler for missing ones writes it down."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        prelude = f'command_not_found_handle() {{ echo "$1" >> {log}; }}; PATH=/nonexistent; x=v\n'
        process = subprocess.Popen(
            ["/bin/bash", "-c", prelude + line],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            start_new_session=True,
        )
        try:
            process.wait(1)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        words = log.read_text(errors="replace").splitlines() if log.exists() else []
        return {word for word in words if word in ("c1", "c2", "c3")}


@pytest.mark.parametrize("wide", ["\U0010d136", "\U000def9f", "\u4e2d", "\u00e9"])
def test_characters_beyond_ascii_never_end_the_process_and_never_hide_a_command(wide: str) -> None:
    for line in (f"a {{{wide}", f"{{{wide}0}}"):
        assert parse_line(line).command == line
    assert names(f"{wide}=1 c1") == [f"{wide}=1"]
    assert names(f"c1 {wide}; c2") == ["c1", "c2"]

"""Ignore rules mean what they mean to git; git itself is the oracle."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

from agents.rules.ignore import APP_DEFAULTS, RuleList, Scope, compile_rules

NOTHING = RuleList()
TREES = 120

DIRECTORIES = ["a", "b", "a/b", "b/c", "a/b/c", "foo", "foo/bar", "b/foo", "a/café"]
NAMES = [
    "foo",
    "bar",
    "x.log",
    "y.txt",
    "a",
    "b.c",
    "café.txt",
    ".hidden",
    "x y.txt",
    "z.tar.gz",
    "[q].md",
    "#n",
    "!m",
]
PATTERNS = [
    *(
        "foo",
        "bar",
        "a",
        "*.log",
        "*.txt",
        "*",
        "**",
        "*.*",
        "?",
        "?oo",
        "caf?",
        "caf*",
        "*é*",
        ".hidden",
        ".*",
    ),
    *(
        "foo/",
        "b/",
        "*/",
        "**/",
        "/foo",
        "/foo/",
        "/*",
        "/*/",
        "a/b",
        "a/b/",
        "/a/b",
        "b/*",
        "b/**",
        "**/foo",
    ),
    *(
        "**/b/",
        "a/**/c",
        "a/**",
        "/a/**/foo",
        "**/*.txt",
        "foo/**/",
        "/foo/**",
        "b/c/*.txt",
        "a/*/c",
        "**/**",
    ),
    *(
        "[a-c]",
        "[!a-c]*",
        "[^f]*",
        "b.[a-z]",
        "[[:alpha:]]",
        "x.l[o0]g",
        "[q].md",
        "\\[q].md",
        "foo\\",
        "fo\\o",
    ),
    *(
        "x y.txt",
        "x\\ y.txt",
        "\\#n",
        "#n",
        "\\!m",
        "*.log ",
        "foo\\ ",
        "*.gz",
        "*.tar.gz",
        "*r",
        "b.c\t",
        "//foo",
    ),
    *(
        "/",
        "a//b",
        "**foo",
        "foo**",
        "a**/b",
        "**/a/**/b",
        "*/foo",
        "*/*",
        "/**/foo",
        "a/b/c/../foo",
        "./foo",
        "",
    ),
]


def build_tree(root: Path, rng: random.Random) -> None:
    for directory in DIRECTORIES:
        (root / directory).mkdir(parents=True, exist_ok=True)
    for _ in range(30):
        path = root / rng.choice(["", *DIRECTORIES]) / rng.choice(NAMES)
        if not path.exists():
            path.write_text("")
    if not list(root.rglob("*.txt")):
        (root / "y.txt").write_text("")
    for directory in ["", *DIRECTORIES]:
        if directory == "" or rng.random() < 0.4:
            lines = [
                ("!" if rng.random() < 0.3 else "") + rng.choice(PATTERNS) for _ in range(rng.randint(1, 5))
            ]
            ending = rng.choice(["\n", "\n", "\r\n"])
            mark = rng.choice(["", "", "\ufeff"])
            (root / directory / ".gitignore").write_bytes((mark + ending.join(lines) + ending).encode())
    if rng.random() < 0.5:
        (root / ".git" / "info" / "exclude").write_text(rng.choice(PATTERNS) + "\n")


def git_lists(root: Path) -> set[str]:
    done = subprocess.run(
        ["git", "-c", "core.excludesFile=/dev/null", "ls-files", "-z", "-co", "--exclude-standard"],
        cwd=root,
        check=True,
        capture_output=True,
    )
    return {os.fsdecode(name) for name in done.stdout.split(b"\0") if name}


def walk_lists(root: Path, *, weaker: RuleList = NOTHING, stronger: RuleList = NOTHING) -> set[str]:
    exclude = root / ".git" / "info" / "exclude"
    repository = compile_rules(exclude.read_bytes()) if exclude.exists() else NOTHING
    found: set[str] = set()

    def walk(directory: Path, prefix: str, scope: Scope) -> None:
        own = directory / ".gitignore"
        if own.exists():
            scope = scope.with_rules(compile_rules(own.read_bytes()))
        for entry in os.scandir(directory):
            is_directory = entry.is_dir(follow_symlinks=False)
            if entry.name == ".git" or scope.ignored(entry.name, is_directory):
                continue
            if is_directory:
                walk(Path(entry.path), f"{prefix}{entry.name}/", scope.enter(entry.name))
            else:
                found.add(prefix + entry.name)

    walk(root, "", Scope.of(stronger, repository=repository, last=weaker))
    return found


@pytest.fixture
def template(tmp_path: Path) -> Path:
    """An empty repository to copy: starting one takes longer than everything else here."""
    root = tmp_path / "template"
    root.mkdir()
    subprocess.run(["git", "init", "-q", "."], cwd=root, check=True)
    for hook in (root / ".git" / "hooks").iterdir():
        hook.unlink()
    return root


def test_generated_trees_come_out_exactly_as_git_lists_them(template: Path) -> None:
    differences = []
    for seed in range(TREES):
        root = template.with_name(f"tree{seed}")
        subprocess.run(["cp", "-r", template, root], check=True)
        build_tree(root, random.Random(seed))
        expected, got = git_lists(root), walk_lists(root)
        if expected != got:
            differences.append((seed, sorted(expected - got), sorted(got - expected)))
    assert differences == []


def lists(tmp_path: Path, rules: str, *files: str, **layers: RuleList) -> set[str]:
    (tmp_path / ".gitignore").write_text(rules)
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    return walk_lists(tmp_path, **layers) - {".gitignore"}


def test_a_file_below_an_excluded_directory_cannot_be_included_again(tmp_path: Path) -> None:
    assert lists(tmp_path, "foo\n!foo/x\n", "foo/x", "y") == {"y"}


def test_a_file_below_a_directory_whose_content_is_excluded_can_be_included_again(tmp_path: Path) -> None:
    assert lists(tmp_path, "/foo/**\n!/foo/x\n", "foo/x", "foo/y") == {"foo/x"}


def test_two_stars_and_a_slash_leave_out_only_directories(tmp_path: Path) -> None:
    assert lists(tmp_path, "foo/**/\n", "foo/x", "foo/d/y") == {"foo/x"}


def test_a_question_mark_stands_for_one_byte(tmp_path: Path) -> None:
    assert lists(tmp_path, "caf?\n", "café", "cafe") == {"café"}


def test_the_applications_own_rules_overrule_the_repositorys(tmp_path: Path) -> None:
    defaults = compile_rules(APP_DEFAULTS)
    listed = lists(tmp_path, "!node_modules/\n", "node_modules/x.js", "src/a.py", stronger=defaults)
    assert listed == {"src/a.py"}


def test_a_weaker_layer_decides_only_where_the_stronger_is_silent(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("!keep.tmp\n")
    for name in ("keep.tmp", "drop.tmp"):
        (tmp_path / name).write_text("")
    assert walk_lists(tmp_path, weaker=compile_rules(b"*.tmp\n")) == {".gitignore", "keep.tmp"}


def test_a_rule_that_would_never_end_in_a_backtracking_matcher_ends_at_once() -> None:
    rules = compile_rules(b"*a*a*a*a*a*a*a*a*a*a*a*a*b\n")
    assert rules.verdict("a" * 250, "a" * 250, False) is None

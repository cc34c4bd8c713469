"""Ignore rules mean what they mean to git; git itself is the oracle."""

from __future__ import annotations

import os
import random
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from agents.rules.ignore import APP_DEFAULTS, RuleList, Scope, compile_rules
from tests.agents.ignore_trees import differences, empty_repository

NOTHING = RuleList()
TREES = 60


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


def test_generated_trees_come_out_exactly_as_git_lists_them(tmp_path: Path) -> None:
    """Other trees in every run; `python -m tests.benchmarks ignore` tries a thousand."""
    template = empty_repository(tmp_path)
    first = random.randrange(1_000_000)
    found = [line for seed in range(first, first + TREES) for line in differences(template, tmp_path, seed)]
    assert found == []


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


NAMES = st.sampled_from(["a", "a.py", "b.py", "build", "x.tar.gz", "é", "a b"])
LINES = st.sampled_from(
    ["*.py", "!a.py", "build/", "/a", "docs/*.py", "?", "*.gz", "*", "# a", "a b", "[ab].py"]
)


@given(
    names=st.sets(NAMES),
    own=st.lists(LINES, max_size=3),
    parent=st.lists(LINES, max_size=3),
    deep=st.booleans(),
)
def test_a_name_of_which_no_rule_speaks_is_never_left_out(
    names: set[str], own: list[str], parent: list[str], deep: bool
) -> None:
    outer = Scope.of(compile_rules("\n".join(parent).encode()), repository=RuleList(), last=RuleList())
    scope = (outer.enter("sub") if deep else outer).with_rules(compile_rules("\n".join(own).encode()))
    silent = names - scope.spoken_of(names)
    assert not [
        name for name in silent for is_directory in (False, True) if scope.ignored(name, is_directory)
    ]


def test_a_name_is_looked_up_once() -> None:
    rules = compile_rules(b"*.log\n")
    assert rules.spoken_of({"a.log", "a.txt"}) == {"a.log"}
    assert rules.spoken_of({"a.txt"}) == set()

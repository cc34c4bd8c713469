"""Where settings come from: flags, variables, the workspace's file, the user's file, built in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.errors import Failure
from agents.spec import OperatingMode, PermissionMode
from orchestrator.config import BUILT_IN, FILE, KEYS, LoadedSettings, load_settings


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    (tmp_path / "repo").mkdir()
    return tmp_path / "repo"


def write(folder: Path, text: str) -> Path:
    path = folder / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def load(
    home: Path, repo: Path | None, flags: dict[str, Any] | None = None, **variables: str
) -> LoadedSettings:
    return load_settings(flags or {}, {"HOME": str(home), **variables}, repo)


def test_without_any_source_everything_is_built_in(home: Path, repo: Path) -> None:
    loaded = load(home, repo)
    assert loaded.settings.permission_mode is PermissionMode.ASK
    assert loaded.settings.model is None
    assert loaded.settings.max_turns == 200
    assert set(loaded.sources.values()) == {BUILT_IN}
    assert loaded.warnings == ()
    assert set(loaded.sources) == {key.name for key in KEYS}


def test_a_flag_goes_before_a_variable_before_the_users_file(home: Path, repo: Path) -> None:
    path = write(home, 'model = "openai-chat:file"\n')
    assert load(home, repo).settings.model == "openai-chat:file"
    assert load(home, repo).sources["model"] == str(path)
    by_variable = load(home, repo, ORCHESTRATOR_MODEL="openai-chat:variable")
    assert by_variable.settings.model == "openai-chat:variable"
    assert by_variable.sources["model"] == "ORCHESTRATOR_MODEL"
    by_flag = load(home, repo, {"model": "openai-chat:flag"}, ORCHESTRATOR_MODEL="openai-chat:variable")
    assert by_flag.settings.model == "openai-chat:flag"
    assert by_flag.sources["model"] == "--model"


def test_flags_that_were_not_given_do_not_count(home: Path, repo: Path) -> None:
    write(home, 'mode = "plan"\nallow = ["Write"]\n')
    loaded = load(home, repo, {"mode": None, "allow": ()})
    assert loaded.settings.mode is OperatingMode.PLAN
    assert loaded.settings.allow == ("Write",)


def test_a_repositorys_file_tightens(home: Path, repo: Path) -> None:
    write(home, 'permission_mode = "auto"\nmax_delegates = 8\ndeny = ["Bash(rm *)"]\n')
    path = write(
        repo,
        'mode = "plan"\npermission_mode = "ask"\nmax_delegates = 2\npermission_timeout = 5\n'
        'deny = ["Write(secrets/**)"]\n',
    )
    loaded = load(home, repo)
    settings = loaded.settings
    assert settings.mode is OperatingMode.PLAN
    assert settings.permission_mode is PermissionMode.ASK
    assert (settings.max_delegates, settings.permission_timeout) == (2, 5.0)
    assert settings.deny == ("Bash(rm *)", "Write(secrets/**)")
    assert loaded.sources["mode"] == str(path)
    assert loaded.warnings == ()


@pytest.mark.parametrize(
    "line",
    [
        'model = "openai-chat:theirs"',
        'base_url = "http://theirs.example"',
        'allow = ["Bash"]',
        'add_dirs = ["/"]',
        'otlp_endpoint = "http://theirs.example"',
        'store = "/tmp/theirs"',
        'agent = "theirs"',
        'model_aliases = {fast = "openai-chat:theirs"}',
        'permission_mode = "auto"',
        'permission_mode = "accept-edits"',
        "max_turns = 100000",
        "max_depth = 3",
        "permission_timeout = 80000",
    ],
)
def test_a_repositorys_file_never_loosens_anything(home: Path, repo: Path, line: str) -> None:
    path = write(repo, line + "\n")
    loaded = load(home, repo)
    assert loaded.values == load(home, None).values
    (warning,) = loaded.warnings
    assert str(path) in warning
    assert "may only tighten" in warning


@given(
    base=st.sampled_from(["agent", "plan"]),
    own=st.sampled_from(["ask", "accept-edits", "auto"]),
    theirs=st.sampled_from(["ask", "accept-edits", "auto"]),
    limit=st.integers(1, 400),
)
def test_no_repository_can_reach_further_than_the_user(
    tmp_path_factory: pytest.TempPathFactory, base: str, own: str, theirs: str, limit: int
) -> None:
    root = tmp_path_factory.mktemp("any")
    write(root / "home", f'mode = "{base}"\npermission_mode = "{own}"\n')
    write(root / "repo", f'permission_mode = "{theirs}"\nmode = "agent"\nmax_turns = {limit}\n')
    settings = load(root / "home", root / "repo").settings
    assert settings.mode.value == base
    assert settings.permission_mode.reach <= PermissionMode(own).reach
    assert settings.max_turns == min(limit, 200)


def test_what_the_person_types_goes_before_a_repositorys_limit(home: Path, repo: Path) -> None:
    write(repo, "max_turns = 3\n")
    assert load(home, repo, {"max_turns": "50"}).settings.max_turns == 50


def test_an_unknown_key_is_ignored_with_a_suggestion(home: Path, repo: Path) -> None:
    path = write(home, 'modle = "openai-chat:x"\n')
    loaded = load(home, repo)
    assert loaded.settings.model is None
    assert loaded.warnings == (f"{path}: the unknown key `modle` is ignored; did you mean `model`?",)


def test_keys_may_be_spelled_with_dashes(home: Path, repo: Path) -> None:
    write(home, "max-delegates = 3\n")
    assert load(home, repo).settings.max_delegates == 3


def test_a_misspelled_variable_is_named_and_a_marker_is_not(home: Path, repo: Path) -> None:
    loaded = load(home, repo, ORCHESTRATOR_MODLE="x", ORCHESTRATOR_SESSION_ID="s", ORCHESTRATOR_OTHER="1")
    assert loaded.warnings == (
        "The variable ORCHESTRATOR_MODLE is ignored; did you mean ORCHESTRATOR_MODEL?",
    )


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("max_turns = 0", "max_turns"),
        ("max_turns = true", "max_turns"),
        ('max_turns = "many"', "max_turns"),
        ('permission_mode = "yolo"', "permission_mode"),
        ("permission_timeout = -1", "permission_timeout"),
        ('allow = "Write"', "allow"),
        ('deny = ["Bash("]', "deny"),
        ("model = 3", "model"),
        ("this is not toml", "not TOML"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_file_and_key(
    home: Path, repo: Path, text: str, named: str
) -> None:
    path = write(home, text + "\n")
    with pytest.raises(Failure) as raised:
        load(home, repo)
    assert raised.value.error.code == "INVALID_ARGUMENT"
    assert str(path) in raised.value.error.message
    assert named in raised.value.error.message


def test_a_repositorys_file_that_cannot_be_read_is_an_error_for_it_may_forbid_things(
    home: Path, repo: Path
) -> None:
    path = write(repo, "deny = [")
    with pytest.raises(Failure, match="not TOML") as raised:
        load(home, repo)
    assert str(path) in raised.value.error.message


def test_in_the_home_folder_itself_the_file_is_the_users(home: Path) -> None:
    write(home, 'model = "openai-chat:mine"\npermission_mode = "auto"\n')
    loaded = load(home, home)
    assert loaded.settings.model == "openai-chat:mine"
    assert loaded.settings.permission_mode is PermissionMode.AUTO
    assert loaded.warnings == ()


def test_lists_of_all_sources_are_joined_each_once(home: Path, repo: Path) -> None:
    write(home, 'allow = ["Write", "Bash(ls)"]\n')
    loaded = load(home, repo, {"allow": ("Edit", "Write")}, ORCHESTRATOR_ALLOW="Bash(git log *)\nEdit\n")
    assert loaded.settings.allow == ("Edit", "Write", "Bash(git log *)", "Bash(ls)")
    assert loaded.sources["allow"] == f"--allow, ORCHESTRATOR_ALLOW, {home / FILE}"


def test_paths_start_where_they_are_written(home: Path, repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home, 'store = "here.sqlite3"\nmodel = "script:demo.yaml"\n')
    monkeypatch.chdir(repo)
    assert load(home, repo).settings.store == home / FILE.parent / "here.sqlite3"
    assert load(home, repo).settings.model == f"script:{home / FILE.parent / 'demo.yaml'}"
    assert load(home, repo, {"store": "there"}).settings.store == repo / "there"
    assert load(home, repo, {"model": "script:s.json"}).settings.model == f"script:{repo / 's.json'}"


def test_a_configured_endpoint_counts_where_the_standard_variable_names_none(home: Path, repo: Path) -> None:
    write(home, 'otlp_endpoint = "http://localhost:4318"\n')
    assert load(home, repo).settings.environment["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://localhost:4318"
    given_ = load(home, repo, OTEL_EXPORTER_OTLP_ENDPOINT="http://collector")
    assert given_.settings.environment["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://collector"

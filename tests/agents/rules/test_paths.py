"""Where a spelling really leads, and which places are guarded."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.errors import ErrorCode, Failure
from agents.rules.guarded import DenyList, denied_name, guarded_names
from agents.rules.paths import (
    MAX_LINKS,
    MAX_PATH_BYTES,
    Ask,
    Fact,
    NodeKind,
    PathKind,
    Places,
    ResolvedPath,
    Root,
    Walked,
    absolute_spelling,
    begin,
    classify,
    contains,
    step,
)
from agents.rules.windows_paths import windows_contains

PLACES = Places(
    workspace="/w/repo",
    scratch="/w/data/scratch/s1",
    data_dir="/w/data",
    added=("/w/lib",),
    config_dirs=("/home/me/.config/orchestrator",),
    repository_dirs=("/w/meta",),
)
FILE, DIRECTORY, MISSING = Fact(NodeKind.FILE), Fact(NodeKind.DIRECTORY), Fact(NodeKind.MISSING)


def walk(absolute: str, tree: Mapping[str, Fact]) -> Walked:
    """Answer the walk from a model of a file system; what the model lacks is missing."""
    state = begin(absolute)
    while isinstance(state, Ask):
        state = step(state, tree.get(state.path, MISSING))
    return state


def link(target: str) -> Fact:
    return Fact(NodeKind.LINK, target)


def tree(*files: str, **_: str) -> dict[str, Fact]:
    found: dict[str, Fact] = {}
    for file in files:
        parts = file.strip("/").split("/")
        for end in range(1, len(parts)):
            found["/" + "/".join(parts[:end])] = DIRECTORY
        found["/" + "/".join(parts)] = FILE
    return found


def resolve(given: str, facts: Mapping[str, Fact], *, home: str = "/w/home") -> ResolvedPath:
    return classify(given, walk(absolute_spelling(given, start="/w/repo", home=home), facts), PLACES)


BASE = tree("/w/repo/src/a.py", "/w/repo-evil/s.txt", "/w/outside/s.txt", "/w/lib/l.py", "/w/home/s.txt")


# spellings


@pytest.mark.parametrize("spelling", ["", "a\0b", "x" * (MAX_PATH_BYTES + 1), "\ud800"])
def test_a_spelling_that_no_file_can_have_is_an_invalid_argument(spelling: str) -> None:
    with pytest.raises(Failure) as caught:
        resolve(spelling, BASE)
    assert caught.value.error.code is ErrorCode.INVALID_ARGUMENT


@pytest.mark.parametrize(
    "spelling", ["src/a.py", "./src/a.py", "src//a.py", "src/./a.py", "/w/repo/src/a.py", "src/x/../a.py"]
)
def test_spellings_of_one_file_are_one_path(spelling: str) -> None:
    path = resolve(spelling, BASE)
    assert (path.canonical, path.display, path.root) == ("/w/repo/src/a.py", "src/a.py", Root.WORKSPACE)


def test_a_trailing_slash_means_the_same_directory() -> None:
    assert resolve("src/", BASE).canonical == resolve("src", BASE).canonical == "/w/repo/src"


def test_a_tilde_is_the_users_home_and_never_a_folder_of_that_name() -> None:
    assert resolve("~/s.txt", BASE).canonical == "/w/home/s.txt"
    assert resolve("~", BASE).canonical == "/w/home"
    assert resolve("~backup", BASE).canonical == "/w/repo/~backup"


def test_the_home_of_somebody_else_is_no_folder_of_that_name_either() -> None:
    with pytest.raises(Failure, match=r"`\./~root/x\.txt`"):
        absolute_spelling("~root/x.txt", start="/w/repo", home="/w/home")
    assert resolve("./~root/x.txt", BASE).canonical == "/w/repo/~root/x.txt"


def test_a_tilde_without_a_known_home_is_refused() -> None:
    with pytest.raises(Failure, match="absolute path"):
        absolute_spelling("~/x", start="/w/repo", home=None)


# roots


@pytest.mark.parametrize(
    "spelling",
    [
        "/w/repo-evil/s.txt",
        "../repo-evil/s.txt",
        "src/../../repo-evil/s.txt",
        "/w/repo/../repo-evil/s.txt",
        "~/s.txt",
    ],
)
def test_a_sibling_that_shares_a_text_prefix_is_outside(spelling: str) -> None:
    path = resolve(spelling, BASE)
    assert path.root is Root.EXTERNAL
    assert path.display == path.canonical != "/w/repo/s.txt"


def test_an_added_directory_is_judged_as_workspace_and_shown_absolute() -> None:
    path = resolve("../lib/l.py", BASE)
    assert (path.root, path.display) == (Root.WORKSPACE, "/w/lib/l.py")


def test_scratch_is_a_root_of_its_own_inside_the_denied_data_directory() -> None:
    inside, beside = resolve("/w/data/scratch/s1/x", BASE), resolve("/w/data/scratch/s2/x", BASE)
    assert (inside.root, inside.denied) == (Root.SCRATCH, None)
    assert beside.root is Root.EXTERNAL
    assert beside.denied is not None


def test_containment_compares_components() -> None:
    assert contains("/w/repo", "/w/repo")
    assert contains("/w/repo", "/w/repo/x")
    assert not contains("/w/repo", "/w/repo-evil")
    assert not contains("/w/repo", "/w")
    assert contains("/", "/w")


# links


def test_a_file_behind_a_linked_folder_lies_where_the_link_leads() -> None:
    facts = {**BASE, "/w/repo/outbox": link("/w/outside")}
    path = resolve("outbox/new.txt", facts)
    assert (path.canonical, path.root, path.kind) == ("/w/outside/new.txt", Root.EXTERNAL, PathKind.MISSING)


def test_a_dangling_link_is_judged_by_its_target() -> None:
    facts = {**BASE, "/w/repo/notes.txt": link("/w/outside/notyet.txt")}
    path = resolve("notes.txt", facts)
    assert (path.canonical, path.root) == ("/w/outside/notyet.txt", Root.EXTERNAL)


def test_a_relative_link_starts_at_the_folder_it_lies_in() -> None:
    facts = {**BASE, "/w/repo/src/up": link("../../outside/s.txt"), "/w/repo/x": link("src")}
    assert resolve("src/up", facts).root is Root.EXTERNAL
    assert resolve("x/a.py", facts).display == "src/a.py"


def test_two_dots_after_a_link_leave_the_links_target() -> None:
    facts = {**BASE, "/w/repo/outbox": link("/w/outside")}
    assert resolve("outbox/../s.txt", facts).canonical == "/w/s.txt"


def test_two_dots_after_a_missing_name_lead_back() -> None:
    path = resolve("nothing/here/../../src/a.py", BASE)
    assert (path.canonical, path.kind) == ("/w/repo/src/a.py", PathKind.FILE)
    assert resolve("nothing/..", BASE).kind is PathKind.DIRECTORY


def test_a_loop_of_links_ends_as_an_invalid_argument() -> None:
    with pytest.raises(Failure) as caught:
        resolve("loop/x", {**BASE, "/w/repo/loop": link("loop")})
    assert caught.value.error.code is ErrorCode.INVALID_ARGUMENT


def test_as_many_links_as_the_kernel_follows_are_followed() -> None:
    chain = {f"/w/repo/l{n}": link(f"l{n + 1}") for n in range(MAX_LINKS)}
    assert (
        resolve("l0", {**BASE, **chain, f"/w/repo/l{MAX_LINKS}": FILE}).canonical == f"/w/repo/l{MAX_LINKS}"
    )


def test_below_a_plain_file_there_is_nothing() -> None:
    assert resolve("src/a.py/x", BASE).kind is PathKind.MISSING


# the deny list

DENIED = [
    *("server.pem", "a.key", "id_rsa", "id_rsa.bak", "id_ed25519", "x.p12", "x.pfx"),
    *(".env", ".env.local", "credentials.json", ".npmrc", ".netrc"),
    *("SERVER.PEM", ".Env", "ID_RSA", ".env.", ".env ", ".\u200denv", ".ENV.example"),
]
ALLOWED = [
    ".env.example",
    ".env.sample",
    ".env.template",
    "environment",
    "keys.py",
    "my.env.py",
    "env",
    "pem",
]


@pytest.mark.parametrize("name", DENIED)
def test_a_secret_is_denied_in_every_spelling(name: str) -> None:
    assert resolve(f"src/{name}", BASE).denied is not None


@pytest.mark.parametrize("name", ALLOWED)
def test_a_name_that_only_looks_like_a_secret_is_not_denied(name: str) -> None:
    assert resolve(f"src/{name}", BASE).denied is None


def test_what_lies_in_a_denied_folder_is_denied() -> None:
    assert resolve(".env/config", BASE).denied is not None


def test_a_link_is_denied_for_its_targets_name_and_for_its_own() -> None:
    facts = {
        **tree("/w/repo/.env", "/w/repo/plain"),
        "/w/repo/a": link(".env"),
        "/w/repo/b.pem": link("plain"),
    }
    assert resolve("a", facts).denied is not None
    assert resolve("b.pem", facts).denied is not None


def test_the_place_of_the_workspace_itself_condemns_nothing_in_it() -> None:
    places = Places(workspace="/w/x.key/repo", scratch="/s", data_dir="/d")
    path = classify("a", Walked("/w/x.key/repo/a", NodeKind.FILE), places)
    assert (path.denied, path.protected) == (None, None)


@pytest.mark.parametrize(
    "path", ["/proc/77/environ", "/proc/77/task/78/environ", "/proc/77/mem", "/proc/kcore"]
)
def test_memory_and_environment_of_processes_are_denied(path: str) -> None:
    assert resolve(path, {}).denied is not None


def test_a_process_root_is_judged_by_where_it_leads() -> None:
    facts = {**BASE, "/proc": DIRECTORY, "/proc/self": link("77"), "/proc/77": DIRECTORY}
    facts |= {"/proc/77/root": link("/"), "/proc/77/cwd": link("/w/repo")}
    assert resolve("/proc/self/root/w/outside/s.txt", facts).canonical == "/w/outside/s.txt"
    assert resolve("/proc/self/cwd/src/a.py", facts).root is Root.WORKSPACE


def test_a_descriptor_without_a_file_is_not_a_path() -> None:
    facts = {
        "/proc": DIRECTORY,
        "/proc/77": DIRECTORY,
        "/proc/77/fd": DIRECTORY,
        "/proc/77/fd/0": link("pipe:[9]"),
    }
    path = resolve("/proc/77/fd/0", facts)
    assert (path.kind, path.root) == (PathKind.OTHER, Root.EXTERNAL)


def test_a_device_is_denied() -> None:
    assert resolve("/dev/sda", {"/dev": DIRECTORY, "/dev/sda": Fact(NodeKind.DEVICE)}).denied is not None


def test_the_user_can_widen_and_narrow_the_list_but_lifting_never_folds() -> None:
    deny = DenyList(extra=("*.secret",), lifted=("test.pem",))
    assert denied_name("a.SECRET", deny) is not None
    assert denied_name("test.pem", deny) is None
    assert denied_name("TEST.pem", deny) is not None


GUARDED_PARTS = st.sampled_from(
    [
        "a",
        ".env",
        ".ENV",
        ".pem",
        "id_rsa",
        "x",
        ".",
        " ",
        ".git",
        ".gitignore",
        "\u200c",
        "\xe9",
        "credentials.json",
    ]
)


@given(
    names=st.lists(st.lists(GUARDED_PARTS, min_size=1, max_size=3).map("".join), max_size=6),
    extra=st.sampled_from([(), ("*x*",)]),
)
def test_many_names_at_once_are_denied_as_each_by_itself(names: list[str], extra: tuple[str, ...]) -> None:
    deny = DenyList(extra=extra)
    doubtful = guarded_names(names, deny)
    assert {name for name in names if denied_name(name, deny) is not None} <= doubtful
    assert {name for name in names if name.casefold() == ".git"} <= doubtful
    assert doubtful <= set(names)


def test_ordinary_names_need_no_closer_look() -> None:
    assert guarded_names(["main.py", "README", "environment.ts", ".editorconfig", "keys.txt"]) == set()


# protected paths

PROTECTED = [
    *(
        ".git/config",
        ".git/hooks/pre-commit",
        "sub/.git/config",
        ".git",
        ".GIT/config",
        ".Git/hooks/pre-commit",
    ),
    *(
        ".g\u200cit/config",
        "git~1/config",
        ".git./config",
        ".orchestrator/config.toml",
        ".agents/agents/x.md",
    ),
    *(
        ".claude/agents/x.md",
        ".mcp.json",
        "sub/.MCP.json",
        ".envrc",
        ".bashrc",
        "/w/home/.zshrc",
        "/etc/profile.d/x.sh",
    ),
    *("/home/me/.config/orchestrator/config.toml", "/w/meta/hooks/pre-commit", "/w/home/.config/git/config"),
]


@pytest.mark.parametrize("path", PROTECTED)
def test_what_runs_programs_or_frees_the_agent_is_protected(path: str) -> None:
    assert resolve(path, BASE).protected is not None


@pytest.mark.parametrize(
    "path", [".gitignore", ".github/workflows/x.yml", "git/config", "agents/x.md", "profile"]
)
def test_an_ordinary_file_is_not_protected(path: str) -> None:
    assert resolve(path, BASE).protected is None


def test_a_link_into_a_protected_folder_is_protected() -> None:
    facts = {**BASE, "/w/repo/innocent": link(".git/hooks")}
    assert resolve("innocent/pre-commit", facts).protected is not None


# Windows


@pytest.mark.parametrize(
    ("root", "path", "inside"),
    [
        ("C:\\repo", "c:\\repo\\a", True),
        ("C:\\repo", "C:/repo/a", True),
        ("C:\\repo", "C:\\repo", True),
        ("C:\\repo", "C:\\repo-evil\\a", False),
        ("C:\\repo", "C:\\repo\\..\\x", False),
        ("C:\\repo", "C:a", False),
        ("C:\\repo", "repo\\a", False),
        ("C:\\repo", "D:\\repo\\a", False),
        ("C:\\repo", "\\\\?\\C:\\repo\\a", True),
        ("C:\\repo", "C:\\REPO.\\a ", True),
        ("\\\\srv\\share", "\\\\srv\\share\\sub\\f", True),
        ("\\\\srv\\share", "\\\\SRV\\Share\\f", True),
        ("\\\\srv\\share", "\\\\srv\\share2\\f", False),
        ("\\\\srv\\share", "\\\\?\\UNC\\srv\\share\\f", True),
    ],
)
def test_windows_paths_are_compared_as_windows_compares_them(root: str, path: str, inside: bool) -> None:
    assert windows_contains(root, path) is inside


@pytest.mark.parametrize(
    "path", ["C:\\repo\\a.txt:stream", "\\\\.\\PhysicalDrive0", "C:\\repo\\nul", "C:\\repo\\COM1.txt"]
)
def test_windows_streams_and_devices_are_rejected(path: str) -> None:
    with pytest.raises(Failure) as caught:
        windows_contains("C:\\repo", path)
    assert caught.value.error.code is ErrorCode.INVALID_ARGUMENT


# against the kernel

NAMES = st.sampled_from(["a", "b", "c", "d", "l1", "l2", "l3", "in", "repo", "outside"])
PARTS = st.lists(st.one_of(NAMES, st.just(".."), st.just(".")), min_size=1, max_size=6)


@st.composite
def targets(draw: st.DrawFn) -> str:
    return draw(st.sampled_from(["", "ROOT/", "ROOT/repo/", "ROOT/outside/"])) + "/".join(draw(PARTS))


@settings(
    max_examples=150,
    deadline=None,
    # A machine that is busy with other things is slow in making examples; that says nothing of the walk.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    links=st.dictionaries(
        st.tuples(st.sampled_from(["repo", "repo/a", "outside"]), NAMES), targets(), max_size=6
    ),
    spelling=PARTS.map("/".join),
)
def test_the_walk_goes_exactly_where_the_kernel_goes(
    tmp_path_factory: pytest.TempPathFactory, links: dict[tuple[str, str], str], spelling: str
) -> None:
    root = Path(os.path.realpath(tmp_path_factory.mktemp("w")))
    for directory in ("repo/a/b", "repo/c", "outside/d"):
        (root / directory).mkdir(parents=True)
    for (directory, name), target in links.items():
        place = root / directory / name
        if not os.path.lexists(place):
            os.symlink(target.replace("ROOT", str(root)), place)

    def look(path: str) -> Fact:
        if os.path.islink(path):
            return Fact(NodeKind.LINK, os.readlink(path))
        if os.path.isdir(path):
            return DIRECTORY
        return FILE if os.path.lexists(path) else MISSING

    state = begin(f"{root}/repo/{spelling}")
    try:
        while isinstance(state, Ask):
            state = step(state, look(state.path))
    except Failure:
        assert not os.path.exists(f"{root}/repo/{spelling}")  # the kernel does not get anywhere either
        return
    expected = os.path.realpath(f"{root}/repo/{spelling}")
    assert state.canonical == expected
    assert contains(f"{root}/repo", state.canonical) is contains(f"{root}/repo", expected)


def test_the_rules_load_nothing_that_does_io() -> None:
    program = (
        "import sys, agents.rules.paths, agents.rules.guarded, agents.rules.ignore\n"
        "import agents.rules.windows_paths, agents.rules.binary\n"
        "heavy = ('trio', 'asyncio', 'sqlite3', 'opentelemetry.sdk', 're2', 'pathspec')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

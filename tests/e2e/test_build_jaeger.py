"""`.ci/build-jaeger` prints a path or nothing, and never fails a build that can do without."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent.parent / ".ci/build-jaeger"


def build(root: Path, path: str) -> subprocess.CompletedProcess[str]:
    env = {"HOME": str(root), "XDG_CACHE_HOME": str(root / "cache"), "PATH": path}
    return subprocess.run(
        ["/bin/bash", str(SCRIPT)], env=env, capture_output=True, text=True, timeout=20, check=False
    )


def tools(root: Path, **scripts: str) -> str:
    """A PATH with these programs of ours before what every system has, but without its Go."""
    folder = root / "tools"
    folder.mkdir()
    for name in ("bash", "sed", "mkdir", "mktemp", "rm", "mv", "tail", "nice"):
        found = next(place / name for place in (Path("/bin"), Path("/usr/bin")) if (place / name).exists())
        (folder / name).symlink_to(found)
    for name, text in scripts.items():
        (folder / name).write_text(f"#!/bin/bash\n{text}\n")
        (folder / name).chmod(0o755)
    return str(folder)


def test_a_binary_that_is_there_is_named_at_once(tmp_path: Path) -> None:
    binary = tmp_path / "cache/trio-orchestrator/jaeger/v1.76.0/jaeger"
    binary.parent.mkdir(parents=True)
    binary.write_text("")
    binary.chmod(0o755)
    done = build(tmp_path, tools(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{binary}\n", "")


@pytest.mark.parametrize(
    ("scripts", "why"),
    [
        ({}, "Go is not installed"),
        ({"go": "echo go1.24.3"}, "Go 1.24 is too old"),
        ({"go": '[ "$1" = env ] && echo go1.26.0 || { echo "no network"; exit 1; }'}, "no network"),
    ],
)
def test_where_it_cannot_be_built_the_reason_is_told_and_nothing_is_printed(
    tmp_path: Path, scripts: dict[str, str], why: str
) -> None:
    done = build(tmp_path, tools(tmp_path, **scripts))
    assert (done.returncode, done.stdout) == (0, "")
    assert why in done.stderr
    assert list((tmp_path / "cache").rglob("build.*")) == []


def test_what_was_built_is_kept_and_named(tmp_path: Path) -> None:
    go = 'case "$1" in env) echo go1.25.0 ;; build) printf "#!/bin/true\\n" > jaeger; chmod +x jaeger ;; esac'
    path = tools(tmp_path, go=go)
    (tmp_path / "tools/chmod").symlink_to("/bin/chmod")
    first, second = build(tmp_path, path), build(tmp_path, path)
    assert first.stdout == second.stdout
    assert Path(first.stdout.strip()).is_file()
    assert (first.returncode, second.stderr) == (0, "")

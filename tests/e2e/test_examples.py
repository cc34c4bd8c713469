"""Each example runs offline, leaves nothing behind, and says what its first line promises."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import environment

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
SAYS = {
    "delegated_run": ["fixer#1 starts", "fixer#2 completed", "completed: Both files", 'print("Goodbye")'],
    "resume_chain": ["fixer#1 failed: MUTATION_RETRY_BUDGET_EXHAUSTED", "failed → completed", "answer = 42"],
    "own_tool": ['{"value":{"cents":5400}}', "TOOL_DENIED", "denied: price_of (user)"],
}


def test_every_example_is_known_here_and_in_the_list() -> None:
    assert sorted(path.stem for path in EXAMPLES.glob("*.py")) == sorted(SAYS)
    readme = (EXAMPLES / "README.md").read_text()
    assert all(f"`{name}.py`" in readme for name in SAYS)


@pytest.mark.parametrize("name", SAYS)
def test_an_example_runs_and_says_what_it_shows(name: str, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "tmp").mkdir()
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py")],
        env=environment(tmp_path / "home", TMPDIR=str(tmp_path / "tmp")),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    for text in SAYS[name]:
        assert text in done.stdout
    assert list((tmp_path / "home").iterdir()) == []
    assert list((tmp_path / "tmp").iterdir()) == []

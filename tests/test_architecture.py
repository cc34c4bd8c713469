"""The walls of the house: imports go one way, pure modules stay pure, heavy libraries stay in their rooms."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("telemetry", "agents", "orchestrator")
MODULES = sorted(
    path
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
    if "demo/project" not in path.as_posix()
)
PURE = [
    "telemetry.attributes",
    "telemetry.records",
    "telemetry.content",
    "telemetry.facts",
    "telemetry.tree",
    "telemetry.check",
    "agents.messages",
    "agents.results",
    "agents.requests",
    "agents.errors",
    "agents.events",
    "agents.outcome",
    "agents.steps",
    "agents.spec",
    "agents.guidance",
    "agents.models.base",
    "agents.models.openai_chat",
    "agents.models.retry",
    "agents.models.sse",
    "orchestrator.task",
    "orchestrator.settlement",
    "orchestrator.reports",
    "orchestrator.remains",
    "orchestrator.resume",
    "orchestrator.trace_view",
    "orchestrator.preflight",
    "orchestrator.store.codec",
    "orchestrator.store.holders",
    "orchestrator.store.mail",
    "orchestrator.store.projection",
    "orchestrator.store.schema",
    *(f"agents.rules.{path.stem}" for path in sorted((ROOT / "agents/rules").glob("*.py"))),
]
HEAVY = ("trio", "asyncio", "sqlite3", "aiosqlite", "opentelemetry.sdk")
LAZY_ROOTS = frozenset(
    {
        "re2",
        "tree_sitter",
        "tree_sitter_bash",
        "markdown_it",
        "yaml",
        "rich",
        "pathspec",
        "httpcore2",
        "truststore",
        "ssl",
    }
)
"""Heavy dependencies that may be imported when they are first needed."""


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> Iterator[tuple[str, ast.stmt, bool]]:
    """Every imported module, the statement, and whether it stands inside a function."""
    tree = ast.parse(path.read_text())
    inside = {
        id(inner)
        for outer in ast.walk(tree)
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(outer)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node, id(node) in inside
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, node, id(node) in inside


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_go_from_orchestrator_to_agents_to_telemetry_and_never_back(path: Path) -> None:
    own = PACKAGES.index(path.relative_to(ROOT).parts[0])
    above = PACKAGES[own + 1 :]
    assert [module for module, _, _ in imports(path) if module.split(".")[0] in above] == []


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_import_of_ours_hides_in_a_function_or_behind_type_checking(path: Path) -> None:
    hidden = [m for m, _, inside in imports(path) if inside and m.split(".")[0] in PACKAGES]
    if path.is_relative_to(ROOT / "orchestrator/cli"):
        hidden = []  # a verb is imported when it is chosen: start-up must stay fast
    assert hidden == []
    assert "TYPE_CHECKING" not in path.read_text()


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_only_heavy_dependencies_are_imported_inside_functions(path: Path) -> None:
    if path.is_relative_to(ROOT / "orchestrator/cli"):
        return
    late = {m.split(".")[0] for m, _, inside in imports(path) if inside}
    allowed = LAZY_ROOTS | ({"opentelemetry"} if name_of(path).startswith("telemetry.") else set())
    assert late <= allowed


def test_the_otel_sdk_stays_in_the_export_modules() -> None:
    users = {name_of(p) for p in MODULES for m, _, _ in imports(p) if m.startswith("opentelemetry.sdk")}
    assert users <= {"telemetry.export", "telemetry.metrics"}


def test_asyncio_stays_in_the_stores_host() -> None:
    users = {name_of(p) for p in MODULES for m, _, _ in imports(p) if m.split(".")[0] == "asyncio"}
    assert users <= {"orchestrator.store.asyncio_host", "orchestrator.aio"}


def test_only_the_gate_makes_a_permit() -> None:
    makers = {name_of(path) for path in MODULES if "Permit._create" in path.read_text()}
    assert makers == {"agents.gate"}


def test_marked_modules_are_pure() -> None:
    """Importing one loads none of the libraries that do I/O. One process for all: each is checked alone."""
    program = (
        "import importlib, sys\n"
        f"heavy = {HEAVY!r}\n"
        f"for name in {PURE!r}:\n"
        "    before = set(sys.modules)\n"
        "    importlib.import_module(name)\n"
        "    loaded = [m for m in heavy if m in sys.modules and m not in before]\n"
        "    if loaded: print(name, loaded)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    assert done.stdout == ""

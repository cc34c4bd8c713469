"""`check`: what could still ask, and what is wrong with agents, tools, rules and models, before a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import click
import trio
from rich.cells import cell_len

from agents.definitions import Definitions
from agents.errors import Failure
from agents.models.catalog import open_models
from agents.rules.permission_rules import Rule, misnamed
from agents.rules.permissions import effective_mode
from agents.rules.preview import one_line, visible
from agents.spec import AgentSpec, OperatingMode
from agents.tools.registry import native_tools
from orchestrator.assembly import PLAN_TOOLS, TASK_FAMILY
from orchestrator.cli.leaving import Leave, Status
from orchestrator.cli.listing import at_home, say, say_json, table
from orchestrator.cli.options import environment, flags_of, session_options, workspace_of
from orchestrator.cli.wrapping import all_wrapped, terminal_width, wrapped
from orchestrator.config import LoadedSettings, load_settings
from orchestrator.preflight import AgentFacts, Finding, preflight
from orchestrator.premises import find_definitions, main_agent, require_directories, workspace_for
from orchestrator.session import wider_definitions
from orchestrator.settings import Settings


@attrs.frozen
class Trouble:
    """One thing that is wrong."""

    severity: str
    """`error`: something will not run; `warning`: something is left out or narrowed."""
    where: str
    message: str


@attrs.frozen
class Report:
    """What a check found."""

    agents: tuple[AgentFacts, ...]
    findings: tuple[Finding, ...]
    troubles: tuple[Trouble, ...]

    def fails(self, headless: bool) -> bool:
        """Whether something will not run, or (in headless use) would hang or be denied and need not."""
        broken = any(trouble.severity == "error" for trouble in self.troubles)
        return broken or (headless and any(finding.blocks for finding in self.findings))


@click.command("check")
@session_options
@click.option("--headless", "unattended", is_flag=True, help="Fail (1) if anything would need an answer.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, with the calls that run as well.")
def check(unattended: bool, as_json: bool, **given: Any) -> None:
    """Say which calls could still ask with these options, and what is wrong with agents and models.

    Nothing is run and no model is asked. Calls that ask whatever is configured (protected places, command
    lines that cannot be judged) are told and do not fail a check: no option answers them in advance.
    """
    loaded = load_settings(flags_of(given), environment(), workspace_of(given["workspace"]))
    headless = unattended or bool(given["headless"])
    report = trio.run(examine, loaded)
    if as_json:
        say_json([_facts(report, headless)])
    else:
        say(_drawn(report, headless))
    if report.fails(headless):
        raise Leave(Status.FAILED)


async def examine(loaded: LoadedSettings) -> Report:
    """Read definitions and rules, resolve models, and put the representative calls to the decision."""
    settings = loaded.settings
    require_directories(settings)
    found = find_definitions(settings, tuple(native_tools()))
    specs = _chosen(settings, found)
    workspace = workspace_for(settings, "any-session")
    agents = tuple(_agent(spec, settings, main=index == 0) for index, spec in enumerate(specs))
    findings = preflight(
        agents,
        places=workspace.places,
        home=str(settings.home),
        mode=settings.mode,
        allow=tuple(Rule.parse(rule) for rule in settings.allow),
        deny=tuple(Rule.parse(rule) for rule in settings.deny),
    )
    troubles = (
        *(Trouble("warning", "configuration", text) for text in loaded.warnings),
        *(Trouble(one.severity, one.path, one.message) for one in found.diagnostics),
        *(
            Trouble("warning", "definitions", text)
            for text in wider_definitions(specs, settings.permission_mode)
        ),
        *(
            Trouble("warning", "permission rules", text)
            for text in misnamed((*settings.allow, *settings.deny))
        ),
        *(_without_tools(agents)),
        *(await _models(settings, specs)),
    )
    return Report(agents, findings, troubles)


def _chosen(settings: Settings, found: Definitions) -> Sequence[AgentSpec]:
    """The main agent first, then the delegates there are."""
    main = main_agent(settings, found.specs)
    delegates = found.specs.values() if settings.mode is OperatingMode.AGENT else ()
    return (main, *(spec for spec in delegates if spec is not main))


def _agent(spec: AgentSpec, settings: Settings, *, main: bool) -> AgentFacts:
    tools: Iterable[str] = [tool for tool in spec.tools if tool not in TASK_FAMILY]
    if settings.mode is OperatingMode.PLAN:
        tools = [tool for tool in tools if tool in PLAN_TOOLS]
    elif main or "Task" in spec.tools:
        tools = [*tools, *TASK_FAMILY]
    mode = effective_mode(settings.permission_mode, spec.permission_mode)
    return AgentFacts(spec.name, tuple(tools), mode, spec.permission_mode)


def _without_tools(agents: Iterable[AgentFacts]) -> list[Trouble]:
    return [
        Trouble(
            "error", agent.name, "The agent would have no tool at all in this mode. Give it some, or drop it."
        )
        for agent in agents
        if not agent.tools
    ]


async def _models(settings: Settings, specs: Sequence[AgentSpec]) -> list[Trouble]:
    """Every model that would be asked, resolved; what cannot be is an error of its agent."""
    troubles: list[Trouble] = []
    async with open_models(settings.environment, base_url=settings.base_url) as models:
        for index, spec in enumerate(specs):
            name = settings.model if index == 0 else spec.model
            if name is None and index > 0:
                continue  # inherited: the main agent's line tells it
            try:
                models.resolve(name)
            except Failure as failed:
                troubles.append(Trouble("error", spec.name, f"{failed.error.code}: {failed.error.message}"))
    return troubles


# shown


def _facts(report: Report, headless: bool) -> dict[str, Any]:
    return {
        "ok": not report.fails(headless),
        "headless": headless,
        "agents": [
            {"name": agent.name, "permissionMode": agent.permission_mode, "tools": agent.tools}
            for agent in report.agents
        ],
        "calls": [
            {**attrs.asdict(finding), "blocks": headless and finding.blocks} for finding in report.findings
        ],
        "problems": [attrs.asdict(trouble) for trouble in report.troubles],
    }


def _drawn(report: Report, headless: bool) -> list[str]:
    lines: list[str] = []
    for agent in report.agents:
        head = f"{agent.name} · {agent.permission_mode} · {', '.join(agent.tools) or 'no tools'}"
        lines += wrapped(head, terminal_width())
        lines += [*_calls([finding for finding in report.findings if finding.agent == agent.name]), ""]
    lines += _always(report.findings)
    troubles = (visible(f"{one.severity}: {at_home(one.where)}: {one.message}") for one in report.troubles)
    lines += all_wrapped(troubles, terminal_width())
    asking = sum(finding.blocks for finding in report.findings)
    what = "would be denied or wait for an answer" if headless else "could ask"
    lines += [f"{asking} classes of calls {what}." if asking else f"No class of calls {what}."]
    return lines


def _calls(findings: Sequence[Finding]) -> list[str]:
    told = [finding for finding in findings if finding.verdict == "denied" or finding.blocks]
    if not told:
        return ["  nothing asks"]
    rows = [
        (
            f"  {finding.verdict}",
            finding.tool,
            finding.place,
            finding.by,
            " | ".join(finding.remedies) or "-",
            ", ".join(finding.partly),
        )
        for finding in told
    ]
    lines = table(("  CALL", "TOOL", "WHERE", "BY", "ANSWERED BY", "BUT"), rows)
    width = terminal_width()
    if width is None or max(map(cell_len, lines)) <= width:
        return lines
    return [line for row in rows for line in wrapped(_as_sentence(*row), width, hang=10)]


def _as_sentence(verdict: str, tool: str, place: str, by: str, remedies: str, partly: str) -> str:
    """One class of calls where a terminal is too narrow for columns."""
    but = f" · but: {partly}" if partly else ""
    answered = f" · answered by {remedies}" if remedies != "-" else ""
    return one_line(f"{verdict}  {tool} {place} ({by}){answered}{but}")


def _always(findings: Sequence[Finding]) -> list[str]:
    """What asks whatever is configured, once for all agents."""
    told = dict.fromkeys(f"  {one.tool}: {one.place}" for one in findings if one.always)
    return ["In every mode these ask, and no option answers them in advance:", *told, ""] if told else []

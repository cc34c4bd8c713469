"""The options that `run` and `resume` share, and what the spellings of other tools mean here."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from orchestrator.cli.missing import unavailable

F = TypeVar("F", bound=Callable[..., Any])

MODES_ELSEWHERE = {"default": "ask", "acceptEdits": "accept-edits"}
"""Claude Code's names of permission modes that mean the same here. Its `plan` is our `--mode plan`."""
FORMATS = ("text", "json", "stream-json")

SESSION_OPTIONS = (
    click.option("-C", "--workspace", metavar="DIR", help="Where to work. Default: the current directory."),
    click.option("--model", metavar="PROVIDER:NAME", help="openai-chat:NAME or script:FILE."),
    click.option("--base-url", metavar="URL", help="The model's server, for every compatible one."),
    click.option("--agent", metavar="NAME", help="The definition that plays the main agent."),
    click.option(
        "--mode", type=click.Choice(["agent", "plan"]), help="plan: nothing is edited or delegated."
    ),
    click.option(
        "--permission-mode",
        type=click.Choice(["ask", "accept-edits", "auto", *MODES_ELSEWHERE, "plan"]),
        help="How calls are approved. auto: without asking, but for deny rules and protected paths. "
        "default = ask, acceptEdits = accept-edits, plan = --mode plan.",
    ),
    click.option(
        "--permission-prompts",
        type=click.Choice(["terminal", "inbox", "none"]),
        help="Where to ask. Default: terminal if there is one and the output is text, else none: what would "
        "ask is denied. inbox: wait for `orchestrator approve` or `deny`.",
    ),
    click.option("--allow", metavar="RULE", multiple=True, help='For example "Bash(git status)" or Write.'),
    click.option(
        "--allowedTools", "allowed_tools", metavar="RULES", multiple=True, help="Several --allow at once."
    ),
    click.option("--deny", metavar="RULE", multiple=True, help="Stands above everything that allows."),
    click.option("--add-dir", "add_dirs", metavar="DIR", multiple=True, help="A further folder to work in."),
    click.option("--max-turns", metavar="N", help="Model turns of the main agent."),
    click.option("--max-delegates", metavar="N", help="Delegates that run at once."),
    click.option("--permission-timeout", metavar="SECONDS", help="How long a request stays open."),
    click.option(
        "--output-format",
        type=click.Choice(FORMATS),
        default="text",
        help="json: one object at the end. stream-json: one event per line as it happens.",
    ),
    click.option("--store", metavar="PATH", help="The store's file."),
    click.option("--trace-file", metavar="PATH", help="Append spans as OTLP-JSON lines."),
    click.option(
        "--trace-services", type=click.Choice(["agents", "one"]), help="one: every span in one service."
    ),
    click.option("-p", "--print", "headless", is_flag=True, help="Ask nobody: what would ask is denied."),
    click.option("--sandbox", is_flag=True, hidden=True),
)


def session_options(function: F) -> F:
    """Every shared option, in the order in which the help lists them."""
    for option in reversed(SESSION_OPTIONS):
        function = option(function)
    return function


def store_options(function: F) -> F:
    """The options of verbs that only read the store."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="One JSON object per line."),
        click.option("--store", metavar="PATH", help="The store's file."),
    ):
        function = option(function)
    return function


def flags_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The command line's values by the names of the settings.

    Ends the command for what is not in this version.
    """
    if given.get("sandbox"):
        raise unavailable("--sandbox", "Start the command in a container of your own instead.")
    flags = {
        name: given.get(name)
        for name in (
            "model",
            "base_url",
            "agent",
            "mode",
            "permission_mode",
            "permission_prompts",
            "deny",
            "add_dirs",
            "max_turns",
            "max_delegates",
            "permission_timeout",
            "store",
            "trace_file",
            "trace_services",
        )
    }
    flags["allow"] = (*given.get("allow", ()), *split_rules(given.get("allowed_tools", ())))
    mode = flags["permission_mode"]
    if mode == "plan":
        flags["permission_mode"], flags["mode"] = None, "plan"
    elif mode is not None:
        flags["permission_mode"] = MODES_ELSEWHERE.get(mode, mode)
    if given.get("headless"):
        flags["permission_prompts"] = flags["permission_prompts"] or "none"
    return flags


def split_rules(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Rules separated by commas or blanks outside parentheses, as in `Read,Bash(git log *) Edit`."""
    rules: list[str] = []
    for text in texts:
        depth, current = 0, ""
        for char in text:
            depth += (char == "(") - (char == ")" and depth > 0)
            if depth == 0 and char in ", \t\n":
                rules.append(current)
                current = ""
            else:
                current += char
        rules.append(current)
    return tuple(rule for rule in rules if rule.strip())


def environment() -> dict[str, str]:
    return dict(os.environ)


def workspace_of(given: str | None) -> Path:
    """The folder named with -C, else the current one."""
    return Path(given or ".").expanduser().absolute()

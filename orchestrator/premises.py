"""What a session's settings stand for: its workspace, its definitions, its main agent.

One place, so that a run, `check`, `agents` and `rollback` cannot disagree.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from agents.definitions import Definitions, load_definitions
from agents.errors import ErrorCode, failure
from agents.guidance import MAIN_AGENT
from agents.rules.guarded import DenyList
from agents.spec import AgentSpec
from agents.workspace import Workspace
from orchestrator.settings import Settings


def require_directories(settings: Settings) -> None:
    """Raises `Failure` INVALID_ARGUMENT where the workspace or an added directory cannot be used."""
    try:
        str(settings.workspace).encode("utf-8")
    except UnicodeEncodeError:
        raise failure(
            ErrorCode.INVALID_ARGUMENT,
            f"The path of the workspace {os.fsencode(settings.workspace)!r} is not UTF-8, so it could not be "
            "stored for a resume. Rename the directory, or work through a link with another name.",
        ) from None
    if not settings.workspace.is_dir():
        raise failure(
            ErrorCode.INVALID_ARGUMENT,
            f"The workspace {settings.workspace} is not a directory. Name an existing one with -C.",
        )
    for added in settings.add_dirs:
        if not added.is_dir():
            raise failure(
                ErrorCode.INVALID_ARGUMENT, f"--add-dir {added} is not a directory. Name an existing one."
            )


def workspace_for(settings: Settings, session_id: str) -> Workspace:
    """The roots of one session, with the user's deny list."""
    return Workspace(
        settings.workspace,
        scratch=settings.data_dir / "scratch" / session_id,
        data_dir=settings.data_dir,
        added=settings.add_dirs,
        home=settings.home,
        config_dirs=(settings.home / ".orchestrator",),
        deny=DenyList(extra=settings.denied_names, lifted=settings.lifted_names),
    )


def find_definitions(settings: Settings, known_tools: Sequence[str]) -> Definitions:
    """Every definition that exists now for this workspace and this user. Blocking file reads."""
    return load_definitions(
        home=settings.home,
        workspace=settings.workspace,
        model_aliases=settings.model_aliases,
        known_tools=known_tools,
        nesting=settings.max_depth > 1,
    )


def main_agent(settings: Settings, specs: Mapping[str, AgentSpec]) -> AgentSpec:
    """The definition that plays the main agent. Raises `Failure` AGENT_UNKNOWN."""
    if settings.agent == MAIN_AGENT.name:
        return MAIN_AGENT
    if settings.agent not in specs:
        known = ", ".join([MAIN_AGENT.name, *specs])
        raise failure(ErrorCode.AGENT_UNKNOWN, f"There is no agent {settings.agent!r}. Use one of: {known}.")
    return specs[settings.agent]

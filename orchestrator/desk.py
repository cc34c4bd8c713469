"""`Desk`: turns what somebody asks to be delegated into an `Order`, or into the error that says why not."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from agents.errors import ErrorCode, Failure, ToolError
from agents.models.base import Model
from agents.models.catalog import Models
from agents.rules.transcripts import after_overflows
from agents.spec import AgentSpec
from orchestrator.crew import Crew, Order, Run
from orchestrator.store.base import Store
from orchestrator.task import RESUMABLE_BY_MODEL, RUNNING


@attrs.define(eq=False)
class Desk:
    """Knows the definitions, the models and what earlier runs left in the store."""

    session_id: str
    specs: Mapping[str, AgentSpec]
    models: Models
    main_model: Model
    store: Store
    crew: Crew
    max_depth: int

    async def order(
        self, *, agent: str, prompt: str, description: str, model: str | None, depth: int
    ) -> Order | ToolError:
        """A new chain."""
        if depth > self.max_depth:
            return ToolError(
                code=ErrorCode.DELEGATION_DEPTH,
                message=f"Delegates may be nested {self.max_depth} deep here. Use your own tools for this.",
                details={"maxDepth": self.max_depth},
            )
        spec = self.specs.get(agent)
        if spec is None:
            return self._unknown_agent(agent)
        chosen = self._model(model or spec.model)
        if isinstance(chosen, ToolError):
            return chosen
        return Order(spec=spec, model=chosen, prompt=prompt, description=description)

    async def continuation(
        self, run: Run, *, agent: str | None, prompt: str, description: str, by_person: bool
    ) -> Order | ToolError:
        """The next run of `run`'s chain. `run` is the chain's last one.

        What that one died with before it was told goes in front of `prompt`.
        """
        refusal = _refusal(run, agent, by_person)
        if refusal is not None:
            return refusal
        spec = self.specs.get(run.agent_name)
        if spec is None:
            return self._unknown_agent(run.agent_name)
        row = await self.store.task(run.task_id)
        runs = self.crew.chain(run.chain_id)
        history = after_overflows(
            await self.store.messages(self.session_id, [earlier.task_id for earlier in runs]),
            sum(_overflowed(earlier) for earlier in runs),
        )
        if by_person and not history:
            return await self.restart(run, prompt)
        if row is None or not history:
            return ToolError(
                code=ErrorCode.TASK_NOT_RESUMABLE,
                message=f"{run.label} has no stored conversation to continue. Start a new task instead.",
            )
        chosen = self._model(row.model)
        if isinstance(chosen, ToolError):
            return chosen
        unsaid = "" if await self.store.messages(self.session_id, [run.task_id]) else row.prompt
        return Order(
            spec=spec,
            model=chosen,
            prompt=continuation_prompt(run, "\n\n".join(part for part in (unsaid, prompt) if part)),
            description=description or run.description,
            history=history,
            continues=run,
        )

    async def restart(self, run: Run, prompt: str) -> Order | ToolError:
        """The next run of a chain whose model has never answered: from its brief again."""
        spec = self.specs.get(run.agent_name)
        if spec is None:
            return self._unknown_agent(run.agent_name)
        row = await self.store.task(run.task_id)
        assert row is not None
        chosen = self._model(row.model)
        if isinstance(chosen, ToolError):
            return chosen
        brief = "\n\n".join(part for part in (row.prompt, prompt) if part)
        return Order(spec=spec, model=chosen, prompt=brief, description=run.description, continues=run)

    def _model(self, name: str | None) -> Model | ToolError:
        if name is None or name == self.main_model.name:
            return self.main_model
        try:
            return self.models.resolve(name)
        except Failure as failed:
            return ToolError(
                code=ErrorCode.MODEL_UNRESOLVED,
                message=f"The model {name!r} cannot be used: {failed.error.message}",
                details={"model": name},
            )

    def _unknown_agent(self, name: str) -> ToolError:
        return ToolError(
            code=ErrorCode.AGENT_UNKNOWN,
            message=f"There is no delegate {name!r}. Use one of: {', '.join(self.specs) or '(none)'}.",
            details={"known": list(self.specs)},
        )


def _overflowed(run: Run) -> bool:
    error = None if run.result is None else run.result.error
    return error is not None and error.code is ErrorCode.CONTEXT_OVERFLOW


def _refusal(run: Run, agent: str | None, by_person: bool) -> ToolError | None:
    if run.status == RUNNING:
        return ToolError(
            code=ErrorCode.TASK_RUNNING,
            message=f"{run.label} still runs. Wait for it (TaskWait) or end it (TaskStop), then resume it.",
            retriable=True,
        )
    if agent is not None and agent != run.agent_name:
        return ToolError(
            code=ErrorCode.INVALID_ARGUMENT,
            message=f"{run.label} is a conversation of {run.agent_name!r}, not of {agent!r}. Resume it with "
            f"subagent_type {run.agent_name!r}, or start a new task.",
        )
    if not by_person and run.status not in RESUMABLE_BY_MODEL:
        return ToolError(
            code=ErrorCode.TASK_NOT_RESUMABLE,
            message=f"{run.label} was {run.status}: only a person can resume it. Start a new task or report it.",
        )
    return None


def continuation_prompt(run: Run, prompt: str) -> str:
    """The first message of a continued run: how the previous one ended, then what to do now."""
    return "\n\n".join([how_it_ended(run), prompt or "Continue the task from where it stands."])


def how_it_ended(run: Run) -> str:
    """So that the agent does not repeat what ended the run before."""
    result = run.result
    if result is None or result.error is None:
        return f"[Your previous run of this task ended: {run.status}.]"
    recovery = result.error.details.get("recovery", "")
    return (
        f"[Your previous run of this task ended: {result.status}, {result.error.code.value}: "
        f"{result.error.message}{'' if recovery in result.error.message else f' {recovery}'} Your counters "
        f"start at zero; do not repeat what ended it. Files may have changed since: read before you edit.]"
    )

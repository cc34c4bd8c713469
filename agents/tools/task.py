"""Task, TaskWait, TaskList, TaskStop: delegation as the model sees it. The work is the `Delegator`'s."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeVar

import msgspec

from agents.errors import ErrorCode, Failure, ToolError, failure
from agents.permit import Permit
from agents.ports import Delegator
from agents.results import TaskStarted
from agents.rules.paths import ResolvedPath
from agents.tools.base import CallGroup, Preview, Risk, Target, ToolContext, ToolOutput

DEFAULT_WAIT_SECONDS = 600
MAX_WAIT_SECONDS = 900

AnswerT = TypeVar("AnswerT", bound=msgspec.Struct)

Text = Annotated[str, msgspec.Meta(min_length=1)]


class TaskInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`subagent_type` keeps the spelling that models know."""

    subagent_type: Annotated[
        str, msgspec.Meta(min_length=1, description="Name of the delegate's definition.")
    ]
    prompt: Annotated[
        str, msgspec.Meta(min_length=1, description="The whole task: the delegate sees nothing else.")
    ]
    description: Annotated[str, msgspec.Meta(max_length=200, description="3-8 words for people.")] = ""
    model: Annotated[str | None, msgspec.Meta(description="`provider:name`; omit to inherit.")] = None
    resume: Annotated[
        str | None, msgspec.Meta(description="A task id: continue that delegate's conversation.")
    ] = None


class TaskWaitInput(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    task_ids: tuple[Text, ...] | None = None
    mode: Literal["all", "any"] = "all"
    min_completed: Annotated[int, msgspec.Meta(ge=1)] | None = None
    timeout_seconds: Annotated[float, msgspec.Meta(gt=0, le=MAX_WAIT_SECONDS)] = DEFAULT_WAIT_SECONDS


class TaskListInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class TaskStopInput(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    task_ids: tuple[Text, ...] | None = None


class _FamilyTool:
    """What the four have in common: low risk, no path, nothing to check before."""

    name: ClassVar[str]
    description: ClassVar[str]
    input: ClassVar[type[msgspec.Struct]]
    risk: ClassVar[Risk] = "low"
    group: ClassVar[CallGroup] = CallGroup.ALONE
    timeout_seconds: ClassVar[float | None] = None

    def targets(self, arguments: Any) -> tuple[Target, ...]:
        return ()

    async def check(
        self, arguments: Any, paths: tuple[ResolvedPath, ...], context: ToolContext
    ) -> Preview | None:
        return None


class TaskTool(_FamilyTool):
    name = "Task"
    description = (
        "Start a delegate in the background and return its task id at once; several Task calls of one "
        "batch run side by side. The delegate sees only `prompt`, works in the same workspace, and ends with a "
        "report. Read its result with TaskWait. At most 10 delegates run at once. With `resume` (a task id) the "
        "delegate's earlier conversation goes on with the new prompt."
    )
    input = TaskInput
    group = CallGroup.TOGETHER

    async def run(self, arguments: TaskInput, permit: Permit, context: ToolContext) -> ToolOutput:
        started = await _delegator(context).start(
            agent=arguments.subagent_type,
            prompt=arguments.prompt,
            description=arguments.description,
            model=arguments.model,
            resume=arguments.resume,
            call_id=context.call_id,
            span=context.span,
        )
        return ToolOutput(_result(started), keep_span_open=isinstance(started, TaskStarted))


class TaskWaitTool(_FamilyTool):
    name = "TaskWait"
    description = (
        f"Wait for delegates and return their results: status, error code, report, files changed. `mode: any` "
        f"returns with the first, `minCompleted: n` with n. Default timeout {DEFAULT_WAIT_SECONDS} s, at most "
        f"{MAX_WAIT_SECONDS} s; a timeout is not an error: it returns what is there and the live status of the "
        f"rest. Without `taskIds` it waits for all that run and returns what you have not been given. A settled "
        f"task can be read again by its id. Judge each result by its `status`, never by its prose."
    )
    input = TaskWaitInput

    async def run(self, arguments: TaskWaitInput, permit: Permit, context: ToolContext) -> ToolOutput:
        waited = await _delegator(context).wait(
            arguments.task_ids,
            mode=arguments.mode,
            min_completed=arguments.min_completed,
            timeout_seconds=arguments.timeout_seconds,
        )
        if isinstance(waited, ToolError):
            raise Failure(waited)
        delivered = tuple(result.task_id for result in waited.result.results)
        return ToolOutput(waited.result, delivers=delivered, ended_ns=waited.ended_ns)


class TaskListTool(_FamilyTool):
    name = "TaskList"
    description = (
        "List every task of this session with status, elapsed time, turns, tool calls, the last tool, and whether "
        "it waits for a permission."
    )
    input = TaskListInput
    group = CallGroup.TOGETHER

    async def run(self, arguments: TaskListInput, permit: Permit, context: ToolContext) -> ToolOutput:
        return ToolOutput(await _delegator(context).list())


class TaskStopTool(_FamilyTool):
    name = "TaskStop"
    description = (
        "Stop delegates (all of them without `taskIds`), their own delegates and their processes; returns when "
        "they have settled. A stopped task can only be resumed by a person."
    )
    input = TaskStopInput

    async def run(self, arguments: TaskStopInput, permit: Permit, context: ToolContext) -> ToolOutput:
        stopped = _result(await _delegator(context).stop(arguments.task_ids))
        return ToolOutput(stopped)


def _delegator(context: ToolContext) -> Delegator:
    if context.delegator is None:
        raise failure(
            ErrorCode.DELEGATION_DEPTH, "This agent may not delegate. Do the work with your own tools."
        )
    return context.delegator


def _result(answer: AnswerT | ToolError) -> AnswerT:
    """The delegator's errors are values; the tool's way out for them is `Failure`, as for every tool."""
    if isinstance(answer, ToolError):
        raise Failure(answer)
    return answer

"""What a span says from its start, one function per kind. Pure.

Whoever opens a span and whoever ends it after a crash, from the stored events, take the same facts from here.
"""

from __future__ import annotations

from collections.abc import Mapping

from telemetry import attributes as names

Facts = Mapping[str, object]
"""Attributes; None values are left out when they are set."""


def turn_facts(*, session_id: str, turn_id: str, index: int, resumes_task: str | None) -> Facts:
    return {
        names.OPERATION: "invoke_workflow",
        names.WORKFLOW_NAME: "turn",
        names.SESSION: session_id,
        names.CONVERSATION: session_id,
        names.TURN_ID: turn_id,
        names.TURN_INDEX: index,
        names.RESUME_OF_TASK: resumes_task,
    }


def resume_facts(trace_id: str, attempt: int, reason: str) -> Facts:
    """Beside the link: viewers show attributes, and not all of them show links."""
    return {
        names.RESUME_OF_TRACE: trace_id,
        names.RESUME_ATTEMPT: attempt,
        names.RESUME_REASON: reason,
    }


def agent_facts(
    *,
    session_id: str,
    owner: str,
    name: str,
    label: str,
    depth: int,
    provider: str | None,
    model: str,
) -> Facts:
    """`owner` is the runId of a delegate, the turnId of a main agent; `model` without its provider."""
    return {
        names.OPERATION: "invoke_agent",
        names.PROVIDER: provider,
        names.REQUEST_MODEL: model,
        names.AGENT_NAME: name,
        names.AGENT_ID: owner,
        names.CONVERSATION: session_id,
        names.AGENT_LABEL: label,
        names.AGENT_DEPTH: depth,
        names.OWNER: owner,
    }


def task_facts(*, task_id: str, run_id: str, chain_id: str, resumes: str | None) -> Facts:
    """On the Task span and on its delegate's agent span."""
    return {
        names.TASK_ID: task_id,
        names.RUN_ID: run_id,
        names.CHAIN_ID: chain_id,
        names.RESUME_OF_TASK: resumes,
    }


def chat_facts(*, session_id: str, agent: str, label: str, provider: str | None, model: str) -> Facts:
    return {
        names.OPERATION: "chat",
        names.PROVIDER: provider,
        names.PEER_SERVICE: provider,
        names.REQUEST_MODEL: model,
        names.CONVERSATION: session_id,
        names.AGENT_NAME: agent,
        names.AGENT_LABEL: label,
    }


def tool_facts(*, tool: str, call_id: str, label: str) -> Facts:
    return {
        names.OPERATION: "execute_tool",
        names.TOOL_NAME: tool,
        names.TOOL_TYPE: "function",
        names.TOOL_CALL_ID: call_id,
        names.AGENT_LABEL: label,
    }


def permission_facts(
    *, session_id: str, request_id: str, tool: str, mode: str | None, external: bool, label: str, call_id: str
) -> Facts:
    return {
        names.SESSION: session_id,
        names.PERMISSION_REQUEST: request_id,
        names.PERMISSION_TOOL: tool,
        names.PERMISSION_MODE: mode,
        names.PERMISSION_EXTERNAL: external,
        names.AGENT_LABEL: label,
        names.TOOL_CALL_ID: call_id,
    }

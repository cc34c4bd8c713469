"""Names of spans, attributes, events and metrics, in one place. Pure.

`gen_ai.*` follows the OpenTelemetry GenAI conventions (development status, as of 2026-11); our own names live
under `orchestrator.*`. The conventions' own Python constants are deprecated and warn, hence this module.
"""

from __future__ import annotations

from telemetry.records import PERSON, SERVICE

# span names
TURN_SPAN = "invoke_workflow turn"
PERMISSION_SPAN = "permission wait"
LOCK_SPAN = "lock wait"
SETTLE_SPAN = "settle"


def agent_span(name: str) -> str:
    return f"invoke_agent {name}"


def chat_span(model: str) -> str:
    return f"chat {model}"


def tool_span(tool: str) -> str:
    return f"execute_tool {tool}"


AGENT_PREFIX = agent_span("")
CHAT_PREFIX = chat_span("")
TOOL_PREFIX = tool_span("")
TASK_SPAN = tool_span("Task")
TASK_WAIT_SPAN = tool_span("TaskWait")


def service_of_agent(name: str) -> str:
    """The service of a delegate's own spans: its definition's name, so that each agent has its own colour.

    A definition named like one of our services becomes `{name}-agent`.
    """
    return f"{name}-agent" if name.casefold() in (SERVICE, PERSON) else name


# conventions
OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
RESPONSE_ID = "gen_ai.response.id"
FINISH_REASONS = "gen_ai.response.finish_reasons"
FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
CONVERSATION = "gen_ai.conversation.id"
WORKFLOW_NAME = "gen_ai.workflow.name"
AGENT_NAME = "gen_ai.agent.name"
AGENT_ID = "gen_ai.agent.id"
AGENT_DESCRIPTION = "gen_ai.agent.description"
TOOL_NAME = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
TOOL_CALL_ID = "gen_ai.tool.call.id"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"
SYSTEM_INSTRUCTIONS = "gen_ai.system_instructions"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS = "gen_ai.usage.cache_creation.input_tokens"
REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
ERROR_TYPE = "error.type"
SESSION = "session.id"
PEER_SERVICE = "peer.service"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"

# ours: turn, agent, task
TURN_ID = "orchestrator.turn.id"
TURN_INDEX = "orchestrator.turn.index"
OUTCOME = "orchestrator.outcome"
AGENT_LABEL = "orchestrator.agent.label"
AGENT_DEPTH = "orchestrator.agent.depth"
OWNER = "orchestrator.owner.id"
TURNS = "orchestrator.agent.turns"
TOOL_CALLS = "orchestrator.agent.tool_calls"
TASK_ID = "orchestrator.task.id"
RUN_ID = "orchestrator.run.id"
CHAIN_ID = "orchestrator.chain.id"
TASK_STATUS = "orchestrator.task.status"
TASK_DESCRIPTION = "orchestrator.task.description"
ORIGIN_SPAN = "orchestrator.error.origin_span_id"
FILES_CHANGED = "orchestrator.files_changed"
DENIALS = "orchestrator.denials"
COST = "orchestrator.cost.usd"
LINK_KIND = "orchestrator.link"
RESUME_OF_TRACE = "orchestrator.resume.of_trace_id"
RESUME_OF_TASK = "orchestrator.resume.of_task_id"
RESUME_ATTEMPT = "orchestrator.resume.attempt"
RESUME_REASON = "orchestrator.resume.reason"

# ours: model calls
RETRY = "orchestrator.model.retry"
"""An event on the chat span, one per attempt that failed and was repeated."""
RETRY_ATTEMPT = "orchestrator.model.attempt"
RETRY_PAUSE = "orchestrator.model.pause_ms"
RETRIES = "orchestrator.model.retries"

# faults of ours: one event, on the span where it arose, without the exception's text
EXCEPTION = "exception"
EXCEPTION_TYPE = "exception.type"
INCIDENT = "orchestrator.incident"
"""Found again in the log."""

# ours: tool
TOOL_OUTCOME = "orchestrator.tool.outcome"
"""`ok`, `error`, `denied` or `cancelled`."""
EXIT_CODE = "orchestrator.tool.exit_code"
PATH_ROOT = "orchestrator.tool.root"
BYTES = "orchestrator.tool.bytes"
TRUNCATED = "orchestrator.tool.truncated"
TERMINATED = "orchestrator.tool.terminate"

# ours: permission
PERMISSION_REQUEST = "orchestrator.permission.request_id"
PERMISSION_TOOL = "orchestrator.permission.tool"
"""Never `gen_ai.tool.name`: the Jaeger UI would draw the wait as a tool."""
PERMISSION_MODE = "orchestrator.permission.mode"
PERMISSION_DECISION = "orchestrator.permission.decision"
PERMISSION_SOURCE = "orchestrator.permission.source"
PERMISSION_BY = "orchestrator.permission.decided_by"
"""The person, where one is known by name."""
PERMISSION_WHY = "orchestrator.permission.why"
"""On the tool's span: what let the call run or forbade it (`agents.rules.audit.Why`)."""
PERMISSION_RULE = "orchestrator.permission.rule"
"""On the tool's span: the rule, where one decided."""
PERMISSION_SCOPE = "orchestrator.permission.scope"
PERMISSION_QUEUE = "orchestrator.permission.queue_position"
PERMISSION_EXTERNAL = "orchestrator.permission.external"

# ours: waits (milliseconds, totals per agent or turn)
WAIT_MODEL = "orchestrator.wait.model_ms"
WAIT_TOOL = "orchestrator.wait.tool_ms"
WAIT_PERMISSION = "orchestrator.wait.permission_ms"
WAIT_LOCK = "orchestrator.wait.lock_ms"

# ours: recovery
RECOVERY_GRACE = "orchestrator.recovery.grace"
RECOVERY_COUNTED = "orchestrator.recovery.counted"
RECOVERY_EXHAUSTED = "orchestrator.recovery.exhausted"
RECOVERY_RELEASED = "orchestrator.recovery.released"
RECOVERY_TARGET = "orchestrator.recovery.target"
RECOVERY_KIND = "orchestrator.recovery.kind"
RECOVERY_ATTEMPT = "orchestrator.recovery.attempt"
RECOVERY_LIMIT = "orchestrator.recovery.limit"
RECOVERY_GRACES = "orchestrator.recovery.graces"
RECOVERY_FAILURES = "orchestrator.recovery.counted_failures"
RECOVERY_KEYS = "orchestrator.recovery.keys"

# metrics
TOKEN_USAGE = "gen_ai.client.token.usage"
OPERATION_DURATION = "gen_ai.client.operation.duration"
TOOL_DURATION = "gen_ai.execute_tool.duration"
AGENT_DURATION = "gen_ai.invoke_agent.duration"
PERMISSION_WAIT_DURATION = "orchestrator.permission.wait.duration"
AGENTS_ACTIVE = "orchestrator.agents.active"
RECOVERY_EVENT_COUNT = "orchestrator.recovery.events"
DROPPED_SPANS = "orchestrator.telemetry.dropped_spans"
TOKEN_TYPE = "gen_ai.token.type"
RECOVERY_EVENT = "orchestrator.recovery.event"
"""`grace`, `counted`, `exhausted` or `released`."""

# resource
SERVICE_NAME = "service.name"
SERVICE_NAMESPACE = "service.namespace"
SERVICE_VERSION = "service.version"
SERVICE_INSTANCE = "service.instance.id"

# values
PROCESS_DIED = "process died"
"""Status description of a span that a later start had to end."""
INTERRUPTED = "INTERRUPTED"
"""Its `error.type`."""

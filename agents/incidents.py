"""What nobody foresaw: logged, noted on the span, and given an id a person can quote, in one place."""

from __future__ import annotations

import logging
import traceback
import uuid

from agents.errors import ErrorCode, ToolError
from telemetry import attributes as names
from telemetry.spans import Span, leaf_exceptions

log = logging.getLogger("orchestrator")


def incident(error: Exception, span: Span, where: str, advice: str) -> ToolError:
    """The INTERNAL error of `error`: the traceback goes to the log, never into the model's text.

    `where` says what failed ("Bash", "A model call of fixer#1"), `advice` is the one next step.
    """
    name = uuid.uuid4().hex[:8]
    log.error("incident %s in %s: %s", name, where, "".join(traceback.format_exception(error)))
    leaf = next(leaf_exceptions(error))
    span.add_event(names.EXCEPTION, {names.EXCEPTION_TYPE: type(leaf).__qualname__, names.INCIDENT: name})
    return ToolError(
        code=ErrorCode.INTERNAL,
        message=f"{where} failed by a fault of the orchestrator (incident {name}; the log has the details). "
        f"{advice}",
        details={"incident": name},
        retriable=True,
    )

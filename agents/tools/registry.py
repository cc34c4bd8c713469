"""The native tools, by name, in the order in which a model is told of them."""

from __future__ import annotations

from agents.tools.base import Tool
from agents.tools.bash import BashTool
from agents.tools.edit import EditTool
from agents.tools.glob import GlobTool
from agents.tools.grep import GrepTool
from agents.tools.read import ReadTool
from agents.tools.task import TaskListTool, TaskStopTool, TaskTool, TaskWaitTool
from agents.tools.tool_search import ToolSearchTool
from agents.tools.write import WriteTool


def native_tools() -> dict[str, Tool]:
    """A fresh dictionary of all native tools."""
    tools: tuple[Tool, ...] = (
        ReadTool(),
        GlobTool(),
        GrepTool(),
        WriteTool(),
        EditTool(),
        BashTool(),
        TaskTool(),
        TaskWaitTool(),
        TaskListTool(),
        TaskStopTool(),
        ToolSearchTool(),
    )
    return {tool.name: tool for tool in tools}

"""The agent loop: ask, decide, act, repeat."""

from __future__ import annotations

from typing import assert_never

from agents.agent import Agent, Transcript
from agents.errors import ErrorCode, ToolError
from agents.exchange import ask_model, assistant_message
from agents.execution import run_tool_calls
from agents.outcome import AgentOutcome, Ending
from agents.steps import AskAgain, Finish, RunTools, Stop, next_step


async def run_agent(agent: Agent, transcript: Transcript) -> AgentOutcome:
    """Work on the conversation until the model's last word, a terminal error or the turn limit.

    `transcript` ends with a user message. Raises `Failure` for a provider's or the store's failure; the
    supervisor, which runs this under its deadline and cancel scope, turns that into an outcome.
    """
    empty = 0
    turns_left = agent.max_turns
    while True:
        if turns_left <= 0:
            return agent.outcome(Ending.LIMIT, transcript.last_text, _turn_limit(agent.max_turns))
        turns_left -= 1
        response = await ask_model(agent, transcript)
        match next_step(response, empty_before=empty):
            case RunTools():
                message = assistant_message(response)
                await transcript.append(message)
                terminal = await run_tool_calls(agent, transcript, message.calls)
                if terminal is not None:
                    return agent.outcome(Ending.TERMINAL, transcript.last_text, terminal)
                empty = 0
            case Finish(text=text):
                await transcript.append(assistant_message(response))
                return agent.outcome(Ending.FINISHED, text)
            case AskAgain():
                empty += 1
            case Stop(error=error, limit=limit):
                if response.text.strip():
                    await transcript.append(assistant_message(response))
                ending = Ending.LIMIT if limit else Ending.ERROR
                return agent.outcome(ending, transcript.last_text, error)
            case unreachable:
                assert_never(unreachable)


def _turn_limit(turns: int) -> ToolError:
    return ToolError(
        code=ErrorCode.TURN_LIMIT,
        message=f"The run used its {turns} model turns without coming to an end. Resume it, or give it a smaller task.",
        retriable=True,
        details={"turns": turns},
    )

"""A function with annotated arguments as a tool, and an approver object that decides about its calls."""

from __future__ import annotations

import tempfile
from typing import Annotated

import trio

import orchestrator
from agents.models.script import read_script
from agents.models.scripted import ScriptedModel

PRICES = {"tea": 450, "coffee": 980}


def price_of(
    product: Annotated[str, "The product's name."],
    pieces: Annotated[int, "How many of it."] = 1,
) -> dict[str, int]:
    """The price of some pieces of a product, in cents."""
    return {"cents": PRICES[product] * pieces}


class OnlyTea:
    """Decides about calls that would ask a person."""

    async def approve(self, request: orchestrator.PermissionRequest) -> bool:
        allowed = "tea" in request.preview
        print(f"{request.tool} {request.preview} → {'allowed' if allowed else 'denied'}")
        return allowed


def call(product: str, pieces: int) -> dict[str, object]:
    return {"tool": "price_of", "arguments": {"product": product, "pieces": pieces}}


SCRIPT = {
    "agents": {
        "main": [
            # a tool of one's own is listed by its name until the model asks for it
            {"calls": [{"tool": "ToolSearch", "arguments": {"query": "price_of"}}]},
            {"calls": [call("tea", 12), call("coffee", 2)]},
            {"text": "Twelve packets of tea are 54.00. I was not allowed to ask for the price of coffee."},
        ]
    }
}


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with orchestrator.open_session(
            folder,
            model=ScriptedModel(read_script(SCRIPT, "own tool")),
            tools=[price_of],
            approver=OnlyTea(),
            data_dir=f"{folder}/.data",
        ) as session:
            outcome = await session.run("What do twelve packets of tea and two of coffee cost?")
            messages = await session.store.messages(session.id, None)
        for answer in messages[-2].results:
            print(f"the model reads: {answer.text.splitlines()[0]}")
        print(f"{outcome.status}: {outcome.text}")
        print(f"denied: {', '.join(f'{one.tool} ({one.reason})' for one in outcome.denials)}")


if __name__ == "__main__":
    trio.run(main)

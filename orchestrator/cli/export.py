"""`export`: one session for programs or as a page for people, on standard output."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec
import trio

from agents.errors import ErrorCode
from orchestrator.cli.lookup import existing_store, find, store_path
from orchestrator.export import export_html, export_json


@click.command("export")
@click.argument("name", metavar="ID")
@click.option("--format", "shape", type=click.Choice(["json", "html"]), default="json", show_default=True)
@click.option("--store", metavar="PATH", help="The store's file.")
def export(name: str, shape: str, store: str | None) -> None:
    """Write the session that ID is or belongs to.

    json: one object with the session, its turns, tasks, results, conversations and events. html: one page
    that needs nothing else. Both hold what was said and done, secrets in it too: look before you share.
    """

    async def read(path: Path) -> str:
        async with existing_store(path) as opened:
            found = await find(opened, name, ErrorCode.NOT_FOUND, Path.cwd())
            if shape == "html":
                return await export_html(opened, found.session_id)
            told = await export_json(opened, found.session_id)
            return msgspec.json.encode(told).decode("utf-8") + "\n"

    text = trio.run(read, store_path({"store": store}))
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))  # JSON and the page are UTF-8 on every terminal

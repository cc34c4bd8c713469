"""What leaves a session for others: JSON for programs, one page for people."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from agents.errors import ErrorCode, Failure
from agents.events import from_wire
from orchestrator.export import export_html, export_json
from tests.harness import bad_edit, call, calls, say, scripted, session_on

EVIL = "<script>alert('x')</script> & \u202e\x1b[31m"


async def exported(root: Path) -> tuple[str, dict[str, object]]:
    """A session with a delegate that exhausts its attempts; its page and its JSON."""
    (root / "repo").mkdir()
    (root / "repo/a.txt").write_text("one\ntwo\n")
    fixer = [
        calls(call("Read", path="a.txt"), text=f"I look at it. {EVIL}"),
        calls(bad_edit("a.txt")),
        calls(bad_edit("a.txt")),
        calls(bad_edit("a.txt")),
    ]
    main = [
        calls(call("Task", subagent_type="fixer", prompt=f"Fix it {EVIL}")),
        calls(call("TaskWait"), call("Bash", command="echo '<b>' && true")),
        say("It failed."),
    ]
    async with session_on(root, scripted({"main": main, "fixer": fixer})) as session:
        await session.run(f"Do it {EVIL}")
        return await export_html(session.store, session.id), await export_json(session.store, session.id)


class Reader(HTMLParser):
    """Every tag that is opened and closed, and the attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


async def test_the_page_is_whole_loads_nothing_and_runs_nothing(tmp_path: Path) -> None:
    page, _ = await exported(tmp_path)
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    assert reader.tags.isdisjoint({"script", "link", "img", "iframe", "a", "object"})
    assert not [name for name, _ in reader.attributes if name in ("src", "href") or name.startswith("on")]
    assert "url(" not in page
    assert "default-src 'none'" in page


async def test_what_agents_and_people_wrote_stands_there_as_text(tmp_path: Path) -> None:
    page, _ = await exported(tmp_path)
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "\u202e" not in page
    assert "\x1b" not in page
    assert "\\u202e" in page


async def test_failed_rows_are_open_and_the_terminating_one_is_marked(tmp_path: Path) -> None:
    page, _ = await exported(tmp_path)
    assert len(re.findall(r'<details class="call failed" open>', page)) == 2
    (row,) = re.findall(r'<details class="call failed terminating" open><summary>(.*?)</summary>', page)
    assert "ends this run" in row
    assert "EDIT_RANGE_INVALID" in row


async def test_an_agent_ends_with_its_own_error_and_the_turns_card_is_not_red_for_it(tmp_path: Path) -> None:
    page, _ = await exported(tmp_path)
    (end,) = re.findall(r'<p class="end failed">(.*?)</p>', page)
    assert "MUTATION_RETRY_BUDGET_EXHAUSTED" in end
    assert '<dl class="card completed">' in page
    assert re.findall(r'<details class="agent depth\d" open', page) == [
        '<details class="agent depth0" open',
        '<details class="agent depth1" open',
    ]


async def test_the_json_holds_every_event_every_result_and_every_conversation(tmp_path: Path) -> None:
    _, told = await exported(tmp_path)
    plain = msgspec.json.decode(msgspec.json.encode(told))
    assert plain["v"] == 1
    assert plain["session"]["status"] == "completed"
    assert [event["seq"] for event in plain["events"]] == list(range(1, len(plain["events"]) + 1))
    assert all(from_wire(event) is not None for event in plain["events"])
    (task,) = plain["tasks"]
    assert task["result"]["error"]["code"] == "MUTATION_RETRY_BUDGET_EXHAUSTED"
    assert [(c["label"], c["messages"][0]["role"]) for c in plain["conversations"]] == [
        ("main", "user"),
        ("fixer#1", "user"),
    ]


async def test_an_unknown_session_is_not_found(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    async with session_on(tmp_path, scripted({"main": [say("ok")]})) as session:
        for export in (export_html, export_json):
            with pytest.raises(Failure) as unknown:
                await export(session.store, "ses-none")
            assert unknown.value.error.code is ErrorCode.NOT_FOUND

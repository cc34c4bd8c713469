"""How far each target has acknowledged a session's spans, over both stores."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.errors import Failure
from orchestrator.store.base import Store
from orchestrator.store.memory import open_memory_store
from orchestrator.store.sqlite import open_sqlite_store
from tests.orchestrator.store.stories import story

A, B = "http://127.0.0.1:4318/v1/traces", "file:/tmp/trace.jsonl"


@pytest.mark.parametrize("kind", ["sqlite", "memory"])
async def test_each_session_and_target_has_a_watermark_of_its_own(kind: str, tmp_path: Path) -> None:
    opened = open_memory_store() if kind == "memory" else open_sqlite_store(tmp_path / "store.sqlite3")
    async with opened as made:
        store: Store = made
        assert await store.watermark("s1", A) == 0
        for seq in (3, 9):
            await store.acknowledge("s1", A, seq)
        await store.acknowledge("s1", B, 4)
        assert await store.watermark("s1", A) == 9
        assert await store.watermark("s1", B) == 4
        assert await store.watermark("s2", A) == 0


async def test_a_watermark_outlives_its_process_and_a_rebuild(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite3"
    async with open_sqlite_store(path) as store:
        await store.append(story())
        await store.acknowledge("s1", A, 7)
        await store.rebuild()
    async with open_sqlite_store(path) as store:
        assert await store.watermark("s1", A) == 7


async def test_only_the_holder_of_a_session_moves_its_watermark(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite3"
    async with open_sqlite_store(path) as mine, mine.lease("s1"):
        await mine.acknowledge("s1", A, 1)
        async with open_sqlite_store(path) as other:
            with pytest.raises(Failure, match="CHAIN_LOCKED"):
                await other.acknowledge("s1", A, 5)
        assert await mine.watermark("s1", A) == 1

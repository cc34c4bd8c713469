"""A process may die anywhere: nothing acknowledged is lost, nothing is done twice, every file is whole.

The long form is `python -m tests.faults --rounds 200 --named`.
"""

from __future__ import annotations

from pathlib import Path

from tests.faults.lab import NAMED, play_all, random_kills


async def test_a_process_may_die_at_every_step_of_the_journal_and_of_a_runs_life(tmp_path: Path) -> None:
    assert await play_all(tmp_path, NAMED, workers=2) == []


async def test_a_process_may_die_anywhere_and_its_successors_too(tmp_path: Path) -> None:
    rounds = {f"seed {seed}": random_kills(seed) for seed in range(1, 5)}
    assert await play_all(tmp_path, rounds, workers=2) == []


async def test_a_round_is_told_by_its_seed() -> None:
    assert random_kills(7) == random_kills(7)
    assert len({str(random_kills(seed)) for seed in range(100)}) > 90

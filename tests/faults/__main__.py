"""`python -m tests.faults --rounds 200 --seed 1`: many random rounds, each told by its seed."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import trio

from tests.faults.lab import NAMED, play, random_kills


async def main(rounds: int, seed: int, workers: int, named: bool) -> int:
    """Play the rounds; how many went wrong."""
    root = Path(tempfile.mkdtemp(prefix="faults-"))
    plays = [(f"seed {number}", random_kills(number)) for number in range(seed, seed + rounds)]
    if named:
        plays = [*((name, list(kills)) for name, kills in NAMED.items()), *plays]
    failed: list[str] = []
    began = time.monotonic()
    send, receive = trio.open_memory_channel[tuple[str, list[dict[str, object]]]](len(plays))
    for one in plays:
        send.send_nowait(one)
    send.close()

    async def work() -> None:
        async for name, kills in receive.clone():
            faults = await play(root, kills)
            if faults:
                failed.append(name)
                print(f"{name}: {kills}", *(f"    {fault}" for fault in faults), sep="\n", flush=True)

    async with trio.open_nursery() as nursery:
        for _ in range(workers):
            nursery.start_soon(work)
    print(f"{len(plays)} rounds, {len(failed)} failed, {time.monotonic() - began:.0f} s")
    return len(failed)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.faults")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1, help="of the first round; each has the next number")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--named", action="store_true", help="play the named steps first")
    chosen = parser.parse_args()
    sys.exit(trio.run(main, chosen.rounds, chosen.seed, chosen.workers, chosen.named) > 0)

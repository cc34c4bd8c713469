"""What one span costs the run, export off and on, beside a floor measured in the same run.

Run as a script: `python -m tests.benchmarks.bench_spans [--spans 20000]`. A span is opened with the
attributes of a tool call, gets its outcome, and is ended; with export on it is handed over too, while the
export's thread encodes and posts it to a collector on loopback. The floor is a frozen attrs value with a dict
of as many attributes: what any representation of a span would cost at least.
"""

from __future__ import annotations

import argparse
import functools
import gc
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import attrs
import trio

from telemetry import attributes as names
from telemetry.export import SpanExport, open_export
from telemetry.facts import tool_facts
from telemetry.records import SpanRecord
from telemetry.settings import TelemetrySettings
from telemetry.spans import Span, start_span

ROUNDS = 5
OFF_LIMIT_US = 5.0
ON_LIMIT_US = 60.0
COLLECTOR = """
import sys, time
from telemetry.testing import OtlpReceiver
with OtlpReceiver() as receiver:
    print(receiver.endpoint, flush=True)
    sys.stdin.read()
"""


@attrs.frozen
class Least:
    """A span reduced to what it must say."""

    name: str
    start_ns: int
    end_ns: int
    attributes: dict[str, object]


def floor(number: int) -> Least:
    start = time.time_ns()
    attributes = dict(tool_facts(tool="Read", call_id="call-1", label="fixer#1"))
    attributes[names.TOOL_OUTCOME] = "ok"
    return Least("execute_tool Read", start, time.time_ns(), attributes)


def one_span(parent: Span, number: int) -> SpanRecord:
    facts = tool_facts(tool="Read", call_id="call-1", label="fixer#1")
    span = parent.child(names.tool_span("Read"), facts)
    span.set_attributes({names.TOOL_OUTCOME: "ok", names.BYTES: number})
    return span.end()


def exported(parent: Span, export: SpanExport, number: int) -> None:
    export.export([one_span(parent, number)])


def microseconds(step: Callable[[int], object], count: int) -> float:
    """One step's time in the best of several rounds: the rest is other programs' use of the machine."""
    rounds = []
    for _ in range(ROUNDS):
        gc.collect()
        gc.disable()
        began = time.perf_counter_ns()
        for number in range(count):
            step(number)
        rounds.append((time.perf_counter_ns() - began) / count / 1000)
        gc.enable()
    return min(rounds)


@contextmanager
def collector() -> Iterator[str]:
    """In a process of its own: what it costs is not the run's."""
    process = subprocess.Popen(
        [sys.executable, "-c", COLLECTOR], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait()


async def measure_on(endpoint: str, count: int) -> float:
    parent = start_span(names.agent_span("fixer"), parent=None)
    async with open_export(TelemetrySettings(endpoint=endpoint), warn=print) as export:
        exported(parent, export, 0)
        await trio.sleep(2)  # the SDK is imported by then
        value = microseconds(functools.partial(exported, parent, export), count)
        for _ in range(600):  # what was handed over at full speed takes its time to be encoded
            if export.acknowledged > count * ROUNDS:
                break
            await trio.sleep(0.1)
        return value


def measure_off(count: int) -> float:
    parent = start_span(names.agent_span("fixer"), parent=None)
    return microseconds(functools.partial(one_span, parent), count)


def report(title: str, value: float, least: float, limit: float | None = None) -> None:
    judged = "" if limit is None else f"   limit {limit:g} µs: {'kept' if value <= limit else 'BROKEN'}"
    print(f"{title:<34} {value:7.2f} µs   {value / least:5.1f} × floor{judged}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spans", type=int, default=20_000)
    count = parser.parse_args().spans
    least = microseconds(floor, count)
    off = measure_off(count)
    with collector() as endpoint:
        on = trio.run(measure_on, endpoint, min(count, 5000))
    report("floor: a value and its attributes", least, least)
    report("a span, export off", off, least, OFF_LIMIT_US)
    report("a span, export on", on, least, ON_LIMIT_US)


if __name__ == "__main__":
    main()

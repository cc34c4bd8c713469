"""The process of a search helper: takes one job after the other from its standard input.

Each message is a length (4 bytes, little-endian) and a pickle: both ends are the same program, started by
itself. It ends with its input, after a while without work, and by being killed, at any moment.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import struct
import sys
import threading
from typing import Any, BinaryIO

from agents.tools.search.shares import Job, work
from agents.tools.search.worker import Clock

IDLE_SECONDS = 120.0
READY = b"R"
LENGTH = struct.Struct("<I")


def packed(message: object) -> bytes:
    """A message as it is written."""
    body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return LENGTH.pack(len(body)) + body


def main() -> None:
    import re2  # noqa: F401  # loading it takes longer than most searches

    # What anything prints must not come between the answers.
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    jobs = os.fdopen(0, "rb", buffering=0)
    answers.write(READY)
    while select.select([jobs], [], [], IDLE_SECONDS)[0]:
        job = _received(jobs)
        if job is None:
            return
        for message in work(job, Clock(job.deadline, threading.Event())):
            answers.write(packed(message))


def _received(jobs: BinaryIO | Any) -> Job | None:
    head = jobs.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    body = b""
    (length,) = LENGTH.unpack(head)
    while len(body) < length:
        more = jobs.read(length - len(body))
        if not more:
            return None
        body += more
    job = pickle.loads(body)
    assert isinstance(job, Job)
    return job


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        main()
    sys.stderr.close()

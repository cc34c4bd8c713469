"""The search that asks helpers: from when on, which files are then its own, and how the answers come together."""

from __future__ import annotations

import heapq
import operator
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator

from agents.tools.search.helper import packed
from agents.tools.search.helpers import MAX_JOB_BYTES, Helper, HelperLost, SearchHelpers
from agents.tools.search.rows import Hit
from agents.tools.search.shares import Ending, Job, Part, Report, work
from agents.tools.search.worker import Clock, OutOfTime

FIRST_FILES = 128
"""After so many files a search asks for help, and again after as many more, until there is some."""
START_FILES = 1024
"""A search of so many files has helpers started for the next one."""
MOST_HELD_BYTES = 8 << 20
"""Of files whose turn has not come; a helper that is further ahead waits."""


class Sharing:
    """What one search has given away."""

    def __init__(self, helpers: SearchHelpers | None, job: Callable[[str, Part], Job], clock: Clock) -> None:
        """`job` is made from the first path that is given away and the share."""
        self._helpers = helpers
        self._job = job
        self._clock = clock
        self._part: Part | None = None
        self._shares: list[_Share] = []
        self._handed = 0
        self._ask_at = FIRST_FILES

    def own(self, prefix: str, names: list[str]) -> list[str]:
        """Those of neighbouring files that nobody else looks at. Asks for help once the search proves large."""
        if self._part is None and self._helpers is not None:
            if self._handed >= self._ask_at:
                self._ask_at = self._handed + FIRST_FILES
                self._begin(self._helpers, prefix + names[0])
            self._handed += len(names)
        for share in self._shares:
            share.listen()
        return names if self._part is None else self._part.names(prefix, names)

    def _begin(self, helpers: SearchHelpers, since: str) -> None:
        ready = helpers.take(start=self._handed >= START_FILES)
        if not ready:
            return
        places = 1 + len(ready)
        self._part = Part(0, places)
        for at, helper in enumerate(ready, start=1):
            self._shares.append(_Share(helpers, helper, self._job(since, Part(at, places)), self._clock))

    def before(self, path: str) -> Iterator[Hit]:
        """The hits of others that come before a path, in order; waits until all are known."""
        yield from _merged(share.before(path) for share in self._shares)

    def rest(self) -> Iterator[Hit]:
        """All others."""
        yield from _merged(share.before(None) for share in self._shares)

    def is_cut_before(self, path: str | None) -> bool:
        """Whether lines of others are missing that come before a path (None: anywhere), for want of room."""
        cuts = [ending.cut_at for ending in self.endings() if ending.cut_at is not None]
        return any(path is None or cut < path for cut in cuts)

    def known(self) -> Iterator[Hit]:
        """Those that have been told by now, for a search whose time is over."""
        yield from _merged(share.told() for share in self._shares)

    def endings(self) -> list[Ending]:
        """What the shares that are done say of themselves."""
        return [share.ending for share in self._shares if share.ending is not None]

    def close(self) -> None:
        """Give the helpers back."""
        for share in self._shares:
            share.close()


class _Share:
    """One share, in the hands of a helper or, once that is lost, searched here."""

    def __init__(self, helpers: SearchHelpers, helper: Helper, job: Job, clock: Clock) -> None:
        self.ending: Ending | None = None
        self._helpers = helpers
        self._helper: Helper | None = helper
        self._job = job
        self._clock = clock
        self._known: deque[Hit] = deque()
        self._held = 0
        """Bytes of files in them."""
        self._reached = ""
        self._messages: Generator[Report | Ending, None, None] = helper.answers(clock)
        message = packed(job)
        if len(message) > MAX_JOB_BYTES:
            self._leave(done=True)
            self._messages = work(job, clock)
        elif not helper.ask(message):
            self._search_here()

    def before(self, path: str | None) -> Iterator[Hit]:
        """The hits before `path`; None: all of them."""
        while True:
            if self._known:
                if path is not None and self._known[0][0] >= path:
                    return
                yield self._next_known()
            elif self.ending is None and (path is None or self._reached < path):
                self.hear()
            else:
                return

    def told(self) -> Iterator[Hit]:
        """The hits that are known without waiting."""
        while self._known:
            yield self._next_known()

    def _next_known(self) -> Hit:
        hit = self._known.popleft()
        self._held -= _weight(hit)
        return hit

    def listen(self) -> None:
        """Take what the helper has told meanwhile, so that it never waits for a reader."""
        while self._helper is not None and self._held < MOST_HELD_BYTES and self._helper.has_answered():
            self.hear()

    def hear(self) -> None:
        """Wait for the next message."""
        try:
            self._take(next(self._messages))
        except HelperLost:
            self._search_here()

    def _take(self, message: Report | Ending) -> None:
        if isinstance(message, Report):
            # After a loss the share is searched from its beginning.
            new = [hit for hit in message.hits if hit[0] > self._reached]
            self._known.extend(new)
            self._held += sum(map(_weight, new))
            self._reached = max(self._reached, message.reached)
            return
        self.ending = message
        self._leave(done=True)
        if message.out_of_time:
            raise OutOfTime

    def _search_here(self) -> None:
        self.close()
        self._messages = work(self._job, self._clock)

    def close(self) -> None:
        self._messages.close()
        self._leave(done=False)

    def _leave(self, *, done: bool) -> None:
        if self._helper is not None:
            self._helpers.give_back(self._helper, done=done)
            self._helper = None


def _merged(shares: Iterable[Iterator[Hit]]) -> Iterator[Hit]:
    return heapq.merge(*shares, key=operator.itemgetter(0))


def _weight(hit: Hit) -> int:
    hits = hit[3]
    return 0 if hits is None or hits.data is None else len(hits.data)

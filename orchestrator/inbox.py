"""`Inbox`: what other processes want of a session reaches it: answers to its requests, orders to stop.

It works beside whatever shows requests here: one that is answered from elsewhere goes off the screen.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NoReturn, assert_never

import attrs
import trio

from agents.errors import ErrorCode, Failure
from agents.outcome import Ending
from orchestrator.approvals import Approvals
from orchestrator.crew import Crew
from orchestrator.store.base import Store
from orchestrator.store.mail import AnswerRequest, Letter, StopSession, StopTask

log = logging.getLogger("orchestrator")

BUSY_SECONDS = 0.1
"""How often the box is looked into while somebody waits for an answer."""
QUIET_SECONDS = 0.5


@attrs.define(eq=False)
class Inbox:
    """Carries letters from the store to one session. `run` is its task."""

    store: Store
    session_id: str
    approvals: Approvals
    crew: Crew
    stop_session: Callable[[], None]

    async def run(self) -> NoReturn:
        """Deliver letters until cancelled. A store that cannot be read is left to those who write to it."""
        while True:
            patience = BUSY_SECONDS if self.approvals.pending else QUIET_SECONDS
            try:
                letters = await self.store.take(self.session_id, patience)
            except Failure as unreadable:
                if unreadable.error.code is not ErrorCode.STORE_BUSY:
                    log.error("the inbox of %s is closed: %s", self.session_id, unreadable.error.message)
                    await trio.sleep_forever()
                continue
            for letter in letters:
                self._deliver(letter)

    def _deliver(self, letter: Letter) -> None:
        match letter:
            case AnswerRequest():
                self._answer(letter)
            case StopSession():
                self.stop_session()
            case StopTask():
                run = self.crew.find(letter.task_id)
                if run is not None:
                    run.cancel(Ending.STOPPED)
            case _:
                assert_never(letter)

    def _answer(self, letter: AnswerRequest) -> None:
        try:
            self.approvals.answer(letter.request_id, letter.answer)
        except Failure as late:  # it was closed while the letter lay in the box
            log.info("%s", late.error.message)

"""The record of every decision about clients: who may connect, publish, subscribe, leave a will.

Each is counted by what was asked, who decided and how, and is a line in the log. Lines are bounded in number:
a client that tries ten thousand passwords a second must not fill the disc, nor keep the loop from its work.
How many were left out is said with the next line that is written.

Rule: what a rule of the ACL allows is counted when it is decided, which is once for each topic that a client
publishes to; that is no line, for messages are not decisions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import structlog

from gossamer.mqtt.flow.bucket import Bucket

__all__ = ["Decisions"]

log = structlog.get_logger(__name__)


class Decisions:
    """Counter and log of access decisions; ``rate`` is log lines a second, and the size of a burst."""

    def __init__(self, *, rate: float, now: Callable[[], float]) -> None:
        self.counts: Counter[tuple[str, str, str]] = Counter()
        """By question, who decided, and how."""
        self._bucket = Bucket(rate)
        self._now = now
        self._unsaid = 0

    def count(self, question: str, by: str, how: str) -> None:
        """Count one."""
        self.counts[question, by, how] += 1

    def note(self, event: str, question: str, by: str, how: str, **fields: object) -> None:
        """Count one, and write it down."""
        self.count(question, by, how)
        if not self._bucket.admit(self._now()):
            self._unsaid += 1
            self.count("log", "rate", "left_out")
            return
        if self._unsaid:
            log.warning("decisions_left_out", count=self._unsaid)
            self._unsaid = 0
        log.info(event, by=by, **fields)

"""One peer's messages about transactions: each once, in order, or the pipe breaks and both ends know it.

The links below may lose, double and reorder frames; replication does not mind, but a lock that is asked for
after it was given up must not be. So messages are numbered, kept until confirmed and repeated; and the two
ends agree on a *session*. An end that has seen its peer go down begins a new one, which tells the other end,
though it may have noticed nothing, that what it had there is gone.

Rules: 1. Pure.  2. Nothing is delivered before both ends know each other's session.  3. At most ``bound``
messages wait: a peer that takes none of them for so long is treated as if it had gone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from gossamer.mnesia_like.exchange.transaction_wire import Pipe, TransactionMessage

__all__ = ["PipeEnd"]


class PipeEnd:
    """This node's end. ``session`` makes numbers that grow; ``send`` takes what is to go out."""

    __slots__ = (
        "_bound",
        "_last",
        "_open",
        "_retry",
        "_send",
        "_sent_at",
        "_session",
        "_taken",
        "_waiting",
        "mine",
        "theirs",
    )

    def __init__(
        self, session: Callable[[], int], send: Callable[[Pipe], None], *, retry: float, bound: int = 20_000
    ) -> None:
        self._session = session
        self._send = send
        self._retry = retry
        self._bound = bound
        self.mine = self.theirs = 0
        # Open: the peer has said something that was meant for this session.
        self._open = False
        self._last = self._taken = 0
        self._sent_at = float("-inf")
        self._waiting: deque[tuple[int, TransactionMessage]] = deque()
        self._begin(0)

    def open(self, now: float) -> None:
        """Say that we are here; and, where messages are on their way, that they may have been lost."""
        self._news()
        self._repeat(now)

    def send(self, body: TransactionMessage, now: float) -> None:
        """Queue a message."""
        self._last += 1
        if not self._waiting:
            self._sent_at = now
        self._waiting.append((self._last, body))
        if self._open:
            self._send(Pipe(self.mine, self.theirs, self._last, self._taken, body))

    def receive(self, pipe: Pipe, now: float) -> tuple[bool, TransactionMessage | None]:
        """Whether the pipe broke (before this came), and the message to act upon, if any."""
        broke = False
        if pipe.source < self.theirs or pipe.target not in (0, self.mine):
            return False, None
        if pipe.source > self.theirs:
            # Somebody who is already known has begun anew: what we had there is gone.
            broke = self._open
            if broke:
                self._begin(pipe.source)
            self.theirs = pipe.source
            if broke or not pipe.target:
                self._news()
        elif not pipe.target:
            self._news()
        if pipe.target != self.mine or broke:
            return broke, None
        if not self._open:
            self._open = True
            self._news()
            self._repeat(now)
        self._confirmed(pipe.ack)
        if not pipe.number:
            return broke, None
        fresh = pipe.number == self._taken + 1
        if fresh:
            self._taken = pipe.number
        elif pipe.number <= self._taken:
            self._news()
        return broke, pipe.body if fresh else None

    def confirm(self) -> None:
        """Tell the peer how far its messages were taken."""
        self._news()

    def tick(self, now: float) -> bool:
        """Repeat what was not confirmed; False: the peer takes nothing and should be given up."""
        if len(self._waiting) > self._bound:
            return False
        if now - self._sent_at >= self._retry:
            if not self._open:
                self._sent_at = now
                self._news()
            elif self._waiting:
                self._repeat(now)
        return True

    # -- inside

    def _begin(self, theirs: int) -> None:
        self.mine = self._session()
        self.theirs = theirs
        self._open = False
        self._last = self._taken = 0
        self._sent_at = float("-inf")
        self._waiting.clear()

    def _news(self) -> None:
        self._send(Pipe(self.mine, self.theirs, 0, self._taken, None))

    def _repeat(self, now: float) -> None:
        self._sent_at = now
        if self._open:
            for number, body in self._waiting:
                self._send(Pipe(self.mine, self.theirs, number, self._taken, body))

    def _confirmed(self, number: int) -> None:
        waiting = self._waiting
        while waiting and waiting[0][0] <= number:
            waiting.popleft()

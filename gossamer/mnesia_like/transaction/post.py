"""A node's correspondence about transactions: a pipe to each peer, opened, repeated, given up.

Rule: what was said to a peer, and by it, holds until its pipe breaks; then ``_broken`` hears of it, once,
before anything new comes from that peer.
"""

from __future__ import annotations

from gossamer.mnesia_like.exchange.exchange import Exchange
from gossamer.mnesia_like.exchange.transaction_wire import Pipe, TransactionMessage
from gossamer.mnesia_like.transaction.pipe import PipeEnd
from gossamer.mnesia_like.values import encode

__all__ = ["Post"]


class Post:
    """Ordered messages about transactions to and from each peer; ``retry`` in seconds."""

    def __init__(self, exchange: Exchange, *, retry: float) -> None:
        self._x = exchange
        self._retry = retry
        self._pipes: dict[str, PipeEnd] = {}
        self._confirm: dict[str, None] = {}
        self._sessions = 0
        self._now = 0.0

    def peer_up(self, name: str, now: float) -> None:
        """The peer is there; again, where frames may have been lost."""
        self._now = now
        if name not in self._pipes:
            self._pipes[name] = self._pipe(name)
        self._pipes[name].open(now)

    def peer_down(self, name: str, now: float) -> None:
        """The peer is gone, with everything it had asked for and been asked."""
        self._now = now
        self._pipes.pop(name, None)
        self._broken(name)

    def tick(self, now: float) -> None:
        """Some time passed."""
        self._now = now
        for name, pipe in list(self._pipes.items()):
            if not pipe.tick(now):
                self._x.report("transactions_given_up", peer=name)
                self._pipes[name] = self._pipe(name)
                self._broken(name)
                self._pipes[name].open(now)

    def receive(self, name: str, message: Pipe, now: float) -> None:
        """An envelope of a peer that is up."""
        self._now = now
        pipe = self._pipes.get(name)
        if pipe is None:
            return
        broke, body = pipe.receive(message, now)
        if broke:
            self._broken(name)
        if body is not None:
            self._confirm[name] = None
            self._handle(name, body)

    def settle(self) -> None:
        """The event is over: confirm what was taken."""
        for name in self._confirm:
            if name in self._pipes:
                self._pipes[name].confirm()
        self._confirm.clear()

    # -- for whoever corresponds

    def _handle(self, name: str, message: TransactionMessage) -> None:
        """A message of a peer."""
        raise NotImplementedError

    def _broken(self, name: str) -> None:
        """What was said to ``name`` and by it is void."""
        raise NotImplementedError

    def _send(self, name: str, message: TransactionMessage) -> None:
        pipe = self._pipes.get(name)
        if pipe is not None:
            pipe.send(message, self._now)

    def _pipe(self, name: str) -> PipeEnd:
        def session() -> int:
            self._sessions += 1
            return self._sessions

        def send(pipe: Pipe) -> None:
            peer = self._x.peers.get(name)
            if peer is not None:
                peer.outbox.append(encode(pipe))

        return PipeEnd(session, send, retry=self._retry)

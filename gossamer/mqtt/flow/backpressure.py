"""Back-pressure: publishers wait when a subscriber, or a link to another node, is behind.

Three measures, from mild to harsh:

1. A *local publisher* whose messages go to a session that is behind is not read from until that session has
caught up: its socket took more, or its queue is down to a quarter of its limit. 2. Batches of *peers* are
reported as taken only once no session here is far behind (four times its limit in the queue). The peers
acknowledge to their publishers later, and those slow down by themselves. 3. A session that makes no progress
for :data:`STALL_TIMEOUT` seconds stops no publisher any longer; what it cannot take is dropped (QoS 0) or
pushes out the oldest in its queue, and is counted.

Publishers to a node whose link is congested wait likewise, until the link has caught up.

Queues are bounded in bytes too, for a session (``max_session``) and for all of the node together
(``max_node``): a connected session is behind at an eighth of its bound, far behind at half. Every message
counts as often as it is queued, plus :data:`ITEM` bytes of overhead.

Rejected: dropping at once (a burst would lose messages that a moment's wait saves); waiting without end (one
dead client would stop all publishers of its topics).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import structlog

from gossamer.mqtt.codec.reasons import ReasonCode

log = structlog.get_logger(__name__)

OWING = 1
"""Why a channel does not read: peers have not acknowledged the publishes of its client."""
BEHIND = 2
"""Why a channel does not read: a subscriber or a link that its publishes go to is behind."""
DECIDING = 4
"""Why a channel does not read: its client is being authenticated."""
RATE = 8
"""Why a channel does not read: its client sends more than its listener allows."""
TURN = 16
"""Why a channel does not read: it has used its turn of the loop, and goes on in the next."""
FENCED = 64
"""Why a channel does not read: the node was paused, and asks its peers first (``fence``)."""
UNCONFIRMED = 32
"""Why a channel does not read: it has many SUBSCRIBEs whose routes other nodes have not confirmed."""

STALL_TIMEOUT = 1.0
FAR_BEHIND = 4
"""A connected session with this many times its limit queued is far behind; at twice that messages drop."""

ITEM = 120
"""Bytes that a queued message takes besides its own."""


class Publisher(Protocol):
    """Publisher that can be paused: a channel, or a remote client; ``why`` is one of the reasons above."""

    def pause_reading(self, why: int, /) -> None: ...
    def resume_reading(self, why: int, /) -> None: ...


class Recipient(Protocol):
    """Receiver that can be behind: a session, or the remote subscription of a Python client."""

    behind: bool
    waiting: list[Any] | None
    channel: Any
    delivered: int


class Peer(Protocol):
    """Remote end of a link."""

    @property
    def peer(self) -> str: ...


class Hold:
    """Deferred report of a batch that was taken from a peer; callbacks of :meth:`then` run at its release."""

    __slots__ = ("_waiting", "released", "tell")

    def __init__(self) -> None:
        self._waiting: list[Callable[[], object]] = []
        self.released = False
        self.tell: Callable[[Sequence[tuple[int, int]]], object] = lambda _spans: None
        """Called with bytes of the batch that have taken effect before the others."""

    def then(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` at the release, in the order of these calls."""
        self._waiting.append(callback)

    def release(self) -> None:
        self.released = True
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            try:
                callback()
            except Exception:
                # The others would be held forever.
                log.exception("held_callback_failed")


class Pressure:
    """Receivers that are behind, and publishers that wait for them. ``call_later`` is the loop's."""

    def __init__(self, call_later: Callable[[float, Callable[[], None]], object]) -> None:
        self._call_later = call_later
        self.behind: set[Recipient] = set()
        self.peers: dict[str, list[Publisher]] = {}
        """Congested links, and the channels that wait for each."""
        self._far: set[Recipient] = set()
        self.hold: Hold | None = None
        self.queued = 0
        """Bytes in all queues."""
        self._disconnects = False
        self._overrun: set[Recipient] = set()
        self.bound(max_session=1 << 60, max_node=1 << 60)

    def bound(self, *, max_session: int, max_node: int, disconnects: bool = False) -> None:
        """Set the bounds in bytes; ``disconnects``: a client whose session exceeds it is disconnected."""
        self.max_session = max_session
        self.max_node = max_node
        self.congested_at = max_session // 8
        self.flooded_at = max_session // 2
        self._disconnects = disconnects

    def has_room(self, size: int) -> bool:
        """Return whether the node may queue ``size`` bytes more."""
        return self.queued + size <= self.max_node

    def __bool__(self) -> bool:
        return bool(self.behind or self.peers)

    # Recipients.

    def congest(self, session: Recipient) -> None:
        """Mark ``session`` as behind: publishers to it are paused."""
        session.behind = True
        self.behind.add(session)

    def flood(self, session: Recipient) -> None:
        """Mark ``session`` as far behind: reports to peers are held, while it makes progress."""
        if not self._far:
            self.hold = Hold()
        self._far.add(session)
        self._call_later(STALL_TIMEOUT, partial(self._drain, session, _progress(session)))

    def relieve(self, session: Recipient) -> None:
        """Resume publishers to ``session``, which can take more again, or has ended."""
        session.behind = False
        self.behind.discard(session)
        if session in self._far:
            self._let_go(session)
        waiting = session.waiting
        if waiting is not None:
            session.waiting = None
            for channel in waiting:
                channel.resume_reading(BEHIND)

    def overrun(self, session: Recipient) -> bool:
        """Disconnect the client of a session that exceeds its bound, in the next turn, if that is set; return
        whether it will be."""
        if not self._disconnects or session in self._overrun:
            return False
        self._overrun.add(session)
        # Not now: the caller is in the middle of a fan-out.
        self._call_later(0.0, partial(self._disconnect, session, session.channel))
        return True

    def _disconnect(self, session: Recipient, channel: object) -> None:
        self._overrun.discard(session)
        if session.channel is channel and channel is not None:
            channel.disconnect(ReasonCode.QUOTA_EXCEEDED)

    def hold_up(self, channel: Publisher, sessions: tuple[Recipient, ...], peers: tuple[Peer, ...]) -> None:
        """Pause ``channel``, which just published to these, if any of them is behind."""
        for session in sessions:
            # A client that is behind on its own messages must be read from: only its acknowledgements help.
            if session in self.behind and session.channel is not channel:
                if session.waiting is None:
                    session.waiting = []
                    self._call_later(STALL_TIMEOUT, partial(self._wait, session, _progress(session)))
                session.waiting.append(channel)
                channel.pause_reading(BEHIND)
                return
        for peer in peers:
            waiting = self.peers.get(peer.peer)
            if waiting is not None:
                waiting.append(channel)
                channel.pause_reading(BEHIND)
                return

    def _wait(self, session: Recipient, before: tuple[int, int]) -> None:
        if session.waiting is None:
            return
        after = _progress(session)
        if session in self.behind and after != before:
            self._call_later(STALL_TIMEOUT, partial(self._wait, session, after))
        else:
            self.relieve(session)

    def _drain(self, session: Recipient, before: tuple[int, int]) -> None:
        if session not in self._far:
            return
        after = _progress(session)
        if after != before:
            self._call_later(STALL_TIMEOUT, partial(self._drain, session, after))
        else:
            self._let_go(session)

    def _let_go(self, session: Recipient) -> None:
        self._far.discard(session)
        if not self._far and self.hold is not None:
            hold, self.hold = self.hold, None
            hold.release()

    # Links.

    def link(self, peer: str, congested: bool) -> None:
        """Note that the link to ``peer`` is congested, or resume the publishers that wait for it."""
        if congested:
            self.peers.setdefault(peer, [])
        else:
            for channel in self.peers.pop(peer, ()):
                channel.resume_reading(BEHIND)


def _progress(session: Recipient) -> tuple[int, int]:
    channel = session.channel
    return session.delivered, -1 if channel is None else channel.unwritten


class Bucket:
    """Token bucket: ``rate`` tokens a second, one second's worth at once."""

    __slots__ = ("_at", "_level", "rate")

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._level = rate
        self._at: float | None = None

    def take(self, count: float, now: float) -> float:
        """Take ``count`` tokens, into debt if need be; return the seconds until the debt is paid."""
        if self._at is not None:
            self._level = min(self.rate, self._level + (now - self._at) * self.rate)
        self._at = now
        self._level -= count
        return max(0.0, -self._level / self.rate)

    def admit(self, now: float) -> bool:
        """Take a token; False: there is none."""
        if self.take(0, now) or self._level < 1:
            return False
        self._level -= 1
        return True

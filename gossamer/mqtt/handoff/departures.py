"""Clients whose sessions left a node, or came back to it, while it was away: its hints are not for them.

Clients come to this side while their node is away, and go back. From then on, or from the start where the
session was on this side all the time, hints are not for their sessions at that node. A session that left the
node at an unknown moment gets every hint: rather twice than never.

A node that dies before it sees that another is away has lost the list of that node's sessions. The other one
saw it go, and knows which clients have left since.

Known limit: if the other one restarts as well before the two meet again, that knowledge is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice

from gossamer.mqtt.handoff.hint_log import HintLog
from gossamer.mqtt.handoff.hints import MOVED_LIMIT, NO_END, Moved
from gossamer.mqtt.session.qos2 import Block
from gossamer.mqtt.session.transfer import rightful

STEP = 500
"""Clients examined in a turn of the loop."""


class _Anybody(frozenset[str]):
    """Clients of a node that had sessions, but it is not known whose: every client is among them."""

    def __contains__(self, _client_id: object) -> bool:
        return True


class Departures:
    """Clients of nodes that are away, as far as they are known.

    ``clients(peer)`` returns the clients with a session on a node, ``claims(client)`` the epochs of all
    claims to a client's session by node; ``changed(peer, client)`` is called when ``HintLog.moved`` changes.
    """

    def __init__(
        self,
        hint_store: Mapping[str, HintLog],
        *,
        clients: Callable[[str], Iterable[str]],
        claims: Callable[[str], Mapping[str, int]],
        changed: Callable[[str, str], object],
    ) -> None:
        self.had: dict[str, frozenset[str]] = {}
        """By node that is away, or has not received all its hints yet, the clients that it had."""
        self._here: dict[str, set[str]] = {}
        """By node that is away, or has not replayed all its hints yet, the clients that were here."""
        self._unseen: set[str] = set()
        """Nodes that this one did not see go: others may know better, and a client may have come to this side
        before the claims of this side were here."""
        self._hint_logs = hint_store
        self._clients = clients
        self._claims = claims
        self._changed = changed
        self._guessed: dict[str, dict[str, int]] = {}
        """By node, clients that seemed to have left before it went, and the epoch of the claim elsewhere."""
        self._delivered: dict[str, dict[str, list[Block]]] = {}
        """By node, the QoS 2 messages that its clients had elsewhere before their move was known."""
        self._handed: set[tuple[str, str]] = set()
        """Nodes, and clients of them to whose sessions elsewhere their hints were handed over."""
        self._claimed: set[str] = set()
        """Clients that came to this side while a node was away."""

    # -- nodes

    def away(self, peer: str) -> None:
        """Note whose sessions a node has that is away, unless known since it went away the last time."""
        self._unseen.discard(peer)
        self.had.setdefault(peer, frozenset(self._clients(peer)))

    def restored(self, peer: str, had: list[str] | None) -> None:
        """Note a node that this one did not see go, and its clients; None: they are not known."""
        self._unseen.add(peer)
        self.had[peer] = _Anybody() if had is None else frozenset(had)

    def elsewhere(self, peer: str) -> tuple[list[str], bool]:
        """Return ``moved`` and ``seen`` as :meth:`learned` takes them, of a node that is away."""
        moved = [client_id for client_id, bounds in self._hint_logs[peer].moved.items() if NO_END in bounds]
        return moved, peer not in self._unseen

    def learned(self, peer: str, had: list[list[str]], moved: list[str], *, seen: bool) -> None:
        """Add what another node reports of one that is away: whose sessions it had (as :meth:`remembered`),
        and whose are elsewhere now. ``moved`` replaces what is known here if only that node saw it go."""
        known = self.had[peer]
        if not isinstance(known, _Anybody):
            self.had[peer] = known.union(*had) if had else _Anybody()
        if not seen or peer not in self._unseen:
            return
        for client_id in moved:
            self._move(peer, client_id)
        for client_id in set(self._hint_logs[peer].moved).difference(moved):
            if self._hint_logs[peer].returns(client_id):
                self._changed(peer, client_id)

    def remembered(self, peer: str) -> list[list[str]]:
        """Return ``[clients]`` for :meth:`restored` in the next creation of this node; empty: not known."""
        had = self.had[peer]
        return [] if isinstance(had, _Anybody) else [list(islice(had, MOVED_LIMIT))]

    def forget(self, peer: str) -> None:
        """Forget a node that has received all its hints, or will not come back."""
        self.had.pop(peer, None)
        self._unseen.discard(peer)
        self._guessed.pop(peer, None)
        self._delivered.pop(peer, None)
        self._handed = {one for one in self._handed if one[0] != peer}
        if not self.had:
            self._claimed.clear()

    def parted(self, peer: str, clients: Iterable[str]) -> None:
        """Note ``clients``, whose sessions are here, as ``peer`` goes away: it may keep hints for them."""
        here = self._here.setdefault(peer, set())
        if len(here) > MOVED_LIMIT:
            # It may never have kept anything, and so will never report that it has replayed all of it.
            here.clear()
        here.update(clients)

    def rejoined(self, peer: str) -> None:
        """Forget the clients of :meth:`parted`: the node has replayed all, or will not come back."""
        self._here.pop(peer, None)

    def left(self, peer: str, node: str) -> list[str]:
        """Return clients whose sessions were on this ``node`` when ``peer`` went, and are not any more."""
        here = self._here.get(peer, ())
        return list(islice((client_id for client_id in here if self._owner(client_id) != node), MOVED_LIMIT))

    def guess(self, peer: str) -> None:
        """Take clients for moved that claims show elsewhere: they may have left before the node went down."""
        for client_id in self.had.get(peer, ()):
            if self._elsewhere(client_id, peer) and self._move(peer, client_id):
                self._guessed.setdefault(peer, {})[client_id] = max(self._claims(client_id).values())

    # -- clients

    def claimed(self, client_id: str, owner: str) -> None:
        """Note a new claim to a client's session; ``owner`` has the highest."""
        if owner in self.had:
            # A session on this side takes nothing more: what comes is for those of nodes that were away.
            for peer in self.had:
                if self._hint_logs[peer].returns(client_id):
                    self._changed(peer, client_id)
        if self.had and len(self._claimed) < MOVED_LIMIT:
            self._claimed.add(client_id)

    def misses(self, client_id: str) -> bool:
        """Return whether a node that is away had a client's session, and no other is known to have it."""
        return any(
            client_id in clients and NO_END not in self._hint_logs[peer].moved.get(client_id, ())
            for peer, clients in self.had.items()
        )

    def of(self, client_id: str) -> list[str]:
        """Return the nodes that are away and had a client's session, as far as it is known."""
        return [peer for peer, clients in self.had.items() if client_id in clients]

    def handed(self, peer: str, client_id: str) -> None:
        """Note that the session of a client elsewhere has the hints of a node for it."""
        if len(self._handed) < MOVED_LIMIT:
            self._handed.add((peer, client_id))

    def settled(self, client_id: str, owner: str, *, resumed: bool, had: list[Block]) -> None:
        """End the hints for a client at every node but ``owner``, whose session has all its routes now; also
        at a node that got a session of it only while it was cut off.

        ``resumed``: the session was on this side before. Otherwise ``had`` are the messages of QoS 2 that
        its client has had from it.
        """
        stayed = resumed and client_id not in self._claimed
        for peer, clients in self.had.items():
            if peer != owner:
                handed = (peer, client_id) in self._handed
                never = stayed and client_id not in clients and peer not in self._unseen
                self._move(peer, client_id, always=handed or never)
                delivered = self._delivered.setdefault(peer, {})
                if had and len(delivered) < MOVED_LIMIT:
                    delivered[client_id] = had

    def departed(self, peer: str) -> list[str] | None:
        """Return clients whose sessions a node had when it went, and has no more; None: not known here."""
        had = self.had.get(peer, frozenset())
        if isinstance(had, _Anybody):
            return None
        return [client_id for client_id in had if self._owner(client_id) != peer]

    async def not_for(self, peer: str) -> tuple[Moved, dict[str, list[Block]]]:
        """Return by client the numbers of hints not for it, and the QoS 2 messages that it has had."""
        moved: dict[str, Sequence[int]] = dict(self._hint_logs[peer].moved)
        for client_id, epoch in self._guessed.get(peer, {}).items():
            if not self._elsewhere(client_id, peer) or self._claims(client_id).get(peer, 0) > epoch:
                # It is back there, or was before it moved on, and in between it was on a node as far away:
                # it takes what is new to it.
                moved.pop(client_id, None)
        had = self.had.get(peer, frozenset())
        for count, client_id in enumerate(list(self._clients(peer)), 1):
            stayed = client_id not in had and client_id not in self._claimed and peer not in self._unseen
            if stayed and client_id not in moved and self._elsewhere(client_id, peer):
                # On this side all the time, it has had everything here.
                moved[client_id] = 0, NO_END
            if count % STEP == 0:
                await asyncio.sleep(0)
        return moved, self._delivered.get(peer, {})

    def _elsewhere(self, client_id: str, peer: str) -> bool:
        """Return whether a client's session is known to be on another node. Without any claim it is not: so
        it is with sessions of a node that dies again before its rows are here."""
        return self._owner(client_id) not in (None, peer)

    def _owner(self, client_id: str) -> str | None:
        return rightful(self._claims(client_id))

    def _move(self, peer: str, client_id: str, *, always: bool = False) -> bool:
        new = self._hint_logs[peer].moves(client_id, always=always)
        if new:
            self._changed(peer, client_id)
        return new

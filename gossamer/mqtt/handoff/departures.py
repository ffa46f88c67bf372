"""Whose sessions left a node, or came back to it, while it was away: what is kept for it is not for them.

Clients come to this side while their node is away, and go back. From then on, or from the start where the
session was on this side all the time, what is kept is not for their sessions at that node. Of a session that
left the node at an unknown moment, everything is given back: rather twice than never.

One that dies before it sees that another is away does not know any more whose sessions that had. The other
saw it go, and knows which clients have left it since.

Known limit: where that one is restarted as well before the two meet again, it is not known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice

from gossamer.mqtt.handoff.hint_log import Spool
from gossamer.mqtt.handoff.hints import MOVED_LIMIT, NO_END, Moved
from gossamer.mqtt.session.qos2 import Block
from gossamer.mqtt.session.transfer import rightful

STEP = 500
"""Clients looked at in a turn."""


class _Anybody(frozenset[str]):
    """The clients that a node may have had of which nobody remembers which they were."""

    def __contains__(self, _client_id: object) -> bool:
        return True


class Departures:
    """Clients of nodes that are away, as far as they are known.

    ``clients(peer)`` says whose sessions a node has, ``claims(client)`` which nodes are known to claim one;
    ``changed(peer, client)`` is told where ``Spool.moved`` says something else.
    """

    def __init__(
        self,
        spools: Mapping[str, Spool],
        *,
        clients: Callable[[str], Iterable[str]],
        claims: Callable[[str], Mapping[str, int]],
        changed: Callable[[str, str], object],
    ) -> None:
        self.had: dict[str, frozenset[str]] = {}
        """By node that is away, or has not been given everything yet, the clients that it had."""
        self._here: dict[str, set[str]] = {}
        """By node that is away from here, or has not given everything yet, the clients that were here."""
        self._unseen: set[str] = set()
        """Those that went when this node did not see them: others may know better."""
        self._spools = spools
        self._clients = clients
        self._claims = claims
        self._changed = changed
        self._guessed: dict[str, dict[str, int]] = {}
        """Clients that seemed to have left a node before it went, and the epoch of the claim that said so."""
        self._delivered: dict[str, dict[str, list[Block]]] = {}
        """What clients have had elsewhere before it was known that they are there."""
        self._claimed: set[str] = set()
        """Clients that came to this side while somebody was away."""

    # -- nodes

    def away(self, peer: str) -> None:
        """A node is away, or away again before it was given everything."""
        self._unseen.discard(peer)
        self.had.setdefault(peer, frozenset(self._clients(peer)))

    def restored(self, peer: str, had: list[str] | None) -> None:
        """A node went in a former life of this one, or before it came; None: it is not known what it had."""
        self._unseen.add(peer)
        self.had[peer] = _Anybody() if had is None else frozenset(had)

    def elsewhere(self, peer: str) -> tuple[list[str], bool]:
        """Clients that left a node that is away, as :meth:`learned` takes them; and whether that was seen."""
        moved = [client_id for client_id, bounds in self._spools[peer].moved.items() if NO_END in bounds]
        return moved, peer not in self._unseen

    def learned(self, peer: str, had: list[list[str]], moved: list[str], *, seen: bool) -> None:
        """Learn from another node about one that is away: whose sessions it had (as :meth:`remembered`), and
        whose are elsewhere now. Where it has seen that and this node has not, it is so from now on."""
        known = self.had[peer]
        if not isinstance(known, _Anybody):
            self.had[peer] = known.union(*had) if had else _Anybody()
        if not seen or peer not in self._unseen:
            return
        for client_id in moved:
            self._move(peer, client_id)
        for client_id in set(self._spools[peer].moved).difference(moved):
            if self._spools[peer].returns(client_id):
                self._changed(peer, client_id)

    def remembered(self, peer: str) -> list[list[str]]:
        """Return what :meth:`restored` is to be given in the next life; empty: not known."""
        had = self.had[peer]
        return [] if isinstance(had, _Anybody) else [list(islice(had, MOVED_LIMIT))]

    def forget(self, peer: str) -> None:
        """A node has been given everything, or will not come back."""
        self.had.pop(peer, None)
        self._unseen.discard(peer)
        self._guessed.pop(peer, None)
        self._delivered.pop(peer, None)
        if not self.had:
            self._claimed.clear()

    def parted(self, peer: str, clients: Iterable[str]) -> None:
        """A node is away, which may keep for this one; ``clients`` have their sessions here."""
        here = self._here.setdefault(peer, set())
        if len(here) > MOVED_LIMIT:
            # It may never have kept anything, and will not say that it has given all of it.
            here.clear()
        here.update(clients)

    def rejoined(self, peer: str) -> None:
        """A node has given everything, or will not come back."""
        self._here.pop(peer, None)

    def left(self, peer: str, node: str) -> list[str]:
        """Clients whose sessions were here, at ``node``, when another one went, and are here no more."""
        here = self._here.get(peer, ())
        return list(islice((client_id for client_id in here if self._owner(client_id) != node), MOVED_LIMIT))

    def guess(self, peer: str) -> None:
        """Clients may have left a node before anybody noticed that it is away."""
        for client_id in self.had.get(peer, ()):
            if self._elsewhere(client_id, peer) and self._move(peer, client_id):
                self._guessed.setdefault(peer, {})[client_id] = max(self._claims(client_id).values())

    # -- clients

    def claimed(self, client_id: str, owner: str) -> None:
        """A node has a client's session that it had not before; ``owner`` is whose claim is the highest."""
        if owner in self.had:
            # It has been away, and a session on this side takes nothing more. What comes is for any other.
            for peer in self.had:
                if self._spools[peer].returns(client_id):
                    self._changed(peer, client_id)
        if self.had and len(self._claimed) < MOVED_LIMIT:
            self._claimed.add(client_id)

    def settled(self, client_id: str, owner: str, *, resumed: bool, had: list[Block]) -> None:
        """A client's subscriptions are known at ``owner`` from now on: a node that is away gets nothing more
        for it, whether it had its session or came by one while it was cut off.

        ``resumed``: the session was on this side before, and nothing that is kept is for another one; or
        ``had`` are the messages of QoS 2 that its client has had from it.
        """
        stayed = resumed and client_id not in self._claimed
        for peer, clients in self.had.items():
            if peer != owner:
                self._move(peer, client_id, always=stayed and client_id not in clients)
                delivered = self._delivered.setdefault(peer, {})
                if had and len(delivered) < MOVED_LIMIT:
                    delivered[client_id] = had

    def departed(self, peer: str) -> list[str] | None:
        """Clients whose sessions a node had when it went, and has no more; None: only that node knows."""
        had = self.had.get(peer, frozenset())
        if isinstance(had, _Anybody):
            return None
        return [client_id for client_id in had if self._owner(client_id) != peer]

    async def not_for(self, peer: str) -> tuple[Moved, dict[str, list[Block]]]:
        """Which numbers are not for a client, and what clients are known to have had of the others."""
        moved: dict[str, Sequence[int]] = dict(self._spools[peer].moved)
        for client_id, epoch in self._guessed.get(peer, {}).items():
            if not self._elsewhere(client_id, peer) or self._claims(client_id).get(peer, 0) > epoch:
                # Back there by now, or before it came to where it is, and where it was meanwhile was as far
                # away: it takes what is new to it.
                moved.pop(client_id, None)
        had = self.had.get(peer, frozenset())
        for count, client_id in enumerate(list(self._clients(peer)), 1):
            stayed = client_id not in had and client_id not in self._claimed
            if stayed and client_id not in moved and self._elsewhere(client_id, peer):
                # On this side all the time, it has had everything here.
                moved[client_id] = 0, NO_END
            if count % STEP == 0:
                await asyncio.sleep(0)
        return moved, self._delivered.get(peer, {})

    def _elsewhere(self, client_id: str, peer: str) -> bool:
        """Return whether a client's session is known to be on another node. Of a node that dies again before
        it has said which sessions it has, none is known to be anywhere: these are its own still."""
        return self._owner(client_id) not in (None, peer)

    def _owner(self, client_id: str) -> str | None:
        return rightful(self._claims(client_id))

    def _move(self, peer: str, client_id: str, *, always: bool = False) -> bool:
        new = self._spools[peer].moves(client_id, always=always)
        if new:
            self._changed(peer, client_id)
        return new

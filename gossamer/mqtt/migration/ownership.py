"""Ownership of sessions: the claims of this node, and those of others.

Each node has a row for each of its sessions in the *owned* table ``sessions``, with an epoch; the node with
the highest ``(epoch, node)`` has the client.

Rules: 1. A client whose session is new, or was moved here, is served once every node that is up has seen the
claim, the source among them: from then on no source thaws the session should this node die, no second copy is
delivered, and whichever node the client goes to next finds that there is a session.  2. A node that thawed a
session that another one may have committed claims it, when the client comes, above that node's claim.  3. A
claim that was outbid is withdrawn once every node that is up has a higher one: rows of different owners reach
a node in any order. Withdrawn as soon as its own node has seen the higher one, it might be gone at a third
node before the new owner's row is there, and the client would find no session.  4. While a node is away, each
connection renews the claim of the session that it resumes: of two sessions that a partition has kept from
each other, the one that the client had last goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from gossamer.distribution import rpc as remote
from gossamer.mqtt.session.transfer import rightful

if TYPE_CHECKING:
    from gossamer.distribution import Distribution
    from gossamer.mnesia_like import OwnedTable
    from gossamer.mqtt.handoff.hinted_handoff import HintedHandoff
    from gossamer.mqtt.publish.core import Core
    from gossamer.mqtt.session.session import Session

CLAIM_TIMEOUT = 3.0
"""Seconds that a claim may take to be seen by nodes that are up."""
NEW_CLAIM_TIMEOUT = 1.0
"""The same for a new session, of which nothing can be delivered twice."""
KNOWS = "mqtt.knows"
KNOWS_TIMEOUT = 1.0
RETRY_INTERVAL = 0.5
ASKED = 1000
"""Claims in one request."""


class Ownership:
    """Claims the sessions of this node and compares them with the claims of others.

    ``rows`` are the claims, epochs by client and node."""

    def __init__(
        self, core: Core, rows: OwnedTable, distribution: Distribution, handoff: HintedHandoff
    ) -> None:
        self.node = distribution.runtime.node
        self.doubtful: dict[str, int] = {}
        """By client whose session was given to a node that died, or was partitioned, before its claim was
        seen, the epoch with which it may have claimed it."""
        self.check: Callable[[str], object] = lambda _client_id: None
        """Called with clients to whom another node may have a higher claim."""
        self.functions: dict[str, Callable[..., object]] = {KNOWS: self._knows}
        """Functions that other nodes call, by name."""
        self._table, self._wills = core.table, core.wills
        self._rows = rows
        self._distribution = distribution
        self._handoff = handoff
        self._outbid: dict[str, int] = {}
        self._going = False

    def rows(self, client_id: str) -> dict[str, int]:
        """Return the claims of other nodes that can be reached, epochs by node."""
        up = self._distribution.nodes()
        return {node: epoch for node, epoch in self._rows.read(client_id).items() if node in up}

    def better(self, client_id: str) -> dict[str, int]:
        """Return those of :meth:`rows` that are higher than this node's own."""
        rows = self.rows(client_id)
        session = self._table.sessions.get(client_id)
        if session is None or not rows:
            return rows
        return {node: epoch for node, epoch in rows.items() if (epoch, node) > (session.epoch, self.node)}

    def claims(self, client_id: str) -> dict[str, int]:
        """Return all claims to a client's session, this node's too: epochs by node."""
        return self._rows.read(client_id)

    def next_epoch(self, client_id: str) -> int:
        """Return an epoch above all claims to a client."""
        return int(max(self._rows.read(client_id).values(), default=0)) + 1

    def own(self, session: Session, stamp: int) -> None:
        """Claim a session for a connection of this node; a persistent one once it is on disc."""
        self._number_for(session, stamp)
        if session.subscriptions:
            self._handoff.settle(session)
        if session.store is None:
            self.claim(session)
        else:
            session.save()
            session.store.disc.append_acked(b"", lambda _: self.claim(session))

    def _number_for(self, session: Session, stamp: int) -> None:
        client_id = session.client_id
        found = self._rows.read(client_id)
        doubt = self.doubtful.pop(client_id, None)
        if doubt is not None:
            session.epoch = max(stamp, doubt, self.next_epoch(client_id), session.epoch + 1) + 1
        elif (
            self._handoff.anybody
            or found.get(self.node) != (session.epoch or None)
            or rightful(found) != self.node
        ):
            # On the other side of a partition its client may have begun another session since.
            session.epoch = max(stamp, self.next_epoch(client_id))
        session.born = session.born or session.epoch

    async def establish(self, session: Session, stamp: int) -> None:
        """Claim a new persistent session; wait :data:`NEW_CLAIM_TIMEOUT` for the nodes to have the claim."""
        self._number_for(session, stamp)
        session.save()
        if session.store is not None:
            await session.store.disc.settled()
        number = self.claim(session)
        if number is not None:
            await self._rows.visible(number, NEW_CLAIM_TIMEOUT)

    def outbid(self, session: Session) -> None:
        """Claim a session above a claim that has no connection behind it."""
        session.epoch = self.next_epoch(session.client_id)
        session.save()
        self.claim(session)

    async def announce(self, session: Session, source: str) -> None:
        """Claim a session that was moved here; wait :data:`CLAIM_TIMEOUT` for the nodes to have the claim."""
        number = self.claim(session)
        known = number is not None and await self._rows.visible(number, CLAIM_TIMEOUT)
        if known and source in self._distribution.nodes():
            self._wills.moved(session.client_id, source)
        session.given = None
        session.save()

    def reclaim(self, session: Session) -> None:
        """Claim a session that this node restored from disc."""
        if session.given is not None:
            self.doubtful[session.client_id] = 0
        self.claim(session)

    def claim(self, session: Session) -> int | None:
        """Claim the session with the epoch that it has; a higher claim of another node supersedes it.

        Returns the sequence number of the write; None: none was needed.
        """
        client_id = session.client_id
        if self._table.sessions.get(client_id) is not session:
            return None
        if not session.epoch:
            session.epoch = self.next_epoch(client_id)
        number = None
        self._outbid.pop(client_id, None)
        if self._rows.read(client_id).get(self.node) != session.epoch:
            number = self._rows.write(client_id, session.epoch)
        self.check(client_id)
        return number

    def disown(self, client_id: str) -> None:
        """Withdraw the claim to a session that has ended."""
        self.doubtful.pop(client_id, None)
        self.withdraw(client_id)

    # -- withdrawals

    def withdraw(self, client_id: str) -> None:
        """Withdraw this node's claim: at once, or if there is a higher one, as soon as all nodes have it."""
        epoch = self._rows.read(client_id).get(self.node)
        if epoch is None:
            return
        if not self._is_outbid(client_id, self.node, epoch):
            self._rows.delete(client_id)
            return
        self._outbid[client_id] = epoch
        if not self._going:
            self._going = True
            self._distribution.runtime.spawn(self._run, label="mqtt_withdrawals")

    def is_outbid(self, client_id: str) -> bool:
        """Return whether this node still claims the session, and another one has a higher claim."""
        epoch = self._rows.read(client_id).get(self.node)
        return epoch is not None and self._is_outbid(client_id, self.node, epoch)

    async def all_know(self, claims: Mapping[str, int]) -> set[str]:
        """Return the clients to whom every node that is up has a higher claim than this node's ``claims``."""
        nodes = self._distribution.nodes()
        if not nodes:
            return set(claims)
        answers = await remote.multicall(nodes, KNOWS, self.node, list(claims.items()), timeout=KNOWS_TIMEOUT)
        known = set(claims)
        for answer in answers.values():
            outbid: Any = answer.value if isinstance(answer, remote.Returned) else ()
            known &= set(outbid)
        return known

    async def _run(self) -> None:
        try:
            while self._outbid:
                await asyncio.sleep(RETRY_INTERVAL)
                asked = dict(islice(self._outbid.items(), ASKED))
                known = await self.all_know(asked)
                for client_id, epoch in asked.items():
                    if self._outbid.get(client_id) != epoch:
                        continue
                    del self._outbid[client_id]
                    if client_id in known or not self._is_outbid(client_id, self.node, epoch):
                        self._rows.delete(client_id)
                    else:
                        self._outbid[client_id] = epoch
        finally:
            self._going = False

    def _knows(self, node: str, claims: list[tuple[str, int]]) -> list[str]:
        return [client_id for client_id, epoch in claims if self._is_outbid(client_id, node, epoch)]

    def _is_outbid(self, client_id: str, node: str, epoch: int) -> bool:
        claims = self._rows.read(client_id)
        return any((other, name) > (epoch, node) for name, other in claims.items())

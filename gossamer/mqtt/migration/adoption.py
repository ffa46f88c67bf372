"""Adoption: a session goes on from the copy that a quorum has, while the node that had it is down.

It is a move whose source is the copy. The target takes the copy over first, so that nothing is written there
any more that the other node still has on its way, then installs it as it would what a source sends. What
came since then went nowhere but to the hints that other nodes keep for the one that is down: each hands over
those for this client, up to its mark; what it sends behind that comes here.

Rules: 1. What a quorum has is read only where the session may be better there: its node is down, or this one
has restarted and does not know.  2. Where no quorum can be reached, the client is served with what is here;
with ``on_no_quorum: refuse`` it is asked each time, and a client refused without its answer.  3. A node that
had the session learns by the token of the move what it had given away (``succession``).
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING

import structlog

from gossamer.distribution import rpc as remote
from gossamer.errors import UnavailableError
from gossamer.mqtt.copies.copies import SessionCopies
from gossamer.mqtt.copies.fenced import Image
from gossamer.mqtt.copies.rows import Owner
from gossamer.mqtt.copies.succession import token_of
from gossamer.mqtt.migration.adopted import Adopted
from gossamer.mqtt.migration.claims import FOREIGN, Fetched
from gossamer.mqtt.migration.successors import Successors
from gossamer.mqtt.migration.target import REMEMBERED_MOVES, Targets
from gossamer.mqtt.session import transfer
from gossamer.mqtt.session.durable import DurableSession
from gossamer.mqtt.session.qos2 import Once
from gossamer.mqtt.session.store import Stored

if TYPE_CHECKING:
    from gossamer.distribution import Distribution
    from gossamer.mqtt.handoff.hinted_handoff import HintedHandoff
    from gossamer.mqtt.migration.claims import Claimant
    from gossamer.mqtt.migration.ownership import Ownership
    from gossamer.mqtt.publish.core import Core

log = structlog.get_logger(__name__)

HAS = "mqtt.has"
"""Name of :meth:`Adoptions.has` for other nodes."""
MISSES = "mqtt.misses"
"""Name of :meth:`Adoptions.misses` for other nodes."""
DOWN_TIMEOUT = 3.0
READ_TIMEOUT = 3.0
"""Seconds for which a client waits for what a quorum has."""
RETRY_INTERVAL = 0.1
AT_ONCE = 64
"""Sessions of one range that are adopted at the same time; others wait for their turn, and not for an answer
that comes too late."""


class Adoptions:
    """Sessions that are taken over from copies, by client."""

    def __init__(
        self,
        core: Core,
        ownership: Ownership,
        targets: Targets,
        distribution: Distribution,
        handoff: HintedHandoff,
        successors: Successors,
    ) -> None:
        self.copies: SessionCopies | None = None
        """Where copies are; None: sessions are not copied."""
        self._table, self._fanout = core.table, core.fanout
        self._ownership = ownership
        self._targets = targets
        self._distribution = distribution
        self._handoff = handoff
        self._successors = successors
        self._open: dict[str, tuple[asyncio.Event, Claimant | None]] = {}
        self._turns: defaultdict[int, asyncio.Semaphore] = defaultdict(partial(asyncio.Semaphore, AT_ONCE))
        """By range, who may go on."""

    def is_due(self, client_id: str, *, clean: bool, lasts: bool) -> bool:
        """Return whether to look for a session of a client where a quorum has it; ``lasts``: it asks for a
        persistent one."""
        copies = self.copies
        if copies is None or not copies.begun():
            return False
        had_one, session = self._handoff.had_one(client_id), self._table.sessions.get(client_id)
        if copies.strict:
            return lasts or had_one or isinstance(session, DurableSession)
        if not copies.answers(client_id):
            return False
        return had_one or (not clean and (session is None or copies.is_unsure(client_id)))

    @property
    def is_strict(self) -> bool:
        """True if no session is served that a quorum does not confirm."""
        return self.copies is not None and self.copies.strict

    def over(self, client_id: str) -> asyncio.Event | None:
        """Return the event that is set once a session has been adopted; None: it is not being adopted."""
        return self._open[client_id][0] if client_id in self._open else None

    def claimant(self, client_id: str) -> Claimant | None:
        """Return the connection for which a session is being adopted; None: there is none."""
        return self._open[client_id][1] if client_id in self._open else None

    def has(self, client_id: str) -> bool:
        """Return whether the session of a client is here, or on its way here."""
        return client_id in self._table.sessions or client_id in self._open

    async def take(self, client_id: str, claimant: Claimant | None) -> Fetched:
        """Adopt the session of a client, if a quorum has a better one than this node; ``elsewhere``: a node
        that is up has it."""
        copies = self.copies
        assert copies is not None  # noqa: S101 - or it would not be due
        over = asyncio.Event()
        self._open[client_id] = over, claimant
        try:
            async with self._turns[copies.range_of(client_id)]:
                return await self._adopt(copies, client_id, claimant)
        finally:
            copies.let_go(client_id)
            del self._open[client_id]
            over.set()

    async def _adopt(self, copies: SessionCopies, client_id: str, claimant: Claimant | None) -> Fetched:
        if not copies.answers(client_id):
            return "unavailable" if copies.strict else "here"
        try:
            async with asyncio.timeout(READ_TIMEOUT):
                image = await self._claim(copies, client_id, claimant)
            if not isinstance(image, Image):
                copy = copies.copy_of(client_id)
                return "unavailable" if copies.strict and copy is not None and copy.behind else image
            await self._seen_down(image.owner.node)
            return await self._install(client_id, claimant, image)
        except (UnavailableError, TimeoutError) as error:
            copies.silent(client_id)
            reason = str(error) or "no answer in time"
            log.warning("session_copy_not_read", client_id=client_id, reason=reason)
            return "unavailable" if copies.strict else "here"

    async def discard(self, client_id: str, claimant: Claimant | None) -> Fetched:
        """Delete the copy of a session whose client makes a clean start, and whose node is down."""
        copies = self.copies
        assert copies is not None  # noqa: S101 - or it would not be due
        if not copies.answers(client_id):
            return "unavailable"
        try:
            async with asyncio.timeout(READ_TIMEOUT):
                owner = await copies.owner(client_id)
                if owner is None or self._is_here(client_id, owner):
                    return "here"
                if await self._is_served(owner.node, client_id):
                    return "here"
                if (image := await copies.find(client_id)) is None:
                    return "here"
                if claimant is not None and self._is_foreign(client_id, image, claimant):
                    return FOREIGN
                epoch = max(image.owner.epoch + 1, self._ownership.next_epoch(client_id))
                if await copies.claim(client_id, image.owner, epoch) is not None:
                    copies.taken(client_id)
        except (UnavailableError, TimeoutError) as error:
            log.warning("session_copy_not_deleted", client_id=client_id, reason=str(error))
            if copies.strict:
                return "unavailable"
        return "here"

    async def _claim(
        self, copies: SessionCopies, client_id: str, claimant: Claimant | None
    ) -> Image | Fetched:
        """Claim the copy of a session; return it as it was then, with the owner that it had."""
        node = self._ownership.node
        # Of a session that is in its place here, the owner's row says it.
        if client_id in self._table.sessions and self._is_here(client_id, await copies.owner(client_id)):
            return "here"
        while (image := await copies.find(client_id)) is not None:
            owner = image.owner
            if self._is_here(client_id, owner):
                break
            if claimant is not None and self._is_foreign(client_id, image, claimant):
                return FOREIGN
            if owner.node != node and await self._is_served(owner.node, client_id):
                if self._ownership.better(client_id):
                    return "elsewhere"
            else:
                # The one that the session will have, or the copy would have to be claimed again.
                stamp = 0 if claimant is None else claimant.stamp
                epoch = max(stamp, owner.epoch + 1, self._ownership.next_epoch(client_id))
                claimed = await copies.claim(client_id, owner, epoch)
                if claimed is not None:
                    return claimed._replace(owner=owner)
            await asyncio.sleep(RETRY_INTERVAL)
        return "here"

    def _is_here(self, client_id: str, owner: Owner | None) -> bool:
        """Return whether the session of a client is here, and no claim in its copy is higher."""
        session = self._table.sessions.get(client_id)
        if session is None:
            return False
        return owner is None or (session.epoch, self._ownership.node) >= (owner.epoch, owner.node)

    async def _is_served(self, node: str, client_id: str) -> bool:
        """Return whether a node that is up has the session."""
        if node not in self._distribution.nodes():
            return False
        answer = await remote.call(node, HAS, client_id, timeout=1.0)
        return not isinstance(answer, remote.Returned) or bool(answer.value)

    async def _seen_down(self, node: str) -> None:
        """Wait, at most :data:`DOWN_TIMEOUT`, until every node that is up has seen one go down: what it has
        sent there, and was not acknowledged, is among its hints then."""
        if not self.misses(node) or node == self._ownership.node:
            # It is up, and has no such session.
            return
        until = self._fanout.now() + DOWN_TIMEOUT
        waits = set(self._distribution.nodes())
        while waits and self._fanout.now() < until:
            answers = await self._handoff.gathered.multicall(waits, MISSES, node, timeout=1.0)
            waits = {one for one, answer in answers.items() if answer == remote.Returned(False)}
            if waits:
                await asyncio.sleep(RETRY_INTERVAL)

    def misses(self, node: str) -> bool:
        """Return whether a node is not up, as this one sees it."""
        return node not in self._distribution.nodes()

    def _is_foreign(self, client_id: str, image: Image, claimant: Claimant) -> bool:
        stored = self._stored(image)
        if stored is None or stored.facts is None:
            return False
        return not self._table.may_have(stored.facts.username, claimant.username)

    def merge(self, session: DurableSession, image: Image) -> bool:
        """Add to a session that began here, while the copy of an older one of its client could not be read,
        what only that has, as if its node had come back and offered it; False: not now, since the client may
        still subscribe."""
        stored, store = self._stored(image), self._table.store
        if stored is None or store is None or self._is_over(stored):
            return True
        assert stored.facts is not None  # noqa: S101 - it is a session
        if not self._table.may_have(stored.facts.username, session.username):
            return True
        ghost = self._ghost(stored)
        before = list(transfer.subscriptions_in(ghost))
        if before and self._successors.unsaid(session, ghost.born, before):
            ghost.refill(())
            return False
        wanted = transfer.wanted_by(session, shared=True)
        left = transfer.left_of(ghost, given=False)
        transfer.know(session, transfer.unreleased_in(ghost))
        if had := transfer.had_from(ghost):
            transfer.forget(session, Once.of(had))
        for message in left:
            if (qos := wanted(message.topic)) and session.admits(message):
                session.take(message, qos=min(message.qos, qos), retain=False)
        session.moves = (*session.moves, token_of(stored, image.owner.node))[-REMEMBERED_MOVES:]
        session.save()
        log.info("session_merged", client_id=session.client_id, node=image.owner.node, messages=len(left))
        ghost.refill(())
        return True

    def _is_over(self, stored: Stored) -> bool:
        store = self._table.store
        assert stored.facts is not None and store is not None  # noqa: PT018, S101 - it is a session
        expires = stored.facts.expires
        return expires is not None and store.moment(expires) <= self._fanout.now()

    def _ghost(self, stored: Stored) -> DurableSession:
        """Return a session as it was stored, which writes nothing."""
        store = self._table.store
        assert store is not None  # noqa: S101 - or there were no copies
        ghost = DurableSession(stored.client_id, fanout=self._fanout, store=store, max_queued=0)
        ghost.read_only()
        ghost.restore(stored)
        return ghost

    def _stored(self, image: Image) -> Stored | None:
        store = self._table.store
        assert store is not None  # noqa: S101 - sessions that are copied are on disc
        return store.one(image.rows)

    async def _install(self, client_id: str, claimant: Claimant | None, image: Image) -> Fetched:
        copies, store = self.copies, self._table.store
        assert copies is not None and store is not None  # noqa: PT018, S101 - or there were no copies
        stored = self._stored(image)
        if stored is None or stored.facts is None:
            copies.taken(client_id)
            return "here"
        expires = stored.facts.expires
        left = None if expires is None else store.moment(expires) - self._fanout.now()
        if left is not None and left <= 0:
            copies.taken(client_id)
            return "here"
        ghost = self._ghost(stored)
        state = transfer.describe(ghost, transfer.Pending(left, None, None)) | {
            "epoch": max(ghost.epoch, image.owner.epoch),
            "moves": (*ghost.moves, token_of(stored, image.owner.node))[-REMEMBERED_MOVES:],
        }
        log.info(
            "session_adopted",
            client_id=client_id,
            node=image.owner.node,
            queued=len(ghost.queue),
            inflight=len(ghost.inflight),
        )
        entries = [entry for part in transfer.in_parts(ghost, self._fanout.now()) for entry in part]
        ghost.refill(())

        def adopted(token: str) -> Adopted:
            data = state, entries
            return Adopted(self._targets, client_id, token, claimant, node=image.owner.node, state=data)

        return await self._targets.run(client_id, adopted)

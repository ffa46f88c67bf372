"""Writer of the copies of this node's sessions, and reader of those that a node which is down has left.

Rule: it writes only what it owns. A session that another node has taken over is that one's; should this node
have something of it that the other lacks, it is offered there (``migration.superseded``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import structlog
from msgspec.structs import replace

from gossamer.basekv import Operation, RangeFullError
from gossamer.errors import GossamerError
from gossamer.mqtt.copies import fenced
from gossamer.mqtt.copies import rows as layout
from gossamer.mqtt.copies.fenced import Image, KeyValues, OwnedElsewhereError
from gossamer.mqtt.copies.known import Known, Rows
from gossamer.mqtt.copies.machine import Copy, Copying
from gossamer.mqtt.copies.rows import Owner
from gossamer.mqtt.copies.succession import is_another
from gossamer.mqtt.session.durable import DurableSession
from gossamer.mqtt.session.store import SESSION

if TYPE_CHECKING:
    from gossamer.mqtt.session.session import Session

log = structlog.get_logger(__name__)

WRITERS = 64
"""Sessions that are written at the same time, a share of them in each range."""
RANGE_WRITERS = 16


class SessionCopies:
    """Copies the sessions of a node.

    ``sessions`` are the node's, by client; ``spawn`` runs a function as a process; ``released`` is called
    whenever :meth:`committed_in` may have grown. ``enough()``: the cluster has the replicas that make it
    worth it; ``on_disc()`` returns once the disc has all that was noted. ``strict``: no client is served
    whose session is behind.
    """

    def __init__(
        self,
        keys: KeyValues,
        sessions: Mapping[str, Session],
        *,
        node: str,
        creation: int,
        spawn: Callable[..., object],
        now: Callable[[], float],
        enough: Callable[[], bool],
        released: Callable[[], None],
        on_disc: Callable[[], Awaitable[object]],
        strict: bool = False,
    ) -> None:
        self.merge: Callable[[DurableSession, Image], bool] = lambda _session, _image: False
        """Called where a session began here without the copy of the one that its client had: adds what that
        has to it; False: not now."""
        self.strict = strict
        self._on_disc = on_disc
        self._active = False
        self.behind_since = 0.0
        """When the first of the sessions fell behind that are; 0: none is."""
        self.uncopied_since = 0.0
        """When the first found no room in its range of those that find none; 0: all do."""
        self._keys = keys
        self._sessions = sessions
        self._node = node
        self._creation = creation
        self._spawn = spawn
        self._now = now
        self._enough = enough
        self._released = released
        self._machine = Copying()
        self._known = Known()
        self._writers: Counter[int] = Counter()
        """By range, the processes that write to it."""

    def committed_in(self, number: int) -> float:
        """Return the ticket up to which a quorum of a range has everything that is waited for."""
        return self._machine.committed_in(number)

    @property
    def behind(self) -> int:
        """Number of sessions of which a quorum does not have everything."""
        return len(self._machine.behind)

    @property
    def uncopied(self) -> int:
        """Number of sessions that are not copied, since their ranges have no room."""
        return len(self._machine.resting)

    @property
    def count(self) -> int:
        """Number of sessions that are copied."""
        return len(self._machine.copies)

    def begun(self) -> bool:
        """Return whether sessions are copied, from the first moment on in which there are enough replicas."""
        if not self._active and self._enough():
            self._active = True
            for session in self._sessions.values():
                if isinstance(session, DurableSession):
                    self._machine.again(self._copy(session.client_id))
        return self._active

    def is_behind(self, client_id: str) -> bool:
        """Return whether a quorum lacks something of a session that was acknowledged without it, or another
        node has taken the session over."""
        copy = self._machine.copies.get(client_id)
        return copy is not None and (copy.behind or copy.usurped)

    def copy_of(self, client_id: str) -> Copy | None:
        """Return the copy of a session; None: sessions are not copied yet."""
        return self._machine.copies.get(client_id)

    def is_usurped(self, client_id: str) -> bool:
        """Return whether another node has taken a session over, perhaps without what was noted here last."""
        copy = self._machine.copies.get(client_id)
        return copy is not None and copy.usurped

    def is_unsure(self, client_id: str) -> bool:
        """Return whether another node may have taken over the session that is here."""
        copy = self._machine.copies.get(client_id)
        return copy is None or copy.owner is None

    def answers(self, client_id: str) -> bool:
        """Return whether the range of a session may answer: it did when it was asked last, or that is a while
        ago."""
        return self._machine.answers(self.range_of(client_id), self._now())

    def silent(self, client_id: str) -> None:
        """Note that the range of a session has not answered in time; if writes to it fail, too, nobody else
        has to wait as long for the same."""
        number = self.range_of(client_id)
        if number in self._machine.failing:
            self._machine.silent(number, self._now())

    # Changes.

    def note(
        self, client_id: str, kind: int, key: object, value: bytes | None, ticket: int, *, new: bool
    ) -> int | None:
        """Take a change of a session's row, see :meth:`SessionStore.put`; return its range, if copied."""
        if not (self._active and client_id):
            return None
        copy = self._copy(client_id)
        if kind == SESSION and value is None:
            if copy.foreign:
                self._machine.gone(copy)
            else:
                self._machine.end(copy, ticket, self._now())
            return copy.range
        if copy.foreign and kind == SESSION:
            # It may have a higher claim now.
            self._machine.again(copy)
        self._machine.note(copy, *layout.row_of(kind, key, value), ticket, self._now(), new=new)
        return copy.range

    def leave(self, client_id: str) -> None:
        """Write nothing more of a session, which goes on at another node: the copy is that one's."""
        copy = self._machine.copies.get(client_id)
        if copy is not None:
            self._machine.leave(copy)
        self._known.forget(client_id)

    def committed_here(self) -> None:
        """Write what the disc has now."""
        if self._machine.flush():
            self._work()

    def tick(self) -> None:
        """Do what is due. Call it about once a second."""
        if not self.begun():
            return
        now = self._now()
        self._known.tick(now)
        behind = self.behind
        self._machine.tick(now)
        self._turn_away(self._machine.behind)
        if self.behind > behind:
            self._released()
        if not self.behind:
            self.behind_since = 0.0
        elif not self.behind_since:
            self.behind_since = now
            log.warning("sessions_behind", count=self.behind)
        if not self.uncopied:
            self.uncopied_since = 0.0
        elif not self.uncopied_since:
            self.uncopied_since = now
        self._machine.flush()
        self._work()

    def _turn_away(self, copies: Iterable[Copy]) -> None:
        """End the connections of sessions that are behind, before they go on with the disc alone."""
        for copy in list(copies) if self.strict else ():
            session = self._sessions.get(copy.client_id)
            if copy.behind and session is not None and session.channel is not None:
                session.channel.turn_away("no quorum has all of its session")

    def _copy(self, client_id: str) -> Copy:
        copy = self._machine.copies.get(client_id)
        if copy is None:
            copy = self._machine.copies[client_id] = Copy(client_id, self.range_of(client_id))
        return copy

    def range_of(self, client_id: str) -> int:
        """Return the number of the range that has the copy of a client's session."""
        copy = self._machine.copies.get(client_id)
        return self._keys.range_of(layout.prefix_of(client_id)) if copy is None else copy.range

    # Writing.

    def _work(self) -> None:
        while self._writers.total() < WRITERS and (copy := self._machine.next(self._busy())) is not None:
            self._writers[copy.range] += 1
            self._spawn(self._write_all, copy, label="mqtt_copies")

    def _busy(self) -> set[int]:
        """Return the ranges that have all the writers that one may have: it may be one that hangs."""
        return {number for number, count in self._writers.items() if count >= RANGE_WRITERS}

    async def _write_all(self, copy: Copy | None) -> None:
        number = 0 if copy is None else copy.range
        try:
            while copy is not None:
                try:
                    await self._write(copy)
                except OwnedElsewhereError:
                    self._machine.failed(copy, self._now(), answered=True)
                    self._machine.flush()
                except RangeFullError as error:
                    log.warning("session_not_copied", client_id=copy.client_id, reason=str(error))
                    await self._drop(copy)
                except GossamerError as error:
                    log.debug("session_not_copied", client_id=copy.client_id, reason=str(error))
                    self._machine.failed(copy, self._now(), answered=False)
                except Exception:
                    # Or nothing of it would be written again, and QoS 2 wait for that.
                    log.exception("session_not_copied", client_id=copy.client_id)
                    self._machine.failed(copy, self._now(), answered=False)
                self._turn_away((copy,))
                self._released()
                self._writers[number] -= 1
                copy = self._machine.next(self._busy())
                number = number if copy is None else copy.range
                self._writers[number] += 1
        finally:
            self._writers[number] -= 1

    async def _write(self, copy: Copy) -> None:
        session = self._sessions.get(copy.client_id)
        if self._machine.copies.get(copy.client_id) is not copy:
            # It went elsewhere before this began, so the copy is not this node's to delete.
            self._machine.gone(copy)
        elif copy.client_id in self._known.claimed:
            self._not_now(copy)
        elif not isinstance(session, DurableSession):
            await self._delete(copy)
        elif session.gate is not None and copy.owner is None:
            self._not_now(copy)
        elif copy.whole or copy.owner is None:
            await self._write_whole(copy, session)
        else:
            await self._write_changes(copy, session)

    def _not_now(self, copy: Copy) -> None:
        """Do not write a session that is being put together, or has been given away."""
        if copy.written:
            # What waits in it must not be done before this node knows whose it is.
            self._machine.refused(copy)
        else:
            self._machine.postponed(copy)

    async def _drop(self, copy: Copy) -> None:
        """Have no copy of a session that finds no room: an older one would be worse than none."""
        try:
            await fenced.remove(self._keys, layout.prefix_of(copy.client_id), copy.owner, self._node)
        except GossamerError:
            self._machine.failed(copy, self._now(), answered=False)
        else:
            self._machine.full(copy, self._now())

    async def _delete(self, copy: Copy) -> None:
        self._known.forget(copy.client_id)
        await fenced.remove(self._keys, layout.prefix_of(copy.client_id), copy.owner, self._node)
        if isinstance(self._sessions.get(copy.client_id), DurableSession):
            # Its client has begun another one meanwhile.
            raise OwnedElsewhereError(copy.owner)
        self._machine.gone(copy)

    async def _write_whole(self, copy: Copy, session: DurableSession) -> None:
        prefix = layout.prefix_of(copy.client_id)
        found_before = self._known.take(copy.client_id, self._now())
        known = await fenced.read(self._keys, prefix) if found_before is None else found_before
        found = layout.owner_in(known)
        if not (self._may_write(copy, session, found) and self._has(copy, session, found, known)):
            return
        mine = self._owner(session)
        # What the one before has on its way may still come behind what was read, until it is replaced.
        moved = found is not None and found != mine
        if moved and (layout.is_large(session.rows()) or is_another(session, layout.facts_in(known))):
            await fenced.write(self._keys, prefix, found, mine, [])
            before, known = known, await fenced.read(self._keys, prefix)
            if not self._may_write(copy, session, mine):
                return
            if known.keys() - before.keys() and not self._has(copy, session, found, known):
                return
            found, moved = mine, False
        self._machine.take(copy)
        operations = layout.whole(prefix, session.rows(), None if moved else known, copy.large)
        await self._commit(copy, prefix, found, self._owner(session), operations)

    async def _write_changes(self, copy: Copy, session: DurableSession) -> None:
        assert copy.owner is not None  # noqa: S101 - or it would be written whole
        prefix = layout.prefix_of(copy.client_id)
        operations = layout.changes(prefix, self._machine.take(copy), copy.large)
        await self._commit(copy, prefix, copy.owner, replace(copy.owner, epoch=session.epoch), operations)

    def _owner(self, session: DurableSession) -> Owner:
        return Owner(self._node, self._creation, session.epoch)

    def _may_write(self, copy: Copy, session: DurableSession, found: Owner | None) -> bool:
        """Return whether the copy, with the owner that was found, is this node's to write, and now."""
        if found is not None and found.outbids(self._owner(session)):
            self._machine.leave(copy)
            self._machine.done(copy, self._now())
            return False
        if self._sessions.get(copy.client_id) is not session:
            # Its client has begun another one meanwhile, which waits for this.
            raise OwnedElsewhereError(found)
        if session.gate is not None:
            self._not_now(copy)
            return False
        return True

    def _has(self, copy: Copy, session: DurableSession, found: Owner | None, known: Rows) -> bool:
        """Return whether a session has all of another one whose copy this is; it is given what it lacks."""
        if found is None or not is_another(session, layout.facts_in(known)):
            return True
        if self.merge(session, Image(found, layout.journal_in(copy.client_id, known), known)):
            return True
        self._machine.refused(copy)
        return False

    async def _commit(
        self, copy: Copy, prefix: bytes, found: Owner | None, mine: Owner, operations: list[Operation]
    ) -> None:
        """Write operations as ``mine``, where ``found`` is the owner, and note that it is done.

        The disc has them first: a row that only the quorum has would be lost to this node with its number.
        """
        await self._on_disc()
        begun = self._now()
        await fenced.write(self._keys, prefix, found, mine, operations)
        if self._machine.has_slept(begun, self._now()):
            raise OwnedElsewhereError(mine)
        copy.owner = mine
        self._machine.done(copy, self._now())

    # Reading.

    async def find(self, client_id: str) -> Image | None:
        """Return what a quorum has of a session; None: nothing. Raises UnavailableError."""
        image = await fenced.image_of(self._keys, client_id)
        if image is None:
            self._known.absent(client_id, self._now())
        return image

    async def owner(self, client_id: str) -> Owner | None:
        """Return who writes the copy of a session; None: it has none. Raises UnavailableError."""
        return await fenced.owner_of(self._keys, layout.prefix_of(client_id))

    async def claim(self, client_id: str, found: Owner, epoch: int) -> Image | None:
        """Take a session over from the owner that was ``found``; see :func:`fenced.claim`."""
        image = await fenced.claim(self._keys, client_id, found, Owner(self._node, self._creation, epoch))
        if image is not None:
            self._known.claimed[client_id] = image.stored
        return image

    def taken(self, client_id: str, ticket: int | None = None) -> None:
        """Have a session written whole that was taken over by :meth:`claim`, and is in its place here now;
        what waits for ``ticket`` in its range waits for that."""
        self._known.taken(client_id)
        copy = self._copy(client_id)
        self._machine.again(copy)
        if ticket is not None:
            self._machine.awaited(copy, ticket, self._now())
        self.committed_here()

    def let_go(self, client_id: str) -> None:
        """Write what is here of a client again, whether it was taken over or not."""
        self._known.claimed.pop(client_id, None)

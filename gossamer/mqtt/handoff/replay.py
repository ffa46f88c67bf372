"""Replay of hints: takes what other nodes kept for persistent sessions here, without what is here already.

A node that comes back is asked by each other node (``mqtt.kept``) and answers

- which sessions it has (their *generation*, the same string unless it has lost them), and the creation in
  which they began;
- the number of the last entry that it took from that node;
- by link session with that node, of the last few, the last frame that it took.

With sessions on disc all of this is written in the same commit as what the messages changed in them, so it
holds after a crash. Then entries come: those that were kept go to persistent sessions alone, live ones to
every session.

A session whose client has moved in the meantime is not served here any more, but hints for it from before the
move are still on their way: :class:`~gossamer.mqtt.migration.superseded.SupersededSessions` waits for them
(``pending``) and takes them (``late``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import structlog

from gossamer.errors import GossamerError
from gossamer.mqtt.flow.backpressure import Hold
from gossamer.mqtt.handoff.hints import Moved, is_for
from gossamer.mqtt.messages.message import Message
from gossamer.mqtt.messages.message_ids import MARK
from gossamer.mqtt.messages.records import MOVE_MARK, kept_in, read_record, walk
from gossamer.mqtt.session.qos2 import Block

if TYPE_CHECKING:
    from gossamer.mqtt.publish.core import Core
    from gossamer.mqtt.session.store import SessionStore

log = structlog.get_logger(__name__)

RETURN_TIMEOUT = 3.0
"""Seconds after the return of a node in which others may return as well."""
GREETING_TIMEOUT = 30.0
"""Seconds that a node that is up has to greet this one; one that keeps no hints at all never does."""


class _Keeper:
    """Progress of the replay from one node that keeps for this one."""

    __slots__ = ("identity", "moved", "taken", "waiting")

    def __init__(self, identity: str = "", taken: int = 0) -> None:
        self.identity = identity
        self.taken = taken
        self.moved: Moved = {}
        self.waiting = False


class HintReplay:
    """Takes the hints of other nodes, each entry once, and answers how far it got.

    ``generation`` is that of sessions in memory, which begin with this ``creation``; a disc has its own.
    """

    def __init__(self, core: Core, *, generation: str, creation: int) -> None:
        self._router, self._fanout, self._table = core.router, core.fanout, core.table
        self._publishing, self._ingest = core.publishing, core.ingest
        self._keepers: dict[str, _Keeper] = {}
        self._before: dict[str, dict[int, int]] = {}
        """By node and link session, the last frame taken, as the disc had it."""
        self._returned = float("-inf")
        self._ungreeted: dict[str, float] = {}
        """Nodes that are up and have not greeted this one, and since when."""
        self.generation = generation
        self.born = creation
        self.late: Callable[[Message, int, Moved], None] = lambda _message, _number, _moved: None
        """Called with each kept message, its number, and ``moved``; for sessions not served any more."""
        self.delivered: Callable[[str, Iterable[Block]], object] = lambda _client_id, _had: None
        """Called with QoS 2 messages that a client has had from another node."""
        self.over: Callable[[str], None] = lambda _peer: None
        """Called with each node that has replayed all its hints."""
        self.counts: Counter[str] = Counter()
        core.router.on_kept(self.take)
        core.ingest.on_noted = self.note

    def restore(self, store: SessionStore, rows: Mapping[object, object]) -> None:
        """Restore generation, creation and positions from the rows on disc."""
        self.generation, self.born = store.generation_of(rows) or (self.generation, self.born)
        store.remember_generation(self.generation, self.born)
        for peer, (identity, taken, frames) in store.taken_of(rows).items():
            self._keepers[peer] = _Keeper(identity, taken)
            self._before[peer] = dict(frames)

    # -- nodes that come and go

    def node_up(self, peer: str) -> None:
        """Expect the greeting of a node that is up: it may have hints."""
        self._returned = self._ungreeted[peer] = self._fanout.now()

    def node_down(self, peer: str) -> None:
        """Expect nothing more of a node that is down."""
        self._ungreeted.pop(peer, None)
        keeper = self._keepers.get(peer)
        if keeper is not None:
            keeper.waiting = False

    def asked(
        self, peer: str, identity: str, waiting: int, moved: Moved, had: Mapping[str, list[Block]]
    ) -> list[object]:
        """Answer the greeting of another node (:meth:`HintKeeper.greeting`).

        Returns ``[[generation, creation], number of the last entry taken, [[link session, last frame
        taken], …]]``.
        """
        for client_id, blocks in had.items():
            self.delivered(client_id, blocks)
        self._ungreeted.pop(peer, None)
        keeper = self._keepers.setdefault(peer, _Keeper())
        if keeper.identity != identity:
            keeper.identity, keeper.taken = identity, 0
        keeper.waiting = bool(waiting)
        keeper.moved = moved
        frames = self._before.get(peer, {}) | self._router.arrived(peer)
        return [[self.generation, self.born], keeper.taken, list(frames.items())]

    @property
    def pending(self) -> bool:
        """Return whether hints may still be on their way here."""
        if any(keeper.waiting for keeper in self._keepers.values()):
            return True
        now = self._fanout.now()
        ungreeted = any(now - up < GREETING_TIMEOUT for up in self._ungreeted.values())
        return ungreeted or now - self._returned < RETURN_TIMEOUT

    # -- entries

    def take(self, peer: str, data: bytes) -> Hold | None:
        """Take a frame of entries; the result, if any, defers the report that it took effect."""
        keeper = self._keepers.setdefault(peer, _Keeper())
        before = self._publishing.notes
        for number, live, records in kept_in(data):
            if not number:
                keeper.waiting = False
                self.over(peer)
            elif number <= keeper.taken:
                self.counts["known"] += 1
            else:
                keeper.taken = number
                if records[:1] == MOVE_MARK:
                    self._ingest(peer, records)
                elif live:
                    self._ingest(peer, records)
                    # The keeper may not have known yet which node has the session that is superseded here.
                    self._tell_late(keeper, number, records)
                else:
                    self._give(peer, keeper, number, records)
        return self._ingest.held(peer, before)

    def note(self, peer: str) -> None:
        """Note how far a node's entries and frames have come, in the commit of the sessions they changed."""
        store = self._table.store
        if store is not None:
            keeper = self._keepers.get(peer)
            frames = list(self._router.arrived(peer).items())
            identity, taken = ("", 0) if keeper is None else (keeper.identity, keeper.taken)
            store.note_taken(peer, (identity, taken, frames))

    def _tell_late(self, keeper: _Keeper, number: int, records: bytes) -> None:
        # What cannot be read has been reported.
        with suppress(GossamerError, IndexError):
            for qos, _, record in walk(records):
                if qos:
                    self.late(
                        read_record(record, 0, len(record), self._fanout.now())[0], number, keeper.moved
                    )

    def _give(self, peer: str, keeper: _Keeper, number: int, records: bytes) -> None:
        fanout, publishing = self._fanout, self._publishing
        fanout.origin = peer
        pos = 0
        try:
            if records[:1] == MARK:
                # One mark for all of them becomes one for each.
                records = b"".join([record for _, _, record in walk(records)])
            while pos < len(records):
                message, pos = read_record(records, pos, len(records), fanout.now())
                if fanout.recorder is not None:
                    fanout.recorder.arrive(message, peer)
                route = publishing.cache_get(message.topic) or publishing.resolve(message.topic)
                for delivery in route.deliveries:
                    session = delivery.subscriber
                    if delivery.persistent and is_for(session.client_id, number, keeper.moved):
                        fanout.sent += 1
                        # One that is migrating takes it, and sends it after the session with the rest.
                        gate, session.gate = session.gate, None
                        fanout.give(message, delivery)
                        session.gate = gate
                self.late(message, number, keeper.moved)
                self.counts["taken"] += 1
        except (GossamerError, IndexError) as error:
            fanout.dropped("bad_record")
            log.error("bad_record", peer=peer, error=str(error))
        finally:
            fanout.origin = ""

"""Hint logs of all nodes that are away: carries out the actions that they return.

A :class:`~gossamer.mqtt.handoff.hint_log.HintLog` returns actions: entries go to the journal, and publishers
get their acknowledgements once they are there; a node that is back is asked, and gets its entries by the
router's forwarder to its persistent sessions.

Rules: 1. Nothing here waits on the loop.  2. An acknowledged message is on disc, or in the memory of a node
without one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from gossamer.mqtt.handoff.hint_journal import HintJournal, OnSafe
from gossamer.mqtt.handoff.hint_log import HintLog
from gossamer.mqtt.handoff.hints import Action, Ask, Drop, Hint, Keep, Live, Lost, Over, Send
from gossamer.mqtt.messages.records import acknowledged, encode_kept, fresh, walk

if TYPE_CHECKING:
    from gossamer.routes import Router

log = structlog.get_logger(__name__)


class HintStore:
    """Holds the hints for other nodes, and carries out the actions on them.

    ``loaded(peer)`` returns whether the rows of a node are here; ``ask(peer)`` is called to greet a node,
    ``lost(peer, records, reason, left)`` with records that will not arrive, except those ``left``.
    """

    def __init__(
        self,
        journal: HintJournal,
        routes: Router,
        *,
        first: int,
        now: Callable[[], float],
        wall: Callable[[], float],
        limit: int,
        max_bytes: int,
        keep_oldest: bool,
        loaded: Callable[[str], bool],
        ask: Callable[[str], object],
        lost: Callable[[str, Iterable[bytes], str, bytes], object],
    ) -> None:
        self.journal = journal
        self.by_peer: dict[str, HintLog] = {}
        self.counts: Counter[str] = Counter()
        """Counts of logs that were removed."""
        self.live: Callable[[str], object] = lambda _peer: None
        """Called with each node that has received all its hints."""
        self.ask = ask
        self._routes = routes
        self._now = now
        self._wall = wall
        self._limit, self._max_bytes, self._keep_oldest = limit, max_bytes, keep_oldest
        self._new = partial(
            HintLog, refresh=fresh, first=first, limit=limit, max_bytes=max_bytes, keep_oldest=keep_oldest
        )
        self._loaded = loaded
        self._lost = lost

    def of(self, peer: str) -> HintLog:
        """Return the hint log of a node; make it if there is none."""
        hint_log = self.by_peer.get(peer)
        if hint_log is None:
            hint_log = self.by_peer[peer] = self._new()
        return hint_log

    def add(self, peer: str, records: bytes, waiting: list[OnSafe], **place: int) -> None:
        """Keep records, and call ``waiting`` once they are safe; ``place`` as for :meth:`HintLog.add`."""
        self.do(peer, self.of(peer).add(records, acknowledged(records), self._now(), **place))
        self.journal.when_safe(waiting)

    def answered(
        self, peer: str, generation: str, taken: int, frames: Mapping[int, int], *, renewed: bool
    ) -> None:
        """Take a node's answer, and log what it has lost; see :meth:`HintLog.answered`."""
        hint_log = self.of(peer)
        before = hint_log.counts["dropped_sessions_lost"]
        self.do(peer, hint_log.answered(generation, taken, frames, self._now(), renewed=renewed))
        if lost := hint_log.counts["dropped_sessions_lost"] - before:
            log.warning("kept_messages_dropped", peer=peer, reason="sessions_lost", messages=lost)

    def settle(self, peer: str, hint_log: HintLog) -> None:
        """Make a node live if it has received all its hints and its rows are here."""
        if hint_log.state == "sending" and not hint_log.entries and self._loaded(peer):
            moved = list(hint_log.moved)
            self.do(peer, hint_log.settled(), moved)

    def gone(self, peer: str) -> bool:
        """Drop all hints of a node that will not come back; False: it has no hint log."""
        if (hint_log := self.by_peer.pop(peer, None)) is None:
            return False
        if hint_log.messages:
            log.warning("kept_messages_dropped", peer=peer, reason="removed", messages=hint_log.messages)
        moved = list(hint_log.moved)
        self.do(peer, hint_log.gone("removed"), moved)
        self.counts.update(hint_log.counts)
        return True

    @property
    def kept_for(self) -> dict[str, bool]:
        """Nodes for which there are hints, and whether they are away."""
        return {peer: hint_log.state == "away" for peer, hint_log in self.by_peer.items() if hint_log.entries}

    def kept(self, peer: str, taken: int, frames: Mapping[int, int]) -> list[tuple[int, int, bytes]]:
        """Return of each entry that a node lacks its number, time of day in µs, and records, aged."""
        now, wall = self._now(), self._wall()
        return [
            (hint.number, int((hint.at - now + wall) * 1e6), fresh(hint.records, now - hint.at)[0])
            for hint in self.of(peer).lacking(taken, frames)
        ]

    def wanted(self, hint: Hint, qos_of: Callable[[bytes], int]) -> list[tuple[int, bytes]]:
        """Return the records of an entry that are wanted, aged, each with the time of day in µs."""
        age = self._now() - hint.at
        taken = [record for qos, topic, record in walk(hint.records) if qos and qos_of(topic)]
        at = int((self._wall() - age) * 1e6)
        return [(at, aged) for record in taken if (aged := fresh(record, age)[0])]

    def hints(self, peer: str) -> list[list[object]]:
        """Return the entries for a node, as :meth:`HintKeeper.adopt` takes them."""
        return [[hint.number, *self.journal.row(hint)] for hint in self.of(peer).entries.values()]

    def adopted(self, peer: str, hints: Iterable[list[Any]]) -> int:
        """Drop hints that another node has on its disc; return how many messages they were."""
        hint_log = self.of(peer)
        before = hint_log.messages
        self.do(peer, hint_log.adopted([hint[0] for hint in hints], self._now()))
        return before - hint_log.messages

    def tick(self) -> None:
        """Log nodes whose hint logs are now full, and write changed filters. Call it about once a second."""
        for peer, hint_log in self.by_peer.items():
            if hint_log.fills_up(self._wall()):
                limits = {"limit": self._limit, "max_bytes": self._max_bytes}
                log.error("kept_messages_overflow", peer=peer, **limits, keep_oldest=self._keep_oldest)
        self.journal.write_filters()

    def do(self, peer: str, actions: Iterable[Action], moved: Iterable[str] = ()) -> None:
        """Carry out the actions of a hint log; ``moved``: clients whose numbers have changed."""
        for action in actions:
            match action:
                case Keep(hint):
                    self.journal.keep(peer, hint)
                case Drop(numbers):
                    for number in numbers:
                        self.journal.drop(peer, number)
                case Lost(records, reason, left):
                    self._lost(peer, records, reason, left)
                case Ask():
                    self.ask(peer)
                case Send(hint, records):
                    self._send(peer, encode_kept(hint.number, records, live=hint.live), hint.number)
                case Over():
                    self._send(peer, encode_kept(0, b"", live=False), 0)
                case Live():
                    self.live(peer)
        for client_id in moved:
            self.note_moved(peer, client_id)

    def note_moved(self, peer: str, client_id: str) -> None:
        """Write to the journal which numbers are not for a client."""
        hint_log = self.by_peer.get(peer)
        self.journal.moved(peer, client_id, None if hint_log is None else hint_log.moved.get(client_id))

    def _send(self, peer: str, entry: bytes, number: int) -> None:
        self._routes.to_kept(peer).append_acked(entry, partial(self._sent, peer, number))

    def _sent(self, peer: str, number: int, done: bool) -> None:
        hint_log = self.by_peer.get(peer)
        if done and hint_log is not None:
            self.do(peer, hint_log.confirmed(number, self._now()))
            self.settle(peer, hint_log)

    # -- introspection

    def alarms(self) -> Iterator[tuple[float, str]]:
        """Yield for each node whose hint log is full: since when (time of day), and the text of the alarm."""
        for peer, hint_log in self.by_peer.items():
            if hint_log.full_since is not None:
                text = (
                    f"{hint_log.overflowed} messages for sessions of {peer}, which is away, found no room: "
                    f"at most {self._limit} are kept, and {self._max_bytes} bytes"
                )
                yield hint_log.full_since, text

    def stats(self) -> dict[str, int]:
        """Return sizes and counts of all hint logs, by metric."""
        total = Counter(self.counts)
        for hint_log in self.by_peer.values():
            total.update(hint_log.counts)
        return {
            "away_waiting": sum(hint_log.messages for hint_log in self.by_peer.values()),
            "away_bytes": sum(hint_log.bytes for hint_log in self.by_peer.values()),
            **{f"away_{what}": count for what, count in sorted(total.items())},
        }

"""Collects the actions of one step, and fills every packet up with what waits to spread.

Whoever is suspected, down or gone is told so in each packet sent to it, so that it can refute at once
(Lifeguard's buddy system), or learn that it was removed.

Rules of the queue: 1. One statement a member: a newer one replaces the older.  2. Fewest transmits first;
among equals the newest.  3. A statement is dropped after ``mult * ceil(log10(members + 1))`` transmits.
4. At most ``limit`` statements wait; the most transmitted go first.

memberlist sorts equals by size to pack packets tighter. Records here are of much the same size, so a first
fit that gives up after a few misses costs O(taken) instead of a sorted tree and packs as well.
"""

from __future__ import annotations

from gossamer.gossip.keyring import OVERHEAD
from gossamer.gossip.member import MemberEvent
from gossamer.gossip.steps import Action, Answer, Emit, OpenStream, ReplyStream, SendPacket, Token
from gossamer.gossip.swim.table import ALIVE, LEFT, MAX_MEMBERS, REMOVED, SUSPECT, Entry, MemberTable
from gossamer.gossip.wire import Dead, Message, Suspect, compound, encode
from gossamer.network import Address

_ARRAY_HEAD = 3
_MISSES = 4
"""How many too large statements are skipped before a packet counts as full."""


class BroadcastQueue:
    """Statements waiting to spread, keyed by the member they are about."""

    __slots__ = ("_level_of", "_levels", "_limit")

    def __init__(self, *, limit: int = 4096) -> None:
        self._limit = limit
        self._levels: list[dict[str, bytes]] = [{}]
        self._level_of: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._level_of)

    def put(self, name: str, message: bytes, *, sent: int = 0) -> None:
        """Queue ``message`` about ``name``, replacing what was queued about it.

        ``sent`` counts it as sent so often already: news that others are spreading needs fewer repeats.
        """
        level = self._level_of.get(name)
        if level is not None:
            del self._levels[level][name]
        elif len(self._level_of) >= self._limit:
            self._evict()
        while len(self._levels) <= sent:
            self._levels.append({})
        self._levels[sent][name] = message
        self._level_of[name] = sent

    def discard(self, name: str) -> None:
        """Forget what is queued about ``name``."""
        level = self._level_of.pop(name, None)
        if level is not None:
            del self._levels[level][name]

    def take(
        self, room: int, *, limit: int, told: set[str] | None = None, counted: bool = True
    ) -> list[bytes]:
        """Statements that fit into ``room`` bytes; each is counted as sent once more.

        ``told`` are the names that this receiver has just heard of: they are skipped, and grow. A second
        packet that repeats the first would only use up the transmits that others need. Nor does one that
        probably reaches nobody: not ``counted``.
        """
        taken: list[tuple[int, str, bytes]] = []
        misses = 0
        for level, waiting in enumerate(self._levels):
            for name in reversed(waiting):
                if told is not None and name in told:
                    continue
                message = waiting[name]
                if len(message) > room:
                    misses += 1
                    if misses >= _MISSES:
                        break
                    continue
                room -= len(message)
                taken.append((level, name, message))
            if misses >= _MISSES:
                break
        if not counted:
            if told is not None:
                told.update(name for _, name, _ in taken)
            return [message for _, _, message in taken]
        # Oldest first, so that relative age survives the move to the next level.
        for level, name, message in reversed(taken):
            del self._levels[level][name]
            if told is not None:
                told.add(name)
            if level + 1 >= limit:
                del self._level_of[name]
                continue
            if level + 1 == len(self._levels):
                self._levels.append({})
            self._levels[level + 1][name] = message
            self._level_of[name] = level + 1
        return [message for _, _, message in taken]

    def _evict(self) -> None:
        for waiting in reversed(self._levels):
            if waiting:
                name = next(iter(waiting))
                del waiting[name]
                del self._level_of[name]
                return


class Outbox:
    """The actions of the step that runs."""

    def __init__(self, table: MemberTable, *, mtu: int) -> None:
        self._table = table
        self._queue = BroadcastQueue(limit=MAX_MEMBERS + 1)
        self._room = mtu - OVERHEAD - _ARRAY_HEAD
        self._actions: list[Action] = []
        self.repeats: int | None = None
        """While rows of an exchange are taken in: how often news of others is repeated; None: in full."""

    def drain(self) -> list[Action]:
        """What the step decided, in order."""
        actions, self._actions = self._actions, []
        return actions

    def accusation(self, entry: Entry) -> Message | None:
        """What a member that is not simply alive has to be told."""
        if entry.state == ALIVE:
            return None
        me = self._table.me.name
        if entry.state == SUSPECT:
            return Suspect(entry.name, entry.id, entry.incarnation, me)
        gone, removed = entry.state >= LEFT, entry.state == REMOVED
        return Dead(entry.name, entry.id, entry.incarnation, me, gone, removed)

    def packet(
        self, address: Address, *messages: Message, entry: Entry | None = None, again: bool = False
    ) -> None:
        """Send messages, what ``entry`` has to be told, and as much gossip as fits.

        ``again``: this repeats a packet that was not answered. Like one to a member that is suspected, it
        probably reaches nobody, and must not use up the transmits of news: in a split each side has much to
        tell, and would say most of it to the other.
        """
        parts = [encode(message) for message in messages]
        if entry is not None and entry.state != ALIVE:
            accusation = self.accusation(entry)
            if accusation is not None:
                parts.append(encode(accusation))
        if len(self._queue):
            room = self._room - sum(map(len, parts))
            counted = not again and (entry is None or entry.state != SUSPECT)
            parts += self._queue.take(room, limit=self._table.retransmits, counted=counted)
        if parts:
            self._actions.append(SendPacket(address, compound(parts)))

    def gossip(self, entry: Entry, *, packets: int) -> None:
        """Tell a member what waits to spread, in as many packets as that fills."""
        told: set[str] = set()
        for _ in range(packets):
            parts = []
            accusation = None if told else self.accusation(entry)
            if accusation is not None:
                parts.append(encode(accusation))
            room = self._room - sum(map(len, parts))
            news = self._queue.take(
                room, limit=self._table.retransmits, told=told, counted=entry.state != SUSPECT
            )
            if not news:
                return
            self._actions.append(SendPacket(entry.address, compound(parts + news)))

    def broadcast(self, name: str, message: Message) -> None:
        """Spread a statement about ``name``."""
        if self.repeats is None or name == self._table.me.name:
            self._queue.put(name, encode(message))
        elif self.repeats:
            sent = max(0, self._table.retransmits - self.repeats)
            self._queue.put(name, encode(message), sent=sent)
        else:
            self._queue.discard(name)

    def gossiping(self) -> bool:
        """Does anything wait to spread?"""
        return len(self._queue) > 0

    def forget(self, name: str) -> None:
        self._queue.discard(name)

    def emit(self, event: MemberEvent) -> None:
        self._actions.append(Emit(event))

    def stream(self, token: Token, address: Address, message: Message, timeout: float) -> None:
        self._actions.append(OpenStream(token, address, compound([encode(message)]), timeout))

    def reply(self, token: Token, message: Message) -> None:
        self._actions.append(ReplyStream(token, compound([encode(message)])))

    def answer(self, token: Token, result: object) -> None:
        self._actions.append(Answer(token, result))

"""Outbox: collects the actions of one step, and fills packets with queued statements.

Every packet to a member that is suspected, down or removed says so, so that it can refute at once
(Lifeguard's buddy system), or learn that it was removed.

Rules of the queue: 1. One statement per member: a newer one replaces the older.  2. Fewest transmits first;
among equals the newest.  3. A statement is dropped after ``mult * ceil(log10(members + 1))`` transmits.
4. At most ``limit`` statements are queued; the most transmitted are evicted first.

memberlist sorts equals by size to pack packets tighter. Records here have similar sizes, so a first fit that
gives up after a few misses costs O(taken) instead of a sorted tree and packs as well.
"""

from __future__ import annotations

from gossamer.gossip.keyring import OVERHEAD
from gossamer.gossip.member import MemberEvent
from gossamer.gossip.steps import Action, Emit, OpenStream, ReplyStream, RequestResult, SendPacket, Token
from gossamer.gossip.swim.table import ALIVE, LEFT, MAX_MEMBERS, REMOVED, SUSPECT, MemberEntry, MemberTable
from gossamer.gossip.wire import Dead, Message, Suspect, compound, encode
from gossamer.network import Address

_ARRAY_HEAD = 3
_MISSES = 4
"""Number of too large statements skipped before a packet counts as full."""


class BroadcastQueue:
    """Queued statements, keyed by the member they are about."""

    __slots__ = ("_level_of", "_levels", "_limit")

    def __init__(self, *, limit: int = 4096) -> None:
        self._limit = limit
        self._levels: list[dict[str, bytes]] = [{}]
        self._level_of: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._level_of)

    def put(self, name: str, message: bytes, *, sent: int = 0) -> None:
        """Queue ``message`` about ``name``, replacing an earlier one.

        ``sent`` is its initial number of transmits: news that others are spreading needs fewer repeats.
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
        """Remove the statement about ``name``."""
        level = self._level_of.pop(name, None)
        if level is not None:
            del self._levels[level][name]

    def take(
        self, room: int, *, limit: int, told: set[str] | None = None, counted: bool = True
    ) -> list[bytes]:
        """Return statements that fit into ``room`` bytes; each counts as sent once more.

        ``told`` are names just sent to this receiver: they are skipped, and new ones are added, because a
        packet that repeats the previous one would waste transmits. With ``counted`` False, for a packet that
        probably does not arrive, transmits are not counted.
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
        # Oldest first, to keep the relative age on the next level.
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
    """Actions of the current step."""

    def __init__(self, table: MemberTable, *, mtu: int) -> None:
        self._table = table
        self._queue = BroadcastQueue(limit=MAX_MEMBERS + 1)
        self._room = mtu - OVERHEAD - _ARRAY_HEAD
        self._actions: list[Action] = []
        self.repeats: int | None = None
        """While rows of an exchange are merged: transmits of news about others; None: all."""

    def drain(self) -> list[Action]:
        """Return the step's actions, in order."""
        actions, self._actions = self._actions, []
        return actions

    def accusation(self, entry: MemberEntry) -> Message | None:
        """Return the statement for a member that is not alive in our view."""
        if entry.state == ALIVE:
            return None
        me = self._table.me.name
        if entry.state == SUSPECT:
            return Suspect(entry.name, entry.id, entry.incarnation, me)
        gone, removed = entry.state >= LEFT, entry.state == REMOVED
        return Dead(entry.name, entry.id, entry.incarnation, me, gone, removed)

    def packet(
        self,
        address: Address,
        *messages: Message,
        entry: MemberEntry | None = None,
        again: bool = False,
        to: str = "",
    ) -> None:
        """Send messages, the accusation of ``entry``, and as much gossip as fits; an answer is ``to`` an id.

        ``again``: it repeats an unanswered packet. Like one to a suspected member, it probably does not
        arrive, and must not use up the transmits of news: in a split each side has much news, and would send
        most of it to the other.
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
            self._actions.append(SendPacket(address, compound(parts), to))

    def gossip(self, entry: MemberEntry, *, packets: int) -> None:
        """Send queued statements to a member, in at most ``packets`` packets."""
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
        """Queue a statement about ``name``."""
        if self.repeats is None or name == self._table.me.name:
            self._queue.put(name, encode(message))
        elif self.repeats:
            sent = max(0, self._table.retransmits - self.repeats)
            self._queue.put(name, encode(message), sent=sent)
        else:
            self._queue.discard(name)

    def gossiping(self) -> bool:
        """True while statements are queued."""
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
        self._actions.append(RequestResult(token, result))

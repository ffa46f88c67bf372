"""A group of replicas without a clock: what is sent waits in a queue until a test delivers it.

Discs are perfect and written at once. What is applied is joined to a text, which is the snapshot too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from gossamer.raft import (
    Chunk,
    Entry,
    HardState,
    Kind,
    Log,
    Membership,
    Message,
    Ready,
    Replica,
    Settings,
    Snapshot,
)


@dataclass
class Disc:
    """What survives: a snapshot with its text, the entries after it, the hard state."""

    snapshot: Snapshot
    text: str = ""
    entries: list[Entry] = field(default_factory=list)
    hard: HardState = field(default_factory=HardState)
    base: tuple[int, int] | None = None


class Group:
    """Replicas by number, their discs, the queue between them, and which ways are cut."""

    def __init__(self, membership: Membership, *, chunk: int = 4, seed: int = 1, **settings: Any) -> None:
        self.membership = membership
        self.settings = Settings(**settings)
        self.chunk = chunk
        self.seed = seed
        self.replicas: dict[int, Replica] = {}
        self.discs: dict[int, Disc] = {}
        self.texts: dict[int, str] = {}
        self.images: dict[tuple[int, int], str] = {}
        """Snapshots by replica and index."""
        self.staged: dict[int, str] = {}
        self.reads: dict[int, list[tuple[int, int]]] = {}
        self.queue: list[Message] = []
        self.cuts: set[tuple[int, int]] = set()
        self.ticks = 0
        for replica in membership.members:
            self.add(replica, membership)

    def add(self, replica: int, membership: Membership | None = None) -> None:
        """A replica with a blank disc, that knows these members."""
        self.discs[replica] = Disc(Snapshot(0, 0, membership or Membership()))
        self.start(replica)

    def start(self, replica: int) -> None:
        disc = self.discs[replica]
        log = Log(disc.snapshot, disc.entries, base=disc.base)
        self.texts[replica] = disc.text
        self.reads.setdefault(replica, [])
        self.replicas[replica] = Replica(
            replica,
            log,
            disc.hard,
            random=Random(f"{self.seed}/{replica}"),
            clock=lambda: float(self.ticks),
            settings=self.settings,
        )

    def crash(self, replica: int) -> None:
        del self.replicas[replica]

    # -- turns

    def turn(self, number: int) -> None:
        """Do what a replica has ready, until it has nothing."""
        replica = self.replicas[number]
        while (ready := replica.ready()) is not None:
            self.queue += ready.messages
            for wanted in ready.wanted:
                image = self.images[number, wanted.snapshot.index]
                part = image[wanted.offset : wanted.offset + self.chunk]
                last = wanted.offset + self.chunk >= len(image)
                replica.chunk(wanted, part.encode(), last=last)
            self.store(number, ready)
            self.queue += ready.promises
            for entry in ready.committed:
                self.apply(number, entry)
            self.reads[number] += [(read.context, read.index) for read in ready.reads]
            replica.advance(ready)

    def turns(self) -> None:
        """Do what all have ready."""
        for number in sorted(self.replicas):
            self.turn(number)

    def store(self, number: int, ready: Ready) -> None:
        disc = self.discs[number]
        for chunk in ready.chunks:
            self.stage(number, chunk)
        if ready.snapshot is not None:
            image = self.staged.pop(number)
            self.images[number, ready.snapshot.index] = image
            self.texts[number] = image
            disc.snapshot, disc.text, disc.entries, disc.base = ready.snapshot, image, [], None
        if ready.entries:
            kept = [entry for entry in disc.entries if entry.index < ready.entries[0].index]
            disc.entries = kept + ready.entries
        if ready.hard is not None:
            disc.hard = ready.hard

    def stage(self, number: int, chunk: Chunk) -> None:
        before = self.staged.get(number, "") if chunk.offset else ""
        assert len(before) == chunk.offset
        self.staged[number] = before + chunk.data.decode()

    def apply(self, number: int, entry: Entry) -> None:
        if entry.kind is Kind.DATA:
            self.texts[number] += entry.data.decode()

    def compact(self, number: int, *, keep: int = 0) -> None:
        """Store a snapshot of what is applied."""
        replica, disc = self.replicas[number], self.discs[number]
        index = replica.log.applied
        self.images[number, index] = self.texts[number]
        disc.snapshot = replica.compact(index, keep=keep)
        disc.text = self.texts[number]
        base = replica.log.base
        disc.base = (base, replica.log.term(base) or 0)
        disc.entries = [entry for entry in disc.entries if entry.index > base]

    # -- the network

    def cut(self, *groups: list[int]) -> None:
        for one in groups:
            for other in groups:
                if one is not other:
                    self.cuts |= {(a, b) for a in one for b in other}

    def deliver(self) -> list[Message]:
        """Deliver what is on its way, and do the turns that follow; what was delivered."""
        self.turns()
        sent, self.queue = self.queue, []
        arrived = [m for m in sent if m.to in self.replicas and (m.sender, m.to) not in self.cuts]
        for message in arrived:
            self.replicas[message.to].step(message)
        self.turns()
        return arrived

    def settle(self) -> None:
        """Deliver until nothing is on its way."""
        for _ in range(1000):
            if not self.deliver() and not self.queue:
                return
        raise AssertionError("replicas go on for ever")

    def tick(self, count: int, *numbers: int) -> None:
        """Let ticks pass, all that is sent being delivered within each."""
        for _ in range(count):
            self.ticks += 1
            for number in numbers or sorted(self.replicas):
                if number in self.replicas:
                    self.replicas[number].tick(self.ticks)
            self.settle()

    def leader(self) -> int:
        """The leader of the highest term."""
        leading = [r for r in self.replicas.values() if r.leader == r.id]
        return max(leading, key=lambda r: r.term).id if leading else 0

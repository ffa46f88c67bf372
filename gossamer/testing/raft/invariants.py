"""What must hold at each step of a group, whatever befalls it (Ongaro, "Consensus", figure 3.2).

Election safety: a term has one leader. Log matching: where two logs have an entry of one index and term, all
before it are the same. Leader completeness: a leader has every entry that was committed before. State machine
safety: no two replicas apply different entries at one index. And what all of these stand on: a replica that
starts again has on its disc what it had when it promised it, or says that the disc is damaged.
"""

from __future__ import annotations

from collections.abc import Iterable

from gossamer.raft import Entry, HardState, Log, Ready


class Invariants:
    """Sees all replicas, and says what does not hold."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._leaders: dict[int, int] = {}
        self._entries: dict[tuple[int, int], tuple[int | None, bytes]] = {}
        self._committed: dict[int, int] = {}
        """Term by index."""
        self._chains: dict[int, bytes] = {0: b""}
        self._promised: dict[int, tuple[HardState, tuple[int, int]]] = {}
        """Hard state, and term and index of the last entry, when each replica last sent its promises."""
        self.last_committed = 0

    def leads(self, replica: int, term: int, log: Log) -> bool:
        """A replica leads a term; return whether that is news."""
        known = self._leaders.get(term)
        if known is not None:
            if known != replica:
                self.problems.append(f"election safety: replicas {known} and {replica} lead term {term}")
            return False
        self._leaders[term] = replica
        for index in range(max(log.base, 1), self.last_committed + 1):
            if index in self._committed and log.term(index) != self._committed[index]:
                self.problems.append(
                    f"leader completeness: replica {replica} leads term {term} without entry {index} of "
                    f"term {self._committed[index]}, its own is of {log.term(index)}"
                )
                break
        return True

    def stored(self, replica: int, entries: Iterable[Entry], log: Log) -> None:
        """A disc has entries."""
        for entry in entries:
            prev = log.term(entry.index - 1)
            found = self._entries.setdefault((entry.index, entry.term), (prev, entry.data))
            if found[1] != entry.data or (prev is not None and found[0] is not None and found[0] != prev):
                self.problems.append(
                    f"log matching: replica {replica} has another entry {entry.index} of term {entry.term}"
                )

    def promises(self, replica: int, hard: HardState, ready: Ready, log: Log) -> None:
        """A replica is about to send the promises of a turn."""
        last = ready.entries[-1] if ready.entries else Entry(log.stable, log.term(log.stable) or 0)
        self._promised[replica] = hard, (last.term, last.index)

    def started(self, replica: int, hard: HardState, log: Log) -> None:
        """A replica starts again with what its disc has."""
        then, end = self._promised.get(replica, (hard, (0, 0)))
        # A suffix is replaced by one of a later term only.
        if (log.last_term, log.last) < end:
            self.problems.append(
                f"durability: replica {replica} starts with a log up to {log.last} of term {log.last_term}, "
                f"it had {end[1]} of term {end[0]}"
            )
        if hard.term < then.term or (hard.term == then.term and hard.vote != then.vote != 0):
            self.problems.append(f"durability: replica {replica} starts with {hard}, it had {then}")

    def applied(self, replica: int, index: int, term: int, chain: bytes) -> None:
        """A state machine is at an entry; ``chain`` stands for all up to it."""
        self.last_committed = max(self.last_committed, index)
        self._committed.setdefault(index, term)
        known = self._chains.setdefault(index, chain)
        if known != chain:
            self.problems.append(
                f"state machine safety: replica {replica} has applied something else up to {index}"
            )

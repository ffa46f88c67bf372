"""Versions of shared rows: author and time, holders, master nodes, and discarded versions.

A holder's owned rows contain a shared row as ``[timestamp, author, value]``, a deletion as ``[timestamp,
author]``, and one that all members have seen (see ``tombstones``) as ``[timestamp, author, None, vector]``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from gossamer.mnesia_like.replication.exchange import OwnedState
from gossamer.mnesia_like.values import Key, Value

Version = tuple[int, str]
"""Hybrid timestamp, and the node that issued it."""

NEVER: Version = (0, "")


@dataclass(frozen=True, slots=True)
class Discarded:
    """Version that lost to a later one when a peer's rows were merged; no ``value``: it was a deletion.

    ``ours``: this node had it until then, with version ``(0, "")`` where it had nothing. A row overwritten
    by a writer that had seen it is discarded too: to find the losses of a split, compare both versions with
    the time of the split. Where this node had to start over, after it was down past the horizon,
    ``winner`` is ``(0, "")``.
    """

    table: str
    key: Key
    version: Version
    value: list[Value]
    winner: Version
    peer: str
    ours: bool = False


def version_of(row: Value) -> Version | None:
    """Return the version of a row in its wire form; None if it is invalid."""
    if type(row) is list and 2 <= len(row) <= 4 and type(row[0]) is int and type(row[1]) is str:
        return row[0], row[1]
    return None


def value_of(row: Value) -> list[Value]:
    """Return ``[value]`` of a row in its wire form; ``[]``: it is deleted."""
    return [row[2]] if len(row) == 3 else []


def loser(
    table: str,
    key: Key,
    mine: Version | None,
    here: list[Value],
    peer: str,
    theirs: Version,
    row: Value,
) -> Discarded:
    """Return the loser of our row (``here``: its value, if any) and a peer's."""
    if mine is None or theirs > mine:
        return Discarded(table, key, mine or NEVER, here, theirs, peer, ours=True)
    return Discarded(table, key, theirs, value_of(row), mine, peer)


def lost(
    table: str, rows: Mapping[Key, Value], versions: Mapping[Key, Version], peer: str
) -> list[Discarded]:
    """Return all rows of a copy that starts over because of ``peer``'s epoch, as discarded versions."""
    return [
        Discarded(table, key, versions[key], [value], NEVER, peer, ours=True) for key, value in rows.items()
    ]


def held(state: OwnedState, key: Key, version: Version | None, *, besides: str | None = None) -> bool:
    """Return whether this node holds that version of a row, or one that is up."""
    if key in state.log.rows:
        return True
    return any(
        key in replica.rows and version_of(replica.rows[key]) == version
        for owner, replica in state.replicas.items()
        if replica.up and owner != besides
    )


def held_alone(state: OwnedState, peer: str, versions: Mapping[Key, Version]) -> list[Key]:
    """Return the keys whose version in ``versions`` is held by ``peer``, and by no node that is up."""
    replica = state.replicas.get(peer)
    rows = {key: version_of(row) for key, row in replica.rows.items()} if replica else {}
    return [
        key
        for key, version in rows.items()
        if version is not None
        and version == versions.get(key)
        and not held(state, key, version, besides=peer)
    ]


def given_back(state: OwnedState, node: str, versions: Mapping[Key, Version], lent: set[str]) -> list[Key]:
    """Take those from ``lent`` that are up again; return the keys that ``node`` need not hold for them.

    Of two that hold a version the first goes on, and the other lets go once it sees the row there.
    """
    keys: list[Key] = []
    for name in [n for n in lent if (r := state.replicas[n]).left or (r.up and not r.moving)]:
        lent.discard(name)
        if name < node:
            keys += [
                key
                for key, row in state.replicas[name].rows.items()
                if key in state.log.rows and version_of(row) == versions.get(key)
            ]
    return keys


def first(state: OwnedState, node: str, *, besides: Collection[str] = ()) -> bool:
    """Return whether ``node`` sorts before all other nodes that are up."""
    replicas = state.replicas.items()
    return all(node < o for o, r in replicas if r.up and r.refused is None and o not in besides)


def answered(state: OwnedState, name: str) -> bool:
    """Return whether a node is up and all its rows are here."""
    replica = state.replicas.get(name)
    return replica is not None and replica.up and replica.refused is None and replica.caught_up


class MasterNodes:
    """Master nodes of one table; without ``names`` this node's own rows count like any."""

    __slots__ = ("names", "provisional")

    def __init__(self) -> None:
        self.names: tuple[str, ...] = ()
        self.provisional: set[Key] = set()

    def accept(self, key: Key) -> bool:
        """Accept the row under ``key``; return whether it was provisional."""
        if key in self.provisional:
            self.provisional.discard(key)
            return True
        return False

    def answered(self, state: OwnedState) -> bool:
        """Return whether rows are provisional and a master has answered."""
        return bool(self.provisional) and any(answered(state, name) for name in self.names)

    def release(self) -> list[Key]:
        """Return the provisional keys, and make none provisional."""
        keys = list(self.provisional)
        self.provisional.clear()
        return keys

    def waits_for(self, table: str) -> str:
        """Describe what the table waits for; empty: nothing."""
        if not self.provisional:
            return ""
        return f"{table}: none of its master nodes ({', '.join(self.names)}) has answered"

"""Feature flags of a node's cluster: rows of a shared table, which every node has, and orders to enable them.

The rows of ``features`` are ``("known", flag)`` for a flag that nodes of this cluster support, and
``("enabled", flag)``; the value is the release that brought it. Rows are only ever added, and alike whoever
adds them, so what both sides of a split have written merges.

Rule: a peer that was let in before a row told that a flag is enabled, and lacks that flag, loses its link;
the handshake then refuses it.
"""

from __future__ import annotations

import msgspec
import structlog

from gossamer.distribution import Distribution
from gossamer.errors import UnavailableError
from gossamer.features import Features, Support
from gossamer.gossip import MembershipView, Status
from gossamer.mnesia_like import SharedTable, Store

log = structlog.get_logger(__name__)

TABLE = "features"
_KNOWN, _ENABLED = "known", "enabled"
CLOSING = TABLE, msgspec.msgpack.encode((_ENABLED, ""))[:-1]
"""How keys of rows begin that end the way back to releases before flags were, which do not look at them."""


class FeatureTable:
    """Keeps ``features`` as the cluster has them; empty until :meth:`open`."""

    def __init__(self, features: Features, members: MembershipView, distribution: Distribution) -> None:
        self._features = features
        self._members = members
        self._distribution = distribution
        self._table: SharedTable | None = None

    async def open(self, store: Store, *, on_disc: bool) -> None:
        """Read what this node knows from before, and follow the cluster.

        Raises:
            UnavailableError: this release lacks a flag that is enabled.
        """
        storage = "disc_copies" if on_disc else "ram_copies"
        self._table = await store.create_table(TABLE, replication="shared", storage=storage)
        self._table.subscribe(lambda _events: self._read())
        self._read()
        if lacked := self._features.lacked_by(self._features.declared):
            names = ", ".join(f"{name} (since {self._features.enabled[name]})" for name in lacked)
            raise UnavailableError(
                f"features: got a release without {names}, which its cluster has enabled; expected one that "
                "has it: start the release that this node ran before"
            )

    def begin(self, *, fresh: bool) -> None:
        """Make the flags known that the cluster did not know, and enable those that a new one begins with."""
        table = self._opened()
        known = {name for kind, name in table.rows() if kind == _KNOWN}
        for name, enabled in (self._features.at_birth(known, self.support(), fresh=fresh) or {}).items():
            since = self._features.declared[name].since
            table.write((_KNOWN, name), since)
            if enabled:
                table.write((_ENABLED, name), since)

    def support(self, *, down: bool = False) -> Support:
        """Return the flags that each other member supports; with ``down`` those that are down, too."""
        peers = self._distribution.peers
        return {
            member.name: peers[member.name].features
            if member.name in peers and peers[member.name].up
            else None
            for member in self._members.members()[1:]
            if down or member.status is not Status.OFFLINE
        }

    async def enable(self, name: str | None) -> None:
        """Enable a flag, or all stable ones; back once it is on disc here, and all nodes have it.

        Raises:
            NotFoundError: no flag has this name.
            FeatureBlockedError: a member lacks it, or is not linked with this node.
            UnavailableError: it cannot be written now.
        """
        table, members = self._opened(), self.support(down=True)
        wanted = [one for one in self._features.wanted(name) if one.name not in self._features.enabled]
        for feature in wanted:
            self._features.check(feature, members)
        number = 0
        for feature in wanted:
            number = table.write((_ENABLED, feature.name), feature.since)
        await table.durable()
        await table.visible(number)

    def _opened(self) -> SharedTable:
        if self._table is None:
            raise UnavailableError("features: the node is starting; try again in a moment")
        return self._table

    def _read(self) -> None:
        rows = self._opened().rows().items()
        enabled = {name: since for (kind, name), since in rows if kind == _ENABLED}
        if enabled.keys() == self._features.enabled.keys():
            return
        log.info("features_enabled", features=sorted(enabled))
        self._features.enabled = enabled
        for peer in list(self._distribution.peers.values()):
            if not peer.hidden and peer.up and (lacked := self._features.lacked_by(peer.features)):
                self._distribution.give_up(peer.name, f"it lacks the feature {', '.join(lacked)}")

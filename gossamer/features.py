"""Feature flags: what waits until every node of a cluster has it.

A release may bring what works only among nodes that all know it, such as a message that the release before
would drop. Code asks ``features.enabled`` before it uses such a thing. Until all nodes have been upgraded and
an operator enables the flag, the cluster can go back to the release before, node by node. The mechanism, and
its words, are RabbitMQ's.

Rules: 1. A flag is declared once, in :data:`FEATURES`; its name is never used again.  2. It is enabled when
every member supports it, and never disabled.  3. A node that lacks an enabled flag gets no link.  4. A new
cluster enables all stable flags; in one that was upgraded they wait for an operator.

Rejected: to go by the oldest release among the members, as etcd does. The last node that is upgraded would
close the way back by itself, and a member that is down would not count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from gossamer.errors import NotFoundError, UnavailableError, mismatch

Stability = Literal["stable", "experimental"]


@dataclass(frozen=True, slots=True)
class Feature:
    """A flag; ``since`` is the first release that supports it."""

    name: str
    since: str
    does: str
    stability: Stability = "stable"


FEATURES = (
    Feature(
        "protocol_5",
        "0.1.0",
        "All links speak protocol 5, whose messages may gain fields. Nodes of protocol 4 are refused.",
    ),
    Feature(
        "consensus",
        "0.1.0",
        "Nodes keep replicas of what must not differ between them: names with one holder.",
    ),
    Feature(
        "basekv",
        "0.1.0",
        "Nodes keep replicas of ranges of keys, on which tables of replication quorum rest.",
    ),
    Feature(
        "queues",
        "0.1.0",
        "Nodes keep replicas of queues, and topics $queue/... are theirs.",
    ),
    Feature(
        "tenants",
        "0.1.0",
        "Clients of tenants are let in: their topics and sessions have names that nodes before do not read.",
    ),
    Feature(
        "ranges",
        "0.1.0",
        "Ranges of keys are split and merged.",
        "experimental",
    ),
)

Support = Mapping[str, Collection[str] | None]
"""Flags that a member supports, by its name; None where there is no link that would say."""


class FeatureBlockedError(UnavailableError):
    """A flag cannot be enabled, because of these members."""

    def __init__(self, *, name: str, lacking: Iterable[str], unknown: Iterable[str]) -> None:
        self.name = name
        self.lacking = tuple(sorted(lacking))
        self.unknown = tuple(sorted(unknown))
        problems = [
            *(f"{node} lacks it; upgrade that node" for node in self.lacking),
            *(f"no link to {node}; start it, or force-leave it if it is gone" for node in self.unknown),
        ]
        super().__init__(f"feature {name}: expected every member to support it: {', '.join(problems)}")


class Features:
    """Flags of one node: what it supports, and what its cluster has enabled."""

    def __init__(self, declared: Iterable[Feature] = FEATURES) -> None:
        self.declared = {feature.name: feature for feature in declared}
        self.enabled: Mapping[str, str] = {}
        """Enabled flags, which this node may not know, with their ``since``."""

    def lacked_by(self, supported: Collection[str]) -> list[str]:
        """Return the enabled flags that a node with these ones lacks."""
        return sorted(self.enabled.keys() - set(supported))

    def wanted(self, name: str | None) -> list[Feature]:
        """Return the flags to enable for an order: the one of this name, or all stable ones.

        Raises:
            NotFoundError: no flag has this name.
        """
        if name is None:
            return [one for one in self.declared.values() if one.stability == "stable"]
        if name not in self.declared:
            raise mismatch(NotFoundError, "feature", repr(name[:100]), f"one of {', '.join(self.declared)}")
        return [self.declared[name]]

    def check(self, feature: Feature, members: Support) -> None:
        """Raise FeatureBlockedError unless all other ``members`` support the flag."""
        unknown = [node for node, names in members.items() if names is None]
        lacking = [node for node, names in members.items() if names is not None and feature.name not in names]
        if unknown or lacking:
            raise FeatureBlockedError(name=feature.name, lacking=lacking, unknown=unknown)

    def at_birth(self, known: Collection[str], members: Support, *, fresh: bool) -> dict[str, bool] | None:
        """Return the first state of each flag that is not ``known`` to the cluster, True for enabled.

        A node with a ``fresh`` data directory begins a new cluster, unless older nodes are there: they lack
        the flag, or have made it known as disabled. None: the support of some member is yet to be learned.
        """
        if any(names is None for names in members.values()):
            return None
        return {
            name: fresh
            and feature.stability == "stable"
            and all(name in (names or ()) for names in members.values())
            for name, feature in self.declared.items()
            if name not in known
        }

"""The discovery subtree of a node: what its strategy needs, and the loop that asks it.

::

    discovery (rest_for_one)
    ├── …              processes of the strategy: an embedded etcd, a lease, a watch
    └── autocluster    registered as ``discovery``

A strategy that needs no processes has the loop alone, without a supervisor in between.
"""

from __future__ import annotations

import random
from functools import partial

from gossamer.discovery.aloof import Aloof
from gossamer.discovery.autocluster import Autocluster
from gossamer.discovery.strategy import Strategy
from gossamer.gossip import MembershipView
from gossamer.supervisor import ChildSpec, Supervisor

__all__ = ["discovery_spec"]


def discovery_spec(
    strategy: Strategy,
    *,
    view: MembershipView,
    rng: random.Random,
    retry_interval: float,
    aloof: Aloof | None = None,
) -> ChildSpec:
    """The subtree; gossip must be registered as ``gossip``."""
    needed = strategy.children()
    start = partial(
        Autocluster.start_link,
        strategy=strategy,
        view=view,
        gossip="gossip",
        rng=rng,
        retry_interval=retry_interval,
        aloof=aloof,
        name="discovery",
        label="autocluster" if needed else "discovery",
    )
    if not needed:
        return ChildSpec("discovery", start)
    children = [*needed, ChildSpec("autocluster", start)]
    return ChildSpec(
        "discovery",
        partial(
            Supervisor.start_link,
            children,
            strategy="rest_for_one",
            intensity=5,
            period=30.0,
            label="discovery",
        ),
        type="supervisor",
    )

"""Healing, wired into a node: where its state stands, and what reloading the store means here.

Rule: only the store's subtree is restarted. Tables, routes and sessions belong to the node and stay, so that
readers read on and no client is dropped; replication follows every peer anew and moves what differs.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from gossamer.autoheal import AUTOHEAL, Autoheal, FileStorage, HealStatus, MemoryStorage, Storage
from gossamer.clock import Clock
from gossamer.config import ClusterConfig
from gossamer.distribution import Distribution
from gossamer.gossip import MembershipView
from gossamer.supervisor import ChildSpec, Supervisor

__all__ = ["heal_storage", "healing_spec"]

_STORE = "mnesia_like"
_PATIENCE = 10.0
"""Seconds for the store to end, and again to start."""


def heal_storage(data_dir: Path | None) -> Storage:
    """A file in the data directory; memory where there is none."""
    return MemoryStorage() if data_dir is None else FileStorage(data_dir / "autoheal.json")


def healing_spec(
    config: ClusterConfig,
    *,
    view: MembershipView,
    distribution: Distribution,
    clock: Clock,
    storage: Storage,
    status: HealStatus,
    start_time: float,
) -> ChildSpec:
    """The healer of one node, for its supervisor to start after the distribution."""
    start = partial(
        Autoheal.start_link,
        view=view,
        distribution=distribution,
        clock=clock,
        storage=storage,
        status=status,
        reload=_reload_store,
        start_time=start_time,
        delay=config.autoheal,
        autoclean=config.autoclean,
        name=AUTOHEAL,
        label="autoheal",
    )
    return ChildSpec(AUTOHEAL, start)


async def _reload_store() -> None:
    await Supervisor.terminate_child("node", _STORE, _PATIENCE)
    await Supervisor.restart_child("node", _STORE, _PATIENCE)

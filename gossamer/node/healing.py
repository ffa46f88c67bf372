"""Healing, wired into a node: where its state stands, and what reloading the store means here.

Rules: 1. Only the store's subtree is restarted. Tables, routes and sessions belong to the node and stay, so
that readers read on and no client is dropped; replication follows every peer anew and moves what differs.
2. With ``cluster.heal_restarts: node`` it is as with EMQX: clients are dropped, and may return once the
tables are loaded anew.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import structlog

from gossamer.autoheal import (
    AUTOHEAL,
    Autoheal,
    Discards,
    FileStorage,
    HealStatus,
    MemoryStorage,
    Quarantine,
    Restart,
    Storage,
)
from gossamer.clock import Clock
from gossamer.config import ClusterConfig
from gossamer.distribution import Distribution
from gossamer.gossip import MembershipView
from gossamer.mnesia_like import LocalTable, Store, TablesNotLoadedError
from gossamer.supervisor import ChildSpec, Supervisor

__all__ = ["heal_status", "heal_storage", "healing_spec"]

log = structlog.get_logger(__name__)

_STORE = "mnesia_like"
_MQTT = "mqtt"
_PATIENCE = 10.0
"""Seconds for the store to end, and again to start."""
_LOAD = 15.0
"""Seconds for the tables to load before clients may return."""


def heal_storage(data_dir: Path | None) -> Storage:
    """A file in the data directory; memory where there is none."""
    return MemoryStorage() if data_dir is None else FileStorage(data_dir / "autoheal.json")


def heal_status(data_dir: Path | None) -> HealStatus:
    """What the node shows of its healing; its quarantine is a file in the data directory."""
    return HealStatus(Quarantine(None if data_dir is None else data_dir / "quarantine.bin"))


def healing_spec(
    config: ClusterConfig,
    *,
    view: MembershipView,
    distribution: Distribution,
    store: Store,
    clock: Clock,
    storage: Storage,
    status: HealStatus,
    start_time: float,
    note: Callable[..., None],
) -> ChildSpec:
    """The healer of one node, for its supervisor to start after the distribution."""
    start = partial(
        Autoheal.start_link,
        view=view,
        distribution=distribution,
        clock=clock,
        storage=storage,
        status=status,
        discards=Discards(store, status.quarantine, clock, restart=config.heal_restarts),
        reload=partial(_restart, store),
        loading=partial(_loading, store),
        start_time=start_time,
        delay=config.autoheal,
        autoclean=config.autoclean,
        restart=config.heal_restarts,
        note=note,
        name=AUTOHEAL,
        label="autoheal",
    )
    return ChildSpec(AUTOHEAL, start)


async def _restart(store: Store, what: Restart) -> None:
    if what == "node":
        await Supervisor.terminate_child("node", _MQTT, _PATIENCE)
    try:
        await Supervisor.terminate_child("node", _STORE, _PATIENCE)
        await Supervisor.restart_child("node", _STORE, _PATIENCE)
        if what == "node":
            try:
                await store.wait_for_tables(timeout=_LOAD)
            except TablesNotLoadedError as error:
                log.warning("tables_not_loaded", error=str(error))
    finally:
        if what == "node":
            await Supervisor.restart_child("node", _MQTT, _PATIENCE)


def _loading(store: Store) -> bool:
    """Whether rows of a peer that is up are still to come."""
    tables = (name for name in store.tables() if not isinstance(store.table(name), LocalTable))
    return any(store.replication.not_loaded(name) for name in tables)

"""Healing, wired into a node: what reloading the store means here, and who hears of splits.

Rules: 1. Only the store's subtree is restarted. Tables, routes and sessions belong to the node and stay, so
that readers read on and no client is dropped; replication follows every peer again and moves what differs.
2. With ``cluster.heal_restarts: node`` it is as with EMQX: clients are dropped, and may return once the
tables are reloaded.  3. Subscribers to the store get splits as Mnesia's events.
"""

from __future__ import annotations

from functools import partial

import structlog

from gossamer.autoheal import AUTOHEAL, Autoheal, Discards, Restart, Settings, Storage
from gossamer.mnesia_like import InconsistentDatabase, LocalTable, Store, TablesNotLoadedError
from gossamer.node.parts import NodeParts
from gossamer.supervisor import ChildSpec, Pid, Supervisor

log = structlog.get_logger(__name__)

_STORE = "mnesia_like"
_MQTT = "mqtt"
RESTART_TIMEOUT = 10.0
"""Seconds for the store to end, and again to start."""
LOAD_TIMEOUT = 15.0
"""Seconds for the tables to load before clients may return."""


def healing_spec(node: NodeParts) -> ChildSpec:
    """The healer, for its supervisor to start after the distribution."""
    config, store, status = node.config.cluster, node.store, node.healing

    def note(kind: str, peer: str = "", text: str = "") -> None:
        node.event_log.note(kind, peer, text)
        if kind == "partition":
            store.publish(InconsistentDatabase(text, peer))

    # Made once: what they remember outlives the process.
    storage = Storage(node.data_dir and node.data_dir / "autoheal.json")
    discards = Discards(store, status.quarantine, node.clock, restart=config.heal_restarts)

    async def start() -> Pid:
        copies = "disc_copies" if node.on_disc else "ram_copies"
        if node.on_disc:
            await status.quarantine.load(store)
        table = await store.create_table(Settings.TABLE, replication="shared", storage=copies)
        return await Autoheal.start_link(
            view=node.members,
            distribution=node.distribution,
            clock=node.clock,
            storage=storage,
            status=status,
            discards=discards,
            reload=partial(_restart, store),
            loading=partial(_loading, store),
            start_time=node.started_at,
            settings=Settings(table, autoheal=config.autoheal, autoclean=config.autoclean),
            restart=config.heal_restarts,
            note=note,
            name=AUTOHEAL,
            label="autoheal",
        )

    return ChildSpec(AUTOHEAL, start)


async def _restart(store: Store, what: Restart) -> None:
    if what == "node":
        await Supervisor.terminate_child("node", _MQTT, RESTART_TIMEOUT)
    try:
        await Supervisor.terminate_child("node", _STORE, RESTART_TIMEOUT)
        await Supervisor.restart_child("node", _STORE, RESTART_TIMEOUT)
        if what == "node":
            try:
                await store.wait_for_tables(timeout=LOAD_TIMEOUT)
            except TablesNotLoadedError as error:
                log.warning("tables_not_loaded", error=str(error))
    finally:
        if what == "node":
            await Supervisor.restart_child("node", _MQTT, RESTART_TIMEOUT)


def _loading(store: Store) -> bool:
    """Return whether rows of a peer that is up are still to come."""
    tables = (name for name in store.tables() if not isinstance(store.table(name), LocalTable))
    return any(store.replication.not_loaded(name) for name in tables)

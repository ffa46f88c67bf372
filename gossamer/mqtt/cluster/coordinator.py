"""The process that connects a broker to those of other nodes.

It creates the tables, attaches the stores that work on them, follows nodes that come up and go down, and runs
periodic work. The stores belong to the broker and outlive this process: a restart loses nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import structlog

from gossamer.distribution import Distribution, NodeDown, NodeUp
from gossamer.distribution import rpc as remote
from gossamer.errors import UnavailableError
from gossamer.gossip import MembershipView
from gossamer.mnesia_like import LocalTable, SharedTable, Store
from gossamer.mqtt.broker import Broker
from gossamer.mqtt.cluster.retained import ClusterRetained
from gossamer.mqtt.cluster.retained_bodies import FETCH, KEEP, Bodies, Links
from gossamer.mqtt.cluster.wills_actions import ClusterWills
from gossamer.mqtt.copies.copies import SessionCopies
from gossamer.mqtt.copies.fenced import Ranges
from gossamer.mqtt.copies.rows import Owner
from gossamer.mqtt.copies.sweep import Sweep
from gossamer.mqtt.flow.fence import Fence
from gossamer.mqtt.handoff.hinted_handoff import HintedHandoff
from gossamer.mqtt.migration.takeover import Takeovers
from gossamer.mqtt.publish.owed import INTERVAL
from gossamer.mqtt.session.store import SessionStore
from gossamer.network import Network
from gossamer.supervisor import GenServer, self_pid, send_after, spawn

log = structlog.get_logger(__name__)

TICK = 1.0
SWEEP = 3600
"""Ticks after which one node deletes the copies that have expired while nobody had their sessions."""
RESTORED = 500
"""Sessions restored in a turn of the loop."""
_TICK = "mqtt_cluster_tick"
_LOOK = "mqtt_owed_look"
_BACK = "mqtt.back"


class MqttCluster(GenServer):
    """Process that shares the broker's sessions, wills and retained messages with other nodes.

    ``network``: that between nodes; ``disc``: whether tables are on disc; ``suspicion_floor``: gossip's;
    ``enough()``: ranges of keys have the replicas that make copies of sessions worth it.
    """

    _sweep: Sweep | None = None

    async def init(
        self,
        broker: Broker,
        retained: ClusterRetained,
        store: Store,
        distribution: Distribution,
        members: MembershipView,
        functions: dict[str, Callable[..., object]],
        network: Network,
        *,
        disc: bool,
        suspicion_floor: float,
        enough: Callable[[], bool],
    ) -> None:
        self._broker, self._copies = broker, broker.copies
        self._retained = retained
        self._ticks = 0
        if broker.handoff is None:
            # Before the first node comes up.
            broker.handoff = HintedHandoff(
                broker.shared, store, distribution, members, broker.config.sessions
            )
            broker.subscribing.on_subscribed = broker.handoff.subscribed
        self._distribution = distribution
        index = await self._share_retained(store, disc=disc)
        functions[_BACK] = self._back
        functions[KEEP] = self._keep
        functions[FETCH] = self._fetch
        sessions = await store.create_table("sessions", replication="owned")
        self._wills = await self._share_wills(store, functions, network, index, disc=disc)
        if disc and not broker.delayed.restored:
            journal, rows = await store.create_journal("mqtt_delayed")
            broker.delayed.restore(journal, rows, soon=asyncio.get_running_loop().call_soon)
        takeovers = Takeovers(broker.shared, sessions, distribution, broker.handoff)
        takeovers.offer(functions)
        broker.handoff.replay.late = takeovers.superseded.late
        if disc and broker.config.sessions.persistent:
            await self._restore(store, broker.handoff)
            self._begin_copies(takeovers, enough)
        for session in list(broker.sessions.values()):
            takeovers.ownership.reclaim(session)
        sessions.subscribe_batches(takeovers.changed)
        broker.takeovers = broker.admission.takeovers = takeovers
        broker.ingest.on_mark = takeovers.marked
        broker.handoff.begin(
            sessions,
            functions,
            dismiss=takeovers.superseded.dismiss,
            is_moving=takeovers.is_moving,
            delivered=takeovers.delivered,
        )
        broker.table.on_end = takeovers.disown
        distribution.subscribe(self_pid())
        for name in distribution.nodes():
            self._wills.node_up(name, distribution.creation_of(name) or 0)
        broker.admission.on_return = self._returned
        send_after(TICK, self_pid(), _TICK)
        send_after(INTERVAL, self_pid(), _LOOK)
        if broker.fanout.fence is None:
            broker.fanout.fence = self._fence(broker.handoff, suspicion_floor)

    def _begin_copies(self, takeovers: Takeovers, enough: Callable[[], bool]) -> None:
        """Copy this node's sessions, if that is wanted; to those of before if this process has restarted."""
        if self._broker.config.sessions.replication == "off":
            return
        broker, runtime = self._broker, self._distribution.runtime
        store = broker.table.store
        assert store is not None  # noqa: S101 - it was restored
        if store.copies is None:
            copies = store.copies = SessionCopies(
                Ranges(),
                broker.sessions,
                node=runtime.node,
                creation=runtime.creation,
                spawn=runtime.spawn,
                now=broker.fanout.now,
                enough=enough,
                released=store.released,
                on_disc=store.disc.settled,
                strict=broker.config.sessions.on_no_quorum == "refuse",
            )
            store.on_commit = copies.committed_here
            broker.copies = copies
        assert broker.copies is not None  # noqa: S101 - it is where the store has it
        self._sweep = Sweep(Ranges(), wall=broker.clock.wall, writes=self._is_writer)
        takeovers.adoptions.copies = self._copies = broker.copies
        broker.copies.merge = takeovers.adoptions.merge

    def _fence(self, handoff: HintedHandoff, suspicion_floor: float) -> Fence:
        distribution = self._distribution
        return Fence(
            now=self._broker.fanout.now,
            spawn=lambda function: distribution.runtime.spawn(function, label="mqtt_fence"),
            peers=distribution.nodes,
            level=handoff.level,
            suspicion_floor=suspicion_floor,
        )

    async def _share_retained(self, store: Store, *, disc: bool) -> SharedTable:
        """Attach the retained messages to their tables; return the table that is their index."""
        storage = "disc_copies" if disc else "ram_copies"
        index = await store.create_table("retained", replication="shared", storage=storage)
        copies = await store.create_table("retained_copies", replication="owned")
        on_disc: LocalTable | None = None
        if disc:
            on_disc = await store.create_table("retained_bodies", storage=storage)
        retained, config = self._retained, self._broker.config.retained
        self._bodies = Bodies(
            node=self._distribution.runtime.node,
            copies=config.copies,
            links=Links(self._distribution, config.fetch_timeout),
            table=copies,
            disc=on_disc,
            current=retained.current,
            now=self._broker.fanout.now,
        )
        if retained.bodies is not None:
            self._bodies.held.update(retained.bodies.held)
        elif on_disc is not None:
            self._bodies.restore(dict(on_disc.rows()))
        retained.attach(index, self._bodies)
        return index

    async def _share_wills(
        self,
        store: Store,
        functions: dict[str, Callable[..., object]],
        network: Network,
        index: SharedTable,
        *,
        disc: bool,
    ) -> ClusterWills:
        """Attach the wills to their table; ``index`` is that of retained messages."""
        table = await store.create_table("wills", replication="owned")
        wills = ClusterWills(self._broker.shared, self._distribution, network, table, index)
        await wills.begin(store, functions, disc=disc)
        self._broker.admission.when_known = wills.when_known
        table.subscribe_batches(lambda change: wills.changed(change.owner, change.written, change.deleted))
        return wills

    async def _restore(self, store: Store, handoff: HintedHandoff) -> None:
        """Restore sessions, owed messages and hints from disc; once in each creation of a node."""
        broker = self._broker
        if broker.table.store is not None:
            return
        journal, rows = await store.create_journal("mqtt_sessions")
        kept = SessionStore(
            journal,
            wall=broker.clock.wall,
            monotonic=broker.fanout.now,
            soon=asyncio.get_running_loop().call_soon,
        )
        broker.table.store = kept
        handoff.replay.restore(kept, rows)
        broker.owed.restore(kept.owed_of(rows))
        count = 0
        for stored in kept.read(rows):
            session = broker.table.restore(stored)
            if session is not None:
                broker.table.subscribe_again(session)
                count += 1
            if count % RESTORED == RESTORED - 1:
                # Let other tasks run.
                await asyncio.sleep(0)
        if count:
            log.info("sessions_restored", count=count)
        await handoff.restore()

    async def handle_info(self, message: object) -> None:
        wills = self._broker.wills
        if message == _TICK:
            send_after(TICK, self_pid(), _TICK)
            self._tick()
        elif message == _LOOK:
            send_after(INTERVAL, self_pid(), _LOOK)
            self._broker.owed.look()
            if self._broker.fanout.fence is not None:
                self._broker.fanout.fence.beat()
        elif isinstance(message, NodeUp):
            self._wills.node_up(message.name, message.creation)
            self._wills.remember()
            if self._broker.handoff is not None:
                self._broker.handoff.node_up(message.name)
        elif isinstance(message, NodeDown):
            if self._broker.handoff is not None:
                self._broker.handoff.node_down(message.name)
            if self._broker.takeovers is not None:
                self._broker.takeovers.node_down(message.name)
            here = wills.node_down(
                message.name, message.creation, self._broker.fanout.now(), left=message.reason == "left"
            )
            for client_id in here:
                self._report_back(client_id)
            self._wills.remember()
        else:
            await super().handle_info(message)

    def _returned(self, client_id: str) -> None:
        """Report a client that connected here to all nodes, if one may hold its will."""
        if self._broker.wills.returned(client_id):
            self._report_back(client_id)

    def _report_back(self, client_id: str) -> None:
        self._back(client_id)
        runtime = self._distribution.runtime
        nodes = self._distribution.nodes()
        runtime.spawn(remote.multicall, nodes, _BACK, client_id, label="mqtt_back")

    def _back(self, client_id: str) -> bool:
        """Void the delayed wills of a client that is connected at this node, or at the one that calls."""
        self._broker.wills.back(client_id, self._broker.fanout.now())
        return True

    def _tick(self) -> None:
        broker = self._broker
        self._wills.tick()
        self._ticks += 1
        broker.owed.give(broker.redispatch.again)
        if self._copies is not None:
            self._copies.tick()
        if broker.handoff is not None:
            broker.handoff.tick()
        if self._ticks % 10 == 0:
            for copying in self._bodies.upkeep():
                spawn(_await, copying, label="mqtt_retained_copies")
        if self._ticks % 60 == 0:
            self._retained.sweep()
        node = self._distribution.runtime.node
        if (
            self._sweep is not None
            and self._ticks % SWEEP == 0
            and node <= min(self._distribution.nodes(), default=node)
        ):
            spawn(self._swept, self._sweep, label="mqtt_copies_sweep")

    def _is_writer(self, owner: Owner) -> bool:
        """Return whether the node that writes a copy is up, and the same as when it wrote that."""
        here = self._distribution.runtime
        if owner.node == here.node:
            return owner.creation == here.creation
        return owner.creation == self._distribution.creation_of(owner.node)

    async def _swept(self, sweep: Sweep) -> None:
        try:
            if swept := await sweep.run():
                log.info("session_copies_expired", count=swept)
        except UnavailableError as error:
            log.warning("session_copies_not_swept", reason=str(error))

    # Calls of other nodes.

    def _keep(self, topic: str, tag: str, record: bytes) -> bool:
        self._bodies.keep(topic, tag, record)
        return True

    def _fetch(self, topic: str, tag: str) -> bytes | None:
        body = self._bodies.held.get((topic, tag))
        return None if body is None else body.record


async def _await(something: Any) -> None:
    await something

"""One node: its applications, put together into one supervision tree.

::

    node (one_for_one)
    ├── loop_watch       how late the event loop runs, and who holds it (not in simulations)
    ├── distribution     links to peers
    ├── remote           processes of other nodes: signals, rpc, process groups
    ├── mnesia_like      tables: disc, replicator
    ├── routes           the owner of the route table and its index
    ├── mqtt_cluster     what brokers share: retained messages, wills
    ├── audit            what happened to each message, for a process that writes it (where it is switched on)
    ├── autoheal         splits seen and healed
    ├── split_relay      and told to those who subscribed to the tables
    ├── membership       from gossip's verdicts to links
    ├── gossip           SWIM
    ├── discovery        the autocluster loop, and what its strategy needs
    ├── gateway          Python clients: hidden nodes
    ├── applications     what the user runs here
    ├── runs             drills and audits, as programs beside the node
    ├── api              HTTP
    └── mqtt             listeners and channels; started last, stopped first

Each child is restarted on its own, because what others read of it (views, tables, routes, sessions) belongs
to the node and outlives it. Too many restarts end the root, and with it the node; a process manager starts it
anew.

Rules: 1. Listeners for clients open once the tables are loaded, or after a bounded wait that is logged.  2.
Everything that touches time, randomness or the network is passed in.  3. A node is started once; a restart is
a new ``Node`` with a newer creation.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec
import structlog

from gossamer import __version__
from gossamer.api import (
    REQUEST,
    TOKENS,
    ApiServer,
    Programs,
    Relay,
    Runs,
    Tokens,
    is_audit,
    make_app,
    runs_spec,
    spark_lacks,
)
from gossamer.audit import CLOCK, WATCH, Auditor, key_of
from gossamer.clock import Clock, SystemClock
from gossamer.config import Config, cookie_of
from gossamer.discovery import Aloof, Strategy, discovery_spec, strategy_of
from gossamer.distribution import (
    Distribution,
    GrpcTransport,
    LinkTransport,
    StreamTransport,
    remote_services,
)
from gossamer.errors import GossamerError, UnavailableError
from gossamer.faults import FaultTable, FaultyClock, FaultyNetwork
from gossamer.gateway import gateway_spec
from gossamer.gossip import (
    GossipServer,
    GossipSettings,
    KeyFile,
    Keyring,
    Leave,
    LinkEvidence,
    LoopLag,
    MemberMetadata,
    MembershipView,
    UpdateMetadata,
    cluster_key,
)
from gossamer.mnesia_like import Disc, Store
from gossamer.mqtt import Broker, ClusterRetained, MqttCluster, mqtt_spec
from gossamer.network import Address, Network, SystemNetwork
from gossamer.node.applications import ApplicationError, applications_spec
from gossamer.node.arrival import arrive
from gossamer.node.chronicle import Chronicle
from gossamer.node.datadir import DataDir
from gossamer.node.healing import heal_status, heal_storage, healing_spec
from gossamer.node.membership import MEMBERSHIP, Membership
from gossamer.node.metrics import LOOP_WATCH
from gossamer.node.replication import TableLinks, split_relay_spec
from gossamer.node.view import ROUTES, View
from gossamer.routes import RouteOwner, Router, TopicLimits
from gossamer.supervisor import (
    ChildSpec,
    Crash,
    LoopWatch,
    Pid,
    Reason,
    Runtime,
    StartFailed,
    Supervisor,
    describe,
)
from gossamer.tracing import Tracing, traced_tape

__all__ = ["Node", "NodeFailedError", "State"]

log = structlog.get_logger(__name__)

State = Literal["new", "starting", "running", "leaving", "left", "stopping", "stopped"]

LEAVE_WAIT = 3.0
"""Seconds a stopping node waits for its leave to spread."""


class NodeFailedError(UnavailableError):
    """A node did not start, or ended by itself."""

    def __init__(self, *, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        super().__init__(f"node {name}: {reason}")


class Node:
    """See the module. ``data_dir`` None keeps nothing on disc; ``children`` join ``node.applications``.

    ``pid`` is the operating-system process that the node says it is; unless given, the one it runs in.
    """

    def __init__(
        self,
        config: Config,
        *,
        creation: int,
        cookie: str,
        data_dir: Path | None = None,
        network: Network | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        transport: LinkTransport | None = None,
        strategy: Strategy | None = None,
        nonce: Callable[[int], bytes] = secrets.token_bytes,
        children: Iterable[ChildSpec] = (),
        pid: int | None = None,
    ) -> None:
        self.config = config
        self.name = config.node.name
        self.creation = creation
        self.pid = os.getpid() if pid is None else pid
        self.state: State = "new"
        self.network = network or SystemNetwork()
        self.clock = clock or SystemClock()
        self._real_time = isinstance(self.clock, SystemClock)
        faulty = FaultyClock(self.clock) if config.drill.faults else None
        if faulty is not None:
            self.clock = faulty
        self.rng = rng or random.Random()
        self.started_at = self.clock.wall()
        self.runtime = Runtime(node=self.name, creation=creation)
        self.members = MembershipView()
        self.healing = heal_status(data_dir)
        self.chronicle = Chronicle(self.clock, creation=creation)
        self._heal_storage = heal_storage(data_dir)
        self.strategy = strategy or strategy_of(
            config.cluster, node=config.node.name, data_dir=data_dir or config.node.data_dir
        )
        self.aloof = Aloof(data_dir)
        links = config.distribution
        self.faults = FaultTable(self._name_at) if config.drill.faults else None
        if self.faults is not None:
            self.faults.clock = faulty
        # Between nodes only: who orders faults, and the clients, are to be reached through all of them.
        gate = None if self.faults is None else FaultyNetwork(self.network, self.faults, rng=self.rng)
        self._between: Network = gate or self.network
        self.distribution = Distribution(
            self.runtime,
            transport or self._carrier(gate),
            cookie=cookie,
            env=config.cluster.env,
            address=(links.host or "0.0.0.0", links.port),  # noqa: S104 - blank means every address
            rng=self.rng,
            nonce=nonce,
            evidence=self._evidence,
            retain=max(links.retention, 2 * links.max_frame),
            max_frame=links.max_frame,
            handshake_timeout=links.handshake_timeout,
            backoff_initial=links.reconnect_min,
            backoff_maximum=links.reconnect_max,
        )
        self._links = TableLinks(self.distribution)
        self.store = Store(
            node=self.name,
            creation=creation,
            clock=self.clock,
            link=self._links,
            disc=None if data_dir is None else Disc(data_dir / "tables.db"),
        )
        self._on_disc = data_dir is not None
        self.router = Router(
            self.name,
            limits=TopicLimits(
                max_levels=config.mqtt.limits.max_topic_levels, max_bytes=config.mqtt.limits.max_topic_bytes
            ),
            visible_timeout=config.mqtt.limits.subscribe_wait,
            sync=config.mqtt.forwarding == "sync",
            shared_strategy=config.mqtt.shared_subscription_strategy,
            exclusive_limit=config.mqtt.limits.max_exclusive,
            wall=self.clock.wall,
            rng=self.rng,
        )
        self._retained = ClusterRetained(
            node=self.name,
            creation=creation,
            clock=self.clock,
            runtime=self.runtime,
            threshold=config.mqtt.retained.threshold,
            limit=config.mqtt.retained.max_messages,
        )
        self.broker = Broker(
            self.router,
            clock=self.clock,
            network=self.network,
            config=config.mqtt,
            runtime=self.runtime,
            rng=self.rng,
            retained=self._retained,
        )
        self.functions: dict[str, Callable[..., Any]] = {}
        """What other nodes may call here by ``rpc``, by name."""
        self.functions[CLOCK] = self.clock.wall
        tape = traced_tape(config, wall=self.clock.wall, recording=lambda: self.auditor.recording)
        self.auditor = Auditor(
            config.audit,
            runtime=self.runtime,
            hub=self.broker.hub,
            sessions=self.broker.sessions,
            distribution=self.distribution,
            filters_of=self.router.filters_of,
            clock=self.clock,
            key=key_of(config.audit, cookie),
            data_dir=data_dir,
            tape=tape,
        )
        self.tracing = None if tape is None else Tracing(config.tracing, auditor=self.auditor, tape=tape)
        self._user_children = tuple(children)
        self.api_port = 0
        self.tokens = Tokens(now=self.clock.wall, random_bytes=nonce)
        programs = Programs(self.runtime)
        self.drills = Runs(
            None if data_dir is None else data_dir / "drills",
            what="drills",
            most=20,
            now=self.clock.wall,
            programs=programs,
        )
        self.audits = Runs(
            None if data_dir is None else data_dir / "audit-reports",
            what="audit",
            most=10,
            now=self.clock.wall,
            programs=programs,
            made_at=is_audit,
            lacks=spark_lacks,
        )
        self.view = View(self)
        self.relay = Relay(
            partial(make_app, self.view, config=config.api, tokens=self.tokens, clock=self.clock),
            self.runtime,
        )
        self.functions[REQUEST] = self.relay.answer
        self._key_file = None if data_dir is None else KeyFile(data_dir / "gossip.keys")
        self._keyring = Keyring([cluster_key(cookie)], env=config.cluster.env)
        self._directory: DataDir | None = None
        self._root: Pid | None = None
        self._ended: asyncio.Future[NodeFailedError | None] | None = None

    @classmethod
    def open(cls, config: Config) -> Node:
        """A node on this machine's network, clock and disc. Blocks: call it before the loop runs.

        Raises:
            ConfigError: there is no usable cookie.
            DataDirError, DataDirInUseError: there is no usable data directory.
        """
        cookie = cookie_of(config.node).get_secret_value()
        directory = DataDir(config.node.data_dir, wall=SystemClock().wall())
        node = cls(config, creation=directory.creation, cookie=cookie, data_dir=directory.path)
        node._directory = directory
        return node

    # -- life

    async def start(self) -> None:
        """Start everything, and come back once clients may connect.

        Raises:
            NodeFailedError: something could not start; nothing of the node is left running.
        """
        self.state = "starting"
        log.info("node_starting", node=self.name, version=__version__, creation=self.creation)
        self._ended = self.runtime.loop.create_future()
        try:
            if self.config.audit.enable:
                self.auditor.check()
            if self.tracing is not None:
                self.tracing.check()
            self._root = await self.runtime.start(
                Supervisor, self._children(), intensity=20, period=10.0, name="node", label="node"
            )
            self.runtime.join(self._root).add_done_callback(self._root_ended)
            await arrive(self)
            await self._add(mqtt_spec(self.broker))
            await self._announce()
        except (StartFailed, UnavailableError, ApplicationError) as error:
            await self._clear()
            if isinstance(error, NodeFailedError):
                raise
            reason = root_cause(error.reason) if isinstance(error, StartFailed) else str(error)
            raise NodeFailedError(name=self.name, reason=reason) from error
        if self._ended.done():
            raise self._ended.result() or NodeFailedError(name=self.name, reason="stopped while it started")
        self.state = "left" if self.aloof.on else "running"
        log.info("node_running", node=self.name, creation=self.creation, **self.ports)

    async def stop(self) -> None:
        """Leave the cluster and end everything in order, children before parents."""
        if self.state in ("stopping", "stopped", "new"):
            return
        self.state = "stopping"
        log.info("node_stopping", node=self.name, connections=self.broker.stats()["connections"])
        if self._root is not None:
            try:
                await self.runtime.run(Supervisor.terminate_child, "node", "mqtt")
                await self.runtime.run(Supervisor.terminate_child, "node", "discovery")
                async with asyncio.timeout(LEAVE_WAIT):
                    # One that keeps sessions on disc is expected back, and so is what is kept for them.
                    await self.runtime.call("gossip", Leave(returning=self._on_disc), timeout=LEAVE_WAIT)
            except (GossamerError, TimeoutError) as error:
                log.warning("leave_failed", node=self.name, error=str(error) or "no answer in time")
        await self._clear()
        log.info("node_stopped", node=self.name)

    def crash(self) -> None:
        """End at once and tell nobody, as ``kill -9`` does; for simulations."""
        self.state = "stopped"
        self.runtime.halt()
        self.store.abandon()

    async def wait(self) -> NodeFailedError | None:
        """Wait until the node has stopped; why, when it was not told to."""
        assert self._ended is not None  # noqa: S101 - started before anybody waits
        return await asyncio.shield(self._ended)

    # -- what the view asks for

    @property
    def ports(self) -> dict[str, int]:
        """Every port that is open."""
        ports = {"gossip": 0, "distribution": self.distribution.address[1]}
        if self.members.identity is not None:
            ports["gossip"] = self.members.local.port
        if self.api_port:
            ports["api"] = self.api_port
        for name, port in self.broker.ports.items():
            kind, _, number = name.partition(":")
            key = "mqtt" if kind == "tcp" else f"mqtt_{kind}"
            ports[key if key not in ports else f"{key}_{number}"] = port
        return ports

    def _name_at(self, address: Address) -> str | None:
        """The member that gossips or takes links at ``address``."""
        for member in self.members.members(include_left=True):
            if member.address == address[0] and address[1] in (
                member.port,
                member.metadata.ports.get("distribution"),
            ):
                return member.name
        return None

    def metadata(self) -> MemberMetadata:
        """What this node tells the cluster of itself."""
        services = ["mqtt"] if self.broker.ports else []
        if self.api_port:
            services.append("api")
        return MemberMetadata(
            name=self.name,
            creation=self.creation,
            start_time=self.started_at,
            ports=self.ports,
            services=tuple(services),
            version=__version__,
            pid=self.pid,
        )

    # -- the tree

    def _children(self) -> list[ChildSpec]:
        config = self.config
        children = [
            self.distribution.child_spec(),
            remote_services(self.distribution, functions=self.functions),
            self.store.child_spec(),
            ChildSpec("routes", self._start_routes),
            ChildSpec("mqtt_cluster", self._start_mqtt_cluster),
            *([self.auditor.spec()] if config.audit.enable else ()),
            *([self.tracing.spec()] if self.tracing is not None else ()),
            # Before membership, so that it hears of every session from the first on.
            healing_spec(
                config.cluster,
                view=self.members,
                distribution=self.distribution,
                store=self.store,
                clock=self.clock,
                storage=self._heal_storage,
                status=self.healing,
                start_time=self.started_at,
                note=self.chronicle.note,
            ),
            split_relay_spec(self.store),
            ChildSpec(
                "membership",
                partial(
                    Membership.start_link,
                    view=self.members,
                    distribution=self.distribution,
                    fatal=self._fail,
                    forced_out=self._forced_out,
                    gone=self._gone,
                    note=self.chronicle.note,
                    name=MEMBERSHIP,
                    label="membership",
                ),
            ),
            ChildSpec("gossip", self._start_gossip),
            discovery_spec(
                self.strategy,
                view=self.members,
                rng=self.rng,
                retry_interval=config.cluster.discovery.retry_interval,
                aloof=self.aloof,
            ),
            gateway_spec(self.broker, self.distribution),
            applications_spec(self, config.node.applications, self._user_children),
        ]
        if self._real_time:
            watch = partial(LoopWatch.start_link, tell=self._loop_late, name=LOOP_WATCH, label=LOOP_WATCH)
            children.insert(0, ChildSpec(LOOP_WATCH, watch))
        if config.api.enable:
            children.append(runs_spec())
            children.append(ChildSpec("api", self._start_api))
        return children

    async def _start_routes(self) -> Pid:
        # The owner alone sees rows change, so it must be there before the first one can come.
        table = await self.store.create_table(ROUTES, replication="owned")
        return await RouteOwner.start_link(
            self.router, table, self.distribution, functions=self.functions, name="routes", label="routes"
        )

    async def _start_mqtt_cluster(self) -> Pid:
        return await MqttCluster.start_link(
            self.broker,
            self._retained,
            self.store,
            self.distribution,
            self.functions,
            disc=self._on_disc,
            name="mqtt_cluster",
            label="mqtt_cluster",
        )

    async def _start_gossip(self) -> Pid:
        cluster = self.config.cluster
        return await GossipServer.start_link(
            metadata=self.metadata(),
            bind=(cluster.host or "0.0.0.0", cluster.port),  # noqa: S104 - blank means every address
            keyring=self._keyring,
            network=self._between,
            clock=self.clock,
            view=self.members,
            rng=self.rng,
            settings=GossipSettings(**cluster.gossip.model_dump()),
            subscribers=(MEMBERSHIP, WATCH),
            key_file=self._key_file,
            name="gossip",
            label="gossip",
        )

    async def _start_api(self) -> Pid:
        storage = "disc_copies" if self._on_disc else "ram_copies"
        self.tokens.attach(await self.store.create_table(TOKENS, replication="shared", storage=storage))
        pid = await ApiServer.start_link(
            self.view,
            config=self.config.api,
            network=self.network,
            tokens=self.tokens,
            relay=self.relay,
            clock=self.clock,
            name="api",
            label="api",
        )
        address: Address = await self.runtime.call(pid, "address")
        self.api_port = address[1]
        return pid

    async def _add(self, spec: ChildSpec) -> None:
        await self.runtime.run(Supervisor.start_child, "node", spec)

    async def _announce(self) -> None:
        """Tell the cluster of the ports that are open now."""
        await self.runtime.call("gossip", UpdateMetadata(self.metadata()))

    def _carrier(self, gate: Network | None) -> LinkTransport:
        """What links run on, through ``gate`` where faults may be ordered."""
        links = self.config.distribution
        if links.transport == "tcp":
            return StreamTransport(gate or self.network)
        return GrpcTransport(max_message=2 * links.max_frame, network=gate)

    # -- the end

    def _evidence(self, name: str, kind: str) -> None:
        self.runtime.cast("gossip", msgspec.convert({"name": name, "kind": kind}, LinkEvidence))

    def _loop_late(self, seconds: float) -> None:
        self.runtime.cast("gossip", LoopLag(seconds))

    def _forced_out(self, by: str) -> None:
        log.error("forced_out", node=self.name, by=by, advice="gossamer cluster join brings it back")
        self.state = "left"

    def _gone(self, name: str, creation: int) -> None:
        self._links.left(name)
        self.router.gone(name)
        self.broker.wills.node_down(name, creation, self.broker.hub.now(), left=True)

    def _fail(self, error: UnavailableError) -> None:
        """This node must not go on: end it and say why."""
        assert self._ended is not None  # noqa: S101
        if not self._ended.done():
            self._ended.set_result(NodeFailedError(name=self.name, reason=str(error)))
        if self._root is not None:
            self.runtime.exit(self._root, ("shutdown", str(error)))

    def _root_ended(self, joined: asyncio.Future[Reason]) -> None:
        assert self._ended is not None  # noqa: S101
        if not self._ended.done():
            expected = self.state in ("stopping", "stopped")
            why = None if expected else root_cause(joined.result())
            self._ended.set_result(None if why is None else NodeFailedError(name=self.name, reason=why))

    async def _clear(self) -> None:
        self.state = "stopping"
        await self.runtime.stop()
        self.state = "stopped"
        if self._directory is not None:
            self._directory.close()
            self._directory = None
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)


def root_cause(reason: Reason) -> str:
    """The innermost part of a nested reason that says something to a person."""
    while isinstance(reason, tuple) and reason:
        reason = reason[-1]
    return str(reason) if isinstance(reason, Crash) else describe(reason)

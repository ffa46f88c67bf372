"""Parts of a node: what its processes share and its views read, built from a configuration and collaborators.

Each part is built by one function from what it needs, in the order of the floors; nothing here runs. What a
process publishes into outlives the process, so that a restarted one finds it again.

Rule: everything that touches time, randomness or the network is passed in.
"""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec
import structlog

from gossamer import __version__, gateway
from gossamer.api import Limits, Programs, Runs, Tokens, is_audit, spark_lacks
from gossamer.audit import CLOCK, Auditor, EventBuffer, key_of
from gossamer.autoheal import HealStatus
from gossamer.certificates import Certificates
from gossamer.clock import Clock, SystemClock
from gossamer.config import Config, services_off
from gossamer.discovery import JoinProgress, Standalone, Strategy, strategy_of
from gossamer.distribution import (
    Distribution,
    GrpcTransport,
    LinkCertificates,
    LinkTransport,
    StreamTransport,
)
from gossamer.faults import FaultTable, FaultyClock, FaultyNetwork
from gossamer.features import Features
from gossamer.gossip import (
    KeyFile,
    Keyring,
    LinkEvidence,
    LoopLag,
    MemberMetadata,
    MembershipView,
    cluster_key,
)
from gossamer.mnesia_like import Disc, Store
from gossamer.mqtt import Broker, ClusterRetained, Reloadable
from gossamer.network import Address, Network, SystemNetwork
from gossamer.node.features import CLOSING, FeatureTable
from gossamer.node.history import EventLog, Ring
from gossamer.node.replication import TableLinks
from gossamer.queues import Queues
from gossamer.raft import RaftStatus
from gossamer.routes import Router
from gossamer.supervisor import ChildSpec, Runtime
from gossamer.tracing import TracedBuffer, Tracing

log = structlog.get_logger(__name__)

State = Literal["new", "starting", "running", "leaving", "left", "stopping", "stopped"]


class NodeParts:
    """Parts of one node, built from its configuration and from injected collaborators.

    The options are explained at :class:`gossamer.Node`.
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
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
        children: Iterable[ChildSpec] = (),
        pid: int | None = None,
        fresh: bool = True,
    ) -> None:
        self.config = config
        self.reread: Callable[[], Config] | None = None
        """Reads the configuration again, where it is from a file."""
        self.name = config.node.name
        self.creation = creation
        self.pid = os.getpid() if pid is None else pid
        self.state: State = "new"
        self.user_children = tuple(children)
        self.data_dir = data_dir
        self.on_disc = data_dir is not None
        self.fresh = fresh
        """True if no node has run on its data directory, or it has none."""
        self.network = network or SystemNetwork()
        self.clock = clock or SystemClock()
        self.real_time = isinstance(self.clock, SystemClock)
        self.rng = rng or random.Random()
        self.faults: FaultTable | None = None
        self.between: Network = self.network
        """Leads to other nodes; a fault drill can cut it, which leaves operators and clients connected."""
        if config.drill.faults:
            self._add_faults()
        self.started_at = self.clock.wall()
        self.begun_at = 0.0
        """The moment when it began to start, by the clock that does not jump."""
        self.runtime = Runtime(node=self.name, creation=creation)
        self.functions: dict[str, Callable[..., object]] = {CLOCK: self.clock.wall}
        """Functions that other nodes may call here by ``rpc``, by name."""
        links = config.distribution.tls
        self.link_certificates = None if links is None else LinkCertificates(links, self.name)
        tls = config.api.tls
        self.api_certificates = Certificates(tls) if tls is not None and config.api.enable else None
        tls = config.grpc.tls if config.grpc.enable else None
        self.grpc_certificates = None if tls is None else gateway.ServerCertificates(tls)
        self._build_membership(cookie, strategy)
        self._build_links(cookie, transport, random_bytes)
        self._build_broker(cookie)
        self._build_recorder(cookie)
        self._build_api(random_bytes)

    def _add_faults(self) -> None:
        clock = self.clock = FaultyClock(self.clock)
        self.faults = FaultTable(self._name_at)
        self.faults.clock = clock
        self.between = FaultyNetwork(self.network, self.faults, rng=self.rng)

    def _build_membership(self, cookie: str, strategy: Strategy | None) -> None:
        config, data_dir = self.config, self.data_dir
        self.members = MembershipView()
        self.healing = HealStatus()
        self.consensus = RaftStatus()
        self.event_log = EventLog(self.clock, creation=self.creation)
        self.history = Ring()
        self.standalone = Standalone(data_dir)
        self.join_progress = JoinProgress()
        self.strategy = strategy or strategy_of(
            config.cluster, node=self.name, data_dir=data_dir or config.node.data_dir
        )
        self.key_file = None if data_dir is None else KeyFile(data_dir / "gossip.keys")
        self.keyring = Keyring([cluster_key(cookie)], env=config.cluster.env)

    def _build_links(
        self, cookie: str, transport: LinkTransport | None, random_bytes: Callable[[int], bytes]
    ) -> None:
        self.features = Features()
        self.distribution = Distribution(
            self.runtime,
            transport or self._carrier(None if self.faults is None else self.between),
            cookie=cookie,
            env=self.config.cluster.env,
            config=self.config.distribution,
            rng=self.rng,
            random_bytes=random_bytes,
            evidence=self._evidence,
            features=self.features,
        )
        self.feature_table = FeatureTable(self.features, self.members, self.distribution)
        self.links = TableLinks(self.distribution)
        self.store = Store(
            node=self.name,
            creation=self.creation,
            clock=self.clock,
            link=self.links,
            disc=None if self.data_dir is None else Disc(self.data_dir / "tables.db", closing=CLOSING),
            executor=None if self.faults is None else self.faults.disc.thread("gossamer-disc"),
        )

    def _build_broker(self, cookie: str) -> None:
        mqtt = self.config.mqtt
        self.router = Router(self.name, config=mqtt, wall=self.clock.wall, rng=self.rng)
        self.retained = ClusterRetained(
            node=self.name,
            creation=self.creation,
            clock=self.clock,
            runtime=self.runtime,
            threshold=mqtt.retained.threshold,
            limit=mqtt.retained.max_messages,
        )
        self.queues = Queues(
            self.name, self.config.queues, rng=self.rng, wall=self.clock.wall, now=self.clock.monotonic
        )
        self.broker = Broker(
            self.router,
            clock=self.clock,
            network=self.network,
            config=mqtt,
            runtime=self.runtime,
            rng=self.rng,
            retained=self.retained,
            cookie=cookie,
            queues=self.queues,
        )
        self.broker.tenants.enabled = lambda: "tenants" in self.features.enabled
        self.broker.wills.withdrawn = lambda: self.members.standalone

    def _build_recorder(self, cookie: str) -> None:
        config = self.config
        limit, wall = config.audit.buffer, self.clock.wall
        traced = None
        if config.tracing.enable:
            traced = TracedBuffer(limit=limit, wall=wall, recording=lambda: self.auditor.recording)
        self.auditor = Auditor(
            config.audit,
            runtime=self.runtime,
            fanout=self.broker.fanout,
            queues=self.queues,
            sessions=self.broker.sessions,
            distribution=self.distribution,
            filters_of=self.router.filters_of,
            clock=self.clock,
            key=key_of(config.audit, cookie),
            data_dir=self.data_dir,
            # An empty buffer is false.
            buffer=EventBuffer(limit=limit, wall=wall) if traced is None else traced,
        )
        self.tracing = (
            None if traced is None else Tracing(config.tracing, auditor=self.auditor, buffer=traced)
        )

    def _build_api(self, random_bytes: Callable[[int], bytes]) -> None:
        data_dir, wall = self.data_dir, self.clock.wall
        self.api_port = self.grpc_port = 0
        self.limits = Limits(self.config.api)
        self.tokens = Tokens(now=wall, random_bytes=random_bytes)
        runs = partial(Runs, now=wall, programs=Programs(self.runtime))
        self.drills = runs(data_dir and data_dir / "drills", what="drills", most=20)
        reports = data_dir and data_dir / "audit-reports"
        self.audits = runs(reports, what="audit", most=10, made_at=is_audit, lacks=spark_lacks)

    # -- read by the views

    @property
    def reloadable(self) -> list[Reloadable]:
        """Everything that is read from files again while the node runs."""
        own = (self.link_certificates, self.api_certificates, self.grpc_certificates)
        mine = [one for one in own if one is not None]
        return [*self.broker.access.reloadable, *self.broker.certificates, *mine]

    @property
    def ports(self) -> dict[str, int]:
        """Every port that is open."""
        ports = {"gossip": 0, "distribution": self.distribution.address[1]}
        if self.members.identity is not None:
            ports["gossip"] = self.members.local.port
        if self.api_port:
            ports["api"] = self.api_port
        if self.grpc_port:
            ports["grpc"] = self.grpc_port
        for name, port in self.broker.ports.items():
            kind, _, number = name.partition(":")
            key = "mqtt" if kind == "tcp" else f"mqtt_{kind}"
            ports[key if key not in ports else f"{key}_{number}"] = port
        return ports

    def _name_at(self, address: Address) -> str | None:
        """Return the member that gossips or takes links at ``address``."""
        for member in self.members.members(include_left=True):
            if member.address == address[0] and address[1] in (
                member.port,
                member.metadata.ports.get("distribution"),
            ):
                return member.name
        return None

    def metadata(self) -> MemberMetadata:
        """Return what this node tells the cluster of itself."""
        serving = ["mqtt"] if self.broker.ports else []
        if self.api_port:
            serving.append("api")
        if self.grpc_port:
            serving.append("grpc")
        return MemberMetadata(
            name=self.name,
            creation=self.creation,
            start_time=self.started_at,
            ports=self.ports,
            services=tuple(serving),
            version=__version__,
            pid=self.pid,
            rack=self.config.node.rack,
            off=services_off(self.config),
        )

    def _carrier(self, gate: Network | None) -> LinkTransport:
        """Return the transport of links, through ``gate`` where faults may be ordered."""
        certificates = self.link_certificates
        if self.config.distribution.transport == "tcp":
            return StreamTransport(gate or self.network, certificates=certificates)
        return GrpcTransport(network=gate, certificates=certificates)

    # -- called by its processes

    def _evidence(self, name: str, kind: str) -> None:
        self.runtime.cast("gossip", msgspec.convert({"name": name, "kind": kind}, LinkEvidence))

    def loop_late(self, seconds: float) -> None:
        """Report to gossip that the event loop was blocked: other nodes must not be suspected for it."""
        self.runtime.cast("gossip", LoopLag(seconds))

    def forced_out(self, by: str) -> None:
        """An operator at another node removed this one."""
        log.error("forced_out", node=self.name, by=by, advice="gossamer cluster join brings it back")
        self.state = "left"

    def gone(self, name: str, creation: int) -> None:
        """Drop links, routes and hints of a member that left permanently, and settle its wills."""
        self.links.left(name)
        self.router.gone(name)
        self.broker.wills.node_down(name, creation, self.broker.fanout.now(), left=True)

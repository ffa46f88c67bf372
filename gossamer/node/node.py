"""One node: its applications, made, started in the order of ``tree``, and stopped.

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
    Limits,
    PeerRequests,
    Programs,
    Runs,
    Tokens,
    is_audit,
    make_app,
    spark_lacks,
)
from gossamer.audit import CLOCK, Auditor, key_of
from gossamer.clock import Clock, SystemClock
from gossamer.config import Config, cookie_of
from gossamer.discovery import Aloof, Strategy, strategy_of
from gossamer.distribution import (
    Distribution,
    GrpcTransport,
    LinkTransport,
    StreamTransport,
)
from gossamer.errors import ConfigError, ConfigProblem, GossamerError, UnavailableError, UsageError
from gossamer.faults import FaultTable, FaultyClock, FaultyNetwork
from gossamer.gossip import (
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
from gossamer.mqtt import Broker, ClusterRetained, mqtt_spec
from gossamer.network import Address, Network, SystemNetwork
from gossamer.node.applications import ApplicationError
from gossamer.node.arrival import arrive
from gossamer.node.chronicle import Chronicle
from gossamer.node.datadir import DataDir
from gossamer.node.healing import heal_status, heal_storage
from gossamer.node.history import Ring
from gossamer.node.replication import TableLinks
from gossamer.node.tree import children_of
from gossamer.node.view import View
from gossamer.routes import Router, TopicLimits
from gossamer.supervisor import (
    ChildSpec,
    Crash,
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
LAST_WAIT = 1.0
"""Seconds a stopping node waits for the others to have its clients' last messages, wills among them."""


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
        self.real_time = isinstance(self.clock, SystemClock)
        faulty = FaultyClock(self.clock) if config.drill.faults else None
        if faulty is not None:
            self.clock = faulty
        self.rng = rng or random.Random()
        self.started_at = self.clock.wall()
        self.begun_at = 0.0
        """When it began to start, by the clock that does not jump."""
        self.runtime = Runtime(node=self.name, creation=creation)
        self.members = MembershipView()
        self.healing = heal_status(data_dir)
        self.chronicle = Chronicle(self.clock, creation=creation)
        self.history = Ring()
        self.heal_storage = heal_storage(data_dir)
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
        self.between: Network = gate or self.network
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
        self.links = TableLinks(self.distribution)
        self.store = Store(
            node=self.name,
            creation=creation,
            clock=self.clock,
            link=self.links,
            disc=None if data_dir is None else Disc(data_dir / "tables.db"),
        )
        self.on_disc = data_dir is not None
        self.data_dir = data_dir
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
        self.retained = ClusterRetained(
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
            retained=self.retained,
        )
        self.broker.wills.withdrawn = lambda: self.members.aloof
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
        self.user_children = tuple(children)
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
        self.limits = Limits(config.api)
        self.relay = PeerRequests(
            partial(
                make_app,
                self.view,
                config=config.api,
                tokens=self.tokens,
                clock=self.clock,
                limits=self.limits,
            ),
            self.runtime,
        )
        self.functions[REQUEST] = self.relay.answer
        self.key_file = None if data_dir is None else KeyFile(data_dir / "gossip.keys")
        self.keyring = Keyring([cluster_key(cookie)], env=config.cluster.env)
        self._directory: DataDir | None = None
        self._root: Pid | None = None
        self._ended: asyncio.Future[NodeFailedError | None] | None = None

    @classmethod
    def open(cls, config: Config) -> Node:
        """A node on this machine's network, clock and disc. Blocks: call it before the loop runs.

        Raises:
            ConfigError: there is no usable cookie, or a file that the configuration names cannot be used.
            DataDirError, DataDirInUseError: there is no usable data directory.
        """
        cookie = cookie_of(config.node).get_secret_value()
        directory = DataDir(config.node.data_dir, wall=SystemClock().wall())
        try:
            node = cls.of(config, directory, cookie)
        except BaseException:
            directory.close()
            raise
        node._directory = directory
        return node

    @classmethod
    def of(cls, config: Config, directory: DataDir, cookie: str) -> Node:
        """A node in a directory that is open, and stays its opener's to close.

        Raises:
            ConfigError: a file that the configuration names cannot be used.
        """
        try:
            return cls(config, creation=directory.creation, cookie=cookie, data_dir=directory.path)
        except ConfigError:
            raise
        except UsageError as error:
            # Passwords, access lists, keys of tokens: who names the file is the configuration.
            problem = ConfigProblem("mqtt.auth", str(error), "files that can be read")
            raise ConfigError("configuration", [problem]) from error

    # -- life

    async def start(self) -> None:
        """Start everything, and come back once clients may connect.

        Raises:
            NodeFailedError: something could not start; nothing of the node is left running.
        """
        self.state = "starting"
        self.begun_at = self.clock.monotonic()
        log.info("node_starting", node=self.name, version=__version__, creation=self.creation)
        self._ended = self.runtime.loop.create_future()
        try:
            if self.config.audit.enable:
                self.auditor.check()
            if self.tracing is not None:
                self.tracing.check()
            self._root = await self.runtime.start(
                Supervisor, children_of(self), intensity=20, period=10.0, name="node", label="node"
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
        self.broker.wills.closing = True
        log.info("node_stopping", node=self.name, connections=self.broker.stats()["connections"])
        if self._root is not None:
            try:
                await self.runtime.run(Supervisor.terminate_child, "node", "mqtt")
                await self._deliver_last()
                await self.runtime.run(Supervisor.terminate_child, "node", "discovery")
                async with asyncio.timeout(LEAVE_WAIT):
                    # One that keeps sessions on disc is expected back, and so is what is kept for them.
                    await self.runtime.call("gossip", Leave(returning=self.on_disc), timeout=LEAVE_WAIT)
            except (GossamerError, TimeoutError) as error:
                log.warning("leave_failed", node=self.name, error=str(error) or "no answer in time")
        await self._clear()
        log.info("node_stopped", node=self.name)

    async def _deliver_last(self) -> None:
        """Have at the others what clients sent: they close the link once they hear that this node leaves."""
        for _ in range(int(LAST_WAIT / 0.01)):
            links = self.router.forwarders().values()
            if not self.broker.wills.asking and all(one.idle or not one.up for one in links):
                return
            await asyncio.sleep(0.01)

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

    # -- what its processes tell it

    def _evidence(self, name: str, kind: str) -> None:
        self.runtime.cast("gossip", msgspec.convert({"name": name, "kind": kind}, LinkEvidence))

    def loop_late(self, seconds: float) -> None:
        """The event loop was held so long; others must not be suspected for it."""
        self.runtime.cast("gossip", LoopLag(seconds))

    def forced_out(self, by: str) -> None:
        """An operator at another node removed this one."""
        log.error("forced_out", node=self.name, by=by, advice="gossamer cluster join brings it back")
        self.state = "left"

    def gone(self, name: str, creation: int) -> None:
        """A member left for good: nothing of it is kept."""
        self.links.left(name)
        self.router.gone(name)
        self.broker.wills.node_down(name, creation, self.broker.hub.now(), left=True)

    def fail(self, error: UnavailableError) -> None:
        """This node must not go on: end it and say why."""
        assert self._ended is not None  # noqa: S101
        if not self._ended.done():
            self._ended.set_result(NodeFailedError(name=self.name, reason=str(error)))
        if self._root is not None:
            self.runtime.exit(self._root, ("shutdown", str(error)))

    # -- the end

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

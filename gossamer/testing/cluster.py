"""Whole nodes on a simulated network: real code from gossip to dispatcher, only sockets and clock replaced.

Node ``n`` runs on host ``10.0.0.n`` unless it is restarted elsewhere, and listens for MQTT clients there;
clients have hosts of their own, so that a cut between nodes leaves them connected. Rules: 1. Everything
random comes from the network's seed.  2. A crash stops the host first and the processes after it, so that
nothing is sent on the way down.  3. :meth:`SimCluster.differences` checks the invariants of a whole
cluster, and names those that are violated.

Nodes that find each other by DNS ask a :class:`SimZone`, as late and as stale as DNS: a change takes ``lag``
seconds to be served, and a client that asked before keeps the old answer for ``ttl`` seconds more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Self

from gossamer.config import (
    ApiConfig,
    ClusterConfig,
    Config,
    DistributionConfig,
    Endpoint,
    ListenerConfig,
    MqttAuthConfig,
    MqttConfig,
    MqttServerConfig,
    MqttSessionsConfig,
    NodeConfig,
    QueueDeclaration,
    ServicesConfig,
)
from gossamer.config.discovery import DnsConfig
from gossamer.discovery import DiscoveryFailedError, Dns, DnsAnswer, Strategy
from gossamer.distribution import StreamTransport
from gossamer.errors import UnavailableError
from gossamer.mqtt.client import MqttClient
from gossamer.network import Address
from gossamer.node import Node
from gossamer.testing.loop import PROCESS
from gossamer.testing.medium import Crash
from gossamer.testing.network import SimNetwork

GOSSIP_PORT = 7946
LINK_PORT = 4370
MQTT_PORT = 1883
_COOKIE = "simulated-cookie"
_POLL = 0.1
BEFORE_CREATIONS = 1_700_000_000_000
"""Creations are times in milliseconds, and numbers are made of them that must fit in 64 bits."""


class NotSettledError(UnavailableError):
    """A cluster did not come to rest in time."""

    def __init__(self, *, waited: float, differences: Iterable[str]) -> None:
        self.waited = waited
        self.differences = tuple(differences)
        super().__init__(
            f"not settled after {waited:g} virtual seconds; expected every running node to agree:"
            + "".join(f"\n  {line}" for line in self.differences)
        )


def address_of(number: int) -> str:
    """The host that node ``number`` begins on."""
    return f"10.0.0.{number}"


class SimCluster:
    """``size`` nodes, numbered from 1, none of them started. The first ``seeds`` are every node's seeds;
    with ``strategy``, called with a node's number, each start of a node gets a strategy of its own. Sessions
    are not copied unless ``sessions`` says so, or what a single copy keeps would not be seen. The
    ``front_ends`` have no store."""

    def __init__(
        self,
        sim: SimNetwork,
        size: int,
        *,
        seeds: int = 2,
        cluster: dict[str, Any] | None = None,
        sessions: dict[str, Any] | None = None,
        mqtt: dict[str, Any] | None = None,
        queues: Iterable[dict[str, Any]] = (),
        strategy: Callable[[int], Strategy] | None = None,
        front_ends: Iterable[int] = (),
    ) -> None:
        self.sim = sim
        self.size = size
        self._cluster = cluster or {}
        self._sessions = {"replication": "off"} | (sessions or {})
        self._mqtt = mqtt or {}
        self._queues = tuple(map(QueueDeclaration.model_validate, queues))
        self._strategy = strategy
        self.front_ends = set(front_ends)
        self._addresses: dict[int, str] = {}
        self._seeds = tuple(Endpoint(host=address_of(n), port=GOSSIP_PORT) for n in range(1, seeds + 1))
        self._lives: dict[int, int] = {}
        self._clients = 0
        self.nodes: dict[int, Node] = {}
        """The running nodes by number."""
        self.discs: Path | None = None
        """Directory for the data of nodes started from now on, each in its own below it; None: no data."""

    def change_queues(self, queues: Iterable[dict[str, Any]]) -> None:
        """Declare other queues at nodes that are started from now on."""
        self._queues = tuple(map(QueueDeclaration.model_validate, queues))

    # -- lifecycle ------------------------------------------------------------------------------------

    async def start(self, *numbers: int) -> None:
        """Start some nodes, or all, at the same time."""
        async with asyncio.TaskGroup() as group:
            for number in numbers or range(1, self.size + 1):
                group.create_task(self._start(number), name=f"start node {number}")

    async def stop(self, number: int) -> None:
        """Stop a node in order; its host stays."""
        node = self.nodes.pop(number)
        self.sim.note("stop", node.name)
        await node.stop()
        self.sim.crash(self.address(number))

    def freeze(self, number: int) -> None:
        """Stop a node's process where it is, as SIGSTOP does."""
        self.sim.note("freeze", self.address(number))
        self.sim.host(self.address(number)).freeze()

    def thaw(self, number: int) -> None:
        """Let a frozen node go on."""
        self.sim.note("thaw", self.address(number))
        self.sim.host(self.address(number)).thaw()

    def crash(self, number: int, how: Crash = "kill") -> None:
        """End a node at once."""
        self.sim.crash(self.address(number), how)
        self.nodes.pop(number).crash()

    async def restart(self, number: int, *, address: str = "") -> None:
        """Restart a node that was stopped or has crashed, on another host if one is given."""
        if address:
            self._addresses[number] = address
        await self.start(number)

    def address(self, number: int) -> str:
        """The host of node ``number`` now."""
        return self._addresses.get(number, address_of(number))

    async def stop_all(self) -> None:
        for number in sorted(self.nodes, reverse=True):
            await self.stop(number)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.stop_all()

    async def _start(self, number: int) -> None:
        address = self.address(number)
        host = self.sim.host(address)
        if not host.alive:
            host = self.sim.restart(address)
        # In the task of this start alone: what the node starts inherits it.
        PROCESS.set(address)
        life = self._lives[number] = self._lives.get(number, 0) + 1
        rng = self.sim.rng(f"node/{number}/{life}")
        node = Node(
            self._config(number),
            creation=BEFORE_CREATIONS + life,
            cookie=_COOKIE,
            data_dir=self.disc_of(number),
            network=host,
            clock=host.clock,
            rng=rng,
            transport=StreamTransport(host),
            strategy=self._strategy(number) if self._strategy else None,
            random_bytes=rng.randbytes,
            # All share one real process.
            pid=1000 + number,
            fresh=life == 1,
        )
        self.nodes[number] = node
        self.sim.note("start", node.name)
        await node.start()

    def disc_of(self, number: int) -> Path | None:
        """The data directory of a node, if it has one."""
        if self.discs is None:
            return None
        directory = self.discs / f"node{number}"
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def _config(self, number: int) -> Config:
        address = self.address(number)
        return Config(
            # Its name stays when it moves, as that of a pod does.
            node=NodeConfig(name=f"node{number}@{address_of(number)}"),
            cluster=ClusterConfig(
                env="simulation",
                host=address,
                port=GOSSIP_PORT,
                seed_endpoints=self._seeds,
                **self._cluster,
            ),
            distribution=DistributionConfig(host=address, port=LINK_PORT),
            mqtt=MqttConfig(
                server=MqttServerConfig(listeners=(ListenerConfig(host=address, port=MQTT_PORT),)),
                auth=MqttAuthConfig(allow_anonymous=True),
                sessions=MqttSessionsConfig(**self._sessions),
                **self._mqtt,
            ),
            queues=self._queues,
            services=ServicesConfig(inbox_store=number not in self.front_ends),
            api=ApiConfig(enable=False),
        )

    # -- weather --------------------------------------------------------------------------------------

    def partition(self, *groups: Iterable[int]) -> None:
        """Cut the nodes into groups; clients keep their nodes."""
        self.sim.partition(*([self.address(number) for number in group] for group in groups))

    def cut(self, source: int, target: int, *, one_way: bool = False) -> None:
        self.sim.cut(self.address(source), self.address(target), one_way=one_way)

    def heal(self) -> None:
        self.sim.heal()

    # -- clients --------------------------------------------------------------------------------------

    async def client(self, number: int, client_id: str = "", **options: Any) -> MqttClient:
        """A client of node ``number``, on a host of its own."""
        self._clients += 1
        host = self.sim.host(f"10.1.{self._clients // 250}.{self._clients % 250 + 1}")
        name = client_id or f"client{self._clients}"
        return await MqttClient.connect(host, (self.address(number), MQTT_PORT), name, **options)

    # -- what is true ---------------------------------------------------------------------------------

    async def settled(self, *numbers: int, timeout: float = 60.0) -> float:
        """Wait until nothing differs among the running nodes, or those given; how long it took."""
        loop = self.sim.loop
        begun = loop.time()
        while differences := list(self.differences(*numbers)):
            if loop.time() - begun >= timeout:
                raise NotSettledError(waited=timeout, differences=differences)
            await asyncio.sleep(_POLL)
        self.sim.note("settled")
        return loop.time() - begun

    def differences(self, *numbers: int) -> Iterator[str]:
        """Yield what keeps the nodes from being one cluster with equal tables, one line each."""
        group = [node for number, node in sorted(self.nodes.items()) if not numbers or number in numbers]
        names = {node.name for node in group}
        for node in group:
            if node.state != "running":
                yield f"{node.name} is {node.state}"
                continue
            seen = {member.name for member in node.members.members() if member.status.name == "ONLINE"}
            if seen != names:
                yield f"{node.name} sees {sorted(seen)}, expected {sorted(names)}"
            linked = set(node.distribution.nodes()) | {node.name}
            if linked != names:
                yield f"{node.name} is linked with {sorted(linked)}, expected {sorted(names)}"
            yield from self._route_differences(node, group)

    def _route_differences(self, node: Node, group: list[Node]) -> Iterator[str]:
        """Every filter with a subscriber somewhere must be routed there from everywhere, and no other."""
        wanted = {
            (topic_filter, other.name)
            for other in group
            for session in other.broker.sessions.values()
            for topic_filter in session.subscriptions
        }
        held = {
            (topic_filter, name)
            for topic_filter, others, here in node.router.routes()
            for name in (*others, *([node.name] if here else ()))
        }
        for shared in node.router._shared:
            held |= {
                (shared.name, name) for name in (*shared.others, *([node.name] if shared.members else ()))
            }
        for topic_filter, name in sorted(wanted - held):
            yield f"{node.name} has no route for {topic_filter} to {name}"
        for topic_filter, name in sorted(held - wanted):
            yield f"{node.name} has a stale route for {topic_filter} to {name}"


class SimZone:
    """Names and the addresses they have. ``down`` True: every look-up fails after ``timeout``.

    A name that was never set does not exist; one whose records were all taken away exists and has none.
    """

    def __init__(self, *, ttl: float = 5.0, lag: float = 1.0, timeout: float = 3.0) -> None:
        self.ttl = ttl
        self.lag = lag
        self.timeout = timeout
        self.down = False
        self.asked = 0
        self._served: dict[str, dict[Address, None]] = {}

    def add(self, name: str, *addresses: Address) -> None:
        """Serve these besides the others, after the lag."""
        asyncio.get_running_loop().call_later(self.lag, self._add, name, addresses)

    def remove(self, name: str, *addresses: Address) -> None:
        """Serve these no more, after the lag."""
        asyncio.get_running_loop().call_later(self.lag, self._remove, name, addresses)

    def strategy(self, name: str) -> Dns:
        """The ``dns`` strategy of one node, asking this zone: SRV-like, each address with its port."""
        return Dns(DnsConfig(name=name, record_type="srv"), lookup=self._lookup)

    def _add(self, name: str, addresses: Iterable[Address]) -> None:
        self._served.setdefault(name, {}).update(dict.fromkeys(addresses))

    def _remove(self, name: str, addresses: Iterable[Address]) -> None:
        served = self._served.setdefault(name, {})
        for address in addresses:
            served.pop(address, None)

    async def _lookup(self, name: str, record_type: str) -> DnsAnswer:
        self.asked += 1
        if self.down:
            await asyncio.sleep(self.timeout)
            raise DiscoveryFailedError(name, f"no DNS server answered within {self.timeout:g} s")
        served = self._served.get(name)
        if not served:
            problem = "no such name" if served is None else f"has no {record_type.upper()} records"
            raise DiscoveryFailedError(name, problem)
        return DnsAnswer(tuple(served), self.ttl)

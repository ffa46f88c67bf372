"""A seeded network of gossip state machines: thousands of simulated seconds, no sockets, no tasks.

Datagrams are lost, delayed, reordered and duplicated as told; streams are reliable but need both directions,
and a dead process refuses them while a dead host is silent.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from swimprotocol.status import Status

import gossamer.gossip.steps as steps
from gossamer.config import GossipConfig
from gossamer.gossip.keyring import OVERHEAD
from gossamer.gossip.member import LinkEvidence, MemberEvent, MemberMetadata
from gossamer.gossip.swim.swim import Swim
from gossamer.gossip.wire import PacketRejected
from gossamer.network import Address

__all__ = ["SEEDS", "Host", "Swarm", "grow", "grown"]

SEEDS = [1, 2, 3]


@dataclass(eq=False)
class Host:
    """One simulated process and its machine's address."""

    name: str
    address: Address
    swim: Swim
    running: bool = True
    host_up: bool = True
    frozen_until: float = 0.0
    backlog: list[steps.Input] = field(default_factory=list)
    events: list[tuple[float, MemberEvent]] = field(default_factory=list)
    answers: dict[object, object] = field(default_factory=dict)
    packets: int = 0
    bytes: int = 0
    stream_bytes: int = 0
    tick_at: float = -1.0

    def sees(self, status: Status) -> set[str]:
        return {m.name for m in self.swim.members() if m.status is status}

    def saw(self, kind: type) -> list[tuple[float, MemberEvent]]:
        return [(at, event) for at, event in self.events if isinstance(event, kind)]


class Swarm:
    """Hosts, a clock, and a network between them."""

    def __init__(
        self,
        *,
        seed: int,
        loss: float = 0.0,
        latency: tuple[float, float] = (0.0002, 0.002),
        duplicate: float = 0.0,
        settings: GossipConfig | None = None,
    ) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.loss = loss
        self.latency = latency
        self.duplicate = duplicate
        self.settings = settings or GossipConfig()
        self.now = 1000.0
        self.hosts: dict[str, Host] = {}
        self.by_address: dict[Address, Host] = {}
        self.udp_open: Callable[[Host, Host], bool] = lambda _a, _b: True
        self.tcp_open: Callable[[Host, Host], bool] = lambda _a, _b: True
        self.max_packet = 0
        self.path_mtu = 65_535
        """Larger datagrams vanish on the way, as where fragments are dropped."""
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._tokens = 0
        self._streams: dict[int, tuple[Host, object]] = {}

    def start(self, name: str, *, address: Address | None = None, incarnation: int | None = None) -> Host:
        """Start a process; one of the same name or address that ran before is replaced."""
        if address is None:
            old = self.hosts.get(name)
            number = len(self.hosts) + 1
            address = old.address if old else (f"10.0.{number >> 8}.{number & 255}", 7946)
        swim = Swim(
            id=f"{self.rng.getrandbits(64):016x}",
            name=name,
            address=address,
            incarnation=int(self.now * 1000) if incarnation is None else incarnation,
            metadata=MemberMetadata(name, creation=1, start_time=self.now, ports={"mqtt": 1883}, pid=77),
            settings=self.settings,
            rng=random.Random(self.rng.getrandbits(64)),
            now=self.now,
        )
        host = Host(name, address, swim)
        self.hosts[name] = host
        self.by_address[address] = host
        self._arm(host)
        return host

    def kill(self, host: Host, *, power: bool = False, links: Iterable[Host] = ()) -> None:
        """End a process; with ``power`` its machine too. ``links`` had connections to it that reset."""
        host.running = False
        host.host_up = not power
        for other in links:
            self._later(0.002, lambda other=other: self.give(other, LinkEvidence(host.name, "reset")))

    def freeze(self, host: Host, seconds: float) -> None:
        host.frozen_until = self.now + seconds
        self._later(seconds, lambda: self._thaw(host))

    def join(self, host: Host, *seeds: Host | Address) -> None:
        addresses = tuple(s.address if isinstance(s, Host) else s for s in seeds)
        self.give(host, steps.Requested("join", steps.Join(addresses)))

    def leave(self, host: Host, *, returning: bool = False) -> None:
        self.give(host, steps.Requested("leave", steps.Leave(returning)))

    def force_leave(self, host: Host, name: str, *, final: bool = True) -> object:
        self.give(host, steps.Requested("force", steps.ForceLeave(name, final)))
        return host.answers["force"]

    def split(self, *groups: Iterable[Host]) -> None:
        """Only hosts of one group reach each other."""
        side = {id(host): number for number, group in enumerate(groups) for host in group}
        self.udp_open = self.tcp_open = lambda a, b: side.get(id(a)) == side.get(id(b))

    def heal(self) -> None:
        self.udp_open = self.tcp_open = lambda _a, _b: True

    def run(self, seconds: float, *, until: Callable[[], bool] | None = None, step: float = 0.05) -> bool:
        """Let time pass; True when ``until`` held (checked each ``step``) or nothing was asked."""
        end = self.now + seconds
        check = self.now
        while self._heap and self._heap[0][0] <= end:
            at, _, fn = heapq.heappop(self._heap)
            self.now = max(self.now, at)
            fn()
            if until is not None and self.now >= check:
                check = self.now + step
                if until():
                    return True
        self.now = end
        return until is None or until()

    def saw(self, kind: type) -> list[MemberEvent]:
        """Of all hosts, whatever became of them."""
        return [event for host in self.hosts.values() for _, event in host.saw(kind)]

    def live(self) -> list[Host]:
        return [host for host in self.hosts.values() if host.running]

    def complete(self) -> bool:
        """Does every running process see exactly the running ones?"""
        live = self.live()
        names = {host.name for host in live}
        return all(len(h.swim.table.live) == len(live) - 1 and h.sees(Status.ONLINE) == names for h in live)

    def give(self, host: Host, event: steps.Input) -> None:
        """Hand an input to a process, as the network or its owner would."""
        if not host.running:
            return
        if host.frozen_until > self.now:
            host.backlog.append(event)
            return
        try:
            actions = host.swim.step(event, self.now)
        except PacketRejected:
            actions = host.swim.drain()
        for action in actions:
            match action:
                case steps.SendPacket(address, body):
                    self._send(host, address, body)
                case steps.OpenStream():
                    self._connect(host, action)
                case steps.ReplyStream(token, body):
                    assert isinstance(token, int)
                    waiting = self._streams.pop(token, None)
                    if waiting is None:
                        continue
                    origin, theirs = waiting
                    host.stream_bytes += len(action.body) + OVERHEAD + 4
                    replied = steps.StreamReplied(theirs, host.swim.table.me.id, body)
                    self._later(
                        self._delay(), lambda replied=replied, origin=origin: self.give(origin, replied)
                    )
                case steps.Emit(what):
                    host.events.append((self.now, what))
                case steps.RequestResult(token, result):
                    host.answers[token] = result
        self._arm(host)

    def _thaw(self, host: Host) -> None:
        # A stalled loop reads its sockets one packet a turn: a due timer may well come before the rest.
        backlog, host.backlog = host.backlog, []
        head, tail = backlog[:1], backlog[1:]
        for event in [*head, steps.Tick(), *tail]:
            self.give(host, event)

    def _send(self, origin: Host, address: Address, body: bytes) -> None:
        origin.packets += 1
        origin.bytes += len(body) + OVERHEAD + 28
        self.max_packet = max(self.max_packet, len(body) + OVERHEAD)
        if len(body) + OVERHEAD > self.path_mtu:
            return
        for _ in range(2 if self.rng.random() < self.duplicate else 1):
            if self.rng.random() < self.loss:
                continue
            self._later(self._delay(), lambda: self._deliver(origin, address, body))

    def _deliver(self, origin: Host, address: Address, body: bytes) -> None:
        target = self.by_address.get(address)
        if target is not None and target.host_up and self.udp_open(origin, target):
            self.give(target, steps.PacketReceived(origin.swim.table.me.id, origin.address, body))

    def _connect(self, origin: Host, action: steps.OpenStream) -> None:
        origin.stream_bytes += len(action.body) + OVERHEAD + 4
        host, port = action.address
        target = self.by_address.get((host, port))
        open_both = target is not None and self.tcp_open(origin, target) and self.tcp_open(target, origin)
        if target is None or not target.host_up or not open_both:
            failed = steps.StreamFailed(action.token, "timeout")
            self._later(action.timeout, lambda: self.give(origin, failed))
            return
        if not target.running:
            refused = steps.StreamFailed(action.token, "refused")
            self._later(2 * self._delay(), lambda: self.give(origin, refused))
            return
        # A lost segment costs a retransmission: it delays a stream, it does not break it.
        resent = sum(wait for wait in (1.0, 0.2, 0.2, 0.2) if self.rng.random() < self.loss)
        self._tokens += 1
        number = self._tokens
        self._streams[number] = (origin, action.token)
        asked = steps.StreamRequested(number, origin.swim.table.me.id, origin.address, action.body)
        self._later(3 * self._delay() + resent, lambda: self.give(target, asked))
        self._later(action.timeout, lambda: self._time_out(number))

    def _time_out(self, number: int) -> None:
        waiting = self._streams.pop(number, None)
        if waiting is not None:
            origin, token = waiting
            self.give(origin, steps.StreamFailed(token, "timeout"))

    def _delay(self) -> float:
        return self.rng.uniform(*self.latency)

    def _later(self, seconds: float, fn: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._heap, (self.now + seconds, self._count, fn))

    def _arm(self, host: Host) -> None:
        deadline = host.swim.deadline
        if deadline is None or host.tick_at == deadline:
            return
        host.tick_at = deadline
        self._later(max(0.0, deadline - self.now), lambda: self._tick(host, deadline))

    def _tick(self, host: Host, deadline: float) -> None:
        if host.tick_at == deadline and host.frozen_until <= self.now:
            host.tick_at = -1.0
            self.give(host, steps.Tick())


def grow(swarm: Swarm, size: int) -> list[Host]:
    """So many members that know each other, by the first one."""
    hosts = [swarm.start(f"node{i}") for i in range(1, size + 1)]
    for host in hosts[1:]:
        swarm.join(host, hosts[0])
    assert swarm.run(10, until=swarm.complete), f"no full view; seed {swarm.seed}"
    return hosts


def grown(size: int, **options: Any) -> tuple[Swarm, list[Host]]:
    """A swarm made with these options, and so many members of it that know each other."""
    swarm = Swarm(**options)
    return swarm, grow(swarm, size)

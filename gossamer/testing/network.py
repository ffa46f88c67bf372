"""A seeded network of simulated hosts: the world in which whole clusters run inside one test.

``sim.host("10.0.0.1")`` is that host's :class:`gossamer.network.Network`. The world decides, by one seed,
when each packet arrives and which never does; it cuts and heals links, kills and restarts hosts, and keeps
a trace whose digest is the same for the same seed and program.

Rules: 1. A packet is judged twice: a link cut when it is sent, or cut when it would arrive, swallows it.
2. Everything the world itself schedules runs in an empty context; protocols run in their own.  3. Bounded:
at most ``in_flight`` datagrams are on their way at once, more are dropped and counted.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
import math
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from gossamer.errors import UsageError
from gossamer.network import Address
from gossamer.testing.host import Crash, SimHost
from gossamer.testing.links import LAN, LinkQuality, Links
from gossamer.testing.streams import SimTransport
from gossamer.testing.trace import Trace
from gossamer.testing.window import StreamLimits

__all__ = ["SimNetwork", "StillAliveError"]

_HEADERS = 40


class StillAliveError(UsageError):
    """A restart of a host that has not crashed."""

    def __init__(self, address: str) -> None:
        self.address = address
        super().__init__(f"host {address} is alive; expected a crashed one, call crash() first")


class SimNetwork:
    """The world. ``chop`` is the chance that a stream's segment is cut short at a random length."""

    def __init__(
        self,
        *,
        seed: int,
        quality: LinkQuality = LAN,
        limits: StreamLimits | None = None,
        chop: float = 0.05,
        in_flight: int = 100_000,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.loop = loop if loop is not None else asyncio.get_running_loop()
        self.seed = seed
        self.links = Links(seed, quality)
        self.limits = limits if limits is not None else StreamLimits()
        self.chop = chop
        self.trace = Trace()
        self.context = contextvars.Context()
        self._hosts: dict[str, SimHost] = {}
        self._in_flight = 0
        self._in_flight_most = in_flight

    # -- hosts ----------------------------------------------------------------------------------------

    def host(self, address: str, *, skew: float = 0.0, drift: float = 0.0) -> SimHost:
        """The host at ``address``, made at the first call with that clock."""
        found = self._hosts.get(address)
        if found is None:
            found = self._hosts[address] = SimHost(self, address, 1, skew=skew, drift=drift)
        return found

    def hosts(self) -> tuple[SimHost, ...]:
        return tuple(self._hosts.values())

    def crash(self, address: str, how: Crash = "kill") -> None:
        self.host(address).crash(how)

    def restart(self, address: str) -> SimHost:
        """A new boot at the address of a crashed host; its clock is as wrong as it was."""
        old = self.host(address)
        if old.alive:
            raise StillAliveError(address)
        old.replaced()
        new = SimHost(self, address, old.boot + 1, skew=old.clock.skew, drift=old.clock.drift)
        self._hosts[address] = new
        self.note("restart", address)
        return new

    def rng(self, name: str) -> Random:
        """A generator for one purpose, a function of the seed and the name."""
        return Random(f"{self.seed}/{name}")

    # -- weather --------------------------------------------------------------------------------------

    def partition(self, *groups: Iterable[str]) -> None:
        """Cut both directions of every link between hosts of different groups, besides what is cut."""
        listed = [list(group) for group in groups]
        self.links.partition(listed)
        self.note("cut:" + "|".join(",".join(group) for group in listed))

    def isolate(self, address: str) -> None:
        """Cut a host from every other that exists."""
        self.partition([address], [other for other in self._hosts if other != address])

    def cut(self, source: str, target: str, *, one_way: bool = False) -> None:
        self.links.cut(source, target)
        if not one_way:
            self.links.cut(target, source)
        self.note("cut:one-way" if one_way else "cut", source, target)

    def heal(self, source: str | None = None, target: str | None = None) -> None:
        """Mend both directions of one link, or with no arguments every cut there is."""
        if source is None or target is None:
            self.links.mend_all()
            self.note("heal")
        else:
            self.links.mend(source, target)
            self.links.mend(target, source)
            self.note("heal", source, target)

    def shape(self, source: str, target: str, quality: LinkQuality | None, *, one_way: bool = False) -> None:
        """Give a link another quality; None takes it back to the default."""
        self.links.shape(source, target, quality)
        if not one_way:
            self.links.shape(target, source, quality)
        self.note("shape", source, target)

    def weather(self, quality: LinkQuality) -> None:
        """The quality of every link that has none of its own."""
        self.links.default = quality
        self.note("weather")

    # -- trace ----------------------------------------------------------------------------------------

    def note(self, kind: str, source: str = "", target: str = "", size: int = 0) -> None:
        """Record an event; what a test records takes part in the digest too."""
        self.trace.record(self.loop.time(), kind, source, target, size)

    def digest(self) -> str:
        return self.trace.digest()

    # -- carrying, for the sockets --------------------------------------------------------------------

    def knows(self, address: str) -> bool:
        return address in self._hosts

    def kernel(self, address: str) -> SimHost | None:
        """Whoever answers packets at an address now."""
        host = self._hosts.get(address)
        return host if host is not None and host.answers else None

    def carry_datagram(self, source: SimHost, sender: Address, to: Address, data: bytes) -> None:
        loopback = source.is_loopback(to[0])
        target = source.address if loopback else to[0]
        size = len(data)
        seen_as = to[0] if loopback else source.address
        if self._in_flight >= self._in_flight_most:
            self.note("drop:full", source.address, target, size)
            return
        delays = self.links.datagram(source.address, target, size + _HEADERS, self.loop.time())
        self.note("datagram" if delays else "drop", source.address, target, size)
        for delay in delays:
            self._in_flight += 1
            self.loop.call_later(
                delay,
                self._arrive_datagram,
                source.address,
                target,
                (seen_as, sender[1]),
                to,
                data,
                context=self.context,
            )

    def _arrive_datagram(self, source: str, target: str, sender: Address, to: Address, data: bytes) -> None:
        self._in_flight -= 1
        host = self._hosts.get(target)
        if self.links.is_cut(source, target) or host is None:
            self.note("drop:cut", source, target, len(data))
            return
        socket = host.socket_for(to)
        if socket is not None:
            self.note("arrive", source, target, len(data))
            socket.deliver(data, sender)

    def carry_stream(
        self,
        kind: str,
        source: SimHost,
        target: SimHost,
        size: int,
        not_before: float,
        arrive: Callable[..., None],
        *args: Any,
    ) -> float:
        """Carry one packet of a stream behind the one that arrives at ``not_before``; when it arrives."""
        now = self.loop.time()
        here, there = source.address, target.address
        delay = self.links.segment(here, there, size, now, self.limits.resend_first)
        if delay is None:
            self.note(f"cut:{kind}", here, there, size)
            return not_before
        self.note(kind, here, there, size)
        when = max(now + delay, math.nextafter(not_before, math.inf))
        self.loop.call_at(when, self._arrive_stream, target, here, arrive, args, context=self.context)
        return when

    def _arrive_stream(
        self, target: SimHost, source: str, arrive: Callable[..., None], args: tuple[Any, ...]
    ) -> None:
        if self.links.is_cut(source, target.address):
            self.note("cut:late", source, target.address)
        elif self.kernel(target.address) is not None:
            # A boot that is gone knows nothing of the connection: its end answers for whoever is there now.
            arrive(*args)

    def carry_knock(
        self,
        source: SimHost,
        target: str,
        client: SimTransport,
        answer: asyncio.Future[None],
        loopback: bool,
    ) -> None:
        """Carry a connection's first packet, and the answer to it back."""

        def knock() -> None:
            host = self.kernel(target)
            if host is None or self.links.is_cut(source.address, target):
                return
            listener = host.listener_for(client.remote) if host.alive else None
            if listener is None:
                self.note("refuse", target, source.address)
                self._carry_answer(host, source, refuse)
            elif listener.incoming(client, loopback) is None:
                self.note("backlog", target, source.address)
            else:
                self._carry_answer(host, source, accept)

        def refuse() -> None:
            if not answer.done():
                where = f"{client.remote[0]}:{client.remote[1]}"
                answer.set_exception(
                    ConnectionRefusedError(errno.ECONNREFUSED, f"Connect call failed: {where}")
                )

        def accept() -> None:
            if not answer.done():
                answer.set_result(None)

        delay = self.links.segment(
            source.address, target, _HEADERS, self.loop.time(), self.limits.resend_first
        )
        self.note("connect" if delay is not None else "cut:connect", source.address, target)
        if delay is not None:
            self.loop.call_later(delay, knock, context=self.context)

    def _carry_answer(self, source: SimHost, target: SimHost, arrive: Callable[[], None]) -> None:
        self.carry_stream("answer", source, target, _HEADERS, 0.0, arrive)

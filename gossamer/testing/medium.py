"""Medium shared by simulated hosts: one loop, one seed, the links between them; and the boot of a host.

The medium decides when each packet arrives and which never does, and keeps a trace whose digest is the same
for the same seed and program. Rules: 1. A packet is judged twice: a link cut when it is sent, or cut when it
would arrive, swallows it.  2. Everything the medium itself schedules runs in an empty context; protocols run
in their own.  3. Bounded: at most ``IN_FLIGHT`` datagrams are on their way at once, more are dropped and
noted.  4. Only what the simulation decides goes into the trace: virtual time, hosts, sizes; never an address
of memory, a wall clock or a payload, which may hold real nonces.
"""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import math
from collections import Counter, deque
from collections.abc import Callable
from random import Random
from typing import Literal

from gossamer.network import Address
from gossamer.testing.links import LinkQuality, Links
from gossamer.testing.loop import SimClock, VirtualTimeLoop
from gossamer.testing.window import StreamLimits


class Trace:
    """Counts, the last ``keep`` events for people, and a digest of all: the same for the same seed."""

    def __init__(self, *, keep: int = 2000) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._tail: deque[tuple[float, str, str, str, int]] = deque(maxlen=keep)
        self.counts: Counter[str] = Counter()

    def record(self, at: float, kind: str, source: str, target: str = "", size: int = 0) -> None:
        self.counts[kind] += 1
        self._tail.append((at, kind, source, target, size))
        self._hash.update(f"{at!r} {kind} {source} {target} {size}\n".encode())

    def digest(self) -> str:
        """Digest of all events so far."""
        return self._hash.copy().hexdigest()

    def tail(self, count: int = 40) -> list[str]:
        """The last events, oldest first, each with its time in virtual seconds."""
        return [
            f"{at:14.6f} {kind:<10} {source}{f' > {target}' * bool(target)}{f' {size} B' * bool(size)}"
            for at, kind, source, target, size in list(self._tail)[-count:]
        ]


Crash = Literal["kill", "reset", "silence"]
"""Kind of crash. ``kill``: the process dies, its kernel ends its connections in order and refuses new
ones. ``reset``: as before, but connections are reset. ``silence``: the machine dies and says nothing."""

ANY = ("", "0.0.0.0", "::")  # noqa: S104  what a simulated socket may bind
LOOPBACK = ("127.0.0.1", "::1", "localhost")
HEADERS = 40
IN_FLIGHT = 100_000


def binds(bound: str, host: str) -> bool:
    """Return whether a socket bound to ``bound`` receives packets sent to ``host``."""
    return bound in ANY or bound == host or (bound in LOOPBACK and host in LOOPBACK)


class Medium:
    """The seeded world between the hosts. ``chop``: how likely a segment of a stream is cut short."""

    chop = 0.05

    def __init__(self, *, seed: int, quality: LinkQuality) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)  # noqa: S101 - time would not jump on another
        self.loop = loop
        self.seed = seed
        self.links = Links(seed, quality)
        self.limits = StreamLimits()
        self.trace = Trace()
        self.context = contextvars.Context()
        self.boots: dict[str, Boot] = {}
        """The last boot of each host, by address."""
        self._in_flight = 0

    def rng(self, name: str) -> Random:
        """A generator for one purpose, a function of the seed and the name."""
        return Random(f"{self.seed}/{name}")

    def note(self, kind: str, source: str = "", target: str = "", size: int = 0) -> None:
        """Record an event; what a test records takes part in the digest too."""
        self.trace.record(self.loop.time(), kind, source, target, size)

    def digest(self) -> str:
        return self.trace.digest()

    def report(self, message: str, error: Exception, **about: object) -> None:
        """Hand an exception of a protocol to the loop's handler, as real transports do."""
        self.loop.call_exception_handler({"message": message, "exception": error, **about})

    def kernel(self, address: str) -> Boot | None:
        """The boot that answers packets at an address now."""
        boot = self.boots.get(address)
        return boot if boot is not None and boot.answers else None

    def carry_datagram(self, source: Boot, sender: Address, to: Address, data: bytes) -> None:
        """Carry a datagram of the socket bound to ``sender``, perhaps, and perhaps twice."""
        loopback = to[0] in LOOPBACK
        target = source.address if loopback else to[0]
        seen_as = to[0] if loopback else source.address
        if self._in_flight >= IN_FLIGHT:
            self.note("drop:full", source.address, target, len(data))
            return
        delays = self.links.datagram(source.address, target, len(data) + HEADERS, self.loop.time())
        self.note("datagram" if delays else "drop", source.address, target, len(data))

        def arrive() -> None:
            self._in_flight -= 1
            boot = self.boots.get(target)
            if self.links.is_cut(source.address, target) or boot is None:
                self.note("drop:cut", source.address, target, len(data))
            elif (deliver := boot.socket_for(to)) is not None:
                self.note("arrive", source.address, target, len(data))
                deliver(data, (seen_as, sender[1]))

        for delay in delays:
            self._in_flight += 1
            self.loop.call_later(delay, arrive, context=self.context)

    def carry_stream(
        self,
        kind: str,
        source: Boot,
        target: Boot,
        size: int,
        not_before: float,
        arrive: Callable[[], object],
    ) -> float:
        """Carry one packet of a stream behind the one that arrives at ``not_before``; when it arrives."""
        now = self.loop.time()
        here, there = source.address, target.address
        delay = self.links.segment(here, there, size, now, self.limits.resend_first)
        if delay is None:
            self.note(f"cut:{kind}", here, there, size)
            return not_before
        self.note(kind, here, there, size)

        def arrives() -> None:
            if self.links.is_cut(here, there):
                self.note("cut:late", here, there)
            elif self.kernel(there) is not None:
                # An old boot has lost the connection: its end answers for the current one.
                arrive()

        when = max(now + delay, math.nextafter(not_before, math.inf))
        self.loop.call_at(when, arrives, context=self.context)
        return when


class Boot:
    """One boot of a host, as its sockets see it: alive or frozen, with its sockets and connections."""

    def __init__(self, sim: Medium, address: str, number: int, *, skew: float, drift: float) -> None:
        self.sim = sim
        self.address = address
        self.boot = number
        self.alive = True
        self.answers = True
        """A kernel listens to packets for it."""
        self.clock = SimClock(sim.loop, skew=skew, drift=drift)
        self.rng = Random(f"{sim.seed}/{address}/{number}")
        self.sockets: dict[Address, Callable[[bytes, Address], None]] = {}
        """Receiver of datagrams and their senders, per bound datagram socket."""
        # A dict, because the order in which connections die is part of what a seed decides.
        self.connections: dict[Callable[[Crash], None], None] = {}
        """Crash callback of each connection that its kernel still has."""
        self._waiting: list[Callable[[], None]] | None = None  # while its process is frozen

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.address} boot {self.boot} {'alive' if self.alive else 'dead'}>"

    def socket_for(self, address: Address) -> Callable[[bytes, Address], None] | None:
        """Return the receiver of the socket bound to an address."""
        for (host, port), deliver in self.sockets.items():
            if port == address[1] and binds(host, address[0]):
                return deliver
        return None

    def freeze(self) -> None:
        """Stop the process as SIGSTOP does: the kernel still receives packets, which are not read."""
        if self._waiting is None:
            self._waiting = []
            self.sim.loop.freeze(self.address)

    def thaw(self) -> None:
        """Let the process go on, and read what came meanwhile."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self.sim.loop.thaw(self.address)
            for read in waiting:
                self.sim.loop.call_soon(read, context=self.sim.context)

    def postpones(self, read: Callable[[], None]) -> bool:
        """Return whether the process is frozen; then ``read`` is called later."""
        if self._waiting is None:
            return False
        self._waiting.append(read)
        return True

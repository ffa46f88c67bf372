"""Active faults per peer and direction, replaced as a whole, with an expiry; and of the node itself: a wall
clock that jumps, as when it is set by hand or by a bad time server, and a disc that is slow.

Rules: 1. A fault names a peer, or ``*`` for all; the first that fits a peer and a direction counts.  2. Who
has an address is asked of ``name_of`` at every look, since a node that restarts may come back elsewhere.
3. ``set`` replaces everything, so that two orders never add up to what nobody meant. With ``seconds`` the
faults end by themselves: who ordered them may be dead by then. With ``begin_in`` they begin a little later:
who tells several nodes tells all before the first cut parts them.  4. A stream that is cut one way stands
still both ways, as a real one does whose acknowledgements are lost; datagrams go by direction.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from random import Random
from typing import Literal, ParamSpec, TypeVar

from gossamer.clock import Clock
from gossamer.errors import UsageError
from gossamer.network import Address

P = ParamSpec("P")
T = TypeVar("T")


class _Passing:
    """Seconds that are 0 unless they are set."""

    def __init__(self) -> None:
        self.offset = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def set(self, offset: float, *, seconds: float | None = None) -> None:
        """Be ``offset`` seconds off, for ``seconds`` or until the next call."""
        self.offset = offset
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if seconds is not None and offset:
            self._timer = asyncio.get_running_loop().call_later(seconds, self.set, 0.0)


class FaultyClock(_Passing):
    """Implements :class:`gossamer.clock.Clock` on another one; ``wall`` alone is wrong, as on a machine."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def wall(self) -> float:
        return self._clock.wall() + self.offset


class SlowDisc(_Passing):
    """Lets all that a node writes begin ``offset`` seconds later, in the thread that writes."""

    def thread(self, name: str) -> ThreadPoolExecutor:
        """Return a thread for blocking calls to the disc, which come later."""
        return _LateThread(self, name)


class _LateThread(ThreadPoolExecutor):
    def __init__(self, disc: SlowDisc, name: str) -> None:
        super().__init__(1, thread_name_prefix=name)
        self._disc = disc

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        def late() -> T:
            time.sleep(self._disc.offset)
            return fn(*args, **kwargs)

        return super().submit(late)


Direction = Literal["out", "in"]
EVERYBODY = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Fault on traffic to ``peer`` (``out``), from it (``in``), or both. Times in seconds."""

    peer: str
    direction: Literal["out", "in", "both"] = "both"
    cut: bool = False
    loss: float = 0.0
    """Share of the datagrams that are lost; on streams each lost piece is late by a retransmission."""
    delay: float = 0.0
    jitter: float = 0.0
    """At most so much more delay, different for each piece; datagrams overtake each other."""

    def __post_init__(self) -> None:
        if self.direction not in ("out", "in", "both"):
            raise UsageError(f"fault: got direction {self.direction!r}; expected out, in or both")
        if not 0.0 <= self.loss <= 1.0:
            raise UsageError(f"fault: got loss {self.loss}; expected a share between 0 and 1")
        if not (0.0 <= self.delay <= 3600.0 and 0.0 <= self.jitter <= 3600.0):
            got = f"delay {self.delay}, jitter {self.jitter}"
            raise UsageError(f"fault: got {got}; expected 0 to 3600 seconds")

    def lateness(self, rng: Random) -> float:
        """Seconds that one piece is late."""
        return self.delay + rng.uniform(0.0, self.jitter)


@dataclass(slots=True)
class FaultCounts:
    """Counts of the gate since the start."""

    datagrams_dropped: int = 0
    datagrams_delayed: int = 0
    connects_held: int = 0
    streams_stalled: int = 0


class FaultTable:
    """The faults of one node. ``name_of`` gives the name of the node that has an address."""

    def __init__(self, name_of: Callable[[Address], str | None]) -> None:
        self._name_of = name_of
        self._faults: tuple[Fault, ...] = ()
        self._watchers: dict[Callable[[], None], None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.counts = FaultCounts()
        self.clock: FaultyClock | None = None
        """The node's clock, where it may be set wrong."""
        self.disc = SlowDisc()

    @property
    def faults(self) -> tuple[Fault, ...]:
        """Active faults."""
        return self._faults

    def set(self, faults: Iterable[Fault], *, seconds: float | None = None, begin_in: float = 0.0) -> None:
        """Let just these hold, for ``seconds`` or until the next call; ``begin_in`` seconds from now.

        What held until now ends at once, also where the new ones begin later.
        """
        wanted = tuple(faults)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if begin_in > 0 and wanted:
            self._timer = asyncio.get_running_loop().call_later(begin_in, self._begin, wanted, seconds)
            wanted = ()
        self._begin(wanted, seconds)

    def _begin(self, faults: tuple[Fault, ...], seconds: float | None) -> None:
        self._faults = faults
        if seconds is not None and faults:
            self._timer = asyncio.get_running_loop().call_later(seconds, self.clear)
        for watcher in list(self._watchers):
            watcher()

    def clear(self) -> None:
        """Heal everything."""
        self.set(())

    def find(self, address: Address, direction: Direction) -> Fault | None:
        """The fault between here and ``address``, None where all is well."""
        if not self._faults:
            return None
        name = self._name_of(address)
        shown = f"{address[0]}:{address[1]}"
        for fault in self._faults:
            if fault.peer in (EVERYBODY, name, shown) and fault.direction in (direction, "both"):
                return fault
        return None

    def is_cut(self, address: Address) -> bool:
        """Does a stream to ``address`` stand still?"""
        found = self.find(address, "out"), self.find(address, "in")
        return any(fault is not None and fault.cut for fault in found)

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call ``watcher`` whenever the faults change."""
        self._watchers[watcher] = None

    def unwatch(self, watcher: Callable[[], None]) -> None:
        """No more calls."""
        self._watchers.pop(watcher, None)

"""Decisions of the simulated network about a packet, without I/O.

A link is one direction between two hosts. Its quality determines delay, loss and reordering of packets; a
cut passes nothing. Rules: 1. Every directed link draws from a generator of its own, seeded by
the run's seed and the two names, so that traffic on one link does not shift the luck of another.  2. Cuts
are directed; a symmetric split is two cuts.  3. A host reaches itself always, at once and without loss.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import permutations
from random import Random

from gossamer.errors import UsageError


@dataclass(frozen=True, slots=True)
class LinkQuality:
    """Behaviour of one direction of a link. Times in seconds, chances from 0 to 1.

    A packet takes ``latency`` plus an exponential tail of mean ``jitter``, plus its size over ``bandwidth``
    (bytes per second; 0: unlimited); with chance ``spike`` it takes ``spike_delay`` more. Datagrams are
    lost with chance ``loss``, doubled with ``duplicate`` and held back behind later ones with ``reorder``;
    segments of a stream are never doubled or reordered for the application, a lost one comes late. More
    than ``queue`` seconds of packets waiting for the bandwidth: datagrams are dropped. Datagrams larger than
    ``max_datagram`` vanish, headers counted: a small MTU, or with 0 a firewall that only streams pass.
    """

    latency: float = 0.0005
    jitter: float = 0.0002
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    spike: float = 0.0
    spike_delay: float = 0.2
    bandwidth: float = 0.0
    queue: float = 0.5
    max_datagram: int = 65_547

    def delay(self, rng: Random) -> float:
        """Draw the delay of one packet, without bandwidth."""
        taken = self.latency
        if self.jitter:
            taken += rng.expovariate(1 / self.jitter)
        if self.spike and rng.random() < self.spike:
            taken += self.spike_delay
        return taken


LAN = LinkQuality()
WAN = LinkQuality(latency=0.02, jitter=0.005, loss=0.001, duplicate=0.0005, reorder=0.001)
LOSSY = LinkQuality(latency=0.001, jitter=0.002, loss=0.1, duplicate=0.05, reorder=0.1)
SLOW = LinkQuality(latency=0.3, jitter=0.1, loss=0.02, spike=0.02, spike_delay=1.0)

_LOOPBACK = LinkQuality(latency=0.00001, jitter=0.0)


class Links:
    """The qualities and cuts of every directed link, and each link's own luck."""

    def __init__(self, seed: int, default: LinkQuality) -> None:
        self.default = default
        self._seed = seed
        self.qualities: dict[tuple[str, str], LinkQuality | None] = {}
        """Quality by direction; None: the default."""
        self.cuts: set[tuple[str, str]] = set()
        self._luck: dict[tuple[str, str], Random] = {}
        self._busy_until: dict[tuple[str, str], float] = {}

    # -- shape ----------------------------------------------------------------------------------------

    def quality(self, source: str, target: str) -> LinkQuality:
        if source == target:
            return _LOOPBACK
        return self.qualities.get((source, target)) or self.default

    def partition(self, groups: Sequence[Iterable[str]]) -> None:
        """Cut every link between hosts of different groups. Hosts in no group keep all their links."""
        group_of: dict[str, int] = {}
        for index, group in enumerate(groups):
            for host in group:
                if group_of.setdefault(host, index) != index:
                    raise UsageError(f"host {host} stands in two groups of a partition; expected one at most")
        self.cuts |= {pair for pair in permutations(group_of, 2) if group_of[pair[0]] != group_of[pair[1]]}

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self.cuts

    # -- decisions ------------------------------------------------------------------------------------

    def luck(self, source: str, target: str) -> Random:
        found = self._luck.get((source, target))
        if found is None:
            found = self._luck[source, target] = Random(f"{self._seed}/{source}/{target}")
        return found

    def datagram(self, source: str, target: str, size: int, now: float) -> list[float]:
        """The delays after which copies of a datagram arrive: none where it is lost, two where doubled."""
        quality = self.quality(source, target)
        if self.is_cut(source, target) or size > quality.max_datagram:
            return []
        rng = self.luck(source, target)
        if self._backlog(source, target, now) > quality.queue:
            return []
        waited = self._transmit(source, target, quality, size, now)
        if quality.loss and rng.random() < quality.loss:
            return []
        delay = waited + quality.delay(rng)
        if quality.reorder and rng.random() < quality.reorder:
            delay += rng.uniform(1, 10) * (quality.latency + quality.jitter)
        if quality.duplicate and rng.random() < quality.duplicate:
            return [delay, waited + quality.delay(rng)]
        return [delay]

    def segment(self, source: str, target: str, size: int, now: float, resend_after: float) -> float | None:
        """The delay of a stream's segment, each loss adding ``resend_after``; None: the link is cut."""
        quality = self.quality(source, target)
        if self.is_cut(source, target) or quality.loss >= 1:
            return None
        rng = self.luck(source, target)
        delay = self._transmit(source, target, quality, size, now) + quality.delay(rng)
        while quality.loss and rng.random() < quality.loss:
            delay += resend_after
        return delay

    def _backlog(self, source: str, target: str, now: float) -> float:
        """Seconds that a packet sent now waits behind others for the bandwidth."""
        return max(0.0, self._busy_until.get((source, target), now) - now)

    def _transmit(self, source: str, target: str, quality: LinkQuality, size: int, now: float) -> float:
        """Seconds until the last byte of a packet sent now has left."""
        if not quality.bandwidth:
            return 0.0
        taken = self._backlog(source, target, now) + size / quality.bandwidth
        self._busy_until[source, target] = now + taken
        return taken

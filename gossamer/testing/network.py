"""A seeded network of simulated hosts: the world in which whole clusters run inside one test.

``sim.host("10.0.0.1")`` is that host's :class:`gossamer.network.Network`. Links are cut, healed and shaped
here, hosts killed and restarted; how packets travel is :mod:`gossamer.testing.medium`'s.
"""

from __future__ import annotations

from collections.abc import Iterable

from gossamer.errors import UsageError
from gossamer.testing.host import SimHost
from gossamer.testing.links import LAN, LinkQuality
from gossamer.testing.medium import Crash, Medium


class SimNetwork(Medium):
    """The world that tests see: hosts by address, and what befalls the links between them."""

    def __init__(self, *, seed: int, quality: LinkQuality = LAN) -> None:
        super().__init__(seed=seed, quality=quality)
        self._hosts: dict[str, SimHost] = {}

    # -- hosts ----------------------------------------------------------------------------------------

    def host(self, address: str, *, skew: float = 0.0, drift: float = 0.0) -> SimHost:
        """The host at ``address``, made at the first call with that clock."""
        found = self._hosts.get(address)
        if found is None:
            found = self._boot(SimHost(self, address, 1, skew=skew, drift=drift))
        return found

    def _boot(self, host: SimHost) -> SimHost:
        self._hosts[host.address] = self.boots[host.address] = host
        return host

    def crash(self, address: str, how: Crash = "kill") -> None:
        self.host(address).crash(how)

    def restart(self, address: str) -> SimHost:
        """A new boot at the address of a crashed host; its clock is as wrong as it was."""
        old = self.host(address)
        if old.alive:
            raise UsageError(f"host {address} is alive; expected a crashed one, call crash() first")
        old.answers = False
        self.note("restart", address)
        return self._boot(SimHost(self, address, old.boot + 1, skew=old.clock.skew, drift=old.clock.drift))

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
        self.links.cuts.add((source, target))
        if not one_way:
            self.links.cuts.add((target, source))
        self.note("cut:one-way" if one_way else "cut", source, target)

    def heal(self, source: str | None = None, target: str | None = None) -> None:
        """Mend both directions of one link, or with no arguments every cut there is."""
        if source is None or target is None:
            self.links.cuts.clear()
            self.note("heal")
        else:
            self.links.cuts -= {(source, target), (target, source)}
            self.note("heal", source, target)

    def shape(self, source: str, target: str, quality: LinkQuality | None, *, one_way: bool = False) -> None:
        """Give a link another quality; None takes it back to the default."""
        for way in ((source, target),) if one_way else ((source, target), (target, source)):
            self.links.qualities[way] = quality
        self.note("shape", source, target)

    def weather(self, quality: LinkQuality) -> None:
        """The quality of every link that has none of its own."""
        self.links.default = quality
        self.note("weather")

"""Strategies: where might the other members be?

Each answers one question, as often as it is asked, and never concludes: an empty answer means that there is
nobody to look for, a failed look-up is a problem and keeps its reason. EMQX's old fault was to take the
second for the first and to form a cluster of its own.

``static`` resolves names at every try, since addresses move. ``manual`` looks for nobody.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from gossamer.errors import UnavailableError
from gossamer.gossip import Member
from gossamer.network import Address
from gossamer.supervisor import ChildSpec

__all__ = [
    "Discovered",
    "DiscoveryFailedError",
    "Manual",
    "Resolver",
    "Singleton",
    "Static",
    "Strategy",
    "is_literal",
    "resolve_host",
]

Resolver = Callable[[str], Awaitable[Sequence[str]]]
"""From a host name to IP literals; raises OSError where that fails."""


@dataclass(frozen=True, slots=True)
class Discovered:
    """What one look found. ``problems``: what could not be looked up, and why."""

    addresses: tuple[Address, ...] = ()
    problems: Mapping[str, str] = field(default_factory=dict)


class DiscoveryFailedError(UnavailableError):
    """A look-up, a lock or a registration did not work this time; it is tried again for ever."""

    def __init__(self, where: str, problem: str) -> None:
        self.where = where
        self.problem = problem
        super().__init__(f"{where}: {problem}")


class Strategy:
    """A way to find the cluster. What a strategy has no use for, it leaves as it is here."""

    name: ClassVar[str]
    registered: bool = True
    """False while other nodes could not find this one through the strategy."""

    def children(self) -> list[ChildSpec]:
        """Processes that the strategy needs, started before it is first asked."""
        return []

    async def lock(self) -> None:
        """Keep others that form the cluster out until ``unlock``. Raises DiscoveryFailedError."""

    async def discover(self, local: Address) -> Discovered:
        """Gossip addresses of possible members; ``local`` is this node's own, which may be among them."""
        raise NotImplementedError

    async def register(self, member: Member) -> None:
        """Let others find this node. Raises DiscoveryFailedError."""

    async def unlock(self) -> None:
        """Always follows ``lock``, however that went. Raises nothing."""

    async def unregister(self) -> None:
        """Let nobody find this node any more; it has left. Raises nothing."""


async def resolve_host(host: str) -> Sequence[str]:
    """The system's resolver, in the event loop's threads."""
    found = await asyncio.get_running_loop().getaddrinfo(host, None, type=1)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class Manual(Strategy):
    """``gossamer cluster join`` does it."""

    name = "manual"

    async def discover(self, local: Address) -> Discovered:
        return Discovered()


class Singleton(Manual):
    """A cluster of one: it has found all there is at once, and never joins."""

    name = "singleton"


class Static(Strategy):
    """A list of seeds, and a name whose addresses are seeds on this node's own gossip port."""

    name = "static"

    def __init__(
        self, seeds: Sequence[Address], *, domain_name: str = "", resolve: Resolver = resolve_host
    ) -> None:
        self._seeds = tuple(seeds)
        self._domain_name = domain_name
        self._resolve = resolve

    async def discover(self, local: Address) -> Discovered:
        wanted = [(host, port) for host, port in self._seeds]
        if self._domain_name:
            wanted.append((self._domain_name, local[1]))
        addresses: dict[Address, None] = {}
        problems: dict[str, str] = {}
        for host, port in wanted:
            if is_literal(host):
                addresses[host, port] = None
                continue
            try:
                found = await self._resolve(host)
            except OSError as error:
                problems[host] = error.strerror or str(error)
                continue
            if not found:
                problems[host] = "resolves to no address"
            addresses.update(dict.fromkeys((literal, port) for literal in found))
        return Discovered(tuple(addresses), problems)


def is_literal(host: str) -> bool:
    """An IP address, not a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True

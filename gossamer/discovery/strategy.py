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
from typing import Protocol

from gossamer.config import ClusterConfig
from gossamer.network import Address

__all__ = ["Discovered", "Manual", "Resolver", "Static", "Strategy", "resolve_host", "strategy_of"]

Resolver = Callable[[str], Awaitable[Sequence[str]]]
"""From a host name to IP literals; raises OSError where that fails."""


@dataclass(frozen=True, slots=True)
class Discovered:
    """What one look found. ``problems``: what could not be looked up, and why."""

    addresses: tuple[Address, ...] = ()
    problems: Mapping[str, str] = field(default_factory=dict)


class Strategy(Protocol):
    """A way to find the cluster."""

    name: str

    async def discover(self, local: Address) -> Discovered:
        """Gossip addresses of possible members; ``local`` is this node's own, which may be among them."""


async def resolve_host(host: str) -> Sequence[str]:
    """The system's resolver, in the event loop's threads."""
    found = await asyncio.get_running_loop().getaddrinfo(host, None, type=1)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class Manual:
    """``gossamer cluster join`` does it."""

    name = "manual"

    async def discover(self, local: Address) -> Discovered:
        return Discovered()


class Static:
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
            if _is_literal(host):
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


def strategy_of(cluster: ClusterConfig) -> Strategy:
    """The strategy that a configuration asks for."""
    if cluster.discovery.strategy == "manual":
        return Manual()
    seeds = [(endpoint.host, endpoint.port) for endpoint in cluster.seed_endpoints]
    return Static(seeds, domain_name=cluster.domain_name)


def _is_literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True

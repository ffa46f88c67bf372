"""The ``static`` strategy: seeds that the configuration lists, and a name whose addresses are seeds.

Names are resolved at every try, since addresses move; a node may list itself, and any seed may come later.
"""

from __future__ import annotations

from collections.abc import Sequence

from gossamer.discovery.hosts import Hosts, Resolver, resolve_host
from gossamer.discovery.strategy import Discovered, Strategy
from gossamer.network import Address

__all__ = ["Static"]


class Static(Strategy):
    """The addresses of ``domain_name`` are taken with this node's own gossip port."""

    name = "static"

    def __init__(
        self, seeds: Sequence[Address], *, domain_name: str = "", resolve: Resolver = resolve_host
    ) -> None:
        self._seeds = tuple(seeds)
        self._domain_name = domain_name
        self._hosts = Hosts(resolve)

    async def discover(self, local: Address) -> Discovered:
        wanted = [(host, port) for host, port in self._seeds]
        if self._domain_name:
            wanted.append((self._domain_name, local[1]))
        return await self._hosts.look(wanted)

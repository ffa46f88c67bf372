"""Strategies that find addresses of other members.

Each answers one question, as often as it is asked, and never concludes: an empty answer means that there is
nobody to look for, a failed look-up is a problem and keeps its reason. EMQX's old fault was to take the
second for the first and to form a cluster of its own.

Names become addresses by :class:`Hosts`, which never goes from knowing back to not knowing. Rules: 1. All
names are looked up at once, each within a time limit; the system's resolver may block a thread for far
longer, and then the look-up under way is waited for again instead of being doubled.  2. A name whose look-up
fails keeps the addresses of the last one that worked, beside its problem.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from gossamer.errors import ConfigError, ConfigProblem, UnavailableError, how_to_install
from gossamer.gossip import Member
from gossamer.network import Address
from gossamer.supervisor import ChildSpec


@dataclass(frozen=True, slots=True)
class Discovered:
    """Findings of one look. ``problems``: what could not be looked up, and why."""

    addresses: tuple[Address, ...] = ()
    problems: Mapping[str, str] = field(default_factory=dict)


class DiscoveryFailedError(UnavailableError):
    """A look-up, a lock or a registration did not work this time; it is tried again for ever."""

    def __init__(self, where: str, problem: str) -> None:
        self.where = where
        self.problem = problem
        super().__init__(f"{where}: {problem}")


def missing_extra(key: str, got: str, needs: str, extra: str) -> ConfigError:
    """Build the error of a key of ``cluster.discovery`` that needs what is not installed."""
    problem = ConfigProblem(
        f"cluster.discovery.{key}", f"{got} without {needs}", f"it installed: {how_to_install(extra)}"
    )
    return ConfigError("configuration", [problem])


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
        """Gossip addresses of possible members; ``local`` is this node's own, which may be among them.

        Raises DiscoveryFailedError under the lock; else what was known stays, beside the problem.
        """
        raise NotImplementedError

    async def register(self, member: Member) -> None:
        """Let others find this node. Raises DiscoveryFailedError."""

    async def unlock(self) -> None:
        """Always follows ``lock``, however that went. Raises nothing."""

    async def unregister(self) -> None:
        """Remove this node's registration after it left. Raises nothing."""


class Manual(Strategy):
    """``gossamer cluster join`` does it."""

    name = "manual"

    async def discover(self, local: Address) -> Discovered:
        return Discovered()


class Singleton(Manual):
    """A cluster of one: it has found all there is at once, and never joins."""

    name = "singleton"


Resolver = Callable[[str], Awaitable[Sequence[str]]]
"""Resolves a host name to IP literals; raises OSError if that fails."""

LOOK_UP = 5.0
"""Seconds that one look at the names may take."""


def is_literal(host: str) -> bool:
    """An IP address, not a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


async def resolve_host(host: str) -> Sequence[str]:
    """The system's resolver, in the event loop's threads."""
    found = await asyncio.get_running_loop().getaddrinfo(host, None, type=1)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class Hosts:
    """Remembers what the names that it was last asked for resolved to."""

    def __init__(self, resolve: Resolver = resolve_host, *, within: float = LOOK_UP) -> None:
        self._resolve = resolve
        self._within = within
        self._known: dict[str, Sequence[str]] = {}
        self._asking: dict[str, asyncio.Future[Sequence[str]]] = {}

    async def look(self, wanted: Sequence[Address]) -> Discovered:
        """Addresses of hosts with their ports, in the order of ``wanted``; literals are taken as they are."""
        names = list(dict.fromkeys(host for host, _ in wanted if not is_literal(host)))
        answers = await asyncio.gather(*(self._ask(name) for name in names))
        self._known = {name: self._known[name] for name in names if name in self._known}
        addresses = (
            (literal, port)
            for host, port in wanted
            for literal in ((host,) if is_literal(host) else self._known.get(host, ()))
        )
        problems = {name: problem for name, problem in zip(names, answers, strict=True) if problem}
        return Discovered(tuple(dict.fromkeys(addresses)), problems)

    async def _ask(self, name: str) -> str:
        """Look ``name`` up; what is wrong, or nothing."""
        try:
            async with asyncio.timeout(self._within):
                found = await asyncio.shield(self._asked(name))
        except TimeoutError:
            return f"the system's resolver did not answer within {self._within:g} s"
        except OSError as error:
            return error.strerror or str(error) or type(error).__name__
        except ValueError:
            # What cannot be put into a query: a label that is empty or too long.
            return "is not a host name"
        if not found:
            return "resolves to no address"
        self._known[name] = found
        return ""

    def _asked(self, name: str) -> asyncio.Future[Sequence[str]]:
        asking = self._asking.get(name)
        if asking is None:
            asking = self._asking[name] = asyncio.ensure_future(self._resolve(name))
            asking.add_done_callback(lambda done: self._answered(name, done))
        return asking

    def _answered(self, name: str, done: asyncio.Future[Sequence[str]]) -> None:
        del self._asking[name]
        if not done.cancelled():
            # Seen, also when nobody waits any more.
            done.exception()


class Static(Strategy):
    """Seeds that the configuration lists, and the addresses of ``domain_name`` with this node's own port.

    Names are resolved at every try, since addresses move; a node may list itself, a seed may come later.
    """

    name = "static"

    def __init__(
        self, seeds: Sequence[Address], *, domain_name: str = "", resolve: Resolver = resolve_host
    ) -> None:
        self._seeds = tuple((host, port) for host, port in seeds)
        self._domain_name = domain_name
        self._hosts = Hosts(resolve)

    async def discover(self, local: Address) -> Discovered:
        by_name = [(self._domain_name, local[1])] if self._domain_name else []
        return await self._hosts.look([*self._seeds, *by_name])

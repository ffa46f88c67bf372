"""Strategies: where might the other members be?

Each answers one question, as often as it is asked, and never concludes: an empty answer means that there is
nobody to look for, a failed look-up is a problem and keeps its reason. EMQX's old fault was to take the
second for the first and to form a cluster of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from gossamer.errors import UnavailableError, UsageError, how_to_install
from gossamer.gossip import Member
from gossamer.network import Address
from gossamer.supervisor import ChildSpec


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


def missing_extra(what: str, needs: str, extra: str) -> UsageError:
    """A strategy needs something that is not installed."""
    return UsageError(f"{what} needs {needs}, which is not installed; {how_to_install(extra)}")


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
        """Let nobody find this node any more; it has left. Raises nothing."""


class Manual(Strategy):
    """``gossamer cluster join`` does it."""

    name = "manual"

    async def discover(self, local: Address) -> Discovered:
        return Discovered()


class Singleton(Manual):
    """A cluster of one: it has found all there is at once, and never joins."""

    name = "singleton"

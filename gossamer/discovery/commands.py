"""What an operator does by hand: join, leave, force-leave, with exact errors.

Joining oneself is ignored, as EMQX does. Leaving is final: the node does not join back by itself, nor is it
brought back by others, also not after a restart: discovery would otherwise bring it back. Stopping a node is
not leaving in this sense: it leaves its cluster in order, and joins again when it starts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gossamer.config import Endpoint
from gossamer.discovery.plan import advice
from gossamer.errors import TransportError, UnavailableError, UsageError
from gossamer.gossip import ForceLeave, Join, JoinResult, Leave, MembershipView, Status
from gossamer.network import Address

__all__ = [
    "Aloof",
    "AloofFileError",
    "AlreadyInClusterError",
    "ClusterCommands",
    "IllegalTargetError",
    "NotInClusterError",
    "SeedsUnreachableError",
    "SingletonError",
]


class AlreadyInClusterError(UsageError):
    """Every address to join is a member already."""

    def __init__(self, addresses: Sequence[Address]) -> None:
        self.addresses = tuple(addresses)
        shown = ", ".join(str(Endpoint(*address)) for address in addresses)
        super().__init__(f"{shown}: already in this cluster; nothing to join")


class NotInClusterError(UsageError):
    """The node to remove is no member, or this node has nobody to leave."""

    def __init__(self, name: str, problem: str) -> None:
        self.name = name
        super().__init__(f"{name}: {problem}")


class IllegalTargetError(UsageError):
    """A member that must not be removed this way."""

    def __init__(self, name: str, problem: str) -> None:
        self.name = name
        super().__init__(f"{name}: {problem}")


class SingletonError(UsageError):
    """A node that is configured to be alone shall join."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"{name}: its cluster.discovery.strategy is singleton, which never joins; "
            "set another strategy, such as manual, and restart it"
        )


class SeedsUnreachableError(UnavailableError):
    """No address to join let this node in."""

    def __init__(self, failed: Mapping[Address, str]) -> None:
        self.failed = dict(failed)
        lines = "; ".join(f"{Endpoint(*seed)}: {why} ({advice(why)})" for seed, why in failed.items())
        super().__init__(f"no seed joined: {lines}")


class AloofFileError(TransportError):
    """The operator's word cannot be kept."""

    def __init__(self, path: Path, problem: str) -> None:
        self.path = path
        super().__init__(
            f"{path}: {problem}, so that this node would not remember at its next start whether it has left; "
            "see that it can write there, and give the order again"
        )


class Aloof:
    """Whether this node was told to leave: a file in ``directory``, or without one for this life.

    Opening blocks, for one look.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._path = None if directory is None else directory / "left"
        self.on = self._path is not None and self._path.exists()
        """True from a leave to the next join."""

    async def set(self, on: bool) -> None:
        """Remember.

        Raises:
            AloofFileError: it holds for this life only.
        """
        self.on = on
        if self._path is not None:
            await asyncio.to_thread(_write, self._path, on)


def _write(path: Path, on: bool) -> None:
    text = "This node was told to leave its cluster; gossamer cluster join brings it back.\n"
    try:
        if on:
            path.write_text(text)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise AloofFileError(path, error.strerror or str(error)) from None


class ClusterCommands:
    """``call`` sends one request to this node's gossip server and returns its answer."""

    def __init__(
        self,
        call: Callable[[object], Awaitable[Any]],
        view: MembershipView,
        *,
        singleton: bool = False,
        aloof: Aloof | None = None,
    ) -> None:
        self._call = call
        self._view = view
        self._singleton = singleton
        self._aloof = aloof or Aloof()

    async def join(self, addresses: Sequence[Address]) -> JoinResult:
        """Join through the first that answers.

        Raises:
            SingletonError: this node is configured never to join.
            AlreadyInClusterError: all of them are live members.
            SeedsUnreachableError: none let this node in; says why for each.
        """
        others = [address for address in addresses if address != self._view.local.endpoint]
        if not others:
            return JoinResult()
        if self._singleton:
            raise SingletonError(self._view.local.name)
        live = {m.endpoint for m in self._view.members()[1:] if m.status is Status.ONLINE}
        fresh = [address for address in others if address not in live]
        if not fresh:
            raise AlreadyInClusterError(others)
        before = self._aloof.on
        # First, or the loop would take the node out again while it joins.
        self._aloof.on = False
        result: JoinResult = await self._call(Join(tuple(fresh)))
        if not result.joined:
            self._aloof.on = before
            raise SeedsUnreachableError(result.failed)
        await self._aloof.set(False)
        return result

    async def leave(self) -> None:
        """Leave; returns once it had time to spread.

        Raises:
            NotInClusterError: this node is alone.
        """
        if len(self._view.members()) < 2:
            raise NotInClusterError(self._view.local.name, "is alone, there is no cluster to leave")
        await self._call(Leave())
        await self._aloof.set(True)

    async def force_leave(self, name: str) -> None:
        """Remove a member that is gone for good.

        Raises:
            IllegalTargetError: it is this node, or it is alive.
            NotInClusterError: no such member is known.
        """
        if name == self._view.local.name:
            raise IllegalTargetError(name, "is this node; use leave")
        member = self._view.get(name)
        if member is None or member.left:
            raise NotInClusterError(name, "no member of that name; `gossamer cluster status` lists them")
        if member.status is Status.SUSPECT:
            raise IllegalTargetError(name, "is suspected but not down yet; try again in a few seconds")
        if member.status is not Status.OFFLINE:
            raise IllegalTargetError(name, "is alive; run leave on that node, or stop it first")
        if not await self._call(ForceLeave(name)):
            raise NotInClusterError(name, "no member of that name; `gossamer cluster status` lists them")

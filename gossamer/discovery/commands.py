"""Commands of an operator: join, leave, force-leave, with exact errors.

Joining oneself is ignored, as EMQX does. Leaving is final: the node does not join back by itself, nor is it
brought back by others, also not after a restart: discovery would otherwise bring it back. Stopping a node is
not leaving in this sense: it leaves its cluster in order, and joins again when it starts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from gossamer.config import Endpoint
from gossamer.discovery.plan import advice
from gossamer.errors import TransportError, UnavailableError, UsageError
from gossamer.gossip import ForceLeave, Join, JoinResult, Leave, MembershipView, Status
from gossamer.network import Address

_NO_MEMBER = "no member of that name; `gossamer cluster status` lists them"


class Standalone:
    """Flag that this node left by command: a file in ``directory``, or without one only in memory.

    The constructor blocks, for one file access.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._path = None if directory is None else directory / "left"
        self.on = self._path is not None and self._path.exists()
        """True from a leave to the next join."""

    async def set(self, on: bool) -> None:
        """Set the flag.

        Raises:
            TransportError: it could not be stored, and holds until the next start.
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
        raise TransportError(
            f"{path}: {error.strerror or error}, so that this node would not remember at its next start "
            "whether it has left; see that it can write there, and give the order again"
        ) from None


class ClusterCommands:
    """``call`` sends one request to this node's gossip server and returns its answer."""

    def __init__(
        self,
        call: Callable[[object], Awaitable[Any]],
        view: MembershipView,
        *,
        singleton: bool = False,
        standalone: Standalone | None = None,
    ) -> None:
        self._call = call
        self._view = view
        self._singleton = singleton
        self._standalone = standalone or Standalone()

    async def join(self, addresses: Sequence[Address]) -> JoinResult:
        """Join through the first address that answers.

        Raises:
            UsageError: this node is configured never to join, or all of them are live members.
            UnavailableError: none let this node in; says why for each.
        """
        others = [address for address in addresses if address != self._view.local.endpoint]
        if not others:
            return JoinResult()
        if self._singleton:
            raise UsageError(
                f"{self._view.local.name}: its cluster.discovery.strategy is singleton, which never joins; "
                "set another strategy, such as manual, and restart it"
            )
        live = {m.endpoint for m in self._view.members()[1:] if m.status is Status.ONLINE}
        fresh = [address for address in others if address not in live]
        if not fresh:
            shown = ", ".join(str(Endpoint(*address)) for address in others)
            raise UsageError(f"{shown}: already in this cluster; nothing to join")
        before = self._standalone.on
        # First, or the loop would take the node out again while it joins.
        self._standalone.on = False
        result: JoinResult = await self._call(Join(tuple(fresh)))
        if not result.joined:
            self._standalone.on = before
            failed = (f"{Endpoint(*seed)}: {why} ({advice(why)})" for seed, why in result.failed.items())
            raise UnavailableError(f"no seed joined: {'; '.join(failed)}")
        await self._standalone.set(False)
        return result

    async def leave(self) -> None:
        """Leave; returns once it had time to spread.

        Raises:
            UsageError: this node is alone.
        """
        if len(self._view.members()) < 2:
            raise UsageError(f"{self._view.local.name}: is alone, there is no cluster to leave")
        await self._call(Leave())
        await self._standalone.set(True)

    async def force_leave(self, name: str) -> None:
        """Remove a member that is permanently gone.

        Raises:
            UsageError: it is this node, or alive, or unknown.
        """
        if name == self._view.local.name:
            raise UsageError(f"{name}: is this node; use leave")
        member = self._view.get(name)
        if member is None or member.left:
            raise UsageError(f"{name}: {_NO_MEMBER}")
        if member.status is Status.SUSPECT:
            raise UsageError(f"{name}: is suspected but not down yet; try again in a few seconds")
        if member.status is not Status.OFFLINE:
            raise UsageError(f"{name}: is alive; run leave on that node, or stop it first")
        if not await self._call(ForceLeave(name)):
            raise UsageError(f"{name}: {_NO_MEMBER}")

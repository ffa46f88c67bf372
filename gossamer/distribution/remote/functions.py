"""What a process says about nodes: ``node``, ``nodes``, ``monitor_node``; and ``connect_node`` to wait."""

from __future__ import annotations

import asyncio

from gossamer.distribution.distribution import Distribution, Event
from gossamer.distribution.events import NodeDown, NodeUp
from gossamer.distribution.remote.remote import RemoteProcesses
from gossamer.errors import UsageError
from gossamer.supervisor import Runtime, self_pid

__all__ = ["connect_node", "monitor_node", "node", "nodes"]


def _distribution() -> Distribution:
    runtime = Runtime.current()
    if isinstance(runtime.remote, RemoteProcesses):
        return runtime.remote.distribution
    raise UsageError(f"node {runtime.node} is not distributed; expected RemoteProcesses() to be made for it")


def node() -> str:
    """The name of this node."""
    return Runtime.current().node


def nodes() -> list[str]:
    """The other nodes that are up."""
    return _distribution().nodes()


def monitor_node(name: str) -> None:
    """Send the running process one ``NodeDown`` when ``name`` goes down; at once when it is not up.

    Raises:
        UsageError: this node is not distributed.
    """
    distribution, me = _distribution(), self_pid()
    if name not in distribution.nodes(hidden=True):
        distribution.runtime.send(me, NodeDown(name, distribution.creation_of(name) or 0, "noconnection"))
        return

    def tell(event: Event) -> None:
        if isinstance(event, NodeDown) and event.name == name:
            distribution.unsubscribe(tell)
            distribution.runtime.send(me, event)

    distribution.subscribe(tell, hidden=True)


async def connect_node(name: str, timeout: float = 5.0) -> bool:
    """Wait until ``name``, a member, is up; False when it is not in time.

    Which nodes are members is for discovery to say: a process cannot dial.
    """
    distribution = _distribution()
    up = asyncio.Event()

    def tell(event: Event) -> None:
        if isinstance(event, NodeUp) and event.name == name:
            up.set()

    distribution.subscribe(tell)
    try:
        async with asyncio.timeout(timeout):
            await up.wait()
    except TimeoutError:
        return False
    finally:
        distribution.unsubscribe(tell)
    return True

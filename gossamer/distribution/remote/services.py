"""Services that make a node's processes reachable from others, and queries about nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

from gossamer.distribution.distribution import Distribution
from gossamer.distribution.events import Event, NodeUp
from gossamer.distribution.remote.names import GLOBAL, GlobalNames, Names
from gossamer.distribution.remote.pg import PG, Groups, Pg
from gossamer.distribution.remote.remote import RemoteProcesses
from gossamer.distribution.remote.rpc import RPC, Rpc
from gossamer.errors import UsageError
from gossamer.supervisor import ChildSpec, Runtime, Supervisor


def remote_services(
    distribution: Distribution,
    *,
    functions: Mapping[str, Callable[..., object]] | None = None,
    groups: Groups | None = None,
) -> ChildSpec:
    """Return the spec of remote processes, ``rpc``, ``pg`` and names; start it after the distribution.

    ``functions`` can be called by other nodes by name, and are read at every call. ``groups`` is the view of
    the process groups, for users that read it directly.
    """
    if distribution.runtime.remote is None:
        RemoteProcesses(distribution)
    router = distribution.runtime.remote
    names = Names()
    if isinstance(router, RemoteProcesses):
        router.names = names
    children = [
        ChildSpec("rpc", partial(Rpc.start_link, functions, name=RPC, label="rpc")),
        ChildSpec("pg", partial(Pg.start_link, distribution, groups or Groups(), name=PG, label="pg")),
        ChildSpec(
            "global", partial(GlobalNames.start_link, distribution, names, name=GLOBAL, label="global")
        ),
    ]
    start = partial(Supervisor.start_link, children, label="remote processes")
    return ChildSpec("remote", start, type="supervisor")


def _distribution() -> Distribution:
    runtime = Runtime.current()
    if isinstance(runtime.remote, RemoteProcesses):
        return runtime.remote.distribution
    raise UsageError(f"node {runtime.node} is not distributed; expected RemoteProcesses() to be made for it")


def node() -> str:
    """Return the name of this node."""
    return Runtime.current().node


def nodes() -> list[str]:
    """Return the other nodes that are up."""
    return _distribution().nodes()


async def connect_node(name: str, timeout: float = 5.0) -> bool:
    """Wait until ``name``, a member, is up; return False at the timeout.

    Discovery decides which nodes are members: a process cannot dial.
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

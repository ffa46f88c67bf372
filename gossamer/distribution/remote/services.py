"""What makes a node's processes reachable from others, as one child of its supervision tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from gossamer.distribution.distribution import Distribution
from gossamer.distribution.remote.holdings import Names
from gossamer.distribution.remote.names import GLOBAL, GlobalNames
from gossamer.distribution.remote.pg import PG, Groups, Pg
from gossamer.distribution.remote.remote import RemoteProcesses
from gossamer.distribution.remote.rpc import RPC, Rpc
from gossamer.supervisor import ChildSpec, Supervisor

__all__ = ["remote_services"]


def remote_services(
    distribution: Distribution,
    *,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    groups: Groups | None = None,
) -> ChildSpec:
    """Remote processes, ``rpc``, ``pg`` and global names; start it after ``distribution.child_spec()``.

    ``functions`` is what other nodes may call here by name, read at every call. ``groups`` is the view of
    the process groups, for who wants to read it without asking.
    """
    if distribution.runtime.remote is None:
        RemoteProcesses(distribution)
    router = distribution.runtime.remote
    names = Names()
    if isinstance(router, RemoteProcesses):
        router.names = names
    children = [
        ChildSpec("rpc", partial(Rpc.start_link, functions, name=RPC, label="rpc")),
        ChildSpec(
            "pg",
            partial(
                Pg.start_link,
                distribution,
                Groups() if groups is None else groups,
                name=PG,
                label="pg",
            ),
        ),
        ChildSpec(
            "global", partial(GlobalNames.start_link, distribution, names, name=GLOBAL, label="global")
        ),
    ]
    start = partial(Supervisor.start_link, children, label="remote processes")
    return ChildSpec("remote", start, type="supervisor")

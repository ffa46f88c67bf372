"""Names that a quorum of nodes gives, as this floor knows them; ``gossamer.raft.names`` serves them."""

from __future__ import annotations

from typing import Protocol

from gossamer.errors import UsageError
from gossamer.supervisor import Pid, Runtime


class Consistent(Protocol):
    """Names that a quorum of nodes agrees on; see ``gossamer.raft.names``."""

    async def register(self, name: str, pid: Pid) -> int:
        """Register a name; return its fence, 0 if another process has it."""

    async def unregister(self, name: str) -> bool:
        """Give a name of this node's back; False if no process here has it."""

    async def whereis(self, name: str) -> tuple[Pid, int] | None:
        """Return who holds a name, and its fence."""


async def holder_of(name: str) -> tuple[Pid, int] | None:
    """Return the process that has a name registered with ``cp``, and its fence, as of now.

    Raises:
        UnavailableError: no quorum could be reached in time.
    """
    return await consistent().whereis(name)


def consistent() -> Consistent:
    """Return what serves them on this node. Raises UsageError where nothing does."""
    runtime = Runtime.current()
    serves = getattr(runtime.remote, "consistent", None)
    if serves is None:
        raise UsageError(f"node {runtime.node} serves no consensus; expected a node of a cluster")
    return serves  # type: ignore[no-any-return]

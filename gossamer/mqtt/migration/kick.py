"""Sending a client away, connection and session, on whichever nodes of the cluster they are.

All nodes are asked, not only the one that claims the session: it may be on its way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gossamer.distribution import Distribution
from gossamer.distribution import rpc as remote
from gossamer.errors import UnavailableError

__all__ = ["KICK", "KickError", "kick_everywhere"]

KICK = "mqtt.kick"
"""What other nodes call: ``SessionTable.kick``."""
CALL_WITHIN = 5.0


class KickError(UnavailableError):
    """A client is on none of the nodes that answered."""

    def __init__(self, *, client_id: str, silent: Sequence[str]) -> None:
        self.client_id = client_id
        self.silent = tuple(silent)
        super().__init__(
            f"client {client_id!r}: not found, and {', '.join(silent)} did not answer; try again once they do"
        )


async def kick_everywhere(kick: Callable[[str], bool], distribution: Distribution, client_id: str) -> bool:
    """End a client's connection and session; False where no node has them; ``kick`` does it here.

    Raises:
        KickError: it was found nowhere, but not every node has answered.
    """
    kicked = kick(client_id)
    answers = await remote.multicall(distribution.nodes(), KICK, client_id, timeout=CALL_WITHIN)
    silent = [node for node, answer in answers.items() if not isinstance(answer, remote.Returned)]
    kicked = kicked or any(
        isinstance(answer, remote.Returned) and answer.value is True for answer in answers.values()
    )
    if silent and not kicked:
        raise KickError(client_id=client_id, silent=silent)
    return kicked

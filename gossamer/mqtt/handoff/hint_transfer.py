"""Transfer of hints from a node that leaves the cluster to one that stays.

The hints of a node that leaves would be lost, and the nodes that are away would never get them. So before it
leaves it hands all of them to a member, which has them on disc before they are dropped here. The member keeps
them behind its own, and replays them to the node once that is back.

Rules: 1. Bounded: after :data:`TRANSFER_TIMEOUT` the node leaves, and logs how many hints no member took.  2.
Replay to a node that is back goes on; only if that goes down again the rest is handed over.  3. A member that
fails halfway may have taken what is offered to the next one as well: rather twice than never, and of QoS 2
the second copy is recognised (``qos2``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import structlog

from gossamer.distribution import rpc as remote
from gossamer.mqtt.handoff.hints import Moved

if TYPE_CHECKING:
    from gossamer.distribution import Distribution
    from gossamer.mqtt.handoff.keeper import HintKeeper

log = structlog.get_logger(__name__)

ADOPT = "mqtt.adopt"
CALL_TIMEOUT = 5.0
TRANSFER_TIMEOUT = 10.0
RETRY_INTERVAL = 0.25
PART_HINTS = 500
PART_BYTES = 512 * 1024


class HintTransfer:
    """Hands over this node's hints when it leaves, and adopts those of others.

    ``has_left(node)``: whether it has left permanently.
    """

    def __init__(
        self, keeper: HintKeeper, distribution: Distribution, *, has_left: Callable[[str], bool]
    ) -> None:
        self._keeper = keeper
        self._distribution = distribution
        self._has_left = has_left
        self.functions: dict[str, Callable[..., object]] = {ADOPT: self._adopt}
        """Functions that other nodes call, by name."""

    async def hand_over(self) -> None:
        """Hand the hints here to members that stay, for at most :data:`TRANSFER_TIMEOUT`."""
        hint_store = self._keeper.hint_store
        with suppress(TimeoutError):
            async with asyncio.timeout(TRANSFER_TIMEOUT):
                while kept_for := hint_store.kept_for:
                    done = [await self._hand_over(peer) for peer, away in kept_for.items() if away]
                    if not all(done) or len(done) < len(kept_for):
                        await asyncio.sleep(RETRY_INTERVAL)
        if left := hint_store.kept_for:
            messages = sum(hint_store.by_peer[peer].messages for peer in left)
            log.warning("hints_not_handed_over", peers=sorted(left), messages=messages)

    async def _hand_over(self, peer: str) -> bool:
        """Hand all hints for one node to a member, the next one if it fails; False: none took all of them."""
        for node in sorted(self._distribution.nodes()):
            messages = 0
            sessions, hints = self._keeper.sessions_of(peer), self._keeper.hint_store.hints(peer)
            _, _, moved, _ = await self._keeper.greeting(peer)
            for part in _parts(hints):
                answer = await remote.call(node, ADOPT, peer, sessions, part, moved, timeout=CALL_TIMEOUT)
                if not isinstance(answer, remote.Returned) or answer.value is not True:
                    break
                messages += self._keeper.hint_store.adopted(peer, part)
            else:
                log.info("hints_handed_over", peer=peer, to=node, messages=messages)
                return True
        return False

    async def _adopt(
        self, peer: str, sessions: list[object], hints: list[list[object]], moved: Moved
    ) -> bool:
        """Adopt hints for ``peer`` from a node that leaves; return once they are on disc. False: not here."""
        safe = asyncio.get_running_loop().create_future()
        if self._has_left(peer) or not self._keeper.adopt(peer, sessions, hints, moved, safe.set_result):
            return False
        return bool(await safe)


def _parts(hints: list[list[Any]]) -> Iterator[list[list[Any]]]:
    part: list[list[object]] = []
    size = 0
    for hint in hints:
        records = hint[2]
        if part and (len(part) >= PART_HINTS or size + len(records) > PART_BYTES):
            yield part
            part, size = [], 0
        part.append(hint)
        size += len(records)
    if part:
        yield part

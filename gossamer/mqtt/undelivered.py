"""What was forwarded and will not arrive, told to whoever records messages: which ones, and why.

A link does not take a record because the peer is too far behind (``congested``), gave up frames of it
(``gap``), or refused the frame (``refused``); or the peer is declared down (``peer_down``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gossamer.mqtt.idents import MARK, read_mark
from gossamer.mqtt.records import walk

if TYPE_CHECKING:
    from gossamer.mqtt.fanout import Fanout
    from gossamer.mqtt.ports import RouterLike

__all__ = ["tell_undelivered"]


def tell_undelivered(router: RouterLike, hub: Fanout) -> None:
    """Have ``hub.trail`` told from now on."""

    def dropped(peer: str, records: bytes, reason: str, kept: bool) -> None:
        trail = hub.trail
        if trail is None or MARK not in records:
            return
        idents = [
            read_mark(record, 0)[0].ident
            for qos, topic, record in walk(records)
            # What lasting sessions there want is kept for them (``keeping``).
            if record[:1] == MARK and not (kept and qos and router.awaits(peer, topic))
        ]
        if idents:
            trail.refused_by(peer, idents, reason)

    router.on_dropped(dropped)

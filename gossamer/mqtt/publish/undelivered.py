"""What was forwarded and will not arrive, told to whoever records messages: which ones, and why.

A link does not take a record because the peer is too far behind (``congested``), gave up frames of it
(``gap``), or refused the frame (``refused``); or the peer is declared down (``peer_down``). And what was kept
for a peer that was away (``spool``): there was no room (``away_overflow``), it came back without its sessions
(``away_sessions_lost``) or is gone for good (``away_removed``), or the message was too old by then
(``expired``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gossamer.mqtt.messages.message_ids import MARK, is_recorded, read_mark
from gossamer.mqtt.messages.records import walk
from gossamer.mqtt.publish.fanout import Fanout
from gossamer.routes import Router


def tell_undelivered(router: Router, hub: Fanout) -> None:
    """Have ``hub.trail`` told from now on."""

    def dropped(peer: str, records: bytes, reason: str, kept: bool) -> None:
        trail = hub.trail
        if trail is None or MARK not in records:
            return
        idents = [
            ident
            for qos, topic, record in walk(records)
            # What lasting sessions there want is kept for them (``keeping``).
            if record[:1] == MARK
            and is_recorded(ident := read_mark(record, 0)[0].ident)
            and not (kept and qos and router.awaits(peer, topic))
        ]
        if idents:
            trail.refused_by(peer, idents, reason)

    router.on_dropped(dropped)


def tell_lost(hub: Fanout, peer: str, records: Iterable[bytes], reason: str, left: bytes = b"") -> None:
    """What was kept for ``peer`` in ``records``, but for what is ``left``, goes."""
    trail = hub.trail
    if trail is None:
        return
    still = set(_idents(left))
    idents = [ident for each in records for ident in _idents(each) if ident not in still]
    if idents:
        trail.refused_by(peer, idents, reason if reason == "expired" else f"away_{reason}")


def _idents(records: bytes) -> Iterator[int]:
    """Of the messages that are recorded, and are kept."""
    if MARK in records:
        for qos, _, record in walk(records):
            if qos and record[:1] == MARK and is_recorded(ident := read_mark(record, 0)[0].ident):
                yield ident

"""What a node whose session went on elsewhere, from the copy that a quorum had, still has of it itself.

The other node began with the rows as they were in the copy. Rows have numbers, which grow, so the ends of
those in the copy say what it did not have. The token of the move has them; it is kept with the others
(``SessionState.moves``) and goes where the session goes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from gossamer.mqtt.session.durable import DurableSession
from gossamer.mqtt.session.in_flight import message_of
from gossamer.mqtt.session.session import Session
from gossamer.mqtt.session.state import Item
from gossamer.mqtt.session.store import COPIED, Stored
from gossamer.mqtt.session.transfer import item_of_message

_BORN = 8
"""Place of that in a session's own row."""


class Copied(NamedTuple):
    """A token: the node whose copy it was, and the ends of its numbers in the queue and in flight, each with
    the series of these numbers."""

    token: str
    node: str
    series: tuple[int, int]
    ends: tuple[int, int]


def token_of(stored: Stored, node: str) -> str:
    """Return the token of what a quorum had of a session of ``node``."""
    assert stored.facts is not None  # noqa: S101 - the store yields no others
    queue = stored.queue[-1][0] + 1 if stored.queue else 0
    flight = stored.inflight[-1][0] + 1 if stored.inflight else 0
    return COPIED + "/".join(map(str, (*stored.facts.series, queue, flight, node)))


def read_token(token: str) -> Copied | None:
    """Return what :func:`token_of` wrote; None: it is the token of another move."""
    if not token.startswith(COPIED):
        return None
    *numbers, node = token.removeprefix(COPIED).split("/", 4)
    first, second, queue, flight = map(int, numbers)
    return Copied(token, node, (first, second), (queue, flight))


def is_another(session: Session, facts: list[Any] | None) -> bool:
    """Return whether a copy, with these ``facts``, is of another session of that client, whose end nobody has
    asked for."""
    if facts is None or facts[_BORN] == session.born:
        return False
    return not (session.clean and session.born > facts[_BORN])


def note_successor(session: Session, moves: Iterable[str], node: str) -> None:
    """Note what another node has of a session of this ``node``, which went through ``moves`` since.

    It is as if this node had given it away then: what came later is left here, and queued.
    """
    if not isinstance(session, DurableSession):
        return
    for copied in reversed([one for one in map(read_token, moves) if one is not None]):
        same = [mine == theirs for mine, theirs in zip(session.series, copied.series, strict=True)]
        if copied.node == node and any(same):
            if copied.token != session.move:
                queue, flight = (end if known else 0 for end, known in zip(copied.ends, same, strict=True))
                _give(session, copied.token, queue, flight)
            # Those before it had less.
            return


def _give(session: DurableSession, token: str, queue: int, flight: int) -> None:
    given = min(max(0, queue - session.first), len(session.queue))
    left: list[Item] = []
    for packet_id, packet in list(session.inflight.items()):
        if packet[0] & 0xF0 == 0x30 and session.numbers[packet_id] >= flight:
            message_id = session.withdraw(packet_id)
            message = message_of(packet, session, message_id)
            item = item_of_message(message, session.version, session.fanout.now())
            if item is not None:
                left.append(item)
    items = list(session.queue)
    session.refill([*items[:given], *left, *items[given:]])
    session.given, session.move = given, token
    session.save()

"""Sessions: what two nodes remember of each other, and when both must forget.

A session is one node's memory of one peer instance: frame numbers, unacked frames, links and monitors across.
It outlives connections. It ends when the membership says that the peer is gone, or when the peer began a new
one, because a peer that forgot what it had received cannot be resumed. Forgetting must be mutual: if A
declared B down, A's processes saw ``noconnection``, and so must B's.

Each side names its session by a number drawn at its start. A caller's Hello carries its own session and, as
``yours``, the session of the called node as it knows it (0 while unknown). :func:`admit` decides for the
called node, in this order:

1. An older creation than the one known is refused: a ghost.
2. A newer creation proves that the known one is dead: a new session, then in.
3. ``yours`` is a session of ours that is over: refused, and the caller must begin a new one.
4. ``yours`` is unknown while we know another session of the caller: the caller forgot us, so we forget it.
5. Otherwise in; the caller's session is noted.

That this ends: only rules 3 and 4 begin sessions; after either, the Hello that follows names our current
session, so rule 5 applies. A session is *up*, and frames are handed over, once both directions are open; this
is what makes ``yours`` known on both sides whenever anything was exchanged.

Rejected: one connection used both ways, as Erlang does. It needs a tie-break for simultaneous connects and
couples both directions' flow control; two one-way links need neither.
"""

from __future__ import annotations

from enum import Enum, auto

from gossamer.distribution.wire import Hello

__all__ = ["Admission", "admit"]


class Admission(Enum):
    """What to do with a caller that proved that it knows the cookie."""

    ACCEPT = auto()
    """Let it in and note its session."""
    RENEW = auto()
    """End our session with it, begin a new one, then let it in."""
    STALE_CREATION = auto()
    """Refuse: a newer instance of that node is known."""
    STALE_SESSION = auto()
    """Refuse: it resumes a session of ours that is over."""


def admit(*, creation: int, session: int, theirs: int, hello: Hello) -> Admission:
    """Decide about ``hello``; we know the peer's ``creation``, our ``session`` and theirs (0: not yet)."""
    if hello.creation < creation:
        return Admission.STALE_CREATION
    if hello.creation > creation:
        return Admission.RENEW
    if hello.yours not in (0, session):
        return Admission.STALE_SESSION
    if hello.yours == 0 and theirs not in (0, hello.session):
        return Admission.RENEW
    return Admission.ACCEPT

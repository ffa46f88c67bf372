"""How a session goes from one node to another, as two machines: who gives it, and who takes it.

::

    taker (B)                          giver (A)
    ASKING       freeze ------------>  HELD -> FROZEN     its connection ends (0x8E); it goes on queueing
    SUBSCRIBING  <----------- state
                 B subscribes, until every node knows: publishers now send to A and to B
    MARKING      every node sends a mark to A and to B, in the stream of its messages:
                 A takes of each node what comes before its mark, B what comes after it
    RELEASING    release ---------->   FROZEN -> GIVEN    once all marks are there, or late
                 <------------ rest
    COMMITTING   all of it on B's disc
    DONE         B's row, epoch + 1 -> GONE               only now does A let go

So each message is taken by one of the two, whatever is on its way, and at every moment the session is whole
somewhere: with A until B's row is there, which B writes once it has it on disc.

Rules: 1. Pure: events in, with the time; actions out. Nothing waits without an end.  2. The epoch fences:
whoever sees a row with a higher one does not serve the client any more, whatever it was about to do.  3. The
giver thaws what nobody came for: at once when the taker is down, else after :data:`FROZEN`.  4. A taker that
gets no answer asks again while the giver is up, for a while, then starts anew: what the giver still has, it
offers once it is back (``takeover``).  5. What a machine does not admit is put aside, not thrown away: it is
the other's to queue, and the other may die.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import inf
from typing import Any

from gossamer.mqtt.migration import moves
from gossamer.mqtt.migration.moves import Action, Event
from gossamer.mqtt.session.transfer import rightful

MARK = "mqtt.mark"
"""What other nodes call: ``Takeovers.mark``."""
FROZEN = 15.0
MARKS_WITHIN = 3.0
ASKING_WITHIN = 20.0
"""Longer than :data:`FROZEN`: who waits for another taker sees how that ended."""
SILENT_WITHIN = 6.0
"""How long a giver that is said to be up may give no answer, or name one that is not known here."""
AGAIN = 0.05
NONE_TIMEOUT = 1.0
"""How long the claim of a node is waited for to go, or to be outbid, that says that it has no session."""


class Giver:
    """The node that has the session. ``up`` are the other nodes that can be reached."""

    HELD, FROZEN, GIVEN, GONE = range(4)

    def __init__(self) -> None:
        self.state = Giver.HELD
        self.token = ""
        self.taker = ""
        self.marked: set[str] = set()
        self.complete = False
        """It is the taker's, all of it."""
        self._thaw_at = 0.0
        self._release_by: float | None = None
        self._asked: frozenset[str] = frozenset()

    def admits(self, origin: str | None) -> bool:
        """Whether a message of ``origin`` is this node's to queue; blank: of this node, None: of a group."""
        return origin is None or self.state == Giver.HELD or origin not in self.marked

    def handle(self, event: Event, now: float, up: Collection[str]) -> list[Action]:
        """Something happened at the giver; what to do."""
        match event:
            case moves.Asked(token, taker):
                return self._freeze_for(token, taker, now, up)
            case moves.ReleaseAsked(token, asked):
                if self.state not in (Giver.FROZEN, Giver.GIVEN) or token != self.token:
                    return [moves.Refuse("none")]
                self._release_by = now + MARKS_WITHIN
                # Who came later is not waited for: it is about to load its routes, and serves nobody yet.
                self._asked = asked
                return self._give(now, up)
            case moves.Marked(origin, token):
                if token != self.token:
                    return []
                self.marked.add(origin)
                return self._give(now, up)
            case moves.Superseded(owner):
                if self.state == Giver.GONE:
                    return []
                self.complete = self.state == Giver.GIVEN and owner == self.taker
                self.state = Giver.GONE
                self._release_by = None
                return [moves.Done(self.complete)]
            case moves.NodeDown(node):
                if self.state in (Giver.FROZEN, Giver.GIVEN) and node == self.taker:
                    return self._thaw(doubtful=True)
                return self._give(now, up)
            case moves.Tick():
                if self.state in (Giver.FROZEN, Giver.GIVEN) and now >= self._thaw_at:
                    return self._thaw(doubtful=True)
                return self._give(now, up)
        return []

    def _freeze_for(self, token: str, taker: str, now: float, up: Collection[str]) -> list[Action]:
        if self.state == Giver.GONE:
            return [moves.Refuse("none")]
        actions: list[Action] = []
        if self.state != Giver.HELD:
            if self.taker in up and self.taker != taker:
                return [moves.Refuse("busy")]
            # Who was taking it is gone, or asks anew because its first question was lost.
            actions += self._thaw(doubtful=self.taker != taker)
        self.state = Giver.FROZEN
        self.token, self.taker = token, taker
        self.marked = set()
        self._release_by = None
        self._thaw_at = now + FROZEN
        return [*actions, moves.Freeze(token)]

    def _thaw(self, *, doubtful: bool) -> list[Action]:
        self.state = Giver.HELD
        self.token = self.taker = ""
        self._release_by = None
        return [moves.Thaw(doubtful)]

    def _give(self, now: float, up: Collection[str]) -> list[Action]:
        if self._release_by is None:
            return []
        if now < self._release_by and not {"", *self._asked.intersection(up)} <= self.marked:
            return []
        self._release_by = None
        self.state = Giver.GIVEN
        return [moves.Give()]


class Taker:
    """The node that the client came to. ``rows`` are the claims of other nodes that can be reached."""

    ASKING, SUBSCRIBING, MARKING, RELEASING, SETTLING, COMMITTING, DONE = range(7)

    def __init__(self, token: str, *, now: float) -> None:
        self.state = Taker.ASKING
        self.token = token
        self.giver = ""
        self.marked: set[str] = set()
        self.expected: set[str] = set()
        self.complete = True
        self.kept = False
        """The giver keeps it."""
        self._rest: Any = None
        self._ask_until = now + ASKING_WITHIN
        self._silent_since = inf
        self._none_until = inf
        self._settle_by = 0.0

    def admits(self, origin: str | None) -> bool:
        """Whether a message of ``origin`` is this node's to queue."""
        return origin is None or self.state >= Taker.COMMITTING or origin in self.marked

    def begin(self, now: float, rows: Mapping[str, int]) -> list[Action]:
        """Look where the session is."""
        node = rightful(rows)
        if node is None or now >= self._ask_until:
            # Nobody has it that can be asked.
            self.state = Taker.DONE
            return [moves.Done(complete=node is None)]
        self.giver = node
        return [moves.AskFreeze(node)]

    def handle(self, event: Event, now: float, rows: Mapping[str, int]) -> list[Action]:
        """Something happened at the taker; what to do."""
        match event, self.state:
            case moves.Answered("state", state), Taker.ASKING:
                self.state = Taker.SUBSCRIBING
                return [moves.Install(state)]
            case moves.Answered("kept"), Taker.ASKING:
                self.state = Taker.DONE
                self.kept = True
                return [moves.Done()]
            case moves.Answered("none"), Taker.ASKING:
                # Its row has not gone yet, or a better one has not come yet.
                rest = {node: epoch for node, epoch in rows.items() if node != self.giver}
                self._none_until = min(self._none_until, now + NONE_TIMEOUT)
                if not rest and self.giver in rows and now < self._none_until:
                    return [moves.Wait(now + AGAIN)]
                return self.begin(now, rest)
            case moves.Answered("ended"), Taker.ASKING:
                return self.begin(now, {node: rows[node] for node in rows if node != self.giver})
            case moves.Answered(answer), Taker.ASKING:
                # Outbid: by a claim that is not known here yet, or whose node cannot be reached from here.
                if answer in ("unreachable", "outbid"):
                    self._silent_since = min(self._silent_since, now)
                    if now >= self._silent_since + SILENT_WITHIN:
                        self._ask_until = now
                return [moves.Wait(now + AGAIN)]
            case moves.Tick(), Taker.ASKING:
                return self.begin(now, rows)
            case moves.Installed(), Taker.SUBSCRIBING:
                self.state = Taker.MARKING
                return [moves.SendMarks()]
            case moves.MarksSent(nodes), Taker.MARKING:
                self.state = Taker.RELEASING
                self.expected = {"", *nodes}
                return [moves.AskRelease(self.giver)]
            case moves.Released(rest), Taker.RELEASING:
                self.state = Taker.SETTLING
                self.complete = rest is not None
                self._rest = rest
                self._settle_by = now + MARKS_WITHIN
                return self._settle(now)
            case moves.Marked(origin, token), _:
                if token == self.token:
                    self.marked.add(origin)
                return self._settle(now)
            case moves.NodeDown(node), _:
                self.expected.discard(node)
                return self._settle(now)
            case moves.Tick(), _:
                return self._settle(now)
            case moves.Committed(), Taker.COMMITTING:
                self.state = Taker.DONE
                return [moves.Own(), moves.Done(self.complete)]
        return []

    def _settle(self, now: float) -> list[Action]:
        """Once of every node what comes before its mark is here, and so is at the giver."""
        if self.state != Taker.SETTLING or (now < self._settle_by and not self.expected <= self.marked):
            return []
        self.state = Taker.COMMITTING
        return [moves.Commit(self._rest)]

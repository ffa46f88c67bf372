"""Migration of a session from one node to another, as two machines: a source and a target.

::

    target (B)                         source (A)
    ASKING       freeze ------------>  HELD -> FROZEN     its connection ends (0x8E); it goes on queueing
    SUBSCRIBING  <----------- state
                 B subscribes, until every node has its subscriptions: publishers now send to A and to B
    MARKING      every node sends a mark to A and to B, in the stream of its messages:
                 A takes of each node what comes before its mark, B what comes after it
    RELEASING    release ---------->   FROZEN -> GIVEN    once all marks are there, or late
                 <------------ rest
    COMMITTING   all of it on B's disc
    DONE         B's row, epoch + 1 -> GONE               only now does A let go

So each message is queued by one of the two, whatever is in transit, and at every moment one of them has the
whole session: A until B's row is there, which B writes once the session is on its disc.

Rules: 1. Pure: events in, with the time; actions out. Every wait is bounded.  2. The epoch fences: a node
that sees a row with a higher one stops serving the client, whatever it was about to do.  3. The source thaws
a session that is not fetched: at once when the target is down, else after :data:`FROZEN` seconds.  4. A
target without an answer asks again while the source is up, at most for :data:`SILENCE_TIMEOUT`, then creates
a session; the source offers what it still has once it is back (``superseded``).  5. A message that a machine
does not admit is set aside, not dropped: it is the other's to queue, and the other may die.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import inf

from gossamer.mqtt.migration import moves
from gossamer.mqtt.migration.moves import Action, Event
from gossamer.mqtt.session.transfer import rightful

MARK = "mqtt.mark"
"""Name of :meth:`Takeovers.mark` for other nodes."""
FROZEN = 15.0
MARK_TIMEOUT = 3.0
ASK_TIMEOUT = 20.0
"""Longer than :data:`FROZEN`: a node that waits for another target sees how that ended."""
SILENCE_TIMEOUT = 6.0
"""Seconds for which a source that is up may not answer, or be outbid by a claim that is not seen here."""
RETRY_INTERVAL = 0.05
NONE_TIMEOUT = 1.0
"""Seconds that the claim of a node without the session has to be withdrawn or outbid."""


class MigrationSource:
    """State machine of the node that has the session. ``up`` are the other nodes that can be reached."""

    HELD, FROZEN, GIVEN, GONE = range(4)

    def __init__(self) -> None:
        self.state = self.HELD
        self.token = ""
        self.target = ""
        self.marked: set[str] = set()
        self.complete = False
        """The target has the whole session."""
        self._thaw_at = 0.0
        self._release_by: float | None = None
        self._asked: frozenset[str] = frozenset()

    def admits(self, origin: str | None) -> bool:
        """Return whether to queue a message of ``origin`` here; blank: this node, None: a share group."""
        return origin is None or self.state == self.HELD or origin not in self.marked

    def handle(self, event: Event, now: float, up: Collection[str]) -> list[Action]:
        """Handle an event at the source; return the actions to carry out."""
        match event:
            case moves.Asked(token, target):
                return self._freeze_for(token, target, now, up)
            case moves.ReleaseAsked(token, asked):
                if self.state not in (self.FROZEN, self.GIVEN) or token != self.token:
                    return [moves.Refuse("none")]
                self._release_by = now + MARK_TIMEOUT
                # A node that came later is not waited for: it still loads its routes, and serves no clients.
                self._asked = asked
                return self._give(now, up)
            case moves.Marked(origin, token):
                if token != self.token:
                    return []
                self.marked.add(origin)
                return self._give(now, up)
            case moves.Superseded(owner):
                if self.state == self.GONE:
                    return []
                self.complete = self.state == self.GIVEN and owner == self.target
                self.state = self.GONE
                self._release_by = None
                return [moves.Done(self.complete)]
            case moves.NodeDown(node):
                if self.state in (self.FROZEN, self.GIVEN) and node == self.target:
                    return self._thaw(doubtful=True)
                return self._give(now, up)
            case moves.Tick():
                if self.state in (self.FROZEN, self.GIVEN) and now >= self._thaw_at:
                    return self._thaw(doubtful=True)
                return self._give(now, up)
        return []

    def _freeze_for(self, token: str, target: str, now: float, up: Collection[str]) -> list[Action]:
        if self.state == self.GONE:
            return [moves.Refuse("none")]
        actions: list[Action] = []
        if self.state != self.HELD:
            if self.target in up and self.target != target:
                return [moves.Refuse("busy")]
            # The target is down, or asks again because its first request was lost.
            actions += self._thaw(doubtful=self.target != target)
        self.state = self.FROZEN
        self.token, self.target = token, target
        self.marked = set()
        self._release_by = None
        self._thaw_at = now + FROZEN
        return [*actions, moves.Freeze(token)]

    def _thaw(self, *, doubtful: bool) -> list[Action]:
        self.state = self.HELD
        self.token = self.target = ""
        self._release_by = None
        return [moves.Thaw(doubtful)]

    def _give(self, now: float, up: Collection[str]) -> list[Action]:
        if self._release_by is None:
            return []
        if now < self._release_by and not {"", *self._asked.intersection(up)} <= self.marked:
            return []
        self._release_by = None
        self.state = self.GIVEN
        return [moves.Give()]


class MigrationTarget:
    """State machine of the node that the client came to. ``rows``: claims of other nodes within reach."""

    ASKING, SUBSCRIBING, MARKING, RELEASING, SETTLING, COMMITTING, DONE = range(7)

    def __init__(self, token: str, *, now: float) -> None:
        self.state = self.ASKING
        self.token = token
        self.source = ""
        self.marked: set[str] = set()
        self.expected: set[str] = set()
        self.complete = True
        self.kept = False
        """The session stays at the source."""
        self._rest: object = None
        self._ask_until = now + ASK_TIMEOUT
        self._silent_since = inf
        self._none_until = inf
        self._settle_by = 0.0

    def admits(self, origin: str | None) -> bool:
        """Return whether to queue a message of ``origin`` here; blank: this node, None: a share group."""
        return origin is None or self.state >= self.COMMITTING or origin in self.marked

    def begin(self, now: float, rows: Mapping[str, int]) -> list[Action]:
        """Ask the node with the highest claim; without one, or out of time, end without a session."""
        node = rightful(rows)
        if node is None or now >= self._ask_until:
            # No node that has it can be asked.
            self.state = self.DONE
            return [moves.Done(complete=node is None)]
        self.source = node
        return [moves.AskFreeze(node)]

    def handle(self, event: Event, now: float, rows: Mapping[str, int]) -> list[Action]:
        """Handle an event at the target; return the actions to carry out."""
        match event, self.state:
            case moves.Answered("state", state), MigrationTarget.ASKING:
                self.state = self.SUBSCRIBING
                return [moves.Install(state)]
            case moves.Answered("kept"), MigrationTarget.ASKING:
                self.state = self.DONE
                self.kept = True
                return [moves.Done()]
            case moves.Answered("none"), MigrationTarget.ASKING:
                # Its row has not gone yet, or a higher one has not come yet.
                rest = {node: epoch for node, epoch in rows.items() if node != self.source}
                self._none_until = min(self._none_until, now + NONE_TIMEOUT)
                if not rest and self.source in rows and now < self._none_until:
                    return [moves.Wait(now + RETRY_INTERVAL)]
                return self.begin(now, rest)
            case moves.Answered("ended"), MigrationTarget.ASKING:
                return self.begin(now, {node: rows[node] for node in rows if node != self.source})
            case moves.Answered(answer), MigrationTarget.ASKING:
                # Outbid: by a claim that has not come here yet, or whose node cannot be reached from here.
                if answer in ("unreachable", "outbid"):
                    self._silent_since = min(self._silent_since, now)
                    if now >= self._silent_since + SILENCE_TIMEOUT:
                        self._ask_until = now
                return [moves.Wait(now + RETRY_INTERVAL)]
            case moves.Tick(), MigrationTarget.ASKING:
                return self.begin(now, rows)
            case moves.Installed(), MigrationTarget.SUBSCRIBING:
                self.state = self.MARKING
                return [moves.SendMarks()]
            case moves.MarksSent(nodes), MigrationTarget.MARKING:
                self.state = self.RELEASING
                self.expected = {"", *nodes}
                return [moves.AskRelease(self.source)]
            case moves.Released(rest), MigrationTarget.RELEASING:
                self.state = self.SETTLING
                self.complete = rest is not None
                self._rest = rest
                self._settle_by = now + MARK_TIMEOUT
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
            case moves.Committed(), MigrationTarget.COMMITTING:
                self.state = self.DONE
                return [moves.Own(), moves.Done(self.complete)]
        return []

    def _settle(self, now: float) -> list[Action]:
        """Commit once the marks of all nodes are here, or :data:`MARK_TIMEOUT` after the release."""
        if self.state != self.SETTLING or (now < self._settle_by and not self.expected <= self.marked):
            return []
        self.state = self.COMMITTING
        return [moves.Commit(self._rest)]

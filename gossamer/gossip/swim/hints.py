"""Partition hints: signs that the network, and not a member, is at fault.

Rules: 1. A hint carries its evidence and decides nothing.  2. The same kind is given at most once in
``quiet`` seconds.  3. Counters count consecutive findings; one good answer clears them.  4. A voluntary leave
is no evidence, and a node that is leaving gives no hints.

=============  ====================================================================================
minority       fewer members are alive than a quorum of the last settled view
burst          many suspicions at once while this node is healthy
own-link       probes fail and no helper answers either, for several targets in a row
partial        helpers reach a member again and again that this node does not
udp-blocked    only streams reach a member
accused        this node refuted its own death, reported by a member that it had never lost
healed-split   this node and its accuser considered each other down
view-mismatch  an exchange of tables brought news long after the view had settled
=============  ====================================================================================
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Literal

from gossamer.gossip.member import HintKind, PartitionHint

Path = Literal["direct", "helper", "stream"]
"""Path on which a probe was answered."""

_WORDS: dict[HintKind, str] = {
    "minority": "only {alive} of {of} members are reachable, fewer than the quorum of {quorum}: "
    "this side of a split is probably the smaller one",
    "burst": "{count} of {of} members fell silent together while this node is well: "
    "the network between them and this node has probably failed ({names})",
    "own-link": "neither {names} nor any helper answers: this node's own link has probably failed",
    "partial": "{member} answers others but not this node: the path between the two is cut",
    "udp-blocked": "{member} answers on TCP only: UDP is blocked on the way",
    "accused": "{by} held this node for dead although it runs: "
    "it does not hear this node, or this node stood still",
    "healed-split": "this node and {by} held each other for dead: the network was split and has healed",
    "view-mismatch": "another member knew something else about {names} for {settled_for} s: "
    "gossip does not reach everybody",
}


def explain(hint: PartitionHint) -> str:
    """Describe a hint."""
    names = [str(name) for key in ("suspected", "unreachable", "members") for name in _list(hint, key)]
    facts = {**hint.evidence, "count": len(names), "names": ", ".join(names)}
    return _WORDS[hint.kind].format_map(facts)


def _list(hint: PartitionHint, key: str) -> list[object]:
    value = hint.evidence.get(key)
    return value if isinstance(value, list) else []


_BURST_WINDOW = 3.0
_REPEATS = 3
_SPREAD = 5.0
"""Seconds in which gossip safely reaches all members."""
_TRACKED = 1024


class PartitionHints:
    """Turns findings of the other parts into hints, passed to ``emit``."""

    def __init__(
        self, emit: Callable[[PartitionHint], None], *, settle: float = 10.0, quiet: float = 30.0
    ) -> None:
        self._emit = emit
        self._settle = settle
        self._quiet = quiet
        self._given: dict[str, float] = {}
        self._suspected: deque[tuple[float, str]] = deque(maxlen=_TRACKED)
        self._alone: deque[str] = deque(maxlen=_REPEATS)
        self._indirect: dict[str, int] = {}
        self._stream_only: dict[str, int] = {}
        self._settled = 1
        self._size = 1
        self._size_since = 0.0
        self._withdrawn = False

    def withdraw(self) -> None:
        """Stop giving hints while this node leaves or is standalone, until it joins again."""
        self._withdrawn = True

    def begin(self, now: float) -> None:
        """Restart after this node was alone, or joins again: discard earlier findings."""
        self._withdrawn = False
        self._suspected.clear()
        self._alone.clear()
        self._indirect.clear()
        self._stream_only.clear()
        self._settled = self._size = 1
        self._size_since = now

    def sized(self, size: int, now: float) -> None:
        """Record the number of live members, this node included."""
        if size == self._size:
            return
        self._settle_down(now)
        self._settled = max(self._settled, size)
        self._size, self._size_since = size, now
        quorum = self._settled // 2 + 1
        if size < quorum:
            self._give("minority", now, alive=size, of=self._settled, quorum=quorum)

    def left(self, now: float, *, live: bool) -> None:
        """Shrink the settled view after a voluntary leave; ``live``: the member was up until then."""
        self._settle_down(now)
        if live:
            # So that the change of size does not count as a loss.
            self._size = max(1, self._size - 1)
        self._settled = max(self._size, self._settled - 1)

    def _settle_down(self, now: float) -> None:
        if now - self._size_since >= self._settle:
            self._settled = self._size

    def suspected(self, name: str, *, size: int, score: int, now: float) -> None:
        """Record that a member became suspect."""
        self._suspected.append((now, name))
        while self._suspected[0][0] < now - _BURST_WINDOW:
            self._suspected.popleft()
        names = sorted({name for _, name in self._suspected})
        if len(names) >= max(3, size // 4) and score <= 1:
            self._give("burst", now, suspected=names, of=size, own_health=score)

    def unanswered(self, name: str, *, helpers: int, nacks: int, now: float) -> None:
        """Record a failed probe."""
        if not helpers:
            return
        if nacks:
            self._alone.clear()
            return
        if name not in self._alone:
            self._alone.append(name)
        if len(self._alone) >= 2:
            self._give("own-link", now, unreachable=list(self._alone))

    def answered(self, name: str, path: Path, now: float) -> None:
        """Record a probe that succeeded over ``path``."""
        if path != "stream":
            self._alone.clear()
        if path == "direct":
            if self._indirect or self._stream_only:
                self._indirect.pop(name, None)
                self._stream_only.pop(name, None)
            return
        counts = self._indirect if path == "helper" else self._stream_only
        if len(counts) >= _TRACKED:
            counts.clear()
        counts[name] = counts.get(name, 0) + 1
        if counts[name] >= _REPEATS:
            self._give(
                "partial" if path == "helper" else "udp-blocked", now, member=name, probes=counts[name]
            )

    def accused(self, by: str, *, mutual: bool, now: float) -> None:
        """Record that this node refuted its own death; ``mutual``: it considered its accuser down too."""
        self._give("healed-split" if mutual else "accused", now, by=by)

    def surprised(self, news: dict[str, float], *, settled_for: float, now: float) -> None:
        """Record that an exchange brought news of members after the view had settled.

        ``news``: the age of each in seconds at the other side. Fresh news is still in flight to this node.
        """
        names = sorted(name for name, age in news.items() if age >= _SPREAD)
        if settled_for >= self._settle and names:
            self._give("view-mismatch", now, members=names, settled_for=round(settled_for, 1))

    def _give(self, kind: HintKind, now: float, **evidence: object) -> None:
        if self._withdrawn:
            return
        last = self._given.get(kind)
        if last is not None and now - last < self._quiet:
            return
        self._given[kind] = now
        self._emit(PartitionHint(kind, dict(evidence)))

"""A drill of the running cluster: its nodes are partitioned by their own fault gates, for a bounded time.

::

    send every node its faults, their start and duration ─▶ the cut ─▶ gates open by themselves
    ─▶ wait until all nodes see each other and no split is open ─▶ collect the events of all nodes ─▶ verdicts

Rules: 1. No node is cut before all have accepted the faults; one that cannot be reached, or has no gate, ends
the drill before it begins.  2. The end of the cut is sent with its beginning, and each node keeps it by its
own clock: the node that runs the drill may be dead by then, and no node can be reached through the cut.
3. Clients and the HTTP API do not pass the gates. Nothing is killed, and no load is made: the cluster has its
own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import msgspec

from gossamer.api.jobs.drill_plan import (
    DrillMark,
    DrillProgress,
    DrillRequest,
    DrillResult,
    DrillSide,
    DrillVerdict,
    shape_of,
)
from gossamer.api.model.base import Value
from gossamer.api.peers.requests import PeerSilentError
from gossamer.api.peers.scatter_gather import Peers
from gossamer.errors import UnavailableError, UsageError
from gossamer.files import replace_file

BEGIN_IN = 2.0
"""Seconds from sending the faults to the cut: all nodes have accepted them by then, or none is cut."""
KNOWN_WITHIN = 5.0
WHOLE_WITHIN = 60.0
HEAL_TIMEOUT = 120.0
"""Seconds after the cut for the cluster to recover."""
ANSWER_TIMEOUT = 2.0
LOOK_INTERVAL = 0.5
QUIET = 3.0
"""Seconds without an open split: a heal begins a little after the links are back."""
_FAULTS = "/api/v1/drill/faults"
_decode = msgspec.json.Decoder(dict[str, object]).decode


def orders_of(names: Sequence[str], cuts: Iterable[tuple[int, int]]) -> dict[str, list[dict[str, object]]]:
    """Return the faults of each node, by its name, that keep messages of the first from the second."""
    orders: dict[str, list[dict[str, object]]] = {name: [] for name in names}
    for one, other in sorted(cuts):
        source, target = names[one - 1], names[other - 1]
        orders[source].append({"peer": target, "direction": "out", "cut": True})
        # Who opened an incoming connection is not known there: each end holds back its own.
        orders[target].append({"peer": source, "direction": "in", "cut": True})
    return orders


class ClusterDrill:
    """One drill of ``names``, the nodes of this cluster in order; the split numbers them from 1.

    ``apart`` returns what keeps the cluster from being whole, empty if nothing does.
    """

    def __init__(
        self,
        order: DrillRequest,
        names: Sequence[str],
        *,
        peers: Peers,
        now: Callable[[], float],
        apart: Callable[[], str],
    ) -> None:
        """Raises ShapeError if the split is none of so many nodes."""
        shape = shape_of(order, len(names))
        self._shape, self._cuts = shape.text, shape.cuts
        self._sides = [tuple(names[number - 1] for number in side) for side in shape.sides]
        self._names = names
        self._seconds = order.seconds
        self._peers = peers
        self._now = now
        self._apart = apart

    async def begin(self) -> None:
        """Send every node its faults.

        Raises:
            UsageError: a node is missing.
            UnavailableError: one takes no faults; those that had accepted theirs have dropped them.
        """
        if missing := self._apart():
            raise UsageError(f"got a cluster that is not whole ({missing}), expected one that can be parted")
        told = []
        for name, faults in orders_of(self._names, self._cuts).items():
            told.append(name)
            why = await self._tell(name, {"faults": faults, "seconds": self._seconds, "begin_in": BEGIN_IN})
            if why:
                await self.end(told)
                raise UnavailableError(f"{name} cannot be drilled: {why}; no node was cut off")

    async def end(self, names: Sequence[str] | None = None) -> None:
        """Open the gates of the nodes that can be reached; the others open by themselves."""
        await asyncio.gather(*(self._tell(name, {"faults": []}) for name in names or self._names))

    async def watch(self, directory: Path) -> bool:
        """Run to the verdicts, write them to ``directory/result.json``; return whether all were kept."""
        zero = self._now()
        cut, mended = BEGIN_IN, BEGIN_IN + self._seconds
        progress = directory / "progress.json"
        try:
            await _write(progress, self._progress("split", zero))
            await asyncio.sleep(mended)
            await _write(progress, self._progress("heal", zero))
            whole = await self._until_whole(zero)
            marks = await self._marks(zero)
        except BaseException:
            # Stopped: nobody waits for it any more.
            await self.end()
            raise
        verdicts = verdicts_of(marks, self._sides, whole=whole, cut=cut, mended=mended, shape=self._shape)
        broken = sum(one.kept is False for one in verdicts)
        result = DrillResult(
            words=f"{broken} promises were broken." if broken else "All promises were kept.",
            happened=f"The nodes of this cluster were cut {self._shape} for {self._seconds:g} s.",
            verdicts=tuple(verdicts),
            figures=_figures(marks, mended=mended, whole=whole),
        )
        await _write(progress, self._progress("done", zero, marks))
        await _write(directory / "result.json", result)
        return not broken

    # -- inside

    async def _tell(self, name: str, body: Mapping[str, object]) -> str:
        """Send a node its faults; return why it refused, empty if it accepted."""
        try:
            answer = await self._peers.ask(
                name, "PUT", _FAULTS, msgspec.json.encode(body), timeout=ANSWER_TIMEOUT
            )
        except PeerSilentError as error:
            return error.reason
        if answer.status == 200:
            return ""
        try:
            return str(_decode(answer.body)["detail"])
        except (msgspec.DecodeError, KeyError):
            return f"it answered {answer.status}"

    async def _get(self, name: str, path: str) -> dict[str, Any] | None:
        try:
            return await self._peers.get(name, path, _decode, timeout=ANSWER_TIMEOUT)
        except PeerSilentError:
            return None

    async def _until_whole(self, zero: float) -> float | None:
        """Return when all nodes saw each other again with no open split, None if not in time."""
        end, since = self._now() + HEAL_TIMEOUT, self._now()
        while self._now() < end:
            if not all(await asyncio.gather(*map(self._as_before, self._names))):
                since = self._now() + LOOK_INTERVAL
            elif self._now() - since >= QUIET:
                return since - zero
            await asyncio.sleep(LOOK_INTERVAL)
        return None

    async def _as_before(self, name: str) -> bool:
        pulse, status = await self._get(name, "/api/v1/pulse"), await self._get(name, "/api/v1/autoheal")
        if pulse is None or status is None:
            return False
        sees = pulse["sees"]
        linked = all(
            (seen := sees.get(other, {})).get("status") == "online" and seen.get("link") in ("up", "self")
            for other in self._names
        )
        # A node that heals nothing has splits open for as long as it lives.
        healed = status["autoheal"] is None or (not status["open"] and status["phase"] == "idle")
        return linked and healed

    async def _marks(self, zero: float) -> list[DrillMark]:
        """Return the events of every node since, in order of time."""
        marks = [
            DrillMark(at=BEGIN_IN, node="", kind="fault applied", detail=f"cut {self._shape}"),
            DrillMark(at=BEGIN_IN + self._seconds, node="", kind="fault lifted"),
        ]
        for name in self._names:
            told = await self._get(name, "/api/v1/events?limit=10000")
            here = self._now() - zero
            marks += (
                DrillMark(
                    at=round(here - event["age"], 2),
                    node=name,
                    kind=event["kind"],
                    peer=event["peer"],
                    detail=event["text"],
                )
                for event in (() if told is None else told["items"])
                if here >= event["age"]
            )
        return sorted(marks, key=lambda mark: mark.at)

    def _progress(self, step: str, zero: float, marks: Sequence[DrillMark] = ()) -> DrillProgress:
        sides = (
            DrillSide(name=",".join(name.partition("@")[0] for name in side), nodes=side)
            for side in self._sides
        )
        at = round(self._now() - zero, 2)
        return DrillProgress(step=step, at=at, sides=tuple(sides), marks=tuple(marks[-60:]))


def verdicts_of(
    marks: Sequence[DrillMark],
    sides: Sequence[Sequence[str]],
    *,
    whole: float | None,
    cut: float,
    mended: float,
    shape: str,
) -> list[DrillVerdict]:
    """Judge what is promised of a cluster that has its own load. Times are the drill's."""
    side_of = {name: number for number, side in enumerate(sides) for name in side}
    first: dict[tuple[int, int], float] = {}
    for mark in marks:
        pair = (side_of.get(mark.node, -1), side_of.get(mark.peer, -1))
        if mark.kind == "down" and cut <= mark.at <= mended and -1 not in pair and pair[0] != pair[1]:
            first.setdefault(pair, mark.at - cut)
    kept = None
    if "/" not in shape:
        got = "nodes still reach each other through others"
    elif mended - cut < KNOWN_WITHIN:
        got = "the cut was shorter than that"
    elif all(pair in first for pair in permutations(range(len(sides)), 2)):
        last = max(first.values())
        kept, got = last <= KNOWN_WITHIN, f"{last:.1f} s"
    else:
        kept, got = False, "some side never did"
    after = None if whole is None else max(0.0, whole - mended)
    return [
        DrillVerdict(
            promise=f"All sides know of the split within {KNOWN_WITHIN:g} s",
            kept=kept,
            expected=f"≤ {KNOWN_WITHIN:g} s",
            got=got,
        ),
        DrillVerdict(
            promise=f"All nodes see each other again, healed, within {WHOLE_WITHIN:g} s",
            kept=after is not None and after <= WHOLE_WITHIN,
            expected=f"≤ {WHOLE_WITHIN:g} s",
            got="never" if after is None else f"{after:.1f} s",
        ),
    ]


def _figures(
    marks: Sequence[DrillMark], *, mended: float, whole: float | None
) -> tuple[tuple[str, str, str], ...]:
    downs = sum(mark.kind == "down" for mark in marks)
    healed = len({mark.detail for mark in marks if mark.kind == "healed"})
    back = "never" if whole is None else f"{max(0.0, whole - mended):.1f} s"
    return (
        ("Connectivity back to all as before", back, ""),
        ("Nodes held for dead", f"{downs}", "counted at each node"),
        ("Splits healed", f"{healed}", ""),
    )


async def _write(file: Path, content: Value) -> None:
    await asyncio.to_thread(replace_file, file, content.model_dump_json().encode(), durable=False)

"""A drill of the cluster that answers: its nodes are parted by their own gates, for a time set before.

::

    tell every node what it shall not hear, from when, for how long ─▶ the cut ─▶ gates open by themselves
    ─▶ wait until all see all and no split is open ─▶ ask every node what it noticed, and when ─▶ verdicts

Rules: 1. Nobody is cut before all have been told; who cannot be told, or has no gate, ends the drill before
it began.  2. The end of the cut is told with its beginning, and each node keeps it by its own clock: who
ordered the drill may be dead by then, and nobody can be reached through the cut.  3. Clients and the HTTP API
do not pass the gates. Nothing is killed, and no load is made: the cluster has its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from gossamer.api.jobs.drill_plan import DrillRequest
from gossamer.api.peers.requests import PeerSilentError
from gossamer.api.peers.scatter_gather import Peers
from gossamer.errors import UnavailableError, UsageError
from gossamer.faults import parse_shape, sides_of

__all__ = ["ClusterDrill", "orders_of", "verdicts_of"]

BEGIN_IN = 2.0
"""Seconds from telling the nodes to the cut: all of them have been told by then, or none is cut."""
KNOWN_WITHIN = 5.0
WHOLE_WITHIN = 60.0
HEAL_TIMEOUT = 120.0
"""Seconds after the cut in which everything may become as before."""
ANSWER_TIMEOUT = 2.0
LOOK_INTERVAL = 0.5
QUIET = 3.0
"""Seconds for which nothing may be open: a heal begins a little after the links are back."""
_FAULTS = "/api/v1/drill/faults"


def orders_of(names: Sequence[str], cuts: Iterable[tuple[int, int]]) -> dict[str, list[dict[str, Any]]]:
    """What each node is to be told, by its name, for what the first says not to reach the second."""
    orders: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for one, other in sorted(cuts):
        source, target = names[one - 1], names[other - 1]
        orders[source].append({"peer": target, "direction": "out", "cut": True})
        # Who opened an incoming connection is not known there: each end holds back its own.
        orders[target].append({"peer": source, "direction": "in", "cut": True})
    return orders


@dataclass(slots=True)
class ClusterDrill:
    """One drill of ``names``, the nodes of this cluster in order; ``shape`` numbers them from 1."""

    peers: Peers
    names: tuple[str, ...]
    order: DrillRequest
    shape: str
    now: Callable[[], float]
    apart: Callable[[], str]
    """What keeps this node's cluster from being whole, empty when nothing does."""

    @classmethod
    def of(
        cls,
        order: DrillRequest,
        names: Sequence[str],
        *,
        peers: Peers,
        now: Callable[[], float],
        apart: Callable[[], str],
    ) -> ClusterDrill:
        """Raises ShapeError if the split is none of so many nodes."""
        number = len(names)
        shape = parse_shape(order.split or f"{number - number // 2}/{number // 2}", number)
        return cls(peers, tuple(names), order, shape.text, now, apart)

    async def begin(self) -> None:
        """Tell every node.

        Raises:
            UsageError: some node is not there.
            UnavailableError: one takes no faults; those that were told have been told that it is off.
        """
        if missing := self.apart():
            raise UsageError(f"got a cluster that is not whole ({missing}), expected one that can be parted")
        orders = orders_of(self.names, parse_shape(self.shape, len(self.names)).cuts)
        told = []
        for name, faults in orders.items():
            body = {"faults": faults, "seconds": self.order.seconds, "begin_in": BEGIN_IN}
            told.append(name)
            why = await self._tell(name, body)
            if why:
                await self.end(told)
                raise UnavailableError(f"{name} cannot be drilled: {why}; no node was cut off")

    async def end(self, names: Sequence[str] | None = None) -> None:
        """Open the gates of those that can be reached; the others open by themselves."""
        await asyncio.gather(*(self._tell(name, {"faults": []}) for name in names or self.names))

    async def watch(self, directory: Path) -> bool:
        """From the telling to the verdicts, which ``directory/result.json`` has; whether all were kept."""
        zero = self.now()
        cut, mended = BEGIN_IN, BEGIN_IN + self.order.seconds
        try:
            await self._step(directory, "split", zero)
            await asyncio.sleep(mended)
            await self._step(directory, "heal", zero)
            whole = await self._until_whole(zero)
            marks = await self._marks(zero)
        except BaseException:
            # Stopped: nobody waits for it any more.
            await self.end()
            raise
        sides = _sides(self.names, self.shape)
        verdicts = verdicts_of(marks, sides, whole=whole, cut=cut, mended=mended, shape=self.shape)
        broken = [one for one in verdicts if one["kept"] is False]
        result = {
            "words": f"{len(broken)} promises were broken." if broken else "All promises were kept.",
            "happened": f"The nodes of this cluster were cut {self.shape} for {self.order.seconds:g} s.",
            "verdicts": verdicts,
            "figures": _figures(marks, mended=mended, whole=whole),
        }
        await _write(directory / "progress.json", self._progress("done", zero, marks))
        await _write(directory / "result.json", result)
        return not broken

    # -- inside

    async def _tell(self, name: str, body: Mapping[str, Any]) -> str:
        """Why it did not take the order, empty when it did."""
        try:
            answer = await self.peers.ask(
                name, "PUT", _FAULTS, msgspec.json.encode(body), timeout=ANSWER_TIMEOUT
            )
        except PeerSilentError as error:
            return error.reason
        if answer.status == 200:
            return ""
        try:
            return str(msgspec.json.decode(answer.body, type=dict[str, Any])["detail"])
        except (msgspec.DecodeError, KeyError):
            return f"it answered {answer.status}"

    async def _get(self, name: str, path: str) -> dict[str, Any] | None:
        decode = msgspec.json.Decoder(dict[str, Any]).decode
        try:
            return await self.peers.get(name, path, decode, timeout=ANSWER_TIMEOUT)
        except PeerSilentError:
            return None

    async def _until_whole(self, zero: float) -> float | None:
        """Since when all see all again with no split open; None: not in time."""
        end, since = self.now() + HEAL_TIMEOUT, self.now()
        while self.now() < end:
            if not all(await asyncio.gather(*map(self._as_before, self.names))):
                since = self.now() + LOOK_INTERVAL
            elif self.now() - since >= QUIET:
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
            for other in self.names
        )
        # A node that heals nothing has splits open for as long as it lives.
        healed = status["autoheal"] is None or (not status["open"] and status["phase"] == "idle")
        return linked and healed

    async def _marks(self, zero: float) -> list[dict[str, Any]]:
        """What every node noticed since, in order of time."""
        marks = [
            {"at": BEGIN_IN, "node": "", "kind": "fault applied", "detail": f"cut {self.shape}"},
            {"at": BEGIN_IN + self.order.seconds, "node": "", "kind": "fault lifted"},
        ]
        for name in self.names:
            told = await self._get(name, "/api/v1/events?limit=10000")
            here = self.now() - zero
            for event in () if told is None else told["items"]:
                at = here - event["age"]
                if at >= 0:
                    marks.append(
                        {
                            "at": round(at, 2),
                            "node": name,
                            "kind": event["kind"],
                            "peer": event["peer"],
                            "detail": event["text"],
                        }
                    )
        return sorted(marks, key=lambda mark: mark["at"])

    async def _step(self, directory: Path, step: str, zero: float) -> None:
        await _write(directory / "progress.json", self._progress(step, zero, []))

    def _progress(self, step: str, zero: float, marks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        sides = [
            {"name": ",".join(_short(n) for n in side), "nodes": side}
            for side in _sides(self.names, self.shape)
        ]
        return {"step": step, "at": round(self.now() - zero, 2), "sides": sides, "marks": list(marks)[-60:]}


def verdicts_of(
    marks: Sequence[Mapping[str, Any]],
    sides: Sequence[Sequence[str]],
    *,
    whole: float | None,
    cut: float,
    mended: float,
    shape: str,
) -> list[dict[str, Any]]:
    """What can be promised of a cluster that has its own load. Times are the drill's."""
    side_of = {name: number for number, side in enumerate(sides) for name in side}
    first: dict[tuple[int, int], float] = {}
    for mark in marks:
        pair = (side_of.get(mark["node"], -1), side_of.get(mark.get("peer", ""), -1))
        if mark["kind"] == "down" and cut <= mark["at"] <= mended and -1 not in pair and pair[0] != pair[1]:
            first.setdefault(pair, mark["at"] - cut)
    pairs = [(a, b) for a in range(len(sides)) for b in range(len(sides)) if a != b]
    known: dict[str, Any] = {
        "promise": f"All sides know of the split within {KNOWN_WITHIN:g} s",
        "kept": None,
        "expected": f"≤ {KNOWN_WITHIN:g} s",
    }
    if "/" not in shape:
        known["got"] = "nodes still reach each other through others"
    elif mended - cut < KNOWN_WITHIN:
        known["got"] = "the cut was shorter than that"
    elif all(pair in first for pair in pairs):
        last = max(first.values())
        known |= {"kept": last <= KNOWN_WITHIN, "got": f"{last:.1f} s"}
    else:
        known |= {"kept": False, "got": "some side never did"}
    after = None if whole is None else max(0.0, whole - mended)
    again = {
        "promise": f"All nodes see each other again, healed, within {WHOLE_WITHIN:g} s",
        "kept": after is not None and after <= WHOLE_WITHIN,
        "expected": f"≤ {WHOLE_WITHIN:g} s",
        "got": "never" if after is None else f"{after:.1f} s",
    }
    return [known, again]


def _figures(
    marks: Sequence[Mapping[str, Any]], *, mended: float, whole: float | None
) -> list[tuple[str, str, str]]:
    downs = sum(mark["kind"] == "down" for mark in marks)
    healed = len({mark["detail"] for mark in marks if mark["kind"] == "healed"})
    back = "never" if whole is None else f"{max(0.0, whole - mended):.1f} s"
    return [
        ("Connectivity back to all as before", back, ""),
        ("Nodes held for dead", f"{downs}", "counted at each node"),
        ("Splits healed", f"{healed}", ""),
    ]


def _sides(names: Sequence[str], shape: str) -> list[list[str]]:
    cuts = parse_shape(shape, len(names)).cuts
    return [[names[number - 1] for number in side] for side in sides_of(len(names), cuts)]


def _short(name: str) -> str:
    return name.partition("@")[0]


async def _write(file: Path, content: Any) -> None:
    aside = file.with_suffix(".new")

    def write() -> None:
        aside.write_bytes(msgspec.json.encode(content))
        aside.replace(file)

    await asyncio.to_thread(write)

"""The back end without rights: real node processes on loopback, whose transports have a fault gate.

A fault of one direction is told where it has to be (see ``docs/design/drills.md``): a cut to both ends, since
each end holds back only the connections that it opened; what slows or loses, to the sender alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from gossamer.drill.record import BackEndName
from gossamer.drill.stage.backend import Ability, BackEnd, LinkFault

__all__ = ["GateBackEnd", "requests_of"]


def requests_of(faults: Sequence[LinkFault]) -> dict[str, list[dict[str, Any]]]:
    """Requests for each node, by its name, for just these faults to hold."""
    requests: dict[str, list[dict[str, Any]]] = {}
    for fault in faults:
        told: dict[str, Any] = {"peer": fault.target, "direction": "out"}
        if fault.cut:
            # Who opened an incoming connection is not known there: the other end holds back its own.
            other = {"peer": fault.source, "direction": "in", "cut": True}
            requests.setdefault(fault.target, []).append(other)
            told["cut"] = True
        else:
            told |= {"loss": fault.loss, "delay": fault.delay, "jitter": fault.jitter}
        requests.setdefault(fault.source, []).append(told)
    return requests


class GateBackEnd(BackEnd):
    """Faults are told to the nodes, which let them end by themselves after their time."""

    name: BackEndName = "gate"
    abilities: frozenset[Ability] = frozenset({"delay", "jitter", "loss", "clock"})
    settings: ClassVar[Mapping[str, str]] = {"GOSSAMER_DRILL__FAULTS": "true"}

    def __init__(self, *, ended: Callable[[str, str], None]) -> None:
        super().__init__(ended=ended)
        self._told: set[str] = set()

    async def apply(self, faults: Sequence[LinkFault], *, seconds: float) -> None:
        requests = requests_of(faults)
        concerned = self._told | requests.keys()
        self._told = set(requests)
        # All at once, so that a cut is one moment.
        await asyncio.gather(*(self._tell(name, requests.get(name, []), seconds) for name in concerned))

    async def _tell(self, name: str, faults: list[dict[str, Any]], seconds: float) -> None:
        body = {"faults": faults, "seconds": seconds if faults else None}
        await self.put(name, "/api/v1/drill/faults", body)

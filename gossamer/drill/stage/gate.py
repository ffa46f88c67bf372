"""The back end without rights: real node processes on loopback, whose transports have a fault gate.

A fault of one direction is told where it has to be (see ``docs/design/drills.md``): a cut to both ends, since
each end holds back only the connections that it opened; what slows or loses, to the sender alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx

from gossamer.drill.record import BackEndName
from gossamer.drill.stage.backend import Ability, BackEndError, ClusterSpec, DrillNode, LinkFault
from gossamer.drill.stage.processes import NodeProcesses, ProcessBackEnd
from gossamer.launch import SERVICES, PortSpec, chooser, make_plan

__all__ = ["GateBackEnd", "requests_of"]

ALLOWED = "GOSSAMER_DRILL__FAULTS"
_TIMEOUT = 5.0
"""Seconds for a node to take a request."""


def requests_of(faults: Sequence[LinkFault]) -> dict[str, list[dict[str, Any]]]:
    """Requests for each node, by its name, for just these faults to hold."""
    requests: dict[str, list[dict[str, Any]]] = {}
    for fault in faults:
        told: dict[str, Any] = {"peer": fault.target, "direction": "out"}
        if fault.cut:
            # Who opened an incoming connection is not known there: the other end holds back its own.
            requests.setdefault(fault.target, []).append(
                {"peer": fault.source, "direction": "in", "cut": True}
            )
            told["cut"] = True
        else:
            told |= {"loss": fault.loss, "delay": fault.delay, "jitter": fault.jitter}
        requests.setdefault(fault.source, []).append(told)
    return requests


class GateBackEnd(ProcessBackEnd):
    """Implements :class:`gossamer.drill.stage.backend.BackEnd`."""

    name: BackEndName = "gate"
    abilities: frozenset[Ability] = frozenset({"cut", "one-way cut", "delay", "jitter", "loss", "clock"})

    def __init__(self, *, ended: Callable[[str, str], None]) -> None:
        super().__init__(ended=ended)
        self._told: set[str] = set()
        self._client = httpx.AsyncClient(timeout=_TIMEOUT, trust_env=False)

    async def start(self, spec: ClusterSpec) -> tuple[DrillNode, ...]:
        plan = make_plan(
            nodes=spec.nodes,
            directory=spec.directory,
            env="drill",
            specs={service: PortSpec(f"--{service}-port", "0") for service in SERVICES},
            shared_port=None,
            choose=chooser(),
        )
        self._processes = NodeProcesses(plan, settings={**spec.settings, ALLOWED: "true"}, ended=self._ended)
        await self._processes.start_all(patience=spec.patience)
        return self.nodes()

    async def apply(self, faults: Sequence[LinkFault], *, seconds: float) -> None:
        requests = requests_of(faults)
        told = {name: requests.get(name, []) for name in self._told | requests.keys()}
        self._told = set(requests)
        await self._tell(told, seconds=seconds)

    async def lift(self) -> None:
        await self._tell({name: [] for name in self._told}, seconds=None)
        self._told.clear()

    async def close(self) -> None:
        await self._client.aclose()
        await super().close()

    async def _tell(
        self, requests: Mapping[str, Sequence[Mapping[str, Any]]], *, seconds: float | None
    ) -> None:
        """All at once, so that a cut is one moment."""
        urls = {node.name: node.api + "/api/v1/drill/faults" for node in self.nodes()}
        async with asyncio.TaskGroup() as group:
            for name, faults in requests.items():
                body = {"faults": list(faults), "seconds": seconds if faults else None}
                group.create_task(self._put(name, urls[name], body))

    async def _put(self, name: str, url: str, body: Mapping[str, Any]) -> None:
        try:
            answer = await self._client.put(url, json=body)
        except httpx.TransportError as error:
            raise BackEndError(
                backend=self.name,
                reason=f"{name} takes no request: {type(error).__name__} {error}".rstrip(),
                remedy="see its node.log (--keep keeps it)",
            ) from error
        if answer.status_code != 200:
            raise BackEndError(
                backend=self.name,
                reason=f"{name} answered {answer.status_code}: {answer.text[:200]}",
                remedy="see its node.log (--keep keeps it)",
            )

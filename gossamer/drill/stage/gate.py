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
from gossamer.drill.stage.processes import NodeProcesses
from gossamer.launch import SERVICES, PortSpec, chooser, make_plan

__all__ = ["GateBackEnd", "orders_of"]

ALLOWED = "GOSSAMER_DRILL__FAULTS"
_PATIENCE = 5.0
"""Seconds for a node to take an order."""


def orders_of(faults: Sequence[LinkFault]) -> dict[str, list[dict[str, Any]]]:
    """What each node is to be told, by its name, for just these faults to hold."""
    orders: dict[str, list[dict[str, Any]]] = {}
    for fault in faults:
        told: dict[str, Any] = {"peer": fault.target, "direction": "out"}
        if fault.cut:
            # Who opened an incoming connection is not known there: the other end holds back its own.
            orders.setdefault(fault.target, []).append({"peer": fault.source, "direction": "in", "cut": True})
            told["cut"] = True
        else:
            told |= {"loss": fault.loss, "delay": fault.delay, "jitter": fault.jitter}
        orders.setdefault(fault.source, []).append(told)
    return orders


class GateBackEnd:
    """Implements :class:`gossamer.drill.stage.backend.BackEnd`."""

    name: BackEndName = "gate"
    abilities: frozenset[Ability] = frozenset({"cut", "one-way cut", "delay", "jitter", "loss", "clock"})

    def __init__(self, *, ended: Callable[[str, str], None]) -> None:
        self._ended = ended
        self._processes: NodeProcesses | None = None
        self._told: set[str] = set()
        self._client = httpx.AsyncClient(timeout=_PATIENCE, trust_env=False)

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

    def nodes(self) -> tuple[DrillNode, ...]:
        return self._need().nodes()

    async def apply(self, faults: Sequence[LinkFault], *, seconds: float) -> None:
        orders = orders_of(faults)
        told = {name: orders.get(name, []) for name in self._told | orders.keys()}
        self._told = set(orders)
        await self._tell(told, seconds=seconds)

    async def lift(self) -> None:
        await self._tell({name: [] for name in self._told}, seconds=None)
        self._told.clear()

    async def signal(self, name: str, number: int) -> None:
        self._need().signal(name, number)

    async def stop(self, name: str, *, kill: bool) -> None:
        await self._need().stop(name, kill=kill)

    async def restart(self, name: str) -> DrillNode:
        return await self._need().start(name)

    async def close(self) -> None:
        await self._client.aclose()
        if self._processes is not None:
            await self._processes.close()

    def _need(self) -> NodeProcesses:
        if self._processes is None:
            raise RuntimeError("the back end has not been started")
        return self._processes

    async def _tell(
        self, orders: Mapping[str, Sequence[Mapping[str, Any]]], *, seconds: float | None
    ) -> None:
        """All at once, so that a cut is one moment."""
        urls = {node.name: node.api + "/api/v1/drill/faults" for node in self.nodes()}
        async with asyncio.TaskGroup() as group:
            for name, faults in orders.items():
                body = {"faults": list(faults), "seconds": seconds if faults else None}
                group.create_task(self._put(name, urls[name], body))

    async def _put(self, name: str, url: str, body: Mapping[str, Any]) -> None:
        try:
            answer = await self._client.put(url, json=body)
        except httpx.TransportError as error:
            raise BackEndError(
                backend=self.name,
                reason=f"{name} takes no order: {type(error).__name__} {error}".rstrip(),
                remedy="see its node.log (--keep keeps it)",
            ) from error
        if answer.status_code != 200:
            raise BackEndError(
                backend=self.name,
                reason=f"{name} answered {answer.status_code}: {answer.text[:200]}",
                remedy="see its node.log (--keep keeps it)",
            )

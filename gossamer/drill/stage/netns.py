"""The back end with root's rights: every node in a network namespace, and packets that are really dropped.

Nodes run without the fault gate, on sockets of the kernel, so what is seen here is what a network would do to
them. While it is open, the thread that started it stands in the hub of the namespaces (see
:mod:`gossamer.drill.stage.netplan`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

import structlog

from gossamer.drill.record import BackEndName
from gossamer.drill.stage.backend import Ability, ClusterSpec, DrillNode, LinkFault
from gossamer.drill.stage.janitor import Janitor
from gossamer.drill.stage.namespaces import Namespaces, abilities_here, check_rights
from gossamer.drill.stage.processes import NodeProcesses, ProcessBackEnd
from gossamer.errors import GossamerError
from gossamer.launch import SERVICES, ClusterPlan, NodePlan, PortSpec, make_plan

__all__ = ["NetnsBackEnd"]

log = structlog.get_logger(__name__)

OPEN = {"GOSSAMER_API__ANONYMOUS_ROLE": "viewer"}
"""The drill does not come from loopback, and nobody else can come at all."""
PORTS = {"mqtt": "1883", "api": "8091", "gossip": "7946", "distribution": "4370"}


class NetnsBackEnd(ProcessBackEnd):
    """Implements :class:`gossamer.drill.stage.backend.BackEnd`.

    Raises:
        BackEndError: this process or this machine may not do it; when it is made, so before anything is.
    """

    name: BackEndName = "netns"

    def __init__(self, *, ended: Callable[[str, str], None]) -> None:
        check_rights()
        self.abilities: frozenset[Ability] = abilities_here()
        super().__init__(ended=ended)
        self._net: Namespaces | None = None
        self._janitor: Janitor | None = None
        self._end: asyncio.TimerHandle | None = None
        self._ending: asyncio.Task[None] | None = None

    async def start(self, spec: ClusterSpec) -> tuple[DrillNode, ...]:
        net = self._net = Namespaces(spec.nodes, abilities=self.abilities)
        self._janitor = Janitor()
        for space in net.plan.spaces():
            # For a drill that is killed; one that closes has removed them when the janitor comes.
            self._janitor.run(["sh", "-c", f"test ! -e /run/netns/{space} || ip netns delete {space}"])
        net.open()
        plan = _placed(spec, net)
        spaces = {node.name: net.plan.space(number) for number, node in enumerate(plan.nodes, 1)}
        self._processes = NodeProcesses(
            plan,
            settings={**spec.settings, **OPEN},
            ended=self._ended,
            prefix=lambda node: ("ip", "netns", "exec", spaces[node.name]),
        )
        await self._processes.start_all(patience=spec.patience)
        return self.nodes()

    async def apply(self, faults: Sequence[LinkFault], *, seconds: float) -> None:
        if self._net is None:
            raise RuntimeError("the back end has not been started")
        numbers = {node.name: node.number for node in self.nodes()}
        self._disarm()
        await self._net.apply(faults, numbers)
        if faults:
            self._end = asyncio.get_running_loop().call_later(seconds, self._time_is_up)

    async def lift(self) -> None:
        await self.apply((), seconds=0.0)

    async def close(self) -> None:
        self._disarm()
        try:
            await super().close()
        finally:
            try:
                if self._net is not None:
                    self._net.close()
            finally:
                if self._janitor is not None:
                    await self._janitor.close()

    def _disarm(self) -> None:
        if self._end is not None:
            self._end.cancel()
            self._end = None

    def _time_is_up(self) -> None:
        self._ending = asyncio.create_task(self._lift_late(), name="faults end")

    async def _lift_late(self) -> None:
        try:
            await self.lift()
        except GossamerError as error:
            log.error("faults_not_lifted", error=str(error))


def _placed(spec: ClusterSpec, net: Namespaces) -> ClusterPlan:
    """Each node at its own address, on the ports that everybody knows."""
    plan = make_plan(
        nodes=spec.nodes,
        directory=spec.directory,
        env="drill",
        # No two nodes share an address, so all may have the same ports; these only have to be some.
        specs={service: PortSpec(f"--{service}-port", "0") for service in SERVICES},
        shared_port=None,
        choose=iter(range(1, 1 + spec.nodes * len(SERVICES))).__next__,
    )
    ports = {service: int(PORTS[service]) for service in SERVICES}
    placed = (_at(node, net.plan.host(number), number, ports) for number, node in enumerate(plan.nodes, 1))
    return replace(plan, nodes=tuple(placed))


def _at(node: NodePlan, host: str, number: int, ports: dict[str, int]) -> NodePlan:
    return replace(node, name=f"node{number}@{host}", host=host, ports=dict(ports))

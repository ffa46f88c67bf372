"""The back end with root's rights: every node in a network namespace, and packets that are really dropped.

Nodes run without the fault gate, on sockets of the kernel, so what is seen here is what a network would do to
them. While it is open, the thread that started it stands in the hub of the namespaces (see
:mod:`gossamer.drill.stage.netplan`). If it is killed, a janitor takes them away, and the faults with them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from gossamer.drill.record import BackEndName
from gossamer.drill.stage.backend import Ability, BackEnd, LinkFault
from gossamer.drill.stage.janitor import Janitor
from gossamer.drill.stage.namespaces import Namespaces, abilities_here, check_rights
from gossamer.launch import ClusterPlan, NodePlan

__all__ = ["NetnsBackEnd"]

PORTS = {"mqtt": 1883, "api": 8091, "gossip": 7946, "distribution": 4370}
"""No two nodes share an address, so all have the ports that everybody knows."""


class NetnsBackEnd(BackEnd):
    """Faults are rules of the kernel.

    Raises:
        BackEndError: this process or this machine may not do it; when it is made, so before anything is.
    """

    name: BackEndName = "netns"
    # The drill does not come from loopback, and nobody else can come at all.
    settings: ClassVar[Mapping[str, str]] = {"GOSSAMER_API__ANONYMOUS_ROLE": "viewer"}

    def __init__(self, *, ended: Callable[[str, str], None]) -> None:
        check_rights()
        self.abilities: frozenset[Ability] = abilities_here()
        super().__init__(ended=ended)
        self._net = Namespaces(0, abilities=self.abilities)
        self._janitor: Janitor | None = None

    def _place(self, nodes: int, directory: Path) -> ClusterPlan:
        plan = super()._place(nodes, directory)
        net = self._net = Namespaces(nodes, abilities=self.abilities)
        self._janitor = Janitor()
        for space in net.plan.spaces():
            # For a drill that is killed; one that closes has removed them when the janitor comes.
            self._janitor.run(["sh", "-c", f"test ! -e /run/netns/{space} || ip netns delete {space}"])
        net.open()
        hosts = [net.plan.host(number) for number in range(1, nodes + 1)]
        placed = (
            replace(node, name=f"node{number}@{host}", host=host, ports=dict(PORTS))
            for number, (node, host) in enumerate(zip(plan.nodes, hosts, strict=True), 1)
        )
        return replace(plan, nodes=tuple(placed))

    def _prefix(self, node: NodePlan) -> tuple[str, ...]:
        return "ip", "netns", "exec", self._net.plan.space(self.nodes.index(node) + 1)

    async def apply(self, faults: Sequence[LinkFault], *, seconds: float) -> None:
        numbers = {node.name: number for number, node in enumerate(self.nodes, 1)}
        await self._net.apply(faults, numbers)

    async def close(self) -> None:
        try:
            await super().close()
        finally:
            try:
                self._net.close()
            finally:
                if self._janitor is not None:
                    await self._janitor.close()

"""An application of a node: Thespian's ``Relay`` at the node's own broker."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from gossamer.gateway import BrokerPort
from gossamer.supervisor import ChildSpec, GenServer, Supervisor, cast
from gossamer.supervisor.thespian import ThespianActor, ThespianSystem


class Starter(GenServer):
    """Tells the relay to subscribe, again after each restart."""

    async def init(self):
        cast("relay", "subscribe")


def children(node):
    path = [Path(__file__).parent]
    system = partial(ThespianSystem.start_link, broker=BrokerPort(node.broker), path=path, name="thespian")
    relay = partial(ThespianActor.start_link, "thespian", "thespian_actors.Relay", name="relay")
    specs = [
        ChildSpec("system", system),
        ChildSpec("relay", relay),
        ChildSpec("starter", Starter.start_link),
    ]
    start = partial(Supervisor.start_link, specs, strategy="rest_for_one", intensity=5)
    return [ChildSpec("thespian", start, type="supervisor")]

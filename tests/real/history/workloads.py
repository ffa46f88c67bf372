"""What clients do while a cluster is broken: a table of named workloads, and how each is judged.

Clients of a workload are named ``WORKLOAD/…`` and so are their topics, so several can share one run and are
judged each for itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from .checks import PROMISES
from .client import Client
from .faults import ROLES
from .world import Mode, World, keep, publish_on

__all__ = ["WORKLOADS", "Workload"]

Start = Callable[[World, str, asyncio.TaskGroup], Awaitable[None]]
"""Connects and subscribes its clients, returns, and goes on in tasks of the group."""
SESSIONS = ("delivered", "once", "ordered", "not_invented", "present", "answered", "became_whole")


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    says: str
    start: Start
    promises: tuple[str, ...] = SESSIONS

    def __post_init__(self) -> None:
        assert set(self.promises) <= set(PROMISES)


async def stream(world: World, name: str, tasks: asyncio.TaskGroup, *, mode: Mode, qos: int) -> None:
    """Two publishers and three subscribers with persistent sessions, of both versions."""
    seats = {"sub1": "subscriber", "sub2": "subscriber", "sub3": "publisher"}
    ready = []
    for number, (seat, role) in enumerate(seats.items()):
        client = world.client(f"{name}/{seat}", version=4 if number == 1 else 5)
        client.wanted[f"{name}/+"] = qos
        ready.append(_keep(world, tasks, client, mode, ROLES[role]))
        if mode == "roam":
            world.first.setdefault("owner", client)
    await asyncio.gather(*(event.wait() for event in ready))
    publishers = [world.client(f"{name}/pub{number}", version=3 + number) for number in (1, 2)]
    publishers[0].version = 5
    publishers[1].version = 4
    ready = [_keep(world, tasks, client, mode, ROLES["publisher"]) for client in publishers]
    await asyncio.gather(*(event.wait() for event in ready))
    for client in publishers:
        tasks.create_task(publish_on(world, client, client.name, qos, rate=20))


def _keep(world: World, tasks: asyncio.TaskGroup, client: Client, mode: Mode, home: int) -> asyncio.Event:
    ready = asyncio.Event()
    tasks.create_task(keep(world, client, mode, home, ready), name=client.name)
    return ready


WORKLOADS = {
    workload.name: workload
    for workload in (
        *(
            Workload(
                f"{mode}-{qos}",
                f"streams of QoS {qos} to persistent sessions that {says}; their publishers too",
                partial(stream, mode=mode, qos=qos),
            )
            for mode, says in (
                ("home", "stay at one node"),
                ("roam", "move every few seconds"),
                ("nomad", "move all the time, also in mid-handshake"),
            )
            for qos in (1, 2)
        ),
    )
}

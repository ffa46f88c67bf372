"""What clients do while a cluster is broken: a table of named workloads, and how each is judged.

Clients of a workload are named ``WORKLOAD/…`` and so are their topics, so several can share one run and are
judged each for itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from . import state
from .faults import ROLES
from .judge import PROMISES, SESSIONS
from .world import Mode, World, keep_all_in, publish_on

Start = Callable[[World, str, asyncio.TaskGroup], Awaitable[None]]
"""Connects and subscribes its clients, returns, and goes on in tasks of the group."""
Finish = Callable[[World, str], Awaitable[None]]
"""What is done once the run has settled, before the verdict."""


async def _nothing(world: World, name: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    says: str
    start: Start
    promises: tuple[str, ...] = SESSIONS
    finish: Finish = _nothing
    new: bool = False
    """The release before lacks what it is about."""

    def __post_init__(self) -> None:
        assert set(self.promises) <= set(PROMISES)


async def stream(world: World, name: str, tasks: asyncio.TaskGroup, *, mode: Mode, qos: int) -> None:
    """Two publishers and three subscribers with persistent sessions, of both versions."""
    homes = []
    for number, role in enumerate(("subscriber", "subscriber", "publisher")):
        client = world.client(f"{name}/sub{number + 1}", version=4 if number == 1 else 5)
        client.wanted[f"{name}/+"] = qos
        homes.append((ROLES[role], client))
        if mode == "roam":
            world.owner = world.owner or client
    await keep_all_in(tasks, world, homes, mode)
    publishers = [world.client(f"{name}/pub{number}", version=6 - number) for number in (1, 2)]
    # Who is away cannot publish.
    manner = "home" if mode == "away" else mode
    await keep_all_in(tasks, world, [(ROLES["publisher"], client) for client in publishers], manner)
    for client in publishers:
        tasks.create_task(publish_on(world, client, qos, rate=20))


def _streams() -> list[Workload]:
    manners = {
        "home": "stay at one node; so do publishers",
        "roam": "move every few seconds; so do publishers",
        "nomad": "move all the time, also in mid-handshake; so do publishers",
        "away": "come for a moment, now here, now there; their publishers stay",
    }
    return [
        Workload(
            f"{mode}-{qos}",
            f"streams of QoS {qos} to persistent sessions that {says}",
            partial(stream, mode=mode, qos=qos),
        )
        for mode, says in manners.items()
        for qos in (1, 2)
    ]


WORKLOADS = {
    workload.name: workload
    for workload in (
        *_streams(),
        Workload(
            "visible",
            "subscribe to a fresh filter, and upon SUBACK publish to it at another node",
            state.visible,
            ("delivered", "not_invented", "sound"),
        ),
        Workload(
            "retained",
            "writers that go from node to node, readers everywhere: no read goes back",
            state.retained,
            ("register", "not_invented", "sound"),
            state.read_finally,
        ),
        Workload(
            "wills",
            "clients that fall, say goodbye, die with their node, come back within the delay",
            state.wills,
            ("wills", "once", "not_invented", "sound"),
            state.wait_for_wills,
        ),
        Workload(
            "twins",
            "the same client id at two nodes, again and again",
            state.twins,
            ("one_of_twins", "sound"),
        ),
        Workload(
            "shared",
            "a group with members at every node, one of which takes messages and falls",
            state.shared,
            ("shared", "not_invented", "answered", "sound"),
        ),
        Workload(
            "jobs",
            "a queue with consumers at every node, of which some move and one takes jobs and falls",
            state.jobs,
            ("worked", "not_invented", "answered", "sound"),
            new=True,
        ),
        Workload(
            "churn",
            "subscriptions come and go at random; in the end every node routes just what is left",
            state.churn,
            ("routed", "delivered", "not_invented", "sound"),
            state.probe,
        ),
    )
}

"""What workloads share: the cluster's addresses, one random generator each, and where a run has got to."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from .client import Client
from .history import History

Mode = str
"""``home``: stays; ``roam``: moves every few seconds; ``nomad``: moves all the time, in mid-handshake too;
``away``: is there for a moment, gone for a while, and back at another node."""
RETRY_INTERVAL = 0.2
WINDOW = 20


@dataclass
class World:
    history: History
    addresses: dict[int, tuple[str, int]]
    places: Callable[[], list[int]]
    """Nodes that clients may go to now, whether or not they run."""
    rng: Random
    settling: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when faults are over: publishers stop, and everybody stays where it is."""
    pace: float = 1.0
    """How fast publishers and the like go: 0.3 is three tenths of what they would do by themselves.

    Who moves all the time moves by its square root more seldom.
    """
    split: bool = False
    """Whether nodes are kept apart in this run, so that tables may have to be healed."""
    clients: list[Client] = field(default_factory=list)
    owner: Client | None = None
    """The first roaming session, whose node may be the one that is killed."""

    def client(self, name: str, **options: Any) -> Client:
        """A client of this run; ``options`` as those of :class:`Client`."""
        client = Client(self.history, self.addresses, name, **options)
        self.clients.append(client)
        return client

    def elsewhere(self, node: int) -> int:
        return self.rng.choice([place for place in self.places() if place != node] or [node])

    async def rest(self, seconds: float) -> None:
        """Sleep between two of many things of one kind: the longer, the slower the pace."""
        await self.sleep(seconds / self.pace)

    async def sleep(self, seconds: float) -> None:
        """Sleep, but not beyond the moment in which the run settles."""
        try:
            async with asyncio.timeout(seconds):
                await self.settling.wait()
        except TimeoutError:
            pass


def keep_in(tasks: asyncio.TaskGroup, world: World, client: Client, mode: Mode, home: int) -> asyncio.Event:
    """Keep it in a task of its own; the event is set once it is connected and subscribed."""
    ready = asyncio.Event()
    tasks.create_task(_keep(world, client, mode, home, ready), name=client.name)
    return ready


async def keep_all_in(
    tasks: asyncio.TaskGroup, world: World, homes: Iterable[tuple[int, Client]], mode: Mode = "home"
) -> None:
    """Keep them, each at its home, and wait until all are connected and subscribed."""
    ready = [keep_in(tasks, world, client, mode, home) for home, client in homes]
    await asyncio.gather(*(event.wait() for event in ready))


async def one_by_one(
    world: World, tasks: asyncio.TaskGroup, one: Callable[[int], Coroutine[Any, Any, None]], most: float
) -> None:
    """Begin one after the other until the run settles, a tenth of a second to ``most`` apart."""
    for number in itertools.count(1):
        if world.settling.is_set():
            return
        tasks.create_task(one(number))
        await world.rest(world.rng.uniform(0.1, most))


async def _keep(world: World, client: Client, mode: Mode, home: int, ready: asyncio.Event) -> None:
    """Keep a client connected and subscribed to what it wants, in the manner of ``mode``; never returns."""
    node = home
    if mode == "nomad":
        client.falls_on = lambda kind: not world.settling.is_set() and world.rng.random() < 0.01
    while True:
        under_way = ready.is_set() and not world.settling.is_set()
        if under_way and mode == "nomad" and world.rng.random() < 0.2:
            await _fall(world, client, node)
            node = world.elsewhere(node)
        if await client.connect(node) and await client.subscribe_again():
            ready.set()
            if await _stay(world, client, mode):
                await client.leave(politely=world.rng.random() < 0.5)
        else:
            client.abort()
            await asyncio.sleep(RETRY_INTERVAL)
        if mode == "away":
            await world.sleep(world.rng.uniform(1, 8))
        if mode != "home":
            node = world.elsewhere(node)


async def _fall(world: World, client: Client, node: int) -> None:
    """Send CONNECT and vanish, before CONNACK or hardly after."""
    if await client.dial(node, timeout=1.0) is not None:
        await asyncio.sleep(world.rng.choice([0, 0.002, 0.01, 0.05]))
    client.abort()


async def _stay(world: World, client: Client, mode: Mode) -> bool:
    """Until it is time to move (True) or the connection is gone (False)."""
    rng = world.rng
    seconds = {
        "home": 1e6,
        "roam": rng.uniform(2, 5),
        "away": rng.uniform(0.2, 2),
        "nomad": rng.choice([0.03, 0.2, 0.5, 1.0]) / world.pace**0.5,
    }[mode]
    if world.settling.is_set():
        await client.lost()
        return False
    gone, settled = asyncio.create_task(client.lost()), asyncio.create_task(world.settling.wait())
    try:
        done, _ = await asyncio.wait((gone, settled), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        # In the moment of settling everybody moves once more, and stays there.
        return gone not in done and (not done or mode != "home")
    finally:
        gone.cancel()
        settled.cancel()


async def publish_on(world: World, client: Client, qos: int, *, rate: float) -> None:
    """Publish until the run settles, with a window as Receive Maximum would have it."""
    while not world.settling.is_set():
        if client.connected and len(client.pending) < WINDOW:
            client.publish(client.name, qos)
        await world.rest(world.rng.uniform(0.5, 1.5) / rate)

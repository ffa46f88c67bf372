"""Workloads about what a cluster keeps as a whole: routes, retained messages, wills, client ids, groups."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from .client import EXPIRY, Client
from .cluster import AUTOHEAL
from .packets import Will
from .world import RETRY_INTERVAL, World, keep_all_in, keep_in, one_by_one, publish_on

HEALED = AUTOHEAL + 8.0
"""Seconds after all nodes see each other in which the sides of a split may still be brought together."""
READ_TIMEOUT = 3.0
TOPICS = 12


async def visible(world: World, name: str, tasks: asyncio.TaskGroup) -> None:
    publishers = {node: world.client(f"{name}/pub{node}") for node in world.places()}
    await keep_all_in(tasks, world, publishers.items())

    async def one(number: int) -> None:
        here = world.rng.choice(world.places())
        there = publishers[world.rng.choice([node for node in publishers if node != here])]
        topic = f"{name}/{number}"
        client = world.client(f"{name}/sub{number}")
        if not await client.connect(here, timeout=5.0):
            return
        code = await client.subscribe(topic, 1)
        if code is None or code >= 0x80 or not there.connected:
            client.abort()
            return
        message = there.publish(topic, 1)
        await _until(lambda: message in client.got, 3.0)
        if message in client.got:
            await client.goodbye()
        else:
            keep_in(tasks, world, client, "home", here)

    tasks.create_task(one_by_one(world, tasks, one, 0.4))


async def retained(world: World, name: str, tasks: asyncio.TaskGroup) -> None:
    writers = [world.client(f"{name}/writer{number}") for number in (1, 2)]
    await keep_all_in(tasks, world, enumerate(writers, 1), "roam")

    async def write(client: Client) -> None:
        while not world.settling.is_set():
            if client.connected and not client.pending:
                client.publish(client.name, 1, retain=True)
            await world.rest(world.rng.uniform(0.05, 0.2))

    async def read(number: int) -> None:
        client = world.client(f"{name}/reader{number}", clean=True)
        while not world.settling.is_set():
            topic = world.rng.choice(writers).name
            await _read(client, world.rng.choice(world.places()), topic)
            await world.rest(world.rng.uniform(0.05, 0.3))

    for client in writers:
        tasks.create_task(write(client))
    for number in range(1, 5):
        tasks.create_task(read(number))


async def _read(client: Client, node: int, topic: str) -> None:
    """Connect, subscribe, take what is retained, and go."""
    client.got.clear()
    client.wanted.clear()
    if await client.connect(node, timeout=5.0) and (await client.subscribe(topic, 1) or 0x80) < 0x80:
        await _until(lambda: bool(client.got), READ_TIMEOUT)
        await client.goodbye()
    client.abort()


async def read_finally(world: World, name: str) -> None:
    """Once no split has an excuse any more, at every node."""
    if world.split:
        await asyncio.sleep(HEALED)
    for node in sorted(world.addresses):
        if node in world.places():
            for number in (1, 2):
                client = world.client(f"{name}/final{node}-{number}", clean=True)
                await _read(client, node, f"{name}/writer{number}")


async def wills(world: World, name: str, tasks: asyncio.TaskGroup) -> None:
    watchers = {node: world.client(f"{name}/watch{node}") for node in world.places()}
    for watcher in watchers.values():
        watcher.wanted[f"{name}/+"] = 2
    await keep_all_in(tasks, world, watchers.items())

    async def one(number: int) -> None:
        rng, who = world.rng, f"{name}/c{number}"
        fate = rng.choice(["falls", "falls", "goodbye", "stays", "returns", "expires"])
        delay = {"returns": 5, "expires": 600}.get(fate, rng.choice([0, 0, 2, 5]))
        # Counted from when it is published, and long enough for a watcher whose node is down.
        will = Will(who, f"{who}:1".encode(), delay=delay, expiry=rng.choice([0, 120]))
        # A will does not wait longer than its session lasts (MQTT-3.1.2-8).
        client = world.client(who, will=will, expiry=3 if fate == "expires" else EXPIRY)
        if not await client.connect(rng.choice(world.places()), timeout=5.0):
            client.abort()
            return
        # Whoever lives still when the run settles falls then, so that its will is due soon.
        over = world.settling
        life = 12.0 if fate == "stays" else rng.uniform(0.3, 4)
        await _until(lambda: not client.connected or over.is_set(), life)
        await client.leave(politely=fate == "goodbye")
        if fate == "returns":
            await asyncio.sleep(rng.uniform(0.1, 3))
            client.will = None
            if await client.connect(client.node % len(world.places()) + 1, timeout=5.0):
                await asyncio.sleep(7)
                await client.goodbye()

    tasks.create_task(one_by_one(world, tasks, one, 0.5))


async def wait_for_wills(world: World, name: str) -> None:
    """The longest delay, and some time in which one may come twice; who misses one goes on waiting."""
    await asyncio.sleep(8)


async def twins(world: World, name: str, tasks: asyncio.TaskGroup) -> None:
    async def pair(number: int) -> None:
        identity = f"{name}/{number}"
        both = [world.client(f"{identity}.{side}", client_id=identity) for side in "ab"]
        while not world.settling.is_set():
            nodes = world.rng.sample(world.places(), 2)
            if not await both[0].connect(nodes[0], timeout=5.0):
                await world.sleep(RETRY_INTERVAL)
                continue
            pings = asyncio.create_task(_ping(both))
            try:
                await asyncio.sleep(world.rng.uniform(0.02, 1))
                if await both[1].connect(nodes[1]):
                    await _until(lambda: not (both[0].connected and both[1].connected), 8.0)
                    await asyncio.sleep(1.0)
            finally:
                pings.cancel()
            for client in both:
                client.abort()

    for number in range(1, 4):
        tasks.create_task(pair(number))


async def _ping(clients: list[Client]) -> None:
    while True:
        for client in clients:
            await client.ping()
        await asyncio.sleep(0.1)


async def shared(world: World, name: str, tasks: asyncio.TaskGroup) -> None:
    topic_filter = f"$share/g/{name}/+"
    members = {node: world.client(f"{name}/member{node}") for node in world.places()}
    for member in members.values():
        member.wanted[topic_filter] = 1
    await keep_all_in(tasks, world, members.items())
    publishers = [world.client(f"{name}/pub{node}") for node in (1, 2)]
    await keep_all_in(tasks, world, enumerate(publishers, 1))

    async def fall(client: Client, longest: float) -> None:
        while not world.settling.is_set():
            client.muted = False
            if await client.connect(world.rng.choice(world.places()), timeout=5.0):
                await client.subscribe(topic_filter, 1)
                await world.sleep(world.rng.uniform(0.2, 1))
                client.muted = True
                await world.sleep(world.rng.uniform(0.2, longest))
            client.abort()
            await world.sleep(world.rng.uniform(0.1, 1))

    tasks.create_task(fall(world.client(f"{name}/faithless", clean=True), 1))
    # What waits behind its full window is given to others while it is still connected.
    tasks.create_task(fall(world.client(f"{name}/narrow", clean=True, window=3), 4))
    for client in publishers:
        tasks.create_task(publish_on(world, client, 1, rate=15))


async def jobs(world: World, name: str, tasks: asyncio.TaskGroup) -> None:
    """Consumers subscribe again with each connection, as they have to; those of 3.1.1 settle by PUBACK."""
    rng = world.rng

    async def consume(client: Client, *, moves: bool, faithless: bool = False) -> None:
        while True:
            client.muted = False
            settling = world.settling.is_set()
            if settling and faithless:
                return

            def over(settling: bool = settling) -> bool:
                return not client.connected or world.settling.is_set() is not settling

            let_in = await client.connect(rng.choice(world.places()), timeout=5.0)
            if not let_in or (await client.subscribe(f"$queue/{name}/$group/workers", 1) or 0x80) >= 0x80:
                client.abort()
                await asyncio.sleep(RETRY_INTERVAL)
                continue
            stays = rng.uniform(2, 5) if moves and not settling else 1e6
            if faithless:
                await world.sleep(rng.uniform(0.2, 1))
                client.muted, stays = True, rng.uniform(0.2, 1)
            await _until(over, stays)
            # Who has settled what it has may stay for the end.
            if not client.connected or moves or faithless:
                client.abort()

    for number in range(1, 6):
        client = world.client(f"{name}/worker{number}", clean=True, version=4)
        tasks.create_task(consume(client, moves=number > 3))
    faithless = world.client(f"{name}/faithless", clean=True, version=4)
    tasks.create_task(consume(faithless, moves=True, faithless=True))
    publishers = [world.client(f"{name}/pub{node}") for node in (1, 2, 3)]
    await keep_all_in(tasks, world, enumerate(publishers[:2], 1))
    await keep_all_in(tasks, world, [(3, publishers[2])], "roam")
    for client in publishers:
        tasks.create_task(_publish_jobs(world, client, name))


async def _publish_jobs(world: World, client: Client, name: str) -> None:
    while not world.settling.is_set():
        if client.connected and len(client.pending) < 5:
            client.publish(f"$queue/{name}/{client.name}", world.rng.choice([1, 1, 2]))
        await world.rest(world.rng.uniform(0.5, 1.5) / 15)


async def churn(world: World, name: str, tasks: asyncio.TaskGroup) -> None:
    topics = [f"{name}/{number}" for number in range(TOPICS)]
    homes = [(node, world.client(f"{name}/probe{node}")) for node in world.places()]
    for number in range(6):
        client = world.client(f"{name}/client{number}", version=4 + number % 2)
        homes.append((1 + number % 3, client))
        tasks.create_task(_change_mind(world, client, topics))
    await keep_all_in(tasks, world, homes)


async def _change_mind(world: World, client: Client, topics: list[str]) -> None:
    unsure: set[str] = set()
    while unsure or not world.settling.is_set():
        # In the end only what is not sure is made sure.
        topic = min(unsure) if unsure else world.rng.choice(topics)
        if not client.connected:
            await asyncio.sleep(0.1)
            continue
        away = topic in unsure or topic in client.filters
        code = await (client.unsubscribe(topic) if away else client.subscribe(topic, 1))
        if code is None:
            client.wanted.pop(topic, None)
            unsure.add(topic)
        else:
            unsure.discard(topic)
        await world.rest(world.rng.uniform(0.02, 0.3))


async def probe(world: World, name: str) -> None:
    """Publish to every topic at every node, once nobody changes anything any more."""
    await asyncio.sleep(HEALED if world.split else 5.0)
    for client in world.clients:
        if client.name.startswith(f"{name}/probe") and client.connected:
            for number in range(TOPICS):
                client.publish(f"{name}/{number}", 1)


async def _until(true: Callable[[], bool], seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            while not true():  # noqa: ASYNC110
                await asyncio.sleep(0.02)
    except TimeoutError:
        pass

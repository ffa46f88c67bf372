"""Persistent actors on whole clusters: each message has changed the state once, whatever is killed or cut."""

import asyncio
from functools import partial

from msgspec import Struct

from gossamer.queues import PersistentActor, kind_of, reject, show
from gossamer.supervisor import ChildSpec, Reply, Supervisor, call

from .clusters import heal, nodes, restart, until
from .test_queues import consumer, declared, leader_of

TOTALS = {
    "discs": True,
    "queues": [
        {"name": "amounts", "visibility_timeout": "10s", "retry": {"initial_backoff": "1s"}},
        {"name": "poisoned", "retry": {"max_deliveries": 2}},
    ],
}


class Sums(Struct):
    count: int = 0
    total: int = 0
    order: list[int] = []


class Total(PersistentActor):
    """Sums up; ``handled`` has every call of ``handle_message``, by node."""

    state_type = Sums

    async def init(self, queue, handled):
        await super().init(queue, group="totals")
        self.handled = handled

    async def first_state(self):
        return Sums()

    async def handle_message(self, message, state):
        number = int(message.payload)
        self.handled.append((self.process.pid.node, number))
        if number < 0:
            raise ValueError("no amount")
        if number == 1_000_000:
            await reject(message, "too much")
            return state
        # It is killed here most of the time.
        await asyncio.sleep(0.05)
        state.count += 1
        state.total += number
        state.order.append(number)
        return state

    async def handle_call(self, request, caller):
        found = await self.current()
        return Reply((found.count, found.total))


async def totals(cluster, number, queue, handled):
    """Start a supervised actor at a node."""

    async def supervise():
        start = partial(Total.start_link, queue, handled, name="total")
        return await Supervisor.start([ChildSpec("total", start)], intensity=20, period=5.0)

    return await cluster.nodes[number].runtime.run(supervise)


async def led(cluster):
    """Wait until somebody leads: what is published before that may be there twice."""
    kind = kind_of("default")
    await until(lambda: any(kind in node.consensus.leading for node in cluster.nodes.values()))


async def published(cluster, number, amounts, queue="amounts"):
    speaker = await cluster.client(number)
    for amount in amounts:
        await speaker.publish(f"$queue/{queue}/", b"%d" % amount, qos=1, timeout=60)


@nodes(3, seeds=6, **TOTALS)
async def test_sums_are_right_while_the_node_of_the_actor_is_killed_again_and_again(sim, cluster):
    await declared(cluster, "amounts")
    handled = []
    for number in (1, 2, 3):
        await totals(cluster, number, "amounts", handled)
    amounts = iter(range(1, 10_000))
    sent = []
    for _ in range(5):
        some = [next(amounts) for _ in range(8)]
        sent += some
        await led(cluster)
        await published(cluster, 1, some)
        seen = len(handled)
        await until(lambda: len(handled) > seen + 1, within=60)  # noqa: B023 - it ends here
        active = int(handled[-1][0][4])
        cluster.crash(active)
        await asyncio.sleep(1)
        await restart(cluster, active)
        await declared(cluster, "amounts")
        await totals(cluster, active, "amounts", handled)
    await until(lambda: {number for _, number in handled} == set(sent), within=60)
    await asyncio.sleep(5)
    runtime = cluster.nodes[1].runtime
    assert await runtime.run(call, "total", "sums") == (len(sent), sum(sent))
    assert (await runtime.run(show, "amounts"))[1].stats.depth == 0
    assert len({node for node, _ in handled}) > 1
    # Some were begun, and done by another one.
    assert len(handled) > len(sent)


@nodes(3, seeds=6, **TOTALS)
async def test_an_actor_that_is_cut_off_and_comes_back_counts_nothing_twice(sim, cluster):
    await declared(cluster, "amounts")
    handled = []
    alone, other = (n for n in (1, 2, 3) if n != leader_of(cluster))
    for number in (alone, other):
        await totals(cluster, number, "amounts", handled)
        await asyncio.sleep(2)
    leader = leader_of(cluster)
    sent = list(range(1, 101))
    await published(cluster, leader, sent)
    for _ in range(3):
        seen = len(handled)
        await until(lambda: len(handled) > seen + 1)  # noqa: B023 - it ends here
        cluster.cut(alone, leader)
        cluster.cut(alone, other)
        await until(lambda: handled[-1][0] == f"node{other}@10.0.0.{other}", within=60)
        cluster.heal()
    await heal(cluster)
    await until(lambda: {number for _, number in handled} == set(sent), within=60)
    await asyncio.sleep(5)
    for number in (alone, other):
        assert await cluster.nodes[number].runtime.run(call, "total", "sums") == (len(sent), sum(sent))


@nodes(3, seeds=2, **TOTALS)
async def test_messages_come_in_order_and_one_actor_does_them_while_it_is_there(sim, cluster):
    await declared(cluster, "amounts")
    handled = []
    first = await totals(cluster, 1, "amounts", handled)
    await asyncio.sleep(2)
    await totals(cluster, 2, "amounts", handled)
    await published(cluster, 3, range(1, 21))
    await until(lambda: len(handled) == 20)
    assert handled == [("node1@10.0.0.1", number) for number in range(1, 21)]
    await asyncio.sleep(1)
    cluster.nodes[1].runtime.exit(first, "shutdown")
    await published(cluster, 3, range(21, 31))
    await until(lambda: len(handled) == 30)
    assert handled[20:] == [("node2@10.0.0.2", number) for number in range(21, 31)]
    assert await cluster.nodes[2].runtime.run(call, "total", "sums") == (30, sum(range(31)))


@nodes(3, seeds=2, **TOTALS)
async def test_a_message_at_which_it_crashes_becomes_a_dead_letter_and_has_changed_nothing(sim, cluster):
    await declared(cluster, "poisoned")
    handled = []
    await totals(cluster, 1, "poisoned", handled)
    await published(cluster, 2, [1, -5, 1_000_000, 2], "poisoned")
    await until(lambda: 2 in [number for _, number in handled])
    await asyncio.sleep(2)
    assert await cluster.nodes[1].runtime.run(call, "total", "sums") == (2, 3)
    assert [number for _, number in handled].count(-5) == 2
    undertaker = await consumer(cluster, 3, "undertaker", queue="poisoned.dlq")
    await until(lambda: sorted(undertaker.payloads()) == [b"-5", b"1000000"])


@nodes(3, seeds=2, **TOTALS)
async def test_an_actor_consumes_again_when_the_server_of_queues_was_restarted(sim, cluster):
    await declared(cluster, "amounts")
    handled = []
    await totals(cluster, 1, "amounts", handled)
    await published(cluster, 2, [1, 2])
    await until(lambda: len(handled) == 2)
    runtime = cluster.nodes[1].runtime
    runtime.exit(runtime.whereis("queues"), "kill")
    await asyncio.sleep(1)
    await published(cluster, 2, [3])
    await until(lambda: len(handled) == 3, within=15)
    await asyncio.sleep(2)
    assert await runtime.run(call, "total", "sums") == (3, 6)

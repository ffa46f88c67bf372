"""Hints that are handed on to a session which leaves again while they are on their way."""

import asyncio

import pytest

from gossamer.distribution import rpc
from gossamer.mqtt.handoff.following import FOLLOW
from gossamer.mqtt.messages.message import Message
from gossamer.mqtt.messages.records import record_of

from .clusters import until
from .flows import resumed, session
from .kept import three

NODE3 = "node3@10.0.0.3"


async def follow(cluster, *clients):
    """What node 3 answers to node 1, which hands on one hint for the sessions of these clients."""
    now = cluster.sim.loop.time()
    hint = 1, int(now * 1e6), record_of(Message(b"t/x", b"kept", qos=1), now)
    answers = []

    async def call():
        answers.append(await rpc.call(NODE3, FOLLOW, dict.fromkeys(clients, ()), [hint], timeout=5))

    cluster.nodes[1].runtime.spawn(call, label="test")
    await until(lambda: answers)
    return answers[0].value


@three()
@pytest.mark.parametrize("others", [[], ["stays"]])
async def test_what_comes_too_late_is_asked_for_again(sim, cluster, others):
    del sim
    home = await session(cluster, 3, "moves", "t/#", qos=1)
    stays = await session(cluster, 3, "stays", "t/#", qos=1)
    await cluster.settled()
    assert await follow(cluster, "moves", *others) is True
    await home.disconnect()
    await resumed(cluster, 2, "moves")
    await cluster.settled()
    # Until then what comes goes with it.
    await until(lambda: "moves" not in cluster.nodes[3].broker.sessions)
    assert await follow(cluster, "moves", *others) is None
    await asyncio.sleep(1)
    assert stays.payloads() == [b"kept"] * (2 * len(others))


@three()
async def test_what_is_for_a_session_that_nobody_has_is_over(sim, cluster):
    del sim
    home = await session(cluster, 3, "ends", "t/#", qos=1)
    await home.disconnect()
    ended = await cluster.client(3, "ends", clean_start=True)
    await ended.disconnect()
    await cluster.settled()
    assert await follow(cluster, "ends") is True

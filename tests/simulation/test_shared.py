"""Share groups over the life of a message: whoever is there gets it, whoever dies passes it on."""

import asyncio

import pytest_asyncio

from gossamer.testing import seeds
from gossamer.testing.cluster import SimCluster

SESSION = {"session_expiry": 36_000, "clean_start": False}
GROUP = "$share/g/t/#"


@pytest_asyncio.fixture
async def trio(sim, tmp_path):
    made = SimCluster(sim, 3, cluster={"autoclean": None})
    made.discs = tmp_path
    await made.start()
    await made.settled()
    yield made
    await made.stop_all()


async def member(cluster, number, name, **options):
    joined = await cluster.client(number, name, **{**SESSION, **options})
    await joined.subscribe(GROUP, qos=2)
    return joined


async def publish(cluster, number, count, *, qos=1, start=0):
    speaker = await cluster.client(number)
    sent = [b"%d" % n for n in range(start, start + count)]
    for payload in sent:
        await speaker.publish("t/x", payload, qos=qos)
    await speaker.disconnect()
    return sent


@seeds(1)
async def test_a_member_whose_client_is_away_gets_nothing_while_another_is_there(sim, trio):
    gone = [await member(trio, number, f"gone{number}") for number in (1, 2, 3)]
    here = await member(trio, 2, "here")
    for one in gone:
        await one.disconnect()
    await asyncio.sleep(1)
    sent = []
    for number in (1, 2, 3):
        sent += await publish(trio, number, 20, start=100 * number)
    await asyncio.sleep(1)
    assert sorted(here.payloads()) == sorted(sent)
    await here.disconnect()
    await asyncio.sleep(1)
    more = await publish(trio, 1, 20, start=1000)
    back = [await trio.client(n, f"gone{n}", **SESSION) for n in (1, 2, 3)]
    back.append(await trio.client(2, "here", **SESSION))
    await asyncio.sleep(2)
    assert sorted(payload for one in back for payload in one.payloads()) == sorted(more)

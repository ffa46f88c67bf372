"""Wills in a cluster: published once, whoever dies, is cut off or comes back."""

import asyncio
from types import SimpleNamespace

import pytest

from gossamer.mqtt.codec.packets import Will
from gossamer.mqtt.codec.properties import Properties
from gossamer.supervisor import Runtime

from .clusters import heal, nodes
from .flows import SESSION, fill_disc, resumed, session


async def wills(cluster, number, delay=None):
    """A watcher at every other node, and a client with a will at ``number``."""
    watchers = []
    for other in sorted(cluster.nodes):
        if other != number:
            watchers.append(await cluster.client(other))
            await watchers[-1].subscribe("will/#", qos=1)
    await cluster.settled()
    will = Will(topic=b"will/x", payload=b"gone", qos=1, properties=Properties(will_delay=delay))
    client = await cluster.client(number, "mortal", will=will, session_expiry=300)
    await asyncio.sleep(1)
    return watchers, client


@nodes(4, seeds=4)
@pytest.mark.parametrize("number", [1, 3])
async def test_a_will_is_published_once_when_its_node_dies(sim, cluster, number):
    watchers, _ = await wills(cluster, number)
    cluster.crash(number, sim.rng("how").choice(["kill", "reset", "silence"]))
    await asyncio.sleep(120)
    assert [watcher.payloads() for watcher in watchers] == [[b"gone"]] * 3


@nodes(4, seeds=3)
async def test_a_will_outlives_the_survivor_that_was_to_publish_it(sim, cluster):
    watchers, _ = await wills(cluster, 4, delay=60)
    cluster.crash(4, "kill")
    await asyncio.sleep(sim.rng("when").uniform(2, 30))
    cluster.crash(1, "kill")
    assert not any(watcher.payloads() for watcher in watchers), "it waits for its delay"
    await asyncio.sleep(180)
    assert [watcher.payloads() for watcher in watchers[1:]] == [[b"gone"]] * 2


@nodes(3, seeds=2)
async def test_the_smaller_side_of_a_split_publishes_no_wills(sim, cluster):
    watchers, _ = await wills(cluster, 1)
    cluster.partition([1, 2], [3])
    await asyncio.sleep(60)
    await heal(cluster)
    assert [watcher.payloads() for watcher in watchers] == [[], []]


@nodes(3, seeds=2)
async def test_a_goodbye_leaves_no_will_behind(sim, cluster):
    watchers, client = await wills(cluster, 3)
    await client.disconnect()
    await asyncio.sleep(1)
    cluster.crash(3, "kill")
    await asyncio.sleep(60)
    assert [watcher.payloads() for watcher in watchers] == [[], []]


@nodes(3, seeds=3)
@pytest.mark.parametrize("soon", [True, False])
async def test_a_delayed_will_is_void_when_its_client_is_back_on_a_third_node(sim, cluster, soon):
    watchers, _ = await wills(cluster, 3, delay=60)
    cluster.crash(3, "kill")
    await asyncio.sleep(0.1 if soon else 30)
    back = await cluster.client(2, "mortal", **SESSION, timeout=30)
    await asyncio.sleep(20)
    back.drop()
    await asyncio.sleep(200)
    assert [watcher.payloads() for watcher in watchers] == [[], []]


@nodes(4, seeds=2)
@pytest.mark.parametrize("left", ["dead", "alive"])
@pytest.mark.parametrize("after", [0.0, 0.01, 0.3])
async def test_a_delayed_will_is_void_though_the_node_dies_that_its_client_came_back_to(
    sim, cluster, left, after
):
    watchers, client = await wills(cluster, 3, delay=20)
    if left == "dead":
        cluster.crash(3, "kill")
    else:
        client.drop()
    await asyncio.sleep(sim.rng("away").uniform(0.1, 10))
    back = await cluster.client(2, "mortal", **SESSION, timeout=30)
    assert back.connected
    await asyncio.sleep(after)
    cluster.crash(2, "kill")
    await asyncio.sleep(120)
    assert [watchers[0].payloads(), watchers[2].payloads()] == [[], []]


@nodes(3, seeds=3, discs=True)
@pytest.mark.parametrize("pauses", [(0.5,), (40,), (30, 3, 3)], ids=str)
async def test_a_node_that_comes_back_leaves_its_wills_to_those_who_saw_it_die(sim, cluster, pauses):
    watchers, _ = await wills(cluster, 3)
    for pause in pauses:
        cluster.crash(3, "kill")
        await asyncio.sleep(pause)
        await cluster.restart(3)
        await asyncio.sleep(pause)
    await asyncio.sleep(120)
    assert [watcher.payloads() for watcher in watchers] == [[b"gone"]] * 2


@nodes(2, seeds=2, discs=True)
async def test_wills_are_published_after_all_nodes_died_at_once(sim, cluster):
    _, _ = await wills(cluster, 2)
    watcher = await session(cluster, 1, "watcher", "will/#", qos=1)
    cluster.crash(1)
    cluster.crash(2)
    await cluster.start()
    await asyncio.sleep(60)
    watcher = await cluster.client(1, "watcher", **SESSION)
    await asyncio.sleep(1)
    assert watcher.payloads() == [b"gone"]


@nodes(2, seeds=3, discs=True)
@pytest.mark.parametrize("pause", [0.1, 3])
async def test_a_node_that_dies_again_soon_publishes_its_wills_in_its_third_life(sim, cluster, pause):
    """Before it knew whether somebody had seen it die; now nobody has, or its neighbour has."""
    _, _ = await wills(cluster, 2)
    watcher = await session(cluster, 1, "watcher", "will/#", qos=1)
    cluster.crash(1, "kill")
    cluster.crash(2, "kill")
    for _ in range(2):
        await cluster.restart(2)
        await asyncio.sleep(pause)
        cluster.crash(2, "kill")
    await cluster.restart(1)
    await cluster.restart(2)
    await asyncio.sleep(60)
    watcher = await cluster.client(1, "watcher", **SESSION)
    await asyncio.sleep(1)
    assert watcher.payloads() == [b"gone"]


async def mortal(cluster, number, qos=1, **options):
    """A client with a will whose session ends with its connection."""
    will = Will(topic=b"will/x", payload=b"gone", qos=qos)
    return await cluster.client(number, "mortal", will=will, **options)


async def watching(cluster, number):
    """A session that is there throughout, at a node."""
    return await session(cluster, number, "watcher", "will/#", qos=2, timeout=30)


@nodes(3, seeds=4, start=False)
@pytest.mark.parametrize("pause", [0.0, 40.0])
async def test_a_will_without_session_survives_the_death_of_all_nodes(sim, cluster, tmp_path, pause):
    """Also where its node has been back for a moment only, and discs take their time."""
    rng = sim.rng("discs")
    sim.loop.executor_delay = lambda: rng.expovariate(20)
    cluster.discs = tmp_path
    await cluster.start()
    await cluster.settled()
    await watching(cluster, 1)
    # Others know on disc, too, that it is there.
    await asyncio.sleep(5)
    if pause:
        cluster.crash(3, "kill")
        await asyncio.sleep(pause)
        await cluster.restart(3)
    await mortal(cluster, 3, timeout=30)
    for number in (1, 2, 3):
        cluster.crash(number, "kill")
    for number in rng.sample([1, 2, 3], 3):
        await cluster.restart(number)
    await asyncio.sleep(120)
    watcher = await watching(cluster, 1)
    await asyncio.sleep(5)
    assert watcher.payloads() == [b"gone"]


@nodes(3, seeds=2, discs=True)
@pytest.mark.parametrize("pause", [0.05, 20])
async def test_a_will_comes_to_all_though_its_node_dies_before_its_disc_knows(sim, cluster, pause):
    """What it had told the others is that the will is over, and so its next life does not publish it."""
    watchers = [await session(cluster, n, f"watcher{n}", "will/#", qos=2) for n in (1, 2, 3)]
    client = await mortal(cluster, 2, qos=2)
    await asyncio.sleep(1)
    slow = cluster.nodes[2].runtime
    sim.loop.executor_delay = lambda: 5.0 if Runtime.current() is slow else 0.001
    client.drop()
    await asyncio.sleep(1)
    assert [watcher.payloads() for watcher in watchers] == [[b"gone"], [], [b"gone"]]
    cluster.crash(2, "kill")
    sim.loop.executor_delay = None
    await asyncio.sleep(pause)
    await cluster.restart(2)
    watchers[1] = await resumed(cluster, 2, "watcher2")
    await asyncio.sleep(100)
    assert [watcher.payloads() for watcher in watchers] == [[b"gone"]] * 3


@nodes(3, seeds=[14, 16, 27], discs=True)
async def test_a_will_comes_to_all_once_though_its_node_dies_as_a_cut_ends(sim, cluster):
    """It had kept it for those that it could not see yet, and its disc did not know."""
    rng = sim.rng("plan")
    home, got = rng.choice([1, 2, 3]), {number: [] for number in (1, 2, 3)}
    # One that has not answered takes it for a repetition.
    half = {number: set() for number in got}
    watchers = {
        number: SimpleNamespace(resume=lambda c, *, present, n=number: c.adopt(half[n], got[n].append))
        for number in got
    }
    for number, watcher in watchers.items():
        await session(cluster, number, f"watcher{number}", "will/#", qos=2, session=watcher)
    lone = rng.choice([1, 2, 3])
    client = await mortal(cluster, home, qos=2) if (early := rng.random() < 0.5) else None
    await asyncio.sleep(early)
    commits = sim.rng("commits")
    sim.loop.executor_delay = lambda: min(commits.expovariate(1 / 0.05), 1)
    cluster.partition([lone], [number for number in got if number != lone])
    await asyncio.sleep(rng.choice([2, 5, 10, 15]))
    if client is None:
        client = await mortal(cluster, home, qos=2, timeout=30)
        await asyncio.sleep(1)
    falls = rng.uniform(-2, 2)
    dies = falls + rng.expovariate(3)
    loop = asyncio.get_running_loop()
    heals = loop.time() + 2
    loop.call_at(heals, cluster.heal)
    loop.call_at(heals + falls, client.drop)
    await asyncio.sleep(heals + dies - loop.time())
    cluster.crash(home, "kill")
    await asyncio.sleep(rng.uniform(0.5, 5))
    await cluster.restart(home)
    await resumed(cluster, home, f"watcher{home}", session=watchers[home])
    await asyncio.sleep(200)
    assert [len(messages) for messages in got.values()] == [1, 1, 1]


@nodes(3, seeds=2, discs=True)
@pytest.mark.parametrize("home", [1, 2])
async def test_a_will_comes_to_a_session_whose_node_dies_with_a_full_disc(sim, cluster, home):
    await session(cluster, 2, "watcher", "will/#", qos=2)
    client = await mortal(cluster, home, qos=2)
    await fill_disc(cluster, 2)
    client.drop()
    await asyncio.sleep(5)
    cluster.crash(2, "kill")
    await asyncio.sleep(5)
    await cluster.restart(2)
    watcher = await resumed(cluster, 2, "watcher", pause=60)
    assert watcher.payloads() == [b"gone"]


@nodes(3, seeds=2, discs=True)
@pytest.mark.parametrize("place", [3, 2])
async def test_a_session_takes_a_will_once_though_all_nodes_die_before_the_disc_knows(sim, cluster, place):
    """Its node has published it, and publishes it again; ``place``: where a watcher goes meanwhile."""
    watchers = [await session(cluster, n, f"watcher{n}", "will/#", qos=2) for n in (1, 2, 3)]
    client = await mortal(cluster, 2, qos=2)
    await asyncio.sleep(1)
    slow = cluster.nodes[2].runtime
    sim.loop.executor_delay = lambda: 5.0 if Runtime.current() is slow else 0.001
    client.drop()
    await asyncio.sleep(1)
    assert [watcher.payloads() for watcher in watchers] == [[b"gone"], [], [b"gone"]]
    for number in (1, 2, 3):
        cluster.crash(number, "kill")
    sim.loop.executor_delay = None
    await cluster.start()
    watchers = [await resumed(cluster, n, f"watcher{w}") for w, n in ((1, 1), (2, 2), (3, place))]
    await asyncio.sleep(30)
    assert [watcher.payloads() for watcher in watchers] == [[], [b"gone"], []]


@nodes(3, seeds=3, discs=True)
@pytest.mark.parametrize("seconds", [2, 25, 100])
@pytest.mark.parametrize("end", ["goodbye", "behind", "after"])
async def test_a_cut_publishes_a_will_once_and_none_after_a_goodbye(sim, cluster, seconds, end):
    """A goodbye that nobody has heard for longer than a minute cannot be told from a death."""
    watcher = await watching(cluster, 1)
    client = await mortal(cluster, 3)
    await asyncio.sleep(1)
    if sim.rng("cut").random() < 0.5:
        cluster.partition([1, 2], [3])
    else:
        for number in (1, 2):
            cluster.cut(3, number, one_way=True)
    await asyncio.sleep(seconds / 2)
    if end == "goodbye":
        await client.disconnect()
    elif end == "behind":
        client.drop()
    await asyncio.sleep(seconds / 2)
    await heal(cluster, timeout=120, pause=5)
    if end == "after":
        client.drop()
    await asyncio.sleep(100)
    expected = [] if end == "goodbye" and seconds < 60 else [b"gone"]
    assert watcher.payloads() == expected


@nodes(3)
@pytest.mark.parametrize("qos", [0, 1])
async def test_a_will_is_published_whichever_way_its_node_ends_the_client(sim, cluster, qos):
    watcher = await watching(cluster, 1)
    for count, end in enumerate(("keep alive", "protocol", "takeover", "kick", "stop"), 1):
        client = await mortal(cluster, 3, qos)
        await asyncio.sleep(0.1)
        match end:
            case "keep alive":
                client._pinger.cancel()
            case "protocol":
                client._transport.write(b"\x10\x00")
            case "takeover":
                other = await cluster.client(3, "mortal")
                await other.disconnect()
            case "kick":
                cluster.nodes[3].broker.kick("mortal")
            case "stop":
                await cluster.stop(3)
        await asyncio.sleep(100 if end == "keep alive" else 10)
        assert watcher.payloads() == [b"gone"] * count, end
        assert not cluster.nodes[1].broker.wills.publishing


@nodes(3, seeds=4, discs=[False, True])
async def test_a_will_that_is_due_when_its_node_stops_is_published(sim, cluster):
    """While others are asked for it, or on its way to them. Without a disc the node leaves for good."""
    watcher = await watching(cluster, 1)
    await mortal(cluster, 3)
    await asyncio.sleep(1)
    cluster.nodes[3].broker.kick("mortal")
    await asyncio.sleep(sim.rng("kick").choice([0, 0.0005, 0.001, 0.003]))
    await cluster.stop(3)
    await asyncio.sleep(100)
    assert watcher.payloads() == [b"gone"]


@nodes(1)
async def test_a_delayed_will_of_a_session_that_ends_with_its_connection_comes_with_its_end(sim, cluster):
    """Somebody else takes the name: that is another session, so nothing has come back."""
    watcher = await watching(cluster, 1)
    will = Will(topic=b"will/x", payload=b"gone", properties=Properties(will_delay=60))
    await cluster.client(1, "mortal", will=will)
    await cluster.client(1, "mortal", clean_start=False)
    await asyncio.sleep(1)
    assert watcher.payloads() == [b"gone"]

"""Share groups over the life of a message: whoever is there gets it, whoever dies passes it on."""

import asyncio
from functools import partial

import pytest

from .clusters import nodes, restart
from .flows import SESSION, resumed

GROUP = "$share/g/t/#"
trio = partial(nodes, 3, discs=True, cluster={"autoclean": None})


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


@trio()
async def test_a_member_whose_client_is_away_gets_nothing_while_another_is_there(sim, cluster):
    gone = [await member(cluster, number, f"gone{number}") for number in (1, 2, 3)]
    here = await member(cluster, 2, "here")
    for one in gone:
        await one.disconnect()
    await asyncio.sleep(1)
    sent = []
    for number in (1, 2, 3):
        sent += await publish(cluster, number, 20, start=100 * number)
    await asyncio.sleep(1)
    assert sorted(here.payloads()) == sorted(sent)
    await here.disconnect()
    await asyncio.sleep(1)
    more = await publish(cluster, 1, 20, start=1000)
    back = [await cluster.client(n, f"gone{n}", **SESSION) for n in (1, 2, 3)]
    back.append(await cluster.client(2, "here", **SESSION))
    await asyncio.sleep(2)
    assert sorted(payload for one in back for payload in one.payloads()) == sorted(more)


def mute(client):
    """From now on it takes messages and acknowledges none."""
    client._deliver = client.messages.append


@trio()
@pytest.mark.parametrize("killed", [(3,), (1, 2, 3)], ids=["its node", "all nodes"])
@pytest.mark.parametrize("at", [1, 3], ids=["published elsewhere", "published there"])
async def test_what_a_member_had_not_acknowledged_when_its_node_died_goes_to_another(
    sim, cluster, at, killed
):
    """Its session ends with its node, so nobody else would ever send it again."""
    faithless = await member(cluster, 3, "faithless", session_expiry=0, clean_start=True)
    mute(faithless)
    sent = await publish(cluster, at, 30)
    await asyncio.sleep(0.1)
    assert len(faithless.messages) == 30
    await asyncio.sleep(1)
    for number in killed:
        cluster.crash(number)
    for number in killed:
        await cluster.restart(number)
    await cluster.settled()
    other = await member(cluster, 2, "other")
    await asyncio.sleep(20)
    assert sorted(other.payloads()) == sorted(sent)
    await publish(cluster, at, 5, start=100)
    await asyncio.sleep(5)
    # What was acknowledged does not come again.
    cluster.crash(2)
    await restart(cluster, 2)
    other = await cluster.client(2, "other", **SESSION)
    await asyncio.sleep(20)
    assert other.payloads() == []
    assert all(node.broker.owed.waiting == 0 for node in cluster.nodes.values())


@trio(mqtt={"limits": {"max_inflight": 5}})
@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("kept", [SESSION, {"session_expiry": 0, "clean_start": True}], ids=["kept", "brief"])
@pytest.mark.parametrize(("full", "at"), [(3, 3), (3, 1), (1, 2)], ids=["there", "at another", "all apart"])
async def test_what_waits_behind_the_full_window_of_a_member_goes_to_one_with_room(
    sim, cluster, full, at, kept, qos
):
    """It acknowledges nothing, and only what is in flight to it is its own."""
    faithless = await member(cluster, full, "faithless", **kept)
    mute(faithless)
    other = await member(cluster, {3: 1, 1: 3}[full], "other", **kept)
    await asyncio.sleep(1)
    sent = await publish(cluster, at, 60, qos=qos)
    await asyncio.sleep(5)
    assert len(faithless.messages) == 5
    assert sorted(other.payloads() + faithless.payloads()) == sorted(sent)
    more = await publish(cluster, at, 30, qos=qos, start=100)
    await asyncio.sleep(5)
    assert len(faithless.messages) == 5
    assert sorted(other.payloads()[55:]) == sorted(more)


@trio()
async def test_what_is_on_its_way_to_another_member_when_the_node_dies_comes_to_it(sim, cluster):
    """Its first member has gone, and the way to the second is cut without anybody knowing."""
    faithless = await member(cluster, 3, "faithless", session_expiry=0, clean_start=True)
    mute(faithless)
    sent = await publish(cluster, 3, 30)
    other = await member(cluster, 2, "other")
    await asyncio.sleep(1)
    cluster.cut(2, 3)
    faithless.drop()
    await asyncio.sleep(1)
    cluster.crash(3)
    cluster.heal()
    await restart(cluster, 3, pause=20)
    assert sorted(other.payloads()) == sorted(sent)
    assert all(node.broker.owed.waiting == 0 for node in cluster.nodes.values())


@trio()
@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize(
    ("length", "chooser_dies"), [(15, False), (150, False), (40, True)], ids=["short", "long", "and chooser"]
)
async def test_what_comes_while_all_members_are_on_a_dead_node_waits_for_it(
    sim, cluster, qos, length, chooser_dies
):
    away = await member(cluster, 3, "away")
    await away.disconnect()
    before = await publish(cluster, 1, 10, qos=qos)
    await asyncio.sleep(1)
    cluster.crash(3)
    during = await publish(cluster, 1, 10, qos=qos, start=100)
    await asyncio.sleep(length)
    if chooser_dies:
        cluster.crash(1)
        await cluster.restart(1)
        await asyncio.sleep(15)
    late = await publish(cluster, 1, 10, qos=qos, start=200)
    await restart(cluster, 3, pause=5)
    back = await resumed(cluster, 3, "away", pause=5)
    assert back.payloads() == [*before, *during, *late]
    assert all(node.broker.owed.waiting == 0 for node in cluster.nodes.values())


@trio()
@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("others", [(1,), (1, 2)], ids=["at the publisher", "there and elsewhere"])
async def test_what_was_sent_to_a_member_that_has_just_left_goes_to_another(sim, cluster, others, qos):
    """The publisher's node does not know yet, and may itself have the only members that are left."""
    members = [await member(cluster, number, f"other{number}") for number in others]
    speaker = await cluster.client(1, "speaker")
    sent = [b"%d" % n for n in range(100)]
    for first in range(0, len(sent), 10):
        brief = await member(cluster, 3, f"brief{first}")
        members.append(brief)
        # It is counted by the publisher's node as one that has room.
        await asyncio.sleep(0.6)
        turn = (speaker.publish("t/x", payload, qos=qos) for payload in sent[first : first + 10])
        await asyncio.gather(brief.unsubscribe(GROUP), *turn)
    await asyncio.sleep(5)
    assert sorted(payload for one in members for payload in one.payloads()) == sorted(sent)
    assert all(node.broker.owed.waiting == 0 for node in cluster.nodes.values())


@trio()
@pytest.mark.parametrize("qos", [1, 2])
async def test_messages_whose_members_have_all_just_left_hold_no_acknowledgement_up(sim, cluster, qos):
    """Each node believes that the members of the others are there, and sends on what was sent to it."""
    members = [await member(cluster, number, f"member{number}") for number in (1, 2, 3)]
    speakers = [await cluster.client(number, f"speaker{number}") for number in (1, 2, 3)]
    await asyncio.sleep(1)
    for one in members:
        one.drop()
    sent = [(b"%d" % n, speakers[n % 3]) for n in range(60)]
    async with asyncio.timeout(10):
        await asyncio.gather(*(speaker.publish("t/x", payload, qos=qos) for payload, speaker in sent))
        # Nothing that goes between these nodes is held up for good.
        others = [await cluster.client(number, f"other{number}", **SESSION) for number in (1, 2, 3)]
        for other in others:
            await other.subscribe("all", qos=1)
        for speaker in speakers:
            await speaker.publish("all", b"", qos=1)
    back = [await cluster.client(number, f"member{number}", **SESSION) for number in (1, 2, 3)]
    await asyncio.sleep(5)
    assert sorted(payload for one in back for payload in one.payloads()) == sorted(p for p, _ in sent)
    assert all(node.broker.owed.waiting == 0 for node in cluster.nodes.values())

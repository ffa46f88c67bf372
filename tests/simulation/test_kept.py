"""Messages for persistent sessions of a node that is away are kept, and come when it is back."""

import asyncio

import pytest

from gossamer.testing.links import LinkQuality
from gossamer.testing.traffic import Flow

from .clusters import heal, restart
from .flows import SESSION, doubled, in_order, numbered, session
from .kept import (
    begin,
    drops,
    gets_everything_once,
    judge,
    kept,
    nothing_left,
    published_meanwhile,
    three,
    told_lost,
    under_load,
    whole_again,
)


async def split(cluster, length):
    here, passing, running = await under_load(cluster)
    cluster.partition([1, 2], [3])
    await asyncio.sleep(length)
    cluster.heal()
    await whole_again(cluster, running)
    gets_everything_once(running, here)
    # Who is not there for good gets what was published while it could be reached, and that once.
    assert not doubled(passing)
    assert nothing_left(cluster)


@three()
@pytest.mark.parametrize("length", [8, 70], ids=["short", "longer than the grace of rows"])
async def test_between_the_sides_of_a_split(sim, cluster, length):
    await split(cluster, length)


@three(discs=False)
async def test_between_the_sides_of_a_split_in_memory(sim, cluster):
    await split(cluster, 20)


@three()
@pytest.mark.parametrize("how", ["kill", "silence", "stop"])
async def test_while_a_node_is_dead_and_starts_anew(sim, cluster, how):
    here, _, running = await under_load(cluster)
    if how == "stop":
        await cluster.stop(3)
    else:
        cluster.crash(3, how)
    await asyncio.sleep(sim.rng("away").uniform(1, 45))
    await cluster.restart(3)
    again = await cluster.client(3, "here", **SESSION)
    await whole_again(cluster, running)
    assert again.session_present
    # What the dead node had sent and was not told of comes again, as QoS 1 has it.
    judge([flow for flow in running if flow.qos == 1], here, again)
    assert not doubled(again)
    assert all(in_order(again, flow.topic) for flow in running)
    assert nothing_left(cluster)


@three()
async def test_the_node_that_keeps_may_die_too(sim, cluster):
    """What it was told to keep is on its disc, and it goes on keeping for whoever is still away."""
    _, _, running = await under_load(cluster)
    cluster.crash(3, "silence")
    await asyncio.sleep(15)
    cluster.crash(1)
    await asyncio.sleep(sim.rng("dead").uniform(0, 10))
    await restart(cluster, 1, among=(1, 2))
    after = Flow(await cluster.client(1), "t/after", pause=0.1).start()
    await asyncio.sleep(20)
    await cluster.restart(3)
    await whole_again(cluster, [*running, after])
    assert len(after.acknowledged) > 100


@three()
async def test_what_is_kept_passes_a_link_that_is_slow(sim, cluster):
    """It leaves late, with less time left: entries of a journal, not a run of messages."""
    await begin(cluster)
    cluster.crash(3)
    await asyncio.sleep(5)
    speaker = await cluster.client(1, "speaker")
    sent = [b"%d " % number + bytes(2000) for number in range(600)]
    for payload in sent:
        await speaker.publish("t/1/1", payload, qos=1, expiry=6000)
    sim.shape(cluster.address(1), cluster.address(3), LinkQuality(bandwidth=200_000), one_way=True)
    await restart(cluster, 3, pause=20)
    back = await cluster.client(3, "away", **SESSION)
    await asyncio.sleep(2)
    assert back.payloads() == sent
    assert all(6000 - 60 < message.properties.message_expiry < 6000 - 5 for message in back.messages)


@three()
async def test_the_node_that_keeps_may_be_stopped_too(sim, cluster):
    """In order, and after the one that it keeps for: what it keeps is not thrown away with its members."""
    _, _, running = await under_load(cluster)
    await cluster.stop(3)
    await asyncio.sleep(5)
    for number in (2, 1):
        await cluster.stop(number)
    await asyncio.sleep(5)
    for number in (1, 2, 3):
        await cluster.restart(number)
    await whole_again(cluster, running)


@three()
async def test_a_split_that_comes_again_while_it_is_made_good(sim, cluster):
    here, _, running = await under_load(cluster)
    rng = sim.rng("cuts")
    for _ in range(3):
        await asyncio.sleep(rng.uniform(0.5, 3))
        cluster.partition([1, 2], [3])
        await asyncio.sleep(rng.uniform(6, 20))
        cluster.heal()
        await asyncio.sleep(rng.uniform(0.05, 6))
    await whole_again(cluster, running)
    gets_everything_once(running, here)


@three()
async def test_expiry_goes_on_while_a_message_is_kept(sim, cluster):
    await begin(cluster)
    speaker, recording = await published_meanwhile(cluster, 0)
    await speaker.publish("t/short", b"short", qos=1, expiry=20)
    await speaker.publish("t/long", b"long", qos=1, expiry=600)
    await speaker.publish("t/ever", b"ever", qos=1)
    await asyncio.sleep(30)
    await restart(cluster, 3, pause=3)
    back = await cluster.client(3, "away", **SESSION)
    await asyncio.sleep(3)
    assert back.payloads() == [b"long", b"ever"]
    left = back.messages[0].properties.message_expiry
    assert 500 < left < 570
    assert drops(cluster, "expired") == 1
    assert told_lost(recording, "expired") == [0]


@three(discs=False)
async def test_a_node_that_comes_back_without_its_sessions_gets_nothing_and_it_is_counted(sim, cluster):
    await begin(cluster)
    speaker, recording = await published_meanwhile(cluster, 5)
    await cluster.restart(3)
    again = await session(cluster, 3, "away", "t/#", qos=1)
    await cluster.settled()
    await asyncio.sleep(5)
    await speaker.publish("t/x", b"new", qos=1)
    await asyncio.sleep(3)
    assert again.payloads() == [b"new"]
    assert drops(cluster, "sessions_lost") == 5
    assert told_lost(recording, "away_sessions_lost") == list(range(5))
    assert nothing_left(cluster)


@three(cluster={"autoclean": 20.0})
async def test_what_is_kept_goes_with_a_member_that_is_removed(sim, cluster):
    await begin(cluster)
    speaker, recording = await published_meanwhile(cluster, 5)
    assert kept(cluster).stats()["away_waiting"] == 5
    await asyncio.sleep(60)
    assert drops(cluster, "removed") == 5
    assert told_lost(recording, "away_removed") == list(range(5))
    await speaker.publish("t/x", b"nobody", qos=1)
    assert nothing_left(cluster)
    await restart(cluster, 3, pause=3)
    await speaker.publish("t/x", b"new", qos=1)
    back = await cluster.client(3, "away", **SESSION)
    await asyncio.sleep(3)
    assert back.payloads() == [b"new"]


async def overflows(cluster, lost):
    """Of 25 messages 15 are lost: it is counted, recorded, and an alarm until the node is back."""
    await begin(cluster)
    _, recording = await published_meanwhile(cluster, 25)
    await asyncio.sleep(2)
    assert drops(cluster, "overflow") == 15
    assert told_lost(recording, "away_overflow") == list(lost)
    [(_, text)] = kept(cluster).alarms()
    assert text.startswith("15 messages for sessions of node3@10.0.0.3")
    await restart(cluster, 3, pause=5)
    back = await cluster.client(3, "away", **SESSION)
    await asyncio.sleep(3)
    assert back.payloads() == [b"%d" % number for number in range(25) if number not in lost]
    assert not list(kept(cluster).alarms())


@three(sessions={"away_messages": 10, "overflow": "drop_oldest"})
async def test_the_oldest_of_more_than_is_kept_are_dropped(sim, cluster):
    await overflows(cluster, range(15))


@three(sessions={"away_messages": 10, "overflow": "drop_newest"})
async def test_the_newest_of_more_than_is_kept_are_dropped(sim, cluster):
    await overflows(cluster, range(10, 25))


@three()
async def test_a_share_group_with_members_elsewhere_goes_on_there(sim, cluster):
    far = await session(cluster, 3, "far", "$share/g/t/#", qos=1)
    near = await session(cluster, 2, "near", "$share/g/t/#", qos=1)
    cluster.partition([1, 2], [3])
    await asyncio.sleep(12)
    speaker = await cluster.client(1)
    await numbered(speaker, "t/x", 20, qos=1)
    cluster.heal()
    await asyncio.sleep(30)
    assert near.payloads() == [b"%d" % number for number in range(20)]
    assert not far.payloads()


@three()
async def test_nothing_is_kept_where_no_persistent_session_wants_it(sim, cluster):
    _, passing = await begin(cluster)
    await passing.subscribe("only/passing", qos=1)
    await cluster.settled()
    speaker = await cluster.client(1)
    cluster.crash(3)
    await asyncio.sleep(10)
    await speaker.publish("only/passing", b"x", qos=1)
    await speaker.publish("t/x", b"qos 0")
    assert nothing_left(cluster)


@three(sessions={"away_messages": 0})
async def test_where_nothing_is_to_be_kept_nothing_waits_for_it(sim, cluster):
    await begin(cluster)
    speaker = await cluster.client(1)
    cluster.partition([1, 2], [3])
    await asyncio.sleep(10)
    await speaker.publish("t/x", b"x", qos=1)
    moved = await session(cluster, 2, "away", "t/#", qos=1)
    await speaker.publish("t/x", b"y", qos=1)
    await heal(cluster, pause=60)
    assert moved.payloads() == [b"y"]
    assert "away" not in cluster.nodes[3].broker.sessions
    assert nothing_left(cluster)
    assert not list(kept(cluster).alarms())

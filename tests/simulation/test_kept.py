"""Messages for persistent sessions of a node that is away are kept, and come when it is back."""

import asyncio
from functools import partial

import pytest

from gossamer.config import GossipConfig
from gossamer.testing.links import LinkQuality
from gossamer.testing.traffic import Flow

from .clusters import nodes, until
from .flows import SESSION, doubled, fill_disc, in_order, numbered, resumed, session, stop, subscriber
from .recording import Recording

three = partial(nodes, 3, discs=True, cluster={"autoclean": None})
"""Nodes of which none is ever removed."""


async def begin(cluster, *, qos=2):
    """A session at the third node that is connected, and one that is not."""
    here = await session(cluster, 3, "here", "t/#", qos=qos)
    away = await session(cluster, 3, "away", "t/#", qos=qos)
    await away.disconnect()
    passing = await subscriber(cluster, 3, "t/#", qos=1, name="passing")
    await cluster.settled()
    return here, passing


async def under_load(cluster):
    """As ``begin``, with flows of both QoS from the other nodes, which run for some seconds already."""
    here, passing = await begin(cluster)
    running = [
        Flow(await cluster.client(number), f"t/{number}/{qos}", qos=qos, pause=0.1).start()
        for number in (1, 2)
        for qos in (1, 2)
    ]
    await asyncio.sleep(3)
    return here, passing, running


async def finish(cluster, running):
    await asyncio.sleep(5)
    await stop(running)
    await cluster.settled(timeout=90)
    await asyncio.sleep(5)


def judge(running, *clients, qos2=True):
    """All that was acknowledged, in order; of QoS 2 nothing twice."""
    got = [payload for client in clients for payload in client.payloads()]
    for flow in running:
        mine = [payload for payload in got if payload.startswith(flow.topic.encode() + b" ")]
        assert not [payload for payload in flow.acknowledged if payload not in set(mine)]
        if flow.qos == 2:
            assert len(mine) == len(set(mine))


async def whole_again(cluster, running):
    """The client of the session that was away: it has everything, in order and once."""
    await finish(cluster, running)
    back = await cluster.client(3, "away", **SESSION)
    await asyncio.sleep(5)
    assert back.session_present
    gets_everything_once(running, back)
    return back


def gets_everything_once(running, client):
    judge(running, client)
    assert not doubled(client)
    assert all(in_order(client, flow.topic) for flow in running)


async def published_meanwhile(cluster, count, *, pause=10):
    """A client of node 1 that published so much after node 3 had died, and what node 1 recorded of it."""
    speaker = await cluster.client(1)
    cluster.crash(3)
    await asyncio.sleep(pause)
    recording = Recording(cluster.nodes[1])
    await numbered(speaker, "t/x", count, qos=1)
    return speaker, recording


async def roamer(cluster):
    """A session at the third node of a client that has just gone, and is to be seen elsewhere."""
    await begin(cluster)
    client = await session(cluster, 3, "roams", "r", qos=2)
    await cluster.settled()
    client.drop()


def kept(cluster, number=1):
    return cluster.nodes[number].broker.away.keeping


def drops(cluster, reason):
    return sum(kept(cluster, number).stats().get(f"away_dropped_{reason}", 0) for number in cluster.nodes)


def told_lost(recording, reason):
    """The messages that node 3 will not get of the node that is recorded, by their place among its own."""
    rows = recording.told("dropped")
    assert {(row["peer"], row["client"], row["reason"]) for row in rows} == {("node3@10.0.0.3", None, reason)}
    sent = recording.messages("published")
    return sorted(sent.index(number) for number in recording.messages("dropped"))


def nothing_left_at(cluster, number):
    return kept(cluster, number).stats()["away_waiting"] == 0


def nothing_left(cluster):
    return all(nothing_left_at(cluster, number) for number in cluster.nodes)


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
    await cluster.restart(1)
    await cluster.settled(1, 2)
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
    await cluster.restart(3)
    await cluster.settled()
    await asyncio.sleep(20)
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
async def test_a_session_that_moved_meanwhile_gets_everything_and_nothing_twice(sim, cluster):
    here, _, running = await under_load(cluster)
    cluster.partition([1, 2], [3])
    await asyncio.sleep(12)
    # It has lost its connection as well, and finds another node.
    here.drop()
    moved = await cluster.client(2, "here", **SESSION)
    before = [list(flow.acknowledged) for flow in running]
    await moved.subscribe("t/#", qos=2)
    since = [len(flow.acknowledged) for flow in running]
    await asyncio.sleep(sim.rng("length").uniform(2, 30))
    cluster.heal()
    await finish(cluster, running)
    await asyncio.sleep(20)
    got = {*here.payloads(), *moved.payloads()}
    for flow, earlier, count in zip(running, before, since, strict=True):
        # Between its arrival and its SUBSCRIBE it was subscribed to nothing there.
        wanted = [*earlier, *list(flow.acknowledged)[count + 1 :]]
        assert not [payload for payload in wanted if payload not in got]
    # In the two seconds in which a client may subscribe to all that it wants, QoS 1 may come by both ways.
    twice = doubled(moved)
    assert not [payload for payload in twice if b"/2 " in payload]
    assert len(twice) <= 2 * 2.5 / 0.1
    assert not [payload for payload in here.payloads() if payload in moved.payloads() and b"/2 " in payload]
    assert not [name for name in cluster.nodes[3].broker.sessions if name == "here"]


@three(seeds=4)
async def test_what_comes_live_behind_it_is_there_for_a_session_that_goes_and_comes_back(sim, cluster):
    """Sent before the session had gone, it arrives while it returns, before the mark of either move."""
    await begin(cluster)
    cluster.crash(3)
    await asyncio.sleep(5)
    speaker = await cluster.client(1, "speaker")
    kept = [b"%d " % number + bytes(2000) for number in range(600)]
    for payload in kept:
        await speaker.publish("t/1/2", payload, qos=2)
    sim.shape(cluster.address(1), cluster.address(3), LinkQuality(bandwidth=100_000), one_way=True)
    starting = asyncio.create_task(cluster.restart(3))
    await until(lambda: "node3@10.0.0.3" in cluster.nodes[1].distribution.nodes(), pause=0.001)
    live = [b"live %d" % number for number in range(5)]
    for payload in live:
        await speaker.publish("t/1/2", payload, qos=2)
    there = await resumed(cluster, 2, "away", timeout=60)
    await starting
    await there.disconnect()
    await asyncio.sleep(sim.rng("when").uniform(0, 8))
    back = await cluster.client(3, "away", **SESSION, timeout=60)
    await asyncio.sleep(60)
    got = there.payloads() + back.payloads()
    assert not [payload for payload in [*kept, *live] if payload not in got]
    assert len(got) == len(set(got))


@three()
async def test_expiry_goes_on_while_a_message_is_kept(sim, cluster):
    await begin(cluster)
    speaker, recording = await published_meanwhile(cluster, 0)
    await speaker.publish("t/short", b"short", qos=1, expiry=20)
    await speaker.publish("t/long", b"long", qos=1, expiry=600)
    await speaker.publish("t/ever", b"ever", qos=1)
    await asyncio.sleep(30)
    await cluster.restart(3)
    await cluster.settled()
    await asyncio.sleep(3)
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
    await cluster.restart(3)
    await cluster.settled(timeout=90)
    await asyncio.sleep(3)
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
    await cluster.restart(3)
    await cluster.settled()
    await asyncio.sleep(5)
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
async def test_nothing_is_kept_where_nobody_lasting_wants_it(sim, cluster):
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
    cluster.heal()
    await cluster.settled(timeout=90)
    await asyncio.sleep(60)
    assert moved.payloads() == [b"y"]
    assert "away" not in cluster.nodes[3].broker.sessions
    assert nothing_left(cluster)
    assert not list(kept(cluster).alarms())


@three(seeds=3)
async def test_what_one_side_keeps_follows_a_session_that_moved_on_the_other(sim, cluster):
    """The publishers' node does not see it go, and keeps for a node that has it no more after the cut."""
    home = await session(cluster, 2, "moves", "t/#", qos=2)
    running = [Flow(await cluster.client(1), f"t/{qos}", qos=qos, pause=0.1).start() for qos in (1, 2)]
    await asyncio.sleep(2)
    await home.disconnect()
    cluster.partition([1], [2, 3])
    await asyncio.sleep(sim.rng("moves").uniform(0, 12))
    moved = await resumed(cluster, 3, "moves")
    await asyncio.sleep(sim.rng("heals").uniform(8, 20))
    cluster.heal()
    await asyncio.sleep(30)
    await stop(running)
    await asyncio.sleep(5)
    got = {*home.payloads(), *moved.payloads()}
    assert not [payload for flow in running for payload in flow.acknowledged if payload not in got]
    assert not [payload for payload in doubled(moved) if b"/2 " in payload]
    assert not [name for name in cluster.nodes[2].broker.sessions if name == "moves"]


@three(seeds=4)
@pytest.mark.parametrize("anew", [False, True])
async def test_what_a_node_keeps_that_died_before_it_saw_the_cut_follows_a_session(sim, cluster, anew):
    """It knows from its disc what the others want, and not whose sessions they had."""
    home = await session(cluster, 2, "moves", "t/#", qos=2)
    await session(cluster, 2, "stays", "#", qos=2)
    steady = await session(cluster, 3, "steady", "u", qos=1)
    await asyncio.sleep(2)
    await home.disconnect()
    cluster.partition([1], [2, 3])
    await asyncio.sleep(sim.rng("dies").uniform(0.1, 1))
    cluster.crash(1)
    starts = asyncio.create_task(cluster.restart(1))
    await asyncio.sleep(sim.rng("moves").uniform(0, 3))
    moved = await resumed(cluster, 3, "moves")
    await moved.disconnect()
    await starts
    sent = [
        *await numbered(await cluster.client(1, "first"), "t/1", 5, qos=1),
        *await numbered(await cluster.client(1, "second"), "t/2", 5, qos=2),
    ]
    others = await numbered(await cluster.client(1, "third"), "u", 5, qos=1)
    begun = await session(cluster, 1, "moves", "t/#", qos=2) if anew else None
    await asyncio.sleep(15)
    cluster.heal()
    await asyncio.sleep(30)
    back = begun or await resumed(cluster, 3, "moves")
    await asyncio.sleep(5)
    assert sorted(back.payloads()) == sorted(sent)
    assert steady.payloads() == others


@three(seeds=2)
async def test_what_follows_a_session_to_a_node_whose_disc_is_full_is_queued_once(sim, cluster):
    home = await session(cluster, 2, "moves", "t/#", qos=1)
    speaker = await cluster.client(1, "speaker")
    await home.disconnect()
    cluster.partition([1], [2, 3])
    await asyncio.sleep(10)
    moved = await resumed(cluster, 3, "moves")
    sent = await numbered(speaker, "t/x", 20, qos=1)
    disc = await fill_disc(cluster, 3)
    cluster.heal()
    await asyncio.sleep(40)
    disc.limit_pages(0)
    await asyncio.sleep(20)
    assert moved.payloads() == sent


@three(seeds=2)
async def test_a_node_that_dies_again_before_it_has_said_what_it_has(sim, cluster):
    """Nobody knows of a session of its then; it is not elsewhere for that, and what comes is kept for it."""
    await begin(cluster)
    cluster.crash(3)
    await asyncio.sleep(10)
    starts = asyncio.create_task(cluster.restart(3))
    node = cluster.nodes[1]
    sessions = node.broker.takeovers.ownership._rows
    name = "node3@10.0.0.3"
    # Up, and what is known of its former life is gone.
    await until(lambda: name in node.distribution.nodes() and not sessions.rows_of(name), pause=0.0005)
    cluster.crash(3)
    starts.cancel()
    await asyncio.wait([starts])
    await asyncio.sleep(10)
    speaker = await cluster.client(1)
    sent = await numbered(speaker, "t/x", 5, qos=2)
    moved = await cluster.client(2, "away", **SESSION)
    assert not moved.session_present
    await moved.subscribe("t/#", qos=2)
    await asyncio.sleep(5)
    await cluster.restart(3)
    await cluster.settled()
    await asyncio.sleep(30)
    assert moved.payloads() == sent


@three(seeds=3)
async def test_what_a_new_session_had_whose_node_dies_is_not_for_the_old_one_too(sim, cluster):
    """But for the seconds in which the client may not have subscribed to all that it wants."""
    await begin(cluster)
    cluster.crash(3)
    moved = await cluster.client(1, "here", **SESSION)
    assert not moved.session_present
    await moved.subscribe("t/#", qos=2)
    await asyncio.sleep(3)
    speaker = await cluster.client(2)
    await numbered(speaker, "t/x", 5, qos=2)
    await asyncio.sleep(5)
    had = moved.payloads()
    assert len(had) == 5
    cluster.crash(1)
    starts = asyncio.create_task(cluster.restart(3))
    old = await resumed(cluster, 2, "here", timeout=60)
    await starts
    await speaker.publish("t/x", b"later", qos=2)
    await asyncio.sleep(10)
    assert old.payloads() == [b"later"]


@three(seeds=2, start=False)
@pytest.mark.parametrize("stays", ["was there", "came later"])
async def test_a_node_that_leaves_hands_on_what_it_keeps(sim, cluster, stays):
    """The node that is away gets it from a member that stays, though that had not been there when it went."""
    await cluster.start(1, 3)
    if stays == "was there":
        await cluster.start(2)
    await cluster.settled()
    away = await session(cluster, 3, "away", "t/#", qos=2)
    goes = await session(cluster, 3, "goes", "t/#", qos=2)
    await away.disconnect()
    await cluster.settled()
    running = [Flow(await cluster.client(1), f"t/1/{qos}", qos=qos, pause=0.1).start() for qos in (1, 2)]
    await asyncio.sleep(3)
    cluster.crash(3)
    await asyncio.sleep(10)
    goes.drop()
    if stays == "came later":
        await cluster.start(2)
        await cluster.settled(1, 2)
    went = await cluster.client(2, "goes", **SESSION)
    before = [list(flow.acknowledged) for flow in running]
    await went.subscribe("t/#", qos=2)
    since = [len(flow.acknowledged) for flow in running]
    await asyncio.sleep(5)
    await stop(running)
    assert kept(cluster).stats()["away_waiting"] > 200
    await cluster.nodes[1].view.leave()
    assert nothing_left_at(cluster, 1)
    await cluster.stop(1)
    after = Flow(await cluster.client(2), "t/2", qos=2).start(20)
    await after.finish()
    await cluster.restart(3)
    await cluster.settled(2, 3)
    await asyncio.sleep(30)
    back = await cluster.client(3, "away", **SESSION)
    await asyncio.sleep(5)
    assert back.session_present
    judge(running if stays == "came later" else [*running, after], back)
    assert not doubled(back)
    got = {*goes.payloads(), *went.payloads()}
    for flow, earlier, count in zip(running, before, since, strict=True):
        assert not [
            payload for payload in (*earlier, *list(flow.acknowledged)[count + 1 :]) if payload not in got
        ]
    assert not [payload for payload in doubled(went) if b"/2 " in payload]
    if stays == "was there":
        # What it had where it went is not for its old session: QoS 1 comes twice of two seconds at most.
        assert len(doubled(went)) <= 2.5 / 0.1
    assert nothing_left(cluster)


@three(seeds=2)
async def test_a_session_that_began_behind_a_cut_and_is_over_is_not_where_its_client_is(sim, cluster):
    """Its node has seen a later claim by the time at which its client would have subscribed to everything."""
    await roamer(cluster)
    cluster.partition([1], [2, 3])
    await asyncio.sleep(10)
    speaker = await cluster.client(1, "speaker")
    for _ in range(600):
        await speaker.publish("t/1/1", bytes(2000), qos=1)
    anew = await cluster.client(1, "roams", **SESSION)
    assert not anew.session_present
    await anew.subscribe("r", qos=2)
    anew.drop()
    await resumed(cluster, 3, "roams")
    # What was kept is on its way for long enough, so the node is expected still when it dies.
    sim.shape(cluster.address(1), cluster.address(3), LinkQuality(bandwidth=100_000), one_way=True)
    cluster.heal()
    await asyncio.sleep(4)
    assert "node3@10.0.0.3" in cluster.nodes[1].distribution.nodes()
    assert kept(cluster).anybody_away
    cluster.crash(3)
    await asyncio.sleep(10)
    sent = await numbered(speaker, "r", 5, qos=2)
    await cluster.restart(3)
    await cluster.settled()
    await asyncio.sleep(20)
    back = await cluster.client(3, "roams", **SESSION)
    await asyncio.sleep(5)
    assert back.session_present
    assert back.payloads() == sent


@three(seeds=2)
@pytest.mark.parametrize("goes_on", [False, True])
async def test_what_waits_for_a_session_on_its_way_to_a_node_that_is_back(sim, cluster, monkeypatch, goes_on):
    """It came behind the mark of the move, so it is for the session there, which was elsewhere before."""
    await roamer(cluster)
    cluster.partition([1, 2], [3])
    await asyncio.sleep(10)
    speaker = await cluster.client(1, "speaker")
    await speaker.publish("t/1/1", b"is kept", qos=1)
    moved = await session(cluster, 2, "roams", "r", qos=2)
    await asyncio.sleep(3)

    async def busy(_peer, _turn):
        await asyncio.sleep(0.1)
        return False

    # The node that is back does not get to say what it has.
    with monkeypatch.context() as patch:
        patch.setattr(cluster.nodes[1].broker.away, "_greeted", busy)
        cluster.heal()
        await cluster.settled()
        await asyncio.sleep(3)
        moved.drop()
        coming = asyncio.create_task(cluster.client(3, "roams", **SESSION))
        await asyncio.sleep(1.5)
        await speaker.publish("r", b"on its way", qos=2)
        assert not coming.done()
        cluster.partition([1], [2, 3])
        last = await coming
        assert last.session_present
        await asyncio.sleep(5)
    if goes_on:
        await last.disconnect()
        last = await cluster.client(2, "roams", **SESSION)
    await asyncio.sleep(5)
    cluster.heal()
    await cluster.settled(timeout=90)
    await asyncio.sleep(20)
    assert last.payloads() == [b"on its way"]


@three(seeds=2)
async def test_what_a_client_had_as_its_new_session_began_comes_from_an_older_one_no_more(sim, cluster):
    """Its node kept the same for the one that had the older session, and died before that was back."""
    await roamer(cluster)
    cluster.crash(3)
    await asyncio.sleep(10)
    speaker = await cluster.client(1, "speaker")
    await speaker.publish("r", b"before", qos=2)
    anew = await cluster.client(2, "roams", **SESSION)
    assert not anew.session_present
    await anew.subscribe("r", qos=2)
    sent = [b"%d" % number for number in range(30)]
    for payload in sent:
        await speaker.publish("r", payload, qos=2)
        await asyncio.sleep(0.1)
    await asyncio.sleep(3)
    assert anew.payloads() == sent
    cluster.crash(2)
    await asyncio.sleep(10)
    await cluster.restart(3)
    back = await resumed(cluster, 3, "roams")
    await speaker.publish("r", b"after", qos=2)
    await asyncio.sleep(30)
    assert back.payloads() == [b"before", b"after"]


@three(seeds=2)
@pytest.mark.parametrize("moves", [True, False], ids=["moves", "begins"])
async def test_a_node_that_starts_keeps_for_one_that_is_away_what_it_never_knew_of(sim, cluster, moves):
    """The session came to the node that is away while the other was down, too."""
    first = await session(cluster, 2, "late", "t/#", qos=2)
    await cluster.settled()
    first.drop()
    cluster.crash(1)
    await asyncio.sleep(5)
    if moves:
        late = await cluster.client(3, "late", **SESSION)
    else:
        late = await session(cluster, 3, "another", "t/#", qos=2)
    await asyncio.sleep(3)
    cluster.crash(3)
    late.drop()
    await asyncio.sleep(10)
    await cluster.restart(1)
    speaker = await cluster.client(1)
    sent = [b"%d" % number for number in range(5)]
    for payload in sent:
        await speaker.publish("t/x", payload, qos=2)
    await cluster.restart(3)
    await cluster.settled()
    back = await cluster.client(3, "late" if moves else "another", timeout=40, **SESSION)
    await asyncio.sleep(20)
    assert [*late.payloads(), *back.payloads()] == sent


@three(seeds=2)
async def test_a_node_that_starts_is_told_of_one_that_gossip_does_not_know(sim, cluster):
    """Who tells has started since that went: what gossip knows is on no disc, what it keeps for others is."""
    cluster.crash(3)
    late = await session(cluster, 2, "late", "t/#", qos=2)
    await cluster.settled(1, 2)
    cluster.crash(2)
    late.drop()
    await asyncio.sleep(10)
    cluster.crash(1)
    await cluster.restart(1)
    await gets_what_is_published_at_a_node_that_has_started(cluster)


@three(seeds=2, start=False, cluster={"autoclean": None, "gossip": GossipConfig(down_retention=20.0)})
async def test_a_node_that_joins_is_told_of_one_that_gossip_has_forgotten(sim, cluster):
    await cluster.start(1, 2)
    late = await session(cluster, 2, "late", "t/#", qos=2)
    await cluster.settled(1, 2)
    cluster.crash(2)
    late.drop()
    await asyncio.sleep(60)
    assert cluster.nodes[1].members.get("node2@10.0.0.2") is None
    await gets_what_is_published_at_a_node_that_has_started(cluster, first=True)


async def gets_what_is_published_at_a_node_that_has_started(cluster, *, first=False):
    """A session of node 2, which is away, and did not begin while node 3 was there."""
    await (cluster.start if first else cluster.restart)(3)
    await cluster.settled(1, 3)
    sent = await numbered(await cluster.client(3, "speaker"), "t/x", 5, qos=2)
    await cluster.restart(2)
    await cluster.settled()
    back = await cluster.client(2, "late", timeout=40, **SESSION)
    assert back.session_present
    await asyncio.sleep(20)
    assert back.payloads() == sent
    assert nothing_left(cluster)


@three(seeds=2)
async def test_a_node_that_starts_keeps_for_a_session_that_has_gone_back_meanwhile(sim, cluster):
    """Its disc says that the client has left the node that is away; it was there again when that went."""
    client = await session(cluster, 3, "late", "t/#", qos=2)
    await cluster.settled()
    client.drop()
    cluster.partition([3], [1, 2])
    await asyncio.sleep(40)
    client = await session(cluster, 2, "late", "t/#", qos=2)
    await asyncio.sleep(5)
    client.drop()
    cluster.crash(1)
    cluster.heal()
    await cluster.settled(2, 3, timeout=90)
    await asyncio.sleep(15)
    client = await cluster.client(3, "late", timeout=40, **SESSION)
    assert client.session_present
    await asyncio.sleep(5)
    cluster.crash(3)
    client.drop()
    await asyncio.sleep(10)
    await cluster.restart(1)
    speaker = await cluster.client(1)
    sent = [b"%d" % number for number in range(5)]
    for payload in sent:
        await speaker.publish("t/x", payload, qos=2)
    await cluster.restart(3)
    await cluster.settled()
    back = await cluster.client(3, "late", timeout=40, **SESSION)
    await asyncio.sleep(20)
    assert back.payloads() == sent


@three()
async def test_what_a_disc_remembers_of_a_member_that_has_left_is_nothing_to_the_others(sim, cluster):
    """It left while the node whose disc that is was down; nobody keeps anything for it any more."""
    await session(cluster, 3, "gone", "t/#", qos=1)
    await cluster.settled()
    cluster.crash(3)
    await asyncio.sleep(15)
    cluster.crash(2)
    await cluster.restart(3)
    await cluster.settled(1, 3)
    await cluster.nodes[3].view.leave()
    await asyncio.sleep(5)
    await cluster.restart(2)
    await cluster.settled(1, 2)
    await asyncio.sleep(10)
    for number in (1, 2):
        keeping = cluster.nodes[number].broker.away.keeping
        assert not keeping.anybody_away, number
        assert not [name for name in keeping.departures.had if name.startswith("node3")]

"""Two sessions of one client, of which a cut has kept each from the other, become one."""

import asyncio
from types import SimpleNamespace

import msgspec
import pytest

from gossamer.mqtt.codec.packets import Pubcomp, Publish, Pubrec, Pubrel, Subscription
from gossamer.mqtt.migration import superseded
from gossamer.mqtt.migration.superseded import SupersededSessions
from gossamer.testing.links import LinkQuality
from gossamer.testing.traffic import Flow

from .clusters import nodes, restart, until
from .flows import SESSION, delivered, fill_disc, gone, new_session, numbered, resumed, session, subscriber


@nodes(2, seeds=2)
async def test_a_session_that_began_behind_a_cut_has_the_subscriptions_of_the_one_it_meets(sim, cluster):
    """Its client has subscribed once, and was told at each later CONNACK that it has a session."""
    await gone(cluster, 2, "c", "t", qos=1)
    cluster.cut(1, 2)
    await asyncio.sleep(40)
    # It gives up before it has heard that it has no session there.
    (await cluster.client(1, "c", **SESSION)).drop()
    cluster.heal()
    await until(lambda: len(cluster.nodes[2].broker.takeovers.claims("c")) > 1)
    client = await resumed(cluster, 2, "c")
    speaker = await cluster.client(1)
    await speaker.publish("t", b"x", qos=1)
    await asyncio.sleep(1)
    assert client.payloads() == [b"x"]


@nodes(2, seeds=2)
@pytest.mark.parametrize("there_again", [True, False], ids=["where it began", "where it went"])
async def test_a_publisher_of_two_sessions_is_known_by_what_it_began_in_either(sim, cluster, there_again):
    """One began behind a cut, and the other is what is gone on with: a half sent message is in the first."""
    hearer = await subscriber(cluster, 1, "t", qos=2, session_expiry=300)
    (await cluster.client(2, "c", **SESSION)).drop()
    cluster.cut(1, 2)
    await asyncio.sleep(40)
    publisher = await cluster.client(1, "c", **SESSION)
    assert not publisher.session_present
    message = Publish(topic=b"t", payload=b"x", qos=2, packet_id=7)
    await publisher.ask(message, Pubrec, 7)
    publisher.drop()
    await asyncio.sleep(1)
    publisher = await resumed(cluster, 2, "c")
    cluster.heal()
    await until(lambda: len(cluster.nodes[2].broker.takeovers.claims("c")) > 1)
    if there_again:
        publisher.drop()
        publisher = await resumed(cluster, 1, "c")
    else:
        # Until the node has been told what is left of the other session, nobody there knows.
        await asyncio.sleep(3)
    message = msgspec.structs.replace(message, dup=True)
    await publisher.ask(message, Pubrec, 7)
    await publisher.ask(Pubrel(7), Pubcomp, 7)
    await asyncio.sleep(1)
    assert hearer.payloads() == [b"x"]


@nodes(2, seeds=2)
@pytest.mark.parametrize("there_again", [True, False], ids=["where it began", "where it went"])
async def test_a_subscriber_of_two_sessions_ends_in_one_what_it_began_to_take_in_the_other(
    sim, cluster, there_again
):
    """It would take the next message of QoS 2 that gets that identifier for one that it has."""
    half = set()
    remembers = SimpleNamespace(resume=lambda client, *, present: client.adopt(half, client.messages.append))
    await gone(cluster, 2, "c", "t", qos=2, session=remembers)
    cluster.cut(1, 2)
    await asyncio.sleep(40)
    client = await session(cluster, 1, "c", "t", qos=2, session=remembers)
    assert not client.session_present
    take = client._take
    client._take = lambda packet: client.drop() if isinstance(packet, Pubrel) else take(packet)
    speaker = await cluster.client(1)
    await speaker.publish("t", b"x", qos=2)
    await client.lost
    assert half
    client = await resumed(cluster, 2, "c", session=remembers)
    cluster.heal()
    await until(lambda: len(cluster.nodes[2].broker.takeovers.claims("c")) > 1)
    if there_again:
        client.drop()
        client = await resumed(cluster, 1, "c", session=remembers)
    await asyncio.sleep(3)
    assert not half
    assert client.payloads() == []


@nodes(2, seeds=2)
@pytest.mark.parametrize("there_again", ["", "before it is told", "once it is told"])
async def test_what_is_in_flight_in_one_of_two_sessions_keeps_its_identifier_in_the_other(
    sim, cluster, monkeypatch, there_again
):
    """Its client, which was told of none of this, has it under that one and has not answered."""
    got = []
    remembers = SimpleNamespace(resume=lambda client, *, present: client.adopt(set(), got.append))
    await gone(cluster, 2, "c", "t", qos=2, session=remembers)
    cluster.cut(1, 2)
    await asyncio.sleep(40)
    client = await session(cluster, 1, "c", "t", qos=2, session=remembers)
    assert not client.session_present
    numbers, take = [], client._take

    def falls(packet):
        if not isinstance(packet, Publish):
            return take(packet)
        numbers.append(packet.packet_id)
        return client.drop()

    client._take = falls
    await (await cluster.client(1)).publish("t", b"x", qos=2)
    await client.lost
    client = await resumed(cluster, 2, "c", session=remembers)
    with monkeypatch.context() as patch:
        if there_again == "before it is told":
            patch.setattr(SupersededSessions, "_was_given", not_yet)
        cluster.heal()
        await until(lambda: cluster.nodes[1].broker.takeovers.ownership.better("c"))
        if there_again == "once it is told":
            await asyncio.sleep(2)
        if there_again:
            client.drop()
            client = await resumed(cluster, 1, "c", session=remembers)
        await asyncio.sleep(3)
    assert [packet.payload for packet in got] == [b"x"]
    assert [packet.packet_id for packet in got] == numbers


@nodes(2, seeds=2)
async def test_what_is_in_flight_in_one_of_two_sessions_is_not_sent_by_one_that_does_not_want_it(
    sim, cluster
):
    await gone(cluster, 2, "c", "u", qos=2)
    cluster.cut(1, 2)
    await asyncio.sleep(40)
    behind = await session(cluster, 1, "c", "t", qos=2)
    behind._take = lambda _packet: behind.drop()
    await (await cluster.client(1)).publish("t", b"x", qos=2)
    await behind.lost
    client = await resumed(cluster, 2, "c")
    cluster.heal()
    await until(lambda: len(cluster.nodes[1].broker.takeovers.claims("c")) > 1)
    await until(lambda: "c" not in cluster.nodes[1].broker.sessions)
    assert client.payloads() == []
    assert client.connected


@nodes(3, seeds=4)
async def test_of_two_sessions_the_one_that_its_client_had_last_goes_on(sim, cluster):
    """Though the other began later: it has gone back to the first, and left before the partition healed."""
    got = []
    remembers = SimpleNamespace(resume=lambda client, *, present: client.adopt(set(), got.append))
    await gone(cluster, 2, "c", "t", qos=2, session=remembers)
    cluster.partition([1, 2], [3])
    await asyncio.sleep(40)
    behind = await session(cluster, 3, "c", "t", qos=2, session=remembers)
    assert not behind.session_present
    behind.drop()
    await asyncio.sleep(1)
    client = await resumed(cluster, 2, "c", session=remembers)
    numbers = []
    client._take = lambda packet: (numbers.append(packet.packet_id), client.drop())
    await (await cluster.client(1)).publish("t", b"x", qos=2)
    await client.lost
    cluster.heal()
    await until(lambda: len(cluster.nodes[1].broker.takeovers.claims("c")) > 1)
    await asyncio.sleep(sim.rng("when").uniform(0, 4))
    await resumed(cluster, 1, "c", session=remembers)
    await asyncio.sleep(10)
    assert [(packet.payload, packet.packet_id) for packet in got] == [(b"x", numbers[0])]


async def not_yet(*_):
    return None


async def in_two_copies(sim, cluster):
    """The session of "c", subscribed to "stays" and "gone", moves from node 1 to node 2, and they are cut off
    from each other before node 1 knows that it has; its client's first connection on node 2."""
    await gone(cluster, 1, "c", "stays", "gone", qos=1)
    await asyncio.sleep(1)
    sim.shape(cluster.address(1), cluster.address(2), LinkQuality(latency=0.1))
    moving = asyncio.create_task(cluster.client(2, "c", **SESSION, timeout=40))
    target = cluster.nodes[2]
    await until(lambda: target.name in target.broker.takeovers.claims("c"))
    cluster.cut(1, 2)
    client = await moving
    sim.shape(cluster.address(1), cluster.address(2), None)
    assert client.session_present
    await asyncio.sleep(40)
    assert all("c" in node.broker.sessions for node in cluster.nodes.values())
    return client


async def apart(sim, cluster):
    """As before, and "new" was subscribed to on node 2 before the client came back to node 1."""
    client = await in_two_copies(sim, cluster)
    await client.subscribe("new", qos=1)
    client.drop()
    return await resumed(cluster, 1, "c")


def with_late_routes(router, monkeypatch, seconds):
    """Routes of a node are visible to the others so much later."""
    visible = type(router).visible

    async def late(self, seq):
        await asyncio.sleep(seconds)
        return await visible(self, seq)

    monkeypatch.setattr(type(router), "visible", late)


async def meet(cluster, client, monkeypatch, *, there_again):
    """Both copies are seen by both nodes; the client stays where the later claim is, on node 1, or goes
    to the other before that is told anything."""

    with monkeypatch.context() as patch:
        if there_again:
            patch.setattr(SupersededSessions, "_was_given", not_yet)
        cluster.heal()
        await until(lambda: cluster.nodes[2].broker.takeovers.ownership.better("c"))
        if there_again:
            client.drop()
            client = await resumed(cluster, 2, "c")
    await cluster.settled(timeout=90)
    await asyncio.sleep(20)
    assert sum("c" in node.broker.sessions for node in cluster.nodes.values()) == 1
    return client


@nodes(2, seeds=2, discs=[True, False])
@pytest.mark.parametrize("there_again", [True, False], ids=["back", "stays"])
@pytest.mark.parametrize("changed", [1, 2])
async def test_of_two_copies_of_a_session_the_subscriptions_changed_last_count(
    sim, cluster, monkeypatch, changed, there_again
):
    """Whichever of them is gone on with, and whichever way they meet."""
    client = await in_two_copies(sim, cluster)
    if changed == 1:
        # More changes than in the other copy, and earlier ones.
        for topic in ("earlier", "old", "older"):
            await client.subscribe(topic, qos=1)
        await client.unsubscribe("stays")
        client.drop()
        client = await resumed(cluster, 1, "c")
    await client.subscribe("new", qos=1)
    await client.unsubscribe("gone")
    client.drop()
    if cluster.discs:
        cluster.crash(changed)
        await cluster.restart(changed)
        await asyncio.sleep(5)
    client = await resumed(cluster, 1, "c")
    client = await meet(cluster, client, monkeypatch, there_again=there_again)
    for number in (1, 2):
        speaker = await cluster.client(number)
        for topic in ("stays", "new", "gone", "older"):
            await speaker.publish(topic, b"%d" % number, qos=1)
    await asyncio.sleep(2)
    wanted = [(topic, payload) for payload in (b"1", b"2") for topic in (b"stays", b"new")]
    assert [(m.topic, m.payload) for m in client.messages] == wanted
    assert not any(
        "gone" in [name for name, *_ in node.broker.router.routes()] for node in cluster.nodes.values()
    )


@nodes(2, seeds=2)
@pytest.mark.parametrize("there_again", [True, False], ids=["back", "stays"])
async def test_what_one_copy_of_a_session_alone_was_subscribed_to_is_delivered(
    sim, cluster, monkeypatch, there_again
):
    """It waits there, and is offered to the copy that is gone on with, or comes while that moves."""
    client = await in_two_copies(sim, cluster)
    await client.subscribe("new", qos=1)
    client.drop()
    flow = Flow(await cluster.client(2), "new", pause=0.01).start()
    await asyncio.sleep(1)
    client = await resumed(cluster, 1, "c")
    sim.shape(cluster.address(1), cluster.address(2), LinkQuality(latency=0.1))
    lives = [client, await meet(cluster, client, monkeypatch, there_again=there_again)]
    await flow.stop()
    await asyncio.sleep(2)
    assert len(flow.acknowledged) > 100
    assert not set(flow.acknowledged) - set(delivered(lives, flow))


@nodes(2, seeds=2, discs=True, sessions={"away_messages": 0})
async def test_what_is_left_in_a_copy_is_queued_once_where_the_disc_is_full(sim, cluster):
    """Nothing is kept for the other node besides, which would come as well."""
    client = await in_two_copies(sim, cluster)
    client.drop()
    sent = await numbered(await cluster.client(2), "stays", 20, qos=1)
    client = await resumed(cluster, 1, "c")
    disc = await fill_disc(cluster, 1)
    cluster.heal()
    await asyncio.sleep(40)
    disc.limit_pages(0)
    await asyncio.sleep(20)
    assert client.payloads() == sent
    assert [n for n, node in cluster.nodes.items() if "c" in node.broker.sessions] == [1]


@nodes(2, seeds=2)
@pytest.mark.parametrize("there_again", [True, False], ids=["back", "stays"])
async def test_what_was_unsubscribed_where_it_was_not_known_does_not_come_back(
    sim, cluster, monkeypatch, there_again
):
    """Nor does anything of a session whose client has unsubscribed all."""
    client = await apart(sim, cluster)
    await client.unsubscribe("new")
    if there_again:
        client.drop()
        client = await cluster.client(2, "c", **SESSION)
        await client.unsubscribe("stays", "gone", "new")
        client.drop()
        client = await cluster.client(1, "c", **SESSION)
    client = await meet(cluster, client, monkeypatch, there_again=False)
    subscriptions = cluster.nodes[1].broker.sessions["c"].subscriptions
    assert list(subscriptions) == ([] if there_again else ["stays", "gone"])


@nodes(2)
async def test_a_copy_subscribed_to_more_than_fits_between_nodes_is_not_followed_and_let_go(
    sim, cluster, monkeypatch
):
    monkeypatch.setattr(superseded, "MAX_LISTED", 10)
    client = await apart(sim, cluster)
    await meet(cluster, client, monkeypatch, there_again=False)
    assert list(cluster.nodes[1].broker.sessions["c"].subscriptions) == ["stays", "gone"]


@nodes(2)
async def test_a_subscription_that_waits_for_its_suback_is_not_taken_for_one_that_was_left(
    sim, cluster, monkeypatch
):
    """The other copy was changed later than this one's last SUBACK, and is met before the next."""
    client = await apart(sim, cluster)
    router = cluster.nodes[1].broker.router
    with monkeypatch.context() as patch:
        patch.setattr(type(router), "is_visible", lambda *_: False)
        with_late_routes(router, patch, 5)
        subscribing = asyncio.create_task(client.subscribe("late", qos=1, timeout=60))
        cluster.heal()
        await subscribing
    await meet(cluster, client, monkeypatch, there_again=False)
    assert "late" in cluster.nodes[1].broker.sessions["c"].subscriptions


@nodes(2)
async def test_of_two_copies_that_are_met_at_once_the_one_changed_last_is_followed(sim, cluster, monkeypatch):
    """The earlier one is told while the later one's routes are still on their way."""
    await session(cluster, 1, "c", "own", qos=1)
    successors = cluster.nodes[1].broker.takeovers.successors
    mine = cluster.nodes[1].broker.sessions["c"]
    router = cluster.nodes[1].broker.router
    with_late_routes(router, monkeypatch, 1)
    async with asyncio.TaskGroup() as told:
        for later, name in ((2, "later"), (1, "earlier")):
            copy = [["s", list(msgspec.structs.astuple(Subscription(name, qos=1))), None]]
            revised = mine.revised + later
            told.create_task(successors.superseded("c", mine.born, "", [], [], [], revised, copy, None))
    assert list(mine.subscriptions) == ["later"]


@nodes(3, seeds=12, discs=True)
async def test_what_a_client_had_behind_a_cut_is_not_replayed_to_it_after_the_heal(sim, cluster):
    """What was published behind the cut is kept there for the session on this side, too: a node says what the
    client has had from its own copy before it replays anything."""
    rng = sim.rng("when")
    lives = [await session(cluster, 1, "c", "t", qos=2)]
    cluster.partition([3], [1, 2])
    await until(lambda: not cluster.nodes[3].distribution.nodes())
    lives[-1].drop()
    lives.append(await session(cluster, 3, "c", "t", qos=2))
    sent = await numbered(await cluster.client(3), "t", 30, qos=2)
    await until(lambda: len(lives[-1].payloads()) == len(sent))
    lives[-1].drop()
    lives.append(await resumed(cluster, 1, "c", pause=rng.uniform(0, 1)))
    cluster.heal()
    until_then = asyncio.get_running_loop().time() + 4
    while asyncio.get_running_loop().time() < until_then:
        await asyncio.sleep(rng.uniform(0, 0.05))
        lives[-1].drop()
        lives.append(await cluster.client(rng.choice([1, 2]), "c", **SESSION, timeout=40))
    await cluster.settled()
    await asyncio.sleep(15)
    assert [payload for life in lives for payload in life.payloads()] == sent


@nodes(3, seeds=2, discs=True)
async def test_an_answer_to_an_offer_of_a_session_that_is_served_again_counts_no_more(
    sim, cluster, monkeypatch
):
    """What was offered is its own again, and is not taken a second time when the other node offers it."""
    await gone(cluster, 2, "c", "t", qos=2)
    cluster.partition([1], [2, 3])
    await asyncio.sleep(30)
    (await session(cluster, 1, "c", "t", qos=2)).drop()
    speaker = await cluster.client(3)
    await speaker.publish("t", b"x", qos=2)
    call, answered, told = superseded.remote.call, asyncio.Event(), asyncio.Event()

    async def late(node, function, *args, **options):
        answer = await call(node, function, *args, **options)
        if function == superseded.OFFER and isinstance(getattr(answer, "value", None), int):
            answered.set()
            await told.wait()
        return answer

    monkeypatch.setattr(superseded.remote, "call", late)
    cluster.heal()
    async with asyncio.timeout(60):
        await answered.wait()
    cluster.crash(1)
    await asyncio.sleep(10)
    client = await new_session(cluster, 2, "c", "t", qos=2)
    await asyncio.sleep(5)
    assert client.payloads() == [b"x"]
    told.set()
    await restart(cluster, 1, pause=30)
    await speaker.publish("t", b"y", qos=2)
    await asyncio.sleep(1)
    assert client.payloads() == [b"x", b"y"]

"""Messages for persistent sessions of a node that is away are kept, and come when it is back."""

import asyncio

import pytest
import pytest_asyncio
import structlog

from gossamer.testing import seeds
from gossamer.testing.cluster import SimCluster
from gossamer.testing.links import LinkQuality

from .flows import Flow, doubled, in_order
from .recording import Recording

SESSION = {"session_expiry": 36_000, "clean_start": False}


def build(sim, tmp_path, *, disc=True, sessions=None, cluster=None, size=3):
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    made = SimCluster(sim, size, cluster={"autoclean": None, **(cluster or {})}, sessions=sessions)
    if disc:
        made.discs = tmp_path
    return made


@pytest_asyncio.fixture
async def made(sim, tmp_path, request):
    town = build(sim, tmp_path, **getattr(request, "param", {}))
    yield town
    await town.stop_all()
    structlog.reset_defaults()


async def begin(town, *, qos=2):
    """Nodes up, a session at the third that is connected, and one that is not."""
    await town.start()
    await town.settled()
    here = await town.client(3, "here", **SESSION)
    await here.subscribe("t/#", qos=qos)
    away = await town.client(3, "away", **SESSION)
    await away.subscribe("t/#", qos=qos)
    await away.disconnect()
    passing = await town.client(3, "passing")
    await passing.subscribe("t/#", qos=1)
    await town.settled()
    return here, passing


async def flows(town, pause=0.1, count=1_000_000):
    return [
        Flow(await town.client(number), f"t/{number}/{qos}", qos=qos, pause=pause).start(count)
        for number in (1, 2)
        for qos in (1, 2)
    ]


async def finish(town, running):
    await asyncio.sleep(5)
    for flow in running:
        await flow.stop()
    await town.settled(timeout=90)
    await asyncio.sleep(5)


def judge(running, *clients, qos2=True):
    """All that was acknowledged, in order; of QoS 2 nothing twice."""
    got = [payload for client in clients for payload in client.payloads()]
    for flow in running:
        mine = [payload for payload in got if payload.startswith(flow.topic.encode() + b" ")]
        assert not [payload for payload in flow.acknowledged if payload not in set(mine)]
        if flow.qos == 2:
            assert len(mine) == len(set(mine))


def kept(town, number=1):
    return town.nodes[number].broker.away.keeping


def drops(town, reason):
    return sum(kept(town, number).stats().get(f"away_dropped_{reason}", 0) for number in town.nodes)


def told_lost(recording, reason):
    """The messages that node 3 will not get of the node that is recorded, by their place among its own."""
    rows = recording.told("dropped")
    assert {(row["peer"], row["client"], row["reason"]) for row in rows} == {("node3@10.0.0.3", None, reason)}
    sent = recording.messages("published")
    return sorted(sent.index(number) for number in recording.messages("dropped"))


def nothing_left_at(town, number):
    return kept(town, number).stats()["away_waiting"] == 0


def nothing_left(town):
    return all(nothing_left_at(town, number) for number in town.nodes)


@seeds(1)
@pytest.mark.parametrize(
    ("made", "length"),
    [({"disc": True}, 8), ({"disc": False}, 20), ({"disc": True}, 70)],
    ids=["short", "in memory", "longer than the grace of rows"],
    indirect=["made"],
)
async def test_between_the_sides_of_a_split(sim, made, length):
    here, passing = await begin(made)
    running = await flows(made)
    await asyncio.sleep(3)
    made.partition([1, 2], [3])
    await asyncio.sleep(length)
    made.heal()
    await finish(made, running)
    back = await made.client(3, "away", **SESSION)
    await asyncio.sleep(5)
    assert back.session_present
    judge(running, here)
    judge(running, back)
    assert not doubled(here)
    assert not doubled(back)
    assert all(in_order(client, flow.topic) for client in (here, back) for flow in running)
    # Who is not there for good gets what was published while it could be reached, and that once.
    assert not doubled(passing)
    assert nothing_left(made)


@seeds(1)
@pytest.mark.parametrize("how", ["kill", "silence", "stop"])
async def test_while_a_node_is_dead_and_starts_anew(sim, made, how):
    here, _ = await begin(made)
    running = await flows(made)
    await asyncio.sleep(3)
    if how == "stop":
        await made.stop(3)
    else:
        made.crash(3, how)
    await asyncio.sleep(sim.rng("away").uniform(1, 45))
    await made.restart(3)
    again = await made.client(3, "here", **SESSION)
    await finish(made, running)
    back = await made.client(3, "away", **SESSION)
    await asyncio.sleep(5)
    assert again.session_present
    assert back.session_present
    judge(running, back)
    assert not doubled(back)
    assert all(in_order(back, flow.topic) for flow in running)
    # What the dead node had sent and was not told of comes again, as QoS 1 has it.
    judge([flow for flow in running if flow.qos == 1], here, again)
    assert not doubled(again)
    assert all(in_order(again, flow.topic) for flow in running)
    assert nothing_left(made)


@seeds(1)
async def test_the_node_that_keeps_may_die_too(sim, made):
    """What it was told to keep is on its disc, and it goes on keeping for whoever is still away."""
    await begin(made)
    running = await flows(made)
    await asyncio.sleep(3)
    made.crash(3, "silence")
    await asyncio.sleep(15)
    made.crash(1)
    await asyncio.sleep(sim.rng("dead").uniform(0, 10))
    await made.restart(1)
    await made.settled(1, 2)
    after = Flow(await made.client(1), "t/after", pause=0.1).start()
    await asyncio.sleep(20)
    await made.restart(3)
    await finish(made, [*running, after])
    back = await made.client(3, "away", **SESSION)
    await asyncio.sleep(5)
    judge([*running, after], back)
    assert not doubled(back)
    assert len(after.acknowledged) > 100
    assert all(in_order(back, flow.topic) for flow in [*running, after])


@seeds(1)
async def test_what_is_kept_passes_a_link_that_is_slow(sim, made):
    """It leaves late, with less time left: entries of a journal, not a run of messages."""
    await begin(made)
    made.crash(3)
    await asyncio.sleep(5)
    speaker = await made.client(1, "speaker")
    sent = [b"%d " % number + bytes(2000) for number in range(600)]
    for payload in sent:
        await speaker.publish("t/1/1", payload, qos=1, expiry=6000)
    sim.shape(made.address(1), made.address(3), LinkQuality(bandwidth=200_000), one_way=True)
    await made.restart(3)
    await made.settled()
    await asyncio.sleep(20)
    back = await made.client(3, "away", **SESSION)
    await asyncio.sleep(2)
    assert back.payloads() == sent
    assert all(6000 - 60 < message.properties.message_expiry < 6000 - 5 for message in back.messages)


@seeds(1)
async def test_the_node_that_keeps_may_be_stopped_too(sim, made):
    """In order, and after the one that it keeps for: what it keeps is not thrown away with its members."""
    await begin(made)
    running = await flows(made)
    await asyncio.sleep(3)
    await made.stop(3)
    await asyncio.sleep(5)
    for number in (2, 1):
        await made.stop(number)
    await asyncio.sleep(5)
    for number in (1, 2, 3):
        await made.restart(number)
    await finish(made, running)
    back = await made.client(3, "away", **SESSION)
    await asyncio.sleep(5)
    judge(running, back)
    assert not doubled(back)


@seeds(1)
async def test_a_split_that_comes_again_while_it_is_made_good(sim, made):
    here, _ = await begin(made)
    running = await flows(made)
    rng = sim.rng("cuts")
    for _ in range(3):
        await asyncio.sleep(rng.uniform(0.5, 3))
        made.partition([1, 2], [3])
        await asyncio.sleep(rng.uniform(6, 20))
        made.heal()
        await asyncio.sleep(rng.uniform(0.05, 6))
    await finish(made, running)
    back = await made.client(3, "away", **SESSION)
    await asyncio.sleep(5)
    for client in (here, back):
        judge(running, client)
        assert not doubled(client)
        assert all(in_order(client, flow.topic) for flow in running)


@seeds(1)
async def test_a_session_that_moved_meanwhile_gets_everything_and_nothing_twice(sim, made):
    here, _ = await begin(made)
    running = await flows(made)
    await asyncio.sleep(3)
    made.partition([1, 2], [3])
    await asyncio.sleep(12)
    # It has lost its connection as well, and finds another node.
    here.drop()
    moved = await made.client(2, "here", **SESSION)
    before = [list(flow.acknowledged) for flow in running]
    await moved.subscribe("t/#", qos=2)
    since = [len(flow.acknowledged) for flow in running]
    await asyncio.sleep(sim.rng("length").uniform(2, 30))
    made.heal()
    await finish(made, running)
    await asyncio.sleep(20)
    got = {*here.payloads(), *moved.payloads()}
    for flow, earlier, count in zip(running, before, since, strict=True):
        # Between its arrival and its SUBSCRIBE it was subscribed to nothing there.
        wanted = [*earlier, *flow.acknowledged[count + 1 :]]
        assert not [payload for payload in wanted if payload not in got]
    # In the two seconds in which a client may subscribe to all that it wants, QoS 1 may come by both ways.
    twice = doubled(moved)
    assert not [payload for payload in twice if b"/2 " in payload]
    assert len(twice) <= 2 * 2.5 / 0.1
    assert set(here.payloads()).isdisjoint(moved.payloads()) or not [
        payload for payload in here.payloads() if payload in set(moved.payloads()) and b"/2 " in payload
    ]
    assert not [name for name in made.nodes[3].broker.sessions if name == "here"]


@seeds(4)
async def test_what_comes_live_behind_it_is_there_for_a_session_that_goes_and_comes_back(sim, made):
    """Sent before the session had gone, it arrives while it returns, before the mark of either move."""
    await begin(made)
    made.crash(3)
    await asyncio.sleep(5)
    speaker = await made.client(1, "speaker")
    kept = [b"%d " % number + bytes(2000) for number in range(600)]
    for payload in kept:
        await speaker.publish("t/1/2", payload, qos=2)
    sim.shape(made.address(1), made.address(3), LinkQuality(bandwidth=100_000), one_way=True)
    starting = asyncio.create_task(made.restart(3))
    name = "node3@10.0.0.3"
    while name not in made.nodes[1].distribution.nodes():  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    live = [b"live %d" % number for number in range(5)]
    for payload in live:
        await speaker.publish("t/1/2", payload, qos=2)
    there = await made.client(2, "away", **SESSION, timeout=60)
    assert there.session_present
    await starting
    await there.disconnect()
    await asyncio.sleep(sim.rng("when").uniform(0, 8))
    back = await made.client(3, "away", **SESSION, timeout=60)
    await asyncio.sleep(60)
    got = there.payloads() + back.payloads()
    assert not [payload for payload in [*kept, *live] if payload not in got]
    assert len(got) == len(set(got))


@seeds(1)
async def test_expiry_goes_on_while_a_message_is_kept(sim, made):
    await begin(made)
    speaker = await made.client(1)
    made.crash(3)
    await asyncio.sleep(10)
    recording = Recording(made.nodes[1])
    await speaker.publish("t/short", b"short", qos=1, expiry=20)
    await speaker.publish("t/long", b"long", qos=1, expiry=600)
    await speaker.publish("t/ever", b"ever", qos=1)
    await asyncio.sleep(30)
    await made.restart(3)
    await made.settled()
    await asyncio.sleep(3)
    back = await made.client(3, "away", **SESSION)
    await asyncio.sleep(3)
    assert back.payloads() == [b"long", b"ever"]
    left = back.messages[0].properties.message_expiry
    assert 500 < left < 570
    assert drops(made, "expired") == 1
    assert told_lost(recording, "expired") == [0]


@seeds(1)
@pytest.mark.parametrize("made", [{"disc": False}], indirect=True)
async def test_a_node_that_comes_back_without_its_sessions_gets_nothing_and_it_is_counted(sim, made):
    await begin(made)
    speaker = await made.client(1)
    made.crash(3)
    await asyncio.sleep(10)
    recording = Recording(made.nodes[1])
    for number in range(5):
        await speaker.publish("t/x", b"%d" % number, qos=1)
    await made.restart(3)
    again = await made.client(3, "away", **SESSION)
    await again.subscribe("t/#", qos=1)
    await made.settled()
    await asyncio.sleep(5)
    await speaker.publish("t/x", b"new", qos=1)
    await asyncio.sleep(3)
    assert again.payloads() == [b"new"]
    assert drops(made, "sessions_lost") == 5
    assert told_lost(recording, "away_sessions_lost") == list(range(5))
    assert nothing_left(made)


@seeds(1)
@pytest.mark.parametrize("made", [{"cluster": {"autoclean": 20.0}}], indirect=True)
async def test_what_is_kept_goes_with_a_member_that_is_removed(sim, made):
    await begin(made)
    speaker = await made.client(1)
    made.crash(3)
    await asyncio.sleep(10)
    recording = Recording(made.nodes[1])
    for number in range(5):
        await speaker.publish("t/x", b"%d" % number, qos=1)
    assert kept(made).stats()["away_waiting"] == 5
    await asyncio.sleep(60)
    assert drops(made, "removed") == 5
    assert told_lost(recording, "away_removed") == list(range(5))
    await speaker.publish("t/x", b"nobody", qos=1)
    assert nothing_left(made)
    await made.restart(3)
    await made.settled(timeout=90)
    await asyncio.sleep(3)
    await speaker.publish("t/x", b"new", qos=1)
    back = await made.client(3, "away", **SESSION)
    await asyncio.sleep(3)
    assert back.payloads() == [b"new"]


@seeds(1)
@pytest.mark.parametrize("policy", ["drop_oldest", "drop_newest"])
async def test_more_than_is_kept_is_counted_and_raises_an_alarm(sim, tmp_path, policy):
    made = build(sim, tmp_path, sessions={"away_messages": 10, "overflow": policy})
    try:
        await begin(made)
        speaker = await made.client(1)
        made.crash(3)
        await asyncio.sleep(10)
        recording = Recording(made.nodes[1])
        for number in range(25):
            await speaker.publish("t/x", b"%d" % number, qos=1)
        await asyncio.sleep(2)
        assert drops(made, "overflow") == 15
        lost = range(15) if policy == "drop_oldest" else range(10, 25)
        assert told_lost(recording, "away_overflow") == list(lost)
        [(_, text)] = kept(made).alarms()
        assert text.startswith("15 messages for sessions of node3@10.0.0.3")
        await made.restart(3)
        await made.settled()
        await asyncio.sleep(5)
        back = await made.client(3, "away", **SESSION)
        await asyncio.sleep(3)
        numbers = range(15, 25) if policy == "drop_oldest" else range(10)
        assert back.payloads() == [b"%d" % number for number in numbers]
        assert not list(kept(made).alarms())
    finally:
        await made.stop_all()
        structlog.reset_defaults()


@seeds(1)
async def test_a_share_group_with_members_elsewhere_goes_on_there(sim, made):
    await made.start()
    await made.settled()
    far = await made.client(3, "far", **SESSION)
    await far.subscribe("$share/g/t/#", qos=1)
    near = await made.client(2, "near", **SESSION)
    await near.subscribe("$share/g/t/#", qos=1)
    made.partition([1, 2], [3])
    await asyncio.sleep(12)
    speaker = await made.client(1)
    for number in range(20):
        await speaker.publish("t/x", b"%d" % number, qos=1)
    made.heal()
    await asyncio.sleep(30)
    assert near.payloads() == [b"%d" % number for number in range(20)]
    assert not far.payloads()


@seeds(1)
async def test_nothing_is_kept_where_nobody_lasting_wants_it(sim, made):
    _, passing = await begin(made)
    await passing.subscribe("only/passing", qos=1)
    await made.settled()
    speaker = await made.client(1)
    made.crash(3)
    await asyncio.sleep(10)
    await speaker.publish("only/passing", b"x", qos=1)
    await speaker.publish("t/x", b"qos 0")
    assert nothing_left(made)


@seeds(1)
@pytest.mark.parametrize("made", [{"sessions": {"away_messages": 0}}], indirect=True)
async def test_where_nothing_is_to_be_kept_nothing_waits_for_it(sim, made):
    await begin(made)
    speaker = await made.client(1)
    made.partition([1, 2], [3])
    await asyncio.sleep(10)
    await speaker.publish("t/x", b"x", qos=1)
    moved = await made.client(2, "away", **SESSION)
    await moved.subscribe("t/#", qos=1)
    await speaker.publish("t/x", b"y", qos=1)
    made.heal()
    await made.settled(timeout=90)
    await asyncio.sleep(60)
    assert moved.payloads() == [b"y"]
    assert "away" not in made.nodes[3].broker.sessions
    assert nothing_left(made)
    assert not list(kept(made).alarms())


@seeds(3)
async def test_what_one_side_keeps_follows_a_session_that_moved_on_the_other(sim, made):
    """The publishers' node does not see it go, and keeps for a node that has it no more after the cut."""
    await made.start()
    await made.settled()
    home = await made.client(2, "moves", **SESSION)
    await home.subscribe("t/#", qos=2)
    running = [Flow(await made.client(1), f"t/{qos}", qos=qos, pause=0.1).start(1_000_000) for qos in (1, 2)]
    await asyncio.sleep(2)
    await home.disconnect()
    made.partition([1], [2, 3])
    await asyncio.sleep(sim.rng("moves").uniform(0, 12))
    moved = await made.client(3, "moves", **SESSION)
    assert moved.session_present
    await asyncio.sleep(sim.rng("heals").uniform(8, 20))
    made.heal()
    await asyncio.sleep(30)
    for flow in running:
        await flow.stop()
    await asyncio.sleep(5)
    got = {*home.payloads(), *moved.payloads()}
    assert not [payload for flow in running for payload in flow.acknowledged if payload not in got]
    assert not [payload for payload in doubled(moved) if b"/2 " in payload]
    assert not [name for name in made.nodes[2].broker.sessions if name == "moves"]


@seeds(2)
async def test_a_node_that_dies_again_before_it_has_said_what_it_has(sim, made):
    """Nobody knows of a session of its then; it is not elsewhere for that, and what comes is kept for it."""
    await begin(made)
    made.crash(3)
    await asyncio.sleep(10)
    starts = asyncio.create_task(made.restart(3))
    node = made.nodes[1]
    sessions = node.broker.takeovers.ownership._rows
    name = "node3@10.0.0.3"
    # Up, and what is known of its former life is gone.
    while name not in node.distribution.nodes() or sessions.rows_of(name):  # noqa: ASYNC110
        await asyncio.sleep(0.0005)
    made.crash(3)
    starts.cancel()
    await asyncio.wait([starts])
    await asyncio.sleep(10)
    speaker = await made.client(1)
    sent = [b"%d" % number for number in range(5)]
    for payload in sent:
        await speaker.publish("t/x", payload, qos=2)
    moved = await made.client(2, "away", **SESSION)
    assert not moved.session_present
    await moved.subscribe("t/#", qos=2)
    await asyncio.sleep(5)
    await made.restart(3)
    await made.settled()
    await asyncio.sleep(30)
    assert moved.payloads() == sent


@seeds(3)
async def test_what_a_new_session_had_whose_node_dies_is_not_for_the_old_one_too(sim, made):
    """But for the seconds in which the client may not have subscribed to all that it wants."""
    await begin(made)
    made.crash(3)
    moved = await made.client(1, "here", **SESSION)
    assert not moved.session_present
    await moved.subscribe("t/#", qos=2)
    await asyncio.sleep(3)
    speaker = await made.client(2)
    for number in range(5):
        await speaker.publish("t/x", b"%d" % number, qos=2)
    await asyncio.sleep(5)
    had = moved.payloads()
    assert len(had) == 5
    made.crash(1)
    starts = asyncio.create_task(made.restart(3))
    old = await made.client(2, "here", **SESSION, timeout=60)
    assert old.session_present
    await starts
    await speaker.publish("t/x", b"later", qos=2)
    await asyncio.sleep(10)
    assert old.payloads() == [b"later"]


@seeds(2)
@pytest.mark.parametrize("stays", ["was there", "came later"])
async def test_a_node_that_leaves_hands_on_what_it_keeps(sim, made, stays):
    """The node that is away gets it from a member that stays, though that had not been there when it went."""
    await made.start(1, 3)
    if stays == "was there":
        await made.start(2)
    await made.settled()
    away = await made.client(3, "away", **SESSION)
    await away.subscribe("t/#", qos=2)
    goes = await made.client(3, "goes", **SESSION)
    await goes.subscribe("t/#", qos=2)
    await away.disconnect()
    await made.settled()
    running = [Flow(await made.client(1), f"t/1/{qos}", qos=qos, pause=0.1).start() for qos in (1, 2)]
    await asyncio.sleep(3)
    made.crash(3)
    await asyncio.sleep(10)
    goes.drop()
    if stays == "came later":
        await made.start(2)
        await made.settled(1, 2)
    went = await made.client(2, "goes", **SESSION)
    before = [list(flow.acknowledged) for flow in running]
    await went.subscribe("t/#", qos=2)
    since = [len(flow.acknowledged) for flow in running]
    await asyncio.sleep(5)
    for flow in running:
        await flow.stop()
    assert kept(made).stats()["away_waiting"] > 200
    await made.nodes[1].view.leave()
    assert nothing_left_at(made, 1)
    await made.stop(1)
    after = Flow(await made.client(2), "t/2", qos=2).start(20)
    await after.finish()
    await made.restart(3)
    await made.settled(2, 3)
    await asyncio.sleep(30)
    back = await made.client(3, "away", **SESSION)
    await asyncio.sleep(5)
    assert back.session_present
    judge(running if stays == "came later" else [*running, after], back)
    assert not doubled(back)
    got = {*goes.payloads(), *went.payloads()}
    for flow, earlier, count in zip(running, before, since, strict=True):
        assert not [payload for payload in (*earlier, *flow.acknowledged[count + 1 :]) if payload not in got]
    assert not [payload for payload in doubled(went) if b"/2 " in payload]
    if stays == "was there":
        # What it had where it went is not for its old session: QoS 1 comes twice of two seconds at most.
        assert len(doubled(went)) <= 2.5 / 0.1
    assert nothing_left(made)


@seeds(2)
async def test_a_session_that_began_behind_a_cut_and_is_over_is_not_where_its_client_is(sim, made):
    """Its node has seen a later claim by the time at which its client would have subscribed to everything."""
    await begin(made)
    first = await made.client(3, "roams", **SESSION)
    await first.subscribe("r", qos=2)
    await made.settled()
    first.drop()
    made.partition([1], [2, 3])
    await asyncio.sleep(10)
    speaker = await made.client(1, "speaker")
    for _ in range(600):
        await speaker.publish("t/1/1", bytes(2000), qos=1)
    anew = await made.client(1, "roams", **SESSION)
    assert not anew.session_present
    await anew.subscribe("r", qos=2)
    anew.drop()
    last = await made.client(3, "roams", **SESSION)
    assert last.session_present
    # What was kept is on its way for long enough, so the node is expected still when it dies.
    sim.shape(made.address(1), made.address(3), LinkQuality(bandwidth=100_000), one_way=True)
    made.heal()
    await asyncio.sleep(4)
    assert "node3@10.0.0.3" in made.nodes[1].distribution.nodes()
    assert kept(made).anybody_away
    made.crash(3)
    await asyncio.sleep(10)
    sent = [b"%d" % number for number in range(5)]
    for payload in sent:
        await speaker.publish("r", payload, qos=2)
    await made.restart(3)
    await made.settled()
    await asyncio.sleep(20)
    back = await made.client(3, "roams", **SESSION)
    await asyncio.sleep(5)
    assert back.session_present
    assert back.payloads() == sent


@seeds(2)
@pytest.mark.parametrize("goes_on", [False, True])
async def test_what_waits_for_a_session_on_its_way_to_a_node_that_is_back(sim, made, monkeypatch, goes_on):
    """It came behind the mark of the move, so it is for the session there, which was elsewhere before."""
    await begin(made)
    first = await made.client(3, "roams", **SESSION)
    await first.subscribe("r", qos=2)
    await made.settled()
    first.drop()
    made.partition([1, 2], [3])
    await asyncio.sleep(10)
    speaker = await made.client(1, "speaker")
    await speaker.publish("t/1/1", b"is kept", qos=1)
    moved = await made.client(2, "roams", **SESSION)
    await moved.subscribe("r", qos=2)
    await asyncio.sleep(3)

    async def busy(_peer, _turn):
        await asyncio.sleep(0.1)
        return False

    # The node that is back does not get to say what it has.
    with monkeypatch.context() as patch:
        patch.setattr(made.nodes[1].broker.away, "_greeted", busy)
        made.heal()
        await made.settled()
        await asyncio.sleep(3)
        moved.drop()
        coming = asyncio.create_task(made.client(3, "roams", **SESSION))
        await asyncio.sleep(1.5)
        await speaker.publish("r", b"on its way", qos=2)
        assert not coming.done()
        made.partition([1], [2, 3])
        last = await coming
        assert last.session_present
        await asyncio.sleep(5)
    if goes_on:
        await last.disconnect()
        last = await made.client(2, "roams", **SESSION)
    await asyncio.sleep(5)
    made.heal()
    await made.settled(timeout=90)
    await asyncio.sleep(20)
    assert last.payloads() == [b"on its way"]


@seeds(2)
async def test_what_a_client_had_as_its_new_session_began_comes_from_an_older_one_no_more(sim, made):
    """Its node kept the same for the one that had the older session, and died before that was back."""
    await begin(made)
    first = await made.client(3, "roams", **SESSION)
    await first.subscribe("r", qos=2)
    await made.settled()
    made.crash(3)
    await asyncio.sleep(10)
    speaker = await made.client(1, "speaker")
    await speaker.publish("r", b"before", qos=2)
    anew = await made.client(2, "roams", **SESSION)
    assert not anew.session_present
    await anew.subscribe("r", qos=2)
    sent = [b"%d" % number for number in range(30)]
    for payload in sent:
        await speaker.publish("r", payload, qos=2)
        await asyncio.sleep(0.1)
    await asyncio.sleep(3)
    assert anew.payloads() == sent
    made.crash(2)
    await asyncio.sleep(10)
    await made.restart(3)
    back = await made.client(3, "roams", **SESSION)
    assert back.session_present
    await speaker.publish("r", b"after", qos=2)
    await asyncio.sleep(30)
    assert back.payloads() == [b"before", b"after"]


@seeds(2)
@pytest.mark.parametrize("moves", [True, False], ids=["moves", "begins"])
async def test_a_node_that_starts_keeps_for_one_that_is_away_what_it_never_knew_of(sim, made, moves):
    """The session came to the node that is away while the other was down, too."""
    await made.start()
    await made.settled()
    first = await made.client(2, "late", **SESSION)
    await first.subscribe("t/#", qos=2)
    await made.settled()
    first.drop()
    made.crash(1)
    await asyncio.sleep(5)
    if moves:
        late = await made.client(3, "late", **SESSION)
    else:
        late = await made.client(3, "another", **SESSION)
        await late.subscribe("t/#", qos=2)
    await asyncio.sleep(3)
    made.crash(3)
    late.drop()
    await asyncio.sleep(10)
    await made.restart(1)
    speaker = await made.client(1)
    sent = [b"%d" % number for number in range(5)]
    for payload in sent:
        await speaker.publish("t/x", payload, qos=2)
    await made.restart(3)
    await made.settled()
    back = await made.client(3, "late" if moves else "another", timeout=40, **SESSION)
    await asyncio.sleep(20)
    assert [*late.payloads(), *back.payloads()] == sent


@seeds(2)
async def test_a_node_that_starts_keeps_for_a_session_that_has_gone_back_meanwhile(sim, made):
    """Its disc says that the client has left the node that is away; it was there again when that went."""
    await made.start()
    await made.settled()
    client = await made.client(3, "late", **SESSION)
    await client.subscribe("t/#", qos=2)
    await made.settled()
    client.drop()
    made.partition([3], [1, 2])
    await asyncio.sleep(40)
    client = await made.client(2, "late", **SESSION)
    await client.subscribe("t/#", qos=2)
    await asyncio.sleep(5)
    client.drop()
    made.crash(1)
    made.heal()
    await made.settled(2, 3, timeout=90)
    await asyncio.sleep(15)
    client = await made.client(3, "late", timeout=40, **SESSION)
    assert client.session_present
    await asyncio.sleep(5)
    made.crash(3)
    client.drop()
    await asyncio.sleep(10)
    await made.restart(1)
    speaker = await made.client(1)
    sent = [b"%d" % number for number in range(5)]
    for payload in sent:
        await speaker.publish("t/x", payload, qos=2)
    await made.restart(3)
    await made.settled()
    back = await made.client(3, "late", timeout=40, **SESSION)
    await asyncio.sleep(20)
    assert back.payloads() == sent

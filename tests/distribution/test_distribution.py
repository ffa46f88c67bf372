"""Whole nodes on virtual time: sessions, links, streams and the processes that keep them."""

import asyncio

import pytest

from gossamer.distribution import (
    FrameTooLargeError,
    NodeDown,
    NodeUp,
    PeerGoneError,
)
from gossamer.errors import UsageError
from gossamer.supervisor import StartFailed
from gossamer.testing import LinkQuality


def payloads(node, purpose):
    return [frame.payload for frame in node.frames if frame.purpose == purpose]


async def be_among_silent_peers(net, node):
    """Forty members do not answer a node, and have not for a minute."""
    for name in [f"silent{n}" for n in range(40)]:
        net.sim.cut(node.runtime.node, name)
        node.connect(name, 1, (name, 4370))
    await asyncio.sleep(60)


async def test_frames_flow_both_ways_and_are_acked(net):
    a, b = await net.pair()
    assert [a.send("b", "data", bytes([n])) for n in range(5)] == [1, 2, 3, 4, 5]
    b.send("a", "control", b"hello")
    await asyncio.sleep(0.3)
    assert payloads(b, "data") == [bytes([n]) for n in range(5)]
    assert payloads(a, "control") == [b"hello"]
    assert a.peers["b"].sends["data"].acked == 5
    assert b.peers["a"].sends["control"].acked == 1
    assert a.acks == [("data", "b", 5)]
    assert a.events == [NodeUp("b", 1)]
    assert a.evidence_seen == [("b", "ok")]


async def test_a_peer_is_up_with_control_and_frames_of_others_wait_for_their_connections(net):
    a, b = await net.start("a"), await net.start("b")
    net.take_all(b)
    open_then = []

    def send(event):
        open_then.extend(a.peers["b"].outbound)
        a.send("b", "data", b"early")

    a.subscribe(send)
    net.connect(a, b)
    await asyncio.sleep(1)
    assert open_then == ["control"]
    assert payloads(b, "data") == [b"early"]


async def test_silent_peers_do_not_keep_from_calling_those_that_answer(net):
    a, b = await net.start("a"), await net.start("b")
    silent = [f"silent{n}" for n in range(8)]
    for name in silent:
        net.sim.cut("a", name)
        a.connect(name, 1, (name, 4370))
    await asyncio.sleep(0.1)
    net.connect(a, b)
    await asyncio.sleep(4.5)
    assert a.nodes() == ["b"]


async def test_a_link_that_breaks_comes_back_at_once_whoever_is_silent(net):
    a, b = await net.pair()
    await be_among_silent_peers(net, a)
    net.reset("a", "b")
    for node, peer in ((a, "b"), (b, "a")):
        node.send(peer, "data", b"after")
    await asyncio.sleep(0.5)
    assert payloads(b, "data") == payloads(a, "data") == [b"after"]


async def test_a_peer_that_restarts_is_up_again_at_once_whoever_is_silent(net):
    a, _ = await net.pair()
    await be_among_silent_peers(net, a)
    net.crash("b")
    await asyncio.sleep(10)
    b = await net.start("b", creation=2)
    a.connect("b", 2, ("b", 4370))
    b.connect("a", 1, ("a", 4370))
    await asyncio.sleep(1)
    assert a.nodes() == ["b"]


async def test_streams_of_a_distant_mesh_are_open_soon_after_it_is_up(net):
    net.sim.weather(LinkQuality(latency=0.05, jitter=0.0))
    nodes = [await net.start(f"n{number}") for number in range(20)]
    net.connect(*nodes)
    await asyncio.sleep(4)
    assert all(len(node.nodes()) == 19 for node in nodes)
    assert all(len(peer.inbound) == 3 for node in nodes for peer in node.peers.values())


async def test_an_ack_waits_until_the_frame_has_taken_effect(net):
    a, b = await net.pair()
    taken = []
    b.on_frame("data", taken.append)
    a.send("b", "data", b"1")
    a.send("b", "data", b"2")
    await asyncio.sleep(1)
    assert a.peers["b"].sends["data"].acked == 0
    b.done(taken[1])
    await asyncio.sleep(1)
    assert a.peers["b"].sends["data"].acked == 0
    b.done(taken[0])
    await asyncio.sleep(1)
    assert a.peers["b"].sends["data"].acked == 2


async def test_frames_of_one_turn_leave_as_one_message(net):
    a, b = await net.pair()
    writes = []
    for end in [die.__self__ for die in net.sim.host("a").connections]:
        end.write = lambda data, write=end.write: (writes.append(data), write(data))
    for n in range(1000):
        a.send("b", "data", b"%d" % n)
    await asyncio.sleep(0.5)
    assert len(payloads(b, "data")) == 1000
    assert len(writes) == 1


async def test_unknown_peers_and_oversized_frames_are_errors(net):
    a, _ = await net.pair(config={"max_frame": 1000, "retention": 2000})
    with pytest.raises(PeerGoneError, match="'c' is not up"):
        a.send("c", "data", b"")
    with pytest.raises(FrameTooLargeError, match="1001 bytes, expected at most 1000"):
        a.send("b", "data", bytes(1001))
    with pytest.raises(UsageError, match="own name"):
        a.connect("a", 1, ("a", 4370))


async def test_frames_sent_while_the_link_is_down_arrive_once_and_in_order(net):
    a, b = await net.pair()
    for round_ in range(20):
        for n in range(10):
            a.send("b", "data", b"%d.%d" % (round_, n))
        await asyncio.sleep(net.rng.uniform(0, 0.004))
        net.reset()
        await asyncio.sleep(net.rng.uniform(0, 0.2))
    await asyncio.sleep(10)
    assert payloads(b, "data") == [b"%d.%d" % (r, n) for r in range(20) for n in range(10)]
    assert a.peers["b"].sends["data"].acked == 200
    assert a.peers["b"].sends["data"].unacked == 0
    # A link that breaks and comes back is no event.
    assert a.events == [NodeUp("b", 1)]
    assert a.counts()["b"].resets > 0
    assert ("b", "reset") in a.evidence_seen


async def test_a_killed_peer_is_refused_within_milliseconds(net):
    a, _ = await net.pair()
    await asyncio.sleep(5)
    a.evidence_seen.clear()
    net.crash("b")
    await asyncio.sleep(0.02)
    assert a.evidence_seen == [("b", "reset"), ("b", "refused")]
    # The verdict is the membership's.
    assert a.nodes() == ["b"]
    a.disconnect("b", "failed")
    assert a.events[-1] == NodeDown("b", 1, "failed")
    with pytest.raises(PeerGoneError):
        a.send("b", "data", b"")


async def test_a_restarted_peer_is_a_new_session(net):
    a, b = await net.pair()
    a.send("b", "data", b"before")
    await asyncio.sleep(1)
    net.crash("b")
    a.send("b", "data", b"lost with the old instance")
    b = await net.start("b", 2)
    net.take_all(b)
    b.connect("a", 1, ("a", 4370))
    await asyncio.sleep(10)
    assert a.events == [NodeUp("b", 1), NodeDown("b", 1, "restarted", renewing=True), NodeUp("b", 2)]
    assert a.creation_of("b") == 2
    assert a.send("b", "data", b"after") == 1
    await asyncio.sleep(1)
    assert payloads(b, "data") == [b"after"]
    assert a.counts()["b"].streams["data"].lost_out == 1


async def test_a_peer_that_goes_while_its_session_is_renewed_is_told_down_again(net):
    """Whoever waits for its return has to learn that there is none."""
    a, _ = await net.pair()
    net.crash("b")
    a.renew(a.peers["b"], 1, "forgotten by the peer")
    a.renew(a.peers["b"], 1, "forgotten by the peer")
    a.disconnect("b", "left")
    assert a.events == [
        NodeUp("b", 1),
        NodeDown("b", 1, "forgotten by the peer", renewing=True),
        NodeDown("b", 1, "left"),
    ]


async def test_forgetting_is_mutual(net):
    """One side's verdict ends the session on the other as well, and both begin anew."""
    a, b = await net.pair()
    a.disconnect("b", "failed")
    await asyncio.sleep(1)
    a.connect("b", 1, ("b", 4370))
    await asyncio.sleep(10)
    assert a.events == [NodeUp("b", 1), NodeDown("b", 1, "failed"), NodeUp("b", 1)]
    assert [type(event) for event in b.events] == [NodeUp, NodeDown, NodeUp]
    a.send("b", "data", b"again")
    b.send("a", "data", b"and back")
    await asyncio.sleep(1)
    assert payloads(b, "data") == [b"again"]
    assert payloads(a, "data") == [b"and back"]


async def test_nothing_is_handed_over_before_node_up(net):
    a, b = await net.start("a"), await net.start("b")
    order = []
    b.subscribe(order.append)
    b.on_frame("data", lambda frame: order.append(frame.payload))
    a.subscribe(lambda event: a.send("b", "data", b"at once"))
    a.connect("b", 1, ("b", 4370))
    with pytest.raises(PeerGoneError):
        a.send("b", "data", b"early")
    await asyncio.sleep(2)
    assert order == []
    b.connect("a", 1, ("a", 4370))
    await asyncio.sleep(8)
    assert order == [NodeUp("a", 1), b"at once"]


async def test_frames_wait_for_somebody_to_take_them(net):
    a, b = await net.start("a"), await net.start("b")
    a.connect("b", 1, ("b", 4370))
    b.connect("a", 1, ("a", 4370))
    await asyncio.sleep(5)
    for n in range(3):
        a.send("b", "replication", b"%d" % n)
        await asyncio.sleep(1)
    assert b.frames == []
    net.take_all(b)
    await asyncio.sleep(1)
    assert payloads(b, "replication") == [b"0", b"1", b"2"]


async def test_the_successor_of_a_receiver_gets_what_it_had_not_done(net):
    a, b = await net.pair()
    seen, payloads = [], [b"%d" % n for n in range(4)]
    b.on_frame("data", lambda frame: seen.append(frame.payload) or frame.number <= 2)
    for payload in payloads:
        a.send("b", "data", payload)
    await asyncio.sleep(1)
    assert (seen, a.peers["b"].sends["data"].acked) == (payloads, 2)
    b.on_frame("data", lambda frame: seen.append(frame.payload) or True)
    await asyncio.sleep(10)
    assert (seen, a.peers["b"].sends["data"].acked) == (payloads + payloads[2:], 4)
    assert a.events == [NodeUp("b", 1)]


async def test_a_receiver_that_raises_does_not_hold_up_the_rest(net):
    a, b = await net.pair()

    def take(frame):
        if frame.payload == b"bad":
            raise ValueError("cannot")
        b.frames.append(frame)
        b.done(frame)

    b.on_frame("data", take)
    for payload in (b"good", b"bad", b"better"):
        a.send("b", "data", payload)
    await asyncio.sleep(1)
    assert payloads(b, "data") == [b"good", b"better"]
    assert a.peers["b"].sends["data"].acked == 3
    assert b.counts()["a"].streams["data"].failed == 1


async def test_a_session_whose_retention_overflows_ends_on_both_sides(net):
    a, b = await net.pair(config={"max_frame": 1000, "retention": 5000})
    net.cut("a", "b")
    for n in range(10):
        a.send("b", "data", bytes([n]) * 1000)
    await asyncio.sleep(0.1)
    assert isinstance(a.events[-1], NodeDown)
    assert (a.events[-1].reason, a.events[-1].renewing) == ("data stream overflowed", True)
    assert a.counts()["b"].streams["data"].lost_out == 10
    with pytest.raises(PeerGoneError):
        a.send("b", "data", b"nobody")
    net.heal()
    await asyncio.sleep(70)
    assert [type(event) for event in a.events[-2:]] == [type(event) for event in b.events[-2:]]
    assert isinstance(b.events[-1], NodeUp)
    a.send("b", "data", b"after")
    await asyncio.sleep(1)
    assert payloads(b, "data") == [b"after"]
    assert a.peers["b"].sends["data"].acked == 1


async def test_unreliable_frames_are_dropped_and_counted_when_there_is_no_room(net):
    a, b = await net.pair(queue=1000)
    net.cut("a", "b")
    for n in range(20):
        assert a.send("b", "data", bytes([n]) * 100, reliable=False) == 0
    net.heal()
    await asyncio.sleep(70)
    dropped = a.counts()["b"].streams["data"].dropped
    assert dropped == 14
    assert len(payloads(b, "data")) == 6
    assert [frame.number for frame in b.frames] == [0] * 6


async def test_a_killed_link_process_comes_back_and_loses_nothing(net):
    a, b = await net.pair()
    for n in range(5):
        a.send("b", "data", b"%d" % n)
        a.runtime.exit(a.links["b"], "kill")
        await asyncio.sleep(2)
    assert payloads(b, "data") == [b"%d" % n for n in range(5)]
    assert a.events == [NodeUp("b", 1)]


async def test_any_process_of_it_may_die(net):
    a, b = await net.pair()
    labels = ["transport", "links", "dialer", "listener", "link to b"]
    for label in labels:
        (pid,) = [pid for pid in a.runtime.processes() if a.runtime.table[pid].label == label]
        a.runtime.exit(pid, "kill")
        await asyncio.sleep(10)
        a.send("b", "data", label.encode())
        b.send("a", "data", label.encode())
        await asyncio.sleep(1)
    assert payloads(a, "data") == payloads(b, "data") == [label.encode() for label in labels]
    assert a.events == [NodeUp("b", 1)]


async def test_a_taken_port_says_what_to_do(net):
    await net.start("a")
    with pytest.raises(StartFailed, match=r"cannot listen for other nodes on a:4370.*choose another"):
        await net.start("a")


async def test_a_wrong_cookie_or_env_keeps_nodes_apart_and_others_unharmed(net):
    a, b = await net.pair()
    for name, wrong in (("c", {"cookie": "other"}), ("d", {"env": "Prod"})):
        stranger = await net.start(name, **wrong)
        stranger.connect("a", 1, ("a", 4370))
        a.connect(name, 1, (name, 4370))
        await asyncio.sleep(20)
        assert stranger.nodes() == []
    assert a.nodes() == ["b"]
    a.send("b", "data", b"still")
    await asyncio.sleep(1)
    assert payloads(b, "data") == [b"still"]


async def test_an_orderly_stop_sends_what_was_queued(net):
    a, b = await net.pair()
    a.send("b", "data", b"last words")
    await a.runtime.stop()
    await asyncio.sleep(0.1)
    assert payloads(b, "data") == [b"last words"]
    assert a.runtime.processes() == []


async def test_an_old_instance_stays_out(net):
    a, _ = await net.pair()
    a.connect("b", 7, ("b", 4370))
    await asyncio.sleep(20)
    assert a.nodes() == []
    assert a.events == [NodeUp("b", 1), NodeDown("b", 1, "restarted", renewing=True)]
    a.connect("b", 3, ("b", 4370))
    assert a.creation_of("b") == 7

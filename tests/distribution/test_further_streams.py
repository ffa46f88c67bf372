"""Streams of a link that do not open in time, beside a control stream that is open."""

import asyncio

import pytest
from structlog.testing import capture_logs

from gossamer.distribution import NodeUp
from gossamer.distribution.errors import HandshakeError, LinkLostError
from gossamer.distribution.links.channels import Outbound
from gossamer.distribution.wire import PURPOSES

FURTHER = PURPOSES[1:]


async def silent(outbound):
    """Nobody answers the call."""
    await asyncio.Event().wait()


async def refused(outbound):
    """Nobody takes the call."""
    outbound.closed(LinkLostError(address="b:4370", kind="refused", detail="Connection refused"))


async def hung_up(outbound):
    """The other side ends the call in order, without a word."""
    outbound.closed(None)


async def turned_away(outbound):
    """The other side says why it does not take the call."""
    outbound.closed(HandshakeError(code="full", expected="less", got="more", refused_by="b", advice="wait"))


class Calls:
    """Calls of a node; those for ``trouble`` fail in their way, all others come through."""

    def __init__(self, node):
        self.made, self.trouble = [], {}
        self._connect = node.transport.connect
        node.transport.connect = self._call

    async def _call(self, address, outbound, node=""):
        self.made.append(outbound)
        fail = self.trouble.get(outbound.purpose)
        if fail is None or await fail(outbound):
            await self._connect(address, outbound, node)


async def accepted_in_vain(outbound):
    """The other side takes the call; its answer gets lost, and so does every sign that the call has ended."""
    received, opened = outbound.received, outbound.opened

    def open_and_keep(channel):
        end = channel._transport
        end.abort = lambda: end.die("silence")
        opened(channel)

    def lose_all_but_the_challenge(messages):
        outbound.received = lambda _: None
        received(messages)

    outbound.opened, outbound.received = open_and_keep, lose_all_but_the_challenge
    return True


async def troubled(net, **trouble):
    """Two nodes, of which ``a`` has trouble with its calls."""
    a, b = await net.start("a"), await net.start("b")
    net.take_all(a)
    net.take_all(b)
    calls = Calls(a)
    calls.trouble = trouble
    net.connect(a, b)
    await asyncio.sleep(1)
    return a, b, calls


def data(node):
    return [frame.payload for frame in node.frames if frame.purpose == "data"]


@pytest.mark.parametrize("trouble", [silent, refused, hung_up])
async def test_control_stays_open_while_a_stream_does_not_open(net, trouble):
    a, b, calls = await troubled(net, data=trouble)
    control = a.peers["b"].outbound["control"]
    sent = []
    for number in range(60):
        sent.append(b"%d" % number)
        a.send("b", "data", sent[-1])
        a.send("b", "control", sent[-1])
        await asyncio.sleep(1)
    assert a.peers["b"].outbound["control"] is control
    assert [frame.payload for frame in b.frames if frame.purpose == "control"] == sent
    assert set(a.peers["b"].outbound) == {"control", "replication"}
    assert data(b) == []
    # Attempts back off.
    assert 5 < sum(outbound.purpose == "data" for outbound in calls.made) < 40
    calls.trouble.clear()
    await asyncio.sleep(11)
    assert data(b) == sent
    assert a.peers["b"].sends["data"].unacked == 0
    assert a.peers["b"].outbound["control"] is control
    assert a.events == [NodeUp("b", 1)]
    assert a.evidence_seen == [("b", "ok")]
    assert a.counts()["b"].connects == 1


async def test_a_stream_that_is_open_stays_open_while_another_of_its_wave_does_not(net):
    a, _, calls = await troubled(net, data=silent)
    await asyncio.sleep(6)
    replication = a.peers["b"].outbound["replication"]
    calls.trouble.clear()
    await asyncio.sleep(11)
    assert set(a.peers["b"].outbound) == set(PURPOSES)
    assert a.peers["b"].outbound["replication"] is replication


async def test_a_stream_is_called_later_where_the_one_before_it_does_not_open(net):
    a, _, calls = await troubled(net, replication=silent)
    await asyncio.sleep(6)
    calls.trouble.clear()
    await asyncio.sleep(11)
    assert set(a.peers["b"].outbound) == set(PURPOSES)


async def test_control_comes_back_after_a_break_though_the_others_do_not(net):
    a, b = await net.pair()
    calls = Calls(a)
    calls.trouble = dict.fromkeys(FURTHER, silent)
    net.reset("a", "b")
    await asyncio.sleep(10)
    control = a.peers["b"].outbound["control"]
    await asyncio.sleep(30)
    assert a.peers["b"].outbound == {"control": control}
    calls.trouble.clear()
    await asyncio.sleep(11)
    assert set(a.peers["b"].outbound) == set(b.peers["a"].inbound) == set(PURPOSES)
    assert a.peers["b"].outbound["control"] is control


async def test_an_accepted_stream_that_its_caller_gave_up_is_replaced(net):
    """The called node has no sign of the end of the first attempts, which have a handler and a position."""
    a, b, calls = await troubled(net, data=accepted_in_vain)
    sent = [b"%d" % number for number in range(10)]
    for payload in sent:
        a.send("b", "data", payload)
    await asyncio.sleep(3)
    accepted = b.peers["a"].inbound["data"]
    await asyncio.sleep(20)
    assert not accepted.open
    assert "data" not in a.peers["b"].outbound
    calls.trouble.clear()
    await asyncio.sleep(11)
    assert data(b) == sent
    assert a.peers["b"].sends["data"].acked == len(sent)
    assert b.counts()["a"].streams["data"].duplicates == 0
    a.send("b", "data", b"after")
    await asyncio.sleep(60)
    assert data(b) == [*sent, b"after"]
    assert len(net.connections("b")) == 2 * 2 * len(PURPOSES)


async def test_frames_that_took_effect_are_acknowledged_on_the_stream_that_replaces_another(net):
    """Each time its stream breaks off, and cannot be opened for a while."""
    a, b = await net.pair()
    b.on_frame("data", b.frames.append)
    calls = Calls(a)
    for number in range(1, 6):
        a.send("b", "data", b"%d" % number)
        await asyncio.sleep(0.003)
        calls.trouble = {"data": silent}
        net.reset("a", "b")
        await asyncio.sleep(6)
        b.done(b.frames[-1])
        assert a.peers["b"].sends["data"].acked == number - 1
        calls.trouble.clear()
        await asyncio.sleep(11)
        assert a.peers["b"].sends["data"].acked == number == len(b.frames)


@pytest.mark.parametrize("wait", [2, 6], ids=["while it calls", "between calls"])
async def test_attempts_end_with_their_link(net, wait):
    a, b, calls = await troubled(net, **dict.fromkeys(FURTHER, silent))
    await asyncio.sleep(wait)
    for node, peer in ((a, "b"), (b, "a")):
        node.disconnect(peer, "left")
    made = len(calls.made)
    await asyncio.sleep(30)
    assert len(calls.made) == made
    assert a.links == {}
    assert net.connections() == []


async def test_a_killed_link_calls_no_more(net):
    a, _, calls = await troubled(net, **dict.fromkeys(FURTHER, silent))
    await asyncio.sleep(6)
    a.runtime.exit(a.links["b"], "kill")
    calls.trouble.clear()
    await asyncio.sleep(11)
    assert set(a.peers["b"].outbound) == set(PURPOSES)
    assert len(net.connections("a")) == 2 * 2 * len(PURPOSES)


async def test_a_refusal_of_a_stream_ends_the_link(net):
    with capture_logs() as logs:
        _, _, calls = await troubled(net, data=turned_away)
        await asyncio.sleep(20)
    assert [outbound.purpose for outbound in calls.made].count("control") > 3
    assert [line["code"] for line in logs if line["event"] == "handshake_failed"] == ["full"]


async def test_streams_that_never_open_are_logged_once_a_minute(net):
    with capture_logs() as logs:
        a, _, _ = await troubled(net, **dict.fromkeys(FURTHER, silent))
        await asyncio.sleep(300)
    lines = [line for line in logs if line["event"] == "link_streams_missing"]
    assert 4 <= len(lines) <= 6
    assert lines[0]["peer"] == "b"
    assert lines[0]["streams"] == list(FURTHER)
    assert "open files" in lines[0]["advice"]
    assert a.nodes() == ["b"]


async def test_a_channel_that_opens_after_it_was_aborted_is_aborted(net):
    a, _ = await net.pair()

    class Channel:
        names = None
        aborted = False

        def abort(self):
            self.aborted = True

    outbound, channel = Outbound(a, a.peers["b"], "data", lambda *_: None), Channel()
    outbound.abort()
    outbound.opened(channel)
    assert channel.aborted

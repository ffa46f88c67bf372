"""Hidden nodes: let in by the cookie, linked and called like peers, and counted by nobody."""

import asyncio

import pytest

from gossamer.distribution import (
    HandshakeError,
    LinkLostError,
    NodeDown,
    NodeUp,
    RemoteProcesses,
    connect_node,
    identify,
)
from gossamer.distribution.links.manager import HIDDEN_TIMEOUT
from gossamer.supervisor import Down, GenServer, Reply, monitor, receive


class Echo(GenServer):
    async def handle_call(self, request, caller):
        return Reply(request)


async def node_and_hidden(net, **options):
    node = await net.start("a")
    hidden = await net.start("h", hidden=True, **options)
    RemoteProcesses(node)
    RemoteProcesses(hidden)
    await node.runtime.start(Echo, name="echo")
    return node, hidden


async def attached(net):
    node, hidden = await node_and_hidden(net)
    hidden.connect("a", 1, ("a", 4370))
    assert await hidden.runtime.run(connect_node, "a")
    await asyncio.sleep(0.1)
    return node, hidden


async def test_a_hidden_node_calls_and_is_counted_by_nobody(net):
    node, hidden = await attached(net)
    assert await hidden.runtime.call(("echo", "a"), "hi") == "hi"
    assert node.nodes() == []
    assert node.nodes(hidden=True) == ["h"]
    assert node.events == []
    assert hidden.events == [NodeUp("a", 1)]
    assert set(node.peers["h"].inbound) == {"control"}


async def test_a_hidden_node_needs_no_feature_of_the_cluster(net):
    node, hidden = await node_and_hidden(net)
    node.local.features.enabled = {"colour": "0.3.0"}
    hidden.connect("a", 1, ("a", 4370))
    assert await hidden.runtime.run(connect_node, "a")


async def test_a_hidden_node_that_went_is_noticed_by_who_watched_it(net):
    node, hidden = await attached(net)
    await hidden.runtime.start(Echo, name="there")

    async def body():
        ref = monitor(("there", "h"))
        net.crash("h")
        assert await receive(timeout=HIDDEN_TIMEOUT + 1) == Down(ref, None, "noconnection")

    await asyncio.sleep(0.1)
    await node.runtime.run(body)
    assert node.peers == {}


async def test_a_connection_that_breaks_and_comes_back_ends_nothing(net):
    node, hidden = await attached(net)
    events = []
    node.subscribe(events.append, hidden=True)
    net.reset()
    await asyncio.sleep(HIDDEN_TIMEOUT + 1)
    assert events == [NodeUp("h", 1)]
    assert await hidden.runtime.call(("echo", "a"), 1) == 1


async def test_a_hidden_node_is_never_called(net):
    """It may be behind a firewall, or an address that is translated on the way."""
    await attached(net)
    called = []
    # Its port is free: it listens to nobody.
    await net.sim.host("h").listen(lambda: called.append("h"), ("h", 4370))
    net.reset()
    await asyncio.sleep(HIDDEN_TIMEOUT + 1)
    assert called == []
    assert net.nodes["a"].nodes(hidden=True) == ["h"]


async def test_order_holds_both_ways_over_connections_that_break(net):
    node, hidden = await attached(net)
    got = {"a": [], "h": []}

    class Collect(GenServer):
        async def init(self, into):
            self.into = into

        async def handle_cast(self, number):
            self.into.append(number)

    for one in (node, hidden):
        await one.runtime.start(Collect, got[one.runtime.node], name="collect")
    for number in range(300):
        node.runtime.cast(("collect", "h"), number)
        hidden.runtime.cast(("collect", "a"), number)
        if number % 40 == 20:
            net.reset()
        await asyncio.sleep(0.002)
    await asyncio.sleep(5)
    assert got == {"a": list(range(300)), "h": list(range(300))}


async def test_who_was_forgotten_begins_anew_and_is_told(net):
    node, hidden = await attached(net)
    events = []
    node.subscribe(events.append, hidden=True)
    net.cut("a", "h")
    await asyncio.sleep(HIDDEN_TIMEOUT + 1)
    net.heal()
    await asyncio.sleep(70)
    assert events == [NodeUp("h", 1), NodeDown("h", 1, "gone"), NodeUp("h", 1)]
    assert hidden.events == [
        NodeUp("a", 1),
        NodeDown("a", 1, "forgotten by the peer", renewing=True),
        NodeUp("a", 1),
    ]
    assert await hidden.runtime.call(("echo", "a"), 1) == 1


async def test_a_new_session_of_the_hidden_node_replaces_the_old_one(net):
    node, hidden = await attached(net)
    hidden.disconnect("a", "moved")
    hidden.connect("a", 1, ("a", 4370))
    assert await hidden.runtime.run(connect_node, "a")
    assert await hidden.runtime.call(("echo", "a"), 1) == 1
    assert node.nodes(hidden=True) == ["h"]


async def test_a_hidden_node_needs_the_cookie_and_a_name_of_its_own(net):
    node, hidden = await node_and_hidden(net, cookie="wrong")
    hidden.connect("a", 1, ("a", 4370))
    await asyncio.sleep(5)
    assert node.peers == {}
    assert hidden.nodes() == []


async def test_a_member_comes_before_a_hidden_node_of_its_name(net):
    node, _ = await attached(net)
    events = []
    node.subscribe(events.append, hidden=True)
    node.connect("h", 7, ("elsewhere", 4370))
    assert events[-1] == NodeDown("h", 1, "replaced by a member")
    await asyncio.sleep(2)
    assert node.peers["h"].hidden is False
    assert node.nodes(hidden=True) == []


async def test_an_address_tells_who_is_there(net):
    _, hidden = await node_and_hidden(net)
    assert await identify(hidden, ("a", 4370)) == ("a", 1)
    with pytest.raises(LinkLostError):
        await identify(hidden, ("nobody", 4370))
    other = await net.start("o", hidden=True, env="Other")
    with pytest.raises(HandshakeError, match="env"):
        await identify(other, ("a", 4370))

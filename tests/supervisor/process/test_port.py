"""Ports: processes without a task."""

from __future__ import annotations

import asyncio
import sys

import pytest
from structlog.testing import capture_logs

import gossamer.supervisor as otp
from tests.supervisor.harness import crashed, linked, settle, waits


class Connection(otp.Port):
    """As a channel is: slotted, with a few fields of its own."""

    __slots__ = ("closed_with", "got", "then")

    def __init__(self):
        self.got = []
        self.closed_with = []
        self.then = None

    def handle_message(self, message):
        self.got.append((message, otp.self_pid()))
        if self.then is not None:
            self.then(message)

    def handle_call(self, request, caller):
        otp.reply(caller, request + 1)

    def on_close(self, reason):
        self.closed_with.append(reason)


async def never():
    return None


async def test_messages_come_as_callbacks_in_the_ports_own_name(rt):
    port = Connection()
    pid = port.open(label="connection", name="port")
    assert otp.whereis("port") == pid
    assert rt.alive(pid)
    otp.send(pid, "one")
    otp.cast(pid, "two")
    assert port.got == [("one", pid), ("two", pid)]
    assert otp.self_pid() != pid
    assert await otp.call(pid, 3) == 4


async def test_close_runs_once_and_tells_links_and_monitors(rt):
    otp.trap_exit(True)
    port = Connection()
    pid = port.open(link_to=otp.self_pid())
    ref = otp.monitor(pid)
    port.close("enough")
    port.close("again")
    assert port.closed
    assert port.closed_with == ["enough"]
    assert [await otp.receive(), await otp.receive()] == [
        otp.Exit(pid, "enough"),
        otp.Down(ref, pid, "enough"),
    ]
    assert not otp.send(pid, "late")
    with pytest.raises(otp.CallFailed):
        await otp.call(pid, 1)


async def test_a_raising_callback_closes_the_port_and_spares_the_sender(rt):
    def explode(message):
        raise ValueError(message)

    port = Connection()
    port.then = explode
    pid = port.open()
    ref = otp.monitor(pid)
    with capture_logs() as logs:
        assert otp.send(pid, "boom")
    down = await otp.receive()
    assert down.ref == ref
    assert crashed(down.reason, "ValueError")
    assert [entry["event"] for entry in logs] == ["crash"]


async def test_exit_signals_follow_the_rules(rt):
    port = Connection()
    pid = port.open()
    otp.exit(pid, "normal")
    assert rt.alive(pid)
    otp.exit(pid, "shutdown")
    assert port.closed_with == ["shutdown"]

    class Stubborn(Connection):
        __slots__ = ("signals",)

        def handle_exit(self, source, reason):
            self.got.append((source, reason))

    stubborn = Stubborn()
    pid = stubborn.open()
    otp.exit(pid, "shutdown")
    assert stubborn.got == [(otp.self_pid(), "shutdown")]
    otp.exit(pid, "kill")
    assert stubborn.closed_with == ["killed"]


async def test_the_end_of_a_linked_process_closes_the_port(rt):
    pid = otp.spawn(waits)
    port = Connection()
    port.open(link_to=pid)
    await settle()
    otp.exit(pid, "bad")
    await settle()
    assert port.closed_with == ["bad"]


async def test_a_port_is_not_entered_twice(rt):
    """What arrives during a callback waits for its end, in order."""
    order = []
    port = Connection()

    def then(message):
        if message == "outer":
            otp.send(port.pid, "inner")
            order.append("outer done")
        else:
            order.append(message)

    port.then = then
    pid = port.open()
    otp.send(pid, "outer")
    assert order == ["outer done", "inner"]


async def test_two_ports_that_play_ping_pong_stay_flat(rt):
    one, two = Connection(), Connection()
    left = [5000]

    def bounce(port):
        def then(message):
            left[0] -= 1
            if left[0] > 0:
                otp.send(port.pid, "ball")

        return then

    one.then, two.then = bounce(two), bounce(one)
    one.open()
    two.open()
    otp.send(one.pid, "ball")
    assert left[0] == 0
    assert rt.alive(one.pid)
    assert rt.alive(two.pid)


async def test_a_chain_of_ports_falls_without_recursion(rt):
    ports = [Connection() for _ in range(3000)]
    above = None
    for port in ports:
        above = port.open(link_to=above)
    otp.exit(ports[1500].pid, "bad")
    assert all(port.closed_with == ["bad"] for port in ports)


async def test_guarded_protocol_callbacks_crash_their_port(rt):
    port = Connection()
    pid = port.open()
    ref = otp.monitor(pid)

    def data_received(data):
        assert otp.self_pid() == pid
        raise ValueError("malformed")

    callback = otp.guarded(data_received, entry=port)
    callback(b"x")
    down = await otp.receive()
    assert down.ref == ref
    assert crashed(down.reason, "ValueError")
    callback(b"y")


async def test_a_port_may_also_be_a_protocol(rt):
    class Channel(asyncio.Protocol, otp.Port):
        __slots__ = ("transport",)

        def connection_made(self, transport):
            self.transport = transport
            self.open(runtime=rt, label="channel")

    channel = Channel()
    channel.connection_made(None)
    assert rt.alive(channel.pid)
    assert not hasattr(channel, "__dict__")


async def test_ports_as_children_of_a_dynamic_supervisor(rt):
    spec = otp.ChildSpec("channel", never, restart="temporary")
    sup = await otp.DynamicSupervisor.start(max_children=2)
    ports = [Connection() for _ in range(3)]
    for port in ports:
        port.open(link_to=sup)
        otp.DynamicSupervisor.adopt(sup, port.pid, spec)
    assert (await otp.DynamicSupervisor.count_children(sup)).active == 2
    assert ports[2].closed_with == [("shutdown", "max_children")]
    ports[0].close()
    await settle()
    assert [info.pid for info in await otp.DynamicSupervisor.which_children(sup)] == [ports[1].pid]
    otp.exit(sup, "kill")
    await settle()
    assert ports[1].closed_with == ["killed"]


async def test_a_supervisor_stops_its_ports(rt):
    async def start():
        port = Connection()
        ports.append(port)
        return port.open(link_to=otp.self_pid())

    ports = []
    otp.trap_exit(True)
    sup = await otp.DynamicSupervisor.start_link()
    for _ in range(3):
        await otp.DynamicSupervisor.start_child(sup, otp.ChildSpec("port", start))
    otp.exit(ports[0].pid, "kill")
    await settle()
    assert (await otp.DynamicSupervisor.count_children(sup)).active == 3
    otp.exit(sup, "shutdown")
    assert await otp.receive() == otp.Exit(sup, "shutdown")
    assert [port.closed_with for port in ports] == [["killed"], ["shutdown"], ["shutdown"], ["shutdown"]]


async def test_a_failing_on_close_does_not_keep_the_port(rt):
    class Bad(otp.Port):
        __slots__ = ()

        def on_close(self, reason):
            raise OSError("socket gone")

    port = Bad()
    pid = port.open()
    ref = otp.monitor(pid)
    port.close()
    down = await otp.receive()
    assert down.ref == ref
    assert crashed(down.reason, "OSError")


async def test_an_open_port_is_small(rt):
    port = Connection()
    port.open(link_to=otp.self_pid())
    size = sys.getsizeof(port) + sys.getsizeof(port.pid) + sys.getsizeof(port.links)
    assert size < 1024


# Registry.


async def test_unique_keys_have_one_holder(rt):
    registry = otp.Registry("unique")
    registry.register("key", 1)
    registry.register("key", 2)

    async def rival():
        with pytest.raises(otp.NameTaken):
            registry.register("key")

    pid = otp.spawn_link(rival)
    ref = otp.monitor(pid)
    assert (await otp.receive()) == otp.Down(ref, pid, "normal")
    assert registry.lookup("key") == [(otp.self_pid(), 2)]
    assert registry.whereis("key") == otp.self_pid()
    assert registry.unregister("key")
    assert not registry.unregister("key")
    assert registry.whereis("key") is None
    assert len(registry) == 0


async def test_duplicate_keys_are_a_bus_in_order_of_registration(rt):
    registry = otp.Registry()
    me = otp.self_pid()

    async def listener(number):
        registry.register("news", number)
        while True:
            otp.send(me, (number, await otp.receive()))

    pids = [otp.spawn(listener, number) for number in range(4)]
    await settle()
    otp.exit(pids[1], "kill")
    await settle()
    assert registry.dispatch("news", "hello") == 3
    assert [await otp.receive() for _ in range(3)] == [(0, "hello"), (2, "hello"), (3, "hello")]
    assert registry.dispatch("nothing", "hello") == 0
    assert [registry.keys(pid) for pid in (*pids[:2], me)] == [["news"], [], []]
    assert len(registry) == 3


async def test_keys_are_free_before_anybody_hears_of_the_end(rt):
    registry = otp.Registry("unique")

    async def holder():
        registry.register("key")
        await otp.receive()

    pid = otp.spawn(holder)
    await settle()
    ref = otp.monitor(pid)
    otp.exit(pid, "kill")
    assert await otp.receive() == otp.Down(ref, pid, "killed")
    assert registry.whereis("key") is None
    registry.register("key")


def test_a_registry_knows_two_kinds():
    with pytest.raises(Exception, match="'unique' or 'duplicate'"):
        otp.Registry("many")


async def test_linking_a_port_to_many(rt):
    port = Connection()
    pid = port.open()

    partners = [otp.spawn(linked, pid) for _ in range(3)]
    await settle()
    port.close("bad")
    await settle()
    assert not any(map(rt.alive, partners))

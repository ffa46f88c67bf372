"""What carries MQTT (4.2, 6, 7): streams of bytes, and WebSocket frames, however they are cut."""

import asyncio

import pytest
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.uri import parse_uri

from gossamer.mqtt import Framer, decode
from gossamer.mqtt.codec import packets as p
from mqtt.harness import Client
from mqtt.listening import broker_with

from .conftest import BOTH
from .statements import keeps
from .wire import connect, packet, publish, subscribe, unsubscribe


class Browser:
    """The client's end of a WebSocket, without I/O: frames in, frames out."""

    def __init__(self, world, subprotocols=("mqtt",)):
        self.world = world
        self.transport = world.dial().transport
        self.protocol = ClientProtocol(parse_uri("ws://host/mqtt"), subprotocols=list(subprotocols) or None)
        self._taken = 0
        self._framer = Framer()
        self.protocol.send_request(self.protocol.connect())

    async def turn(self):
        """Exchange what is there; the frames that came."""
        for data in self.protocol.data_to_send():
            self.transport.protocol.data_received(data)
        await self.world.settle()
        data = bytes(self.transport.written[self._taken :])
        self._taken += len(data)
        if data:
            self.protocol.receive_data(data)
        return self.protocol.events_received()

    def send(self, opcode, data, fin=True):
        self.protocol.writes.append(Frame(opcode, data, fin).serialize(mask=True))

    async def packets(self, version):
        frames = [x for x in await self.turn() if isinstance(x, Frame)]
        assert {x.opcode for x in frames if x.data} <= {Opcode.BINARY, Opcode.CONT}
        data = b"".join(x.data for x in frames if x.opcode in (Opcode.BINARY, Opcode.CONT))
        return [decode(first, body, version) for first, body in self._framer.feed(data)]


@pytest.fixture
async def web(make_world):
    return await make_world(listener={"type": "ws"})


@keeps(v4="6.0.0-1,2,4", v5="6.0.0-1,2,4")
@BOTH
@pytest.mark.parametrize("size", [1, 5, 1000])
@pytest.mark.parametrize("fragments", [False, True])
async def test_packets_in_binary_frames_however_they_are_cut(web, version, size, fragments):
    browser = Browser(web, ["other", "mqtt"])
    [response] = await browser.turn()
    assert response.status_code == 101
    assert browser.protocol.subprotocol == "mqtt"
    stream = connect(version) + subscribe(version, ("t", 0)) + publish(version, "t", b"x" * 40) + packet(0xC0)
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    for n, piece in enumerate(pieces):
        last = n == len(pieces) - 1
        browser.send(Opcode.BINARY if not fragments or n == 0 else Opcode.CONT, piece, last or not fragments)
    got = await browser.packets(version)
    assert sorted(type(x).__name__ for x in got) == ["Connack", "Pingresp", "Publish", "Suback"]


@keeps(v4="6.0.0-1", v5="6.0.0-1")
@BOTH
async def test_another_kind_of_frame_ends_the_connection(web, version):
    browser = Browser(web)
    await browser.turn()
    browser.send(Opcode.TEXT, connect(version))
    [close] = await browser.turn()
    assert (close.opcode, close.data[:2]) == (Opcode.CLOSE, (1003).to_bytes(2, "big"))
    assert browser.transport.closing
    assert web.broker.sessions == {}


@keeps(v4="6.0.0-3", v5="6.0.0-3")
@pytest.mark.parametrize("offered", [[], ["other"], ["MQTT"]])
async def test_who_does_not_offer_mqtt_is_refused(web, offered):
    browser = Browser(web, offered)
    await browser.turn()
    assert b" 101 " not in bytes(browser.transport.written)
    assert browser.transport.closing


@keeps(v4="7.0.0-1,2")
@BOTH
async def test_nothing_but_the_standard_is_needed_and_no_server_is_connected_to(world, version):
    """A whole life of a client in plain MQTT. The broker's network here cannot even connect to anybody: nodes
    have links of their own, not MQTT."""
    assert not hasattr(world.network, "connect")
    client = world.dial(version)
    client.raw(
        connect(version)
        + subscribe(version, ("t", 1))
        + publish(version, "t", b"1", flags=2, packet_id=1)
        + unsubscribe(version, "t")
        + packet(0xC0)
        + packet(0xE0)
    )
    kinds = [type(x).__name__ for x in await client.got()]
    assert kinds[0] == "Connack"
    assert sorted(kinds[1:]) == ["Pingresp", "Puback", "Publish", "Suback", "Unsuback"]
    assert isinstance(client, Client)


@keeps(v4="7.1.1-1 7.1.2-1", v5="4.2-1")
@pytest.mark.real
@pytest.mark.parametrize("kind", ["tcp", "unix"])
@BOTH
async def test_a_stream_is_whole_and_in_order_both_ways(tmp_path, kind, version):
    where = {"socket": tmp_path / "s"} if kind == "unix" else {}
    async with broker_with({"type": kind, **where}) as broker:
        if kind == "unix":
            reader, writer = await asyncio.open_unix_connection(str(tmp_path / "s"))
        else:
            reader, writer = await asyncio.open_connection("127.0.0.1", next(iter(broker.ports.values())))
        sent = [b"%d:" % n + b"z" * (n * 97 % 5000) for n in range(300)]
        writer.write(connect(version) + subscribe(version, ("t", 0)))
        writer.write(b"".join(publish(version, "t", payload) for payload in sent))
        framer = Framer()
        got = []
        async with asyncio.timeout(30):
            while len(got) < len(sent) + 2:
                got += [decode(*x, version) for x in framer.feed(await reader.read(65536))]
        assert [x.payload for x in got if isinstance(x, p.Publish)] == sent
        writer.close()

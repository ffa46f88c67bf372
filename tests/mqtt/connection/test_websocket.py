"""MQTT over WebSocket: frames, paths and handshakes, good and bad."""

import asyncio
import contextlib

import pytest
from websockets.asyncio.client import connect as ws_connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from gossamer.mqtt import Framer, encode
from gossamer.mqtt.codec import packets as p
from mqtt.listening import broker_with, until

pytestmark = pytest.mark.real


async def test_websocket_frames_need_not_match_packets():
    """[MQTT-6.0.0-2], [MQTT-6.0.0-4]"""
    async with broker_with({"type": "ws"}) as broker:
        url = f"ws://127.0.0.1:{broker.ports['ws:0']}/mqtt"
        async with ws_connect(url, subprotocols=["mqtt"], proxy=None) as ws:
            assert ws.subprotocol == "mqtt"
            stream = encode(p.Connect(client_id="w"), 4) + b"\xc0\0\xc0\0"
            for at in range(len(stream) - 4):
                await ws.send(stream[at : at + 1])
            await ws.send([stream[-4:-1], stream[-1:]])
            framer, got = Framer(), []
            while len(got) < 3:
                got += framer.feed(await ws.recv())
            assert [first for first, _ in got] == [0x20, 0xD0, 0xD0]


async def test_a_text_frame_ends_the_connection():
    """[MQTT-6.0.0-1]"""
    async with broker_with({"type": "ws"}) as broker:
        url = f"ws://127.0.0.1:{broker.ports['ws:0']}/mqtt"
        async with ws_connect(url, subprotocols=["mqtt"], proxy=None) as ws:
            await ws.send("text")
            with pytest.raises(ConnectionClosed):
                await ws.recv()
            assert ws.close_code == 1003
        await until(lambda: not broker.channels)


@pytest.mark.parametrize(
    ("path", "subprotocols", "status"), [("/other", ["mqtt"], 404), ("/mqtt", ["x"], 400)]
)
async def test_a_websocket_is_at_its_path_and_speaks_mqtt(path, subprotocols, status):
    """[MQTT-6.0.0-3]"""
    async with broker_with({"type": "ws"}) as broker:
        url = f"ws://127.0.0.1:{broker.ports['ws:0']}{path}"
        with pytest.raises(InvalidStatus) as refused:
            await ws_connect(url, subprotocols=subprotocols, proxy=None)
        assert refused.value.response.status_code == status


async def test_a_frame_too_large_and_a_broken_handshake_end_only_their_connection():
    async with broker_with({"type": "ws", "max_packet_size": "1KiB"}) as broker:
        port = broker.ports["ws:0"]
        url = f"ws://127.0.0.1:{port}/mqtt"
        async with ws_connect(url, subprotocols=["mqtt"], proxy=None) as good:
            async with ws_connect(url, subprotocols=["mqtt"], proxy=None) as bad:
                await bad.send(bytes(70_000))
                with pytest.raises(ConnectionClosed):
                    await bad.recv()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/9\r\nx" + b"y" * 20_000 + b"\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                await reader.read()
            writer.close()
            await good.send(encode(p.Connect(client_id="w"), 4))
            assert (await good.recv())[0] == 0x20

"""MQTT over WebSocket: frames, paths and handshakes, good and bad."""

import asyncio
import contextlib

import pytest
from websockets.asyncio.client import connect as ws_connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from gossamer.mqtt import encode
from gossamer.mqtt.codec import packets as p
from mqtt.listening import broker_with

pytestmark = pytest.mark.real


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


@pytest.mark.parametrize(
    ("origin", "origins", "let_in"),
    [
        (None, [], True),
        ("http://127.0.0.1:8091", [], True),
        ("https://elsewhere.example", [], False),
        ("https://elsewhere.example", ["https://elsewhere.example"], True),
        ("https://elsewhere.example:444", ["https://elsewhere.example"], False),
        ("https://elsewhere.example", ["*"], True),
        ("http://127.0.0.1.elsewhere.example", [], False),
        ("null", [], False),
        ("http://[", [], False),
    ],
)
async def test_a_page_of_another_host_connects_only_where_it_is_named(origin, origins, let_in):
    async with broker_with({"type": "ws", "origins": origins}) as broker:
        url = f"ws://127.0.0.1:{broker.ports['ws:0']}/mqtt"
        connecting = ws_connect(url, subprotocols=["mqtt"], origin=origin, proxy=None)
        if let_in:
            async with connecting as client:
                await client.send(encode(p.Connect(client_id="w"), 4))
                assert (await client.recv())[0] == 0x20
        else:
            with pytest.raises(InvalidStatus) as refused:
                await connecting
            assert refused.value.response.status_code == 403
            assert b"origins" in refused.value.response.body


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

"""Connections that never become clients: bounded, let go, in nobody's way."""

import asyncio
import contextlib
import ssl

import pytest

from gossamer.mqtt import encode, tree
from gossamer.mqtt.codec import packets as p
from mqtt.listening import accepted, broker_with, tls_section, until, with_paho

pytestmark = pytest.mark.real


async def test_hundreds_that_never_say_connect_are_bounded_and_let_go():
    """Slow-loris: connections without CONNECT are few, short-lived, and in nobody's way."""
    async with broker_with({"max_pending": 100}, {"type": "tcp"}, limits={"connect_timeout": "2s"}) as broker:
        port = broker.ports["tcp:0"]
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(300)]
        for _, writer in idle[::2]:
            writer.write(b"\x10")
        await until(lambda: broker.refused["tcp:0", "pending"] == 200)
        assert len(broker.channels) == 100
        _, writer = await accepted(broker.ports["tcp:1"], "good")
        await until(lambda: len(broker.channels) == 1)
        for _, other in idle:
            other.close()
        _, again = await accepted(port, "late")
        writer.close()
        again.close()


async def test_clients_do_not_take_the_descriptors_that_the_node_needs(monkeypatch):
    monkeypatch.setattr(tree, "descriptors", lambda: 100)
    async with broker_with({}, {"type": "ws"}) as broker:
        refused = broker.access.decisions
        opened = [
            await asyncio.open_connection("127.0.0.1", port)
            for _ in range(40)
            for port in broker.ports.values()
        ]
        await until(lambda: refused["accept", "descriptors", "deny"] == 30)
        assert len(broker.channels) == 50
        for _, writer in opened:
            writer.transport.abort()
        await until(lambda: not broker.channels)
        _, writer = await accepted(broker.ports["tcp:0"], "c")
        writer.close()


async def test_a_half_open_websocket_and_tls_handshake_hold_nobody_up(ca):
    async with broker_with(
        {"type": "ws"}, {"type": "tls", "tls": tls_section(ca)}, limits={"connect_timeout": "1s"}
    ) as broker:
        sockets = []
        for port in broker.ports.values():
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /mqtt HTTP/1.1\r\n" if port == broker.ports["ws:0"] else b"\x16\x03\x01\x02")
            sockets.append((reader, writer))
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(sockets[0][0].read(), 20) == b""
        context = ssl.create_default_context(cafile=ca.file)
        async with asyncio.timeout(30):
            assert await asyncio.to_thread(with_paho, broker.ports["tls:1"], tls=context)
        for _, writer in sockets:
            writer.close()


@pytest.mark.parametrize("kind", ["tls", "wss"])
async def test_a_connection_counts_before_its_handshake_is_over_and_no_longer_once_it_fails(ca, kind):
    async with broker_with({"type": kind, "tls": tls_section(ca), "max_pending": 2}) as broker:
        port = broker.ports[f"{kind}:0"]
        refused = broker.access.decisions
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), 20) == b""
        writer.close()
        assert refused["accept", "pending", "deny"] == 1
        # One talks nonsense, one goes: both make room.
        silent[0][1].write(b"GET / HTTP/1.1\r\n\r\n" * 10)
        with contextlib.suppress(ConnectionError):
            await asyncio.wait_for(silent[0][0].read(), 20)
        silent[1][1].transport.abort()
        silent[0][1].close()
        context = ssl.create_default_context(cafile=ca.file)
        transport = "websockets" if kind == "wss" else "tcp"

        async def comes_in():
            with contextlib.suppress(OSError):
                return await asyncio.to_thread(with_paho, port, transport=transport, tls=context)

        async with asyncio.timeout(30):
            while not await comes_in():  # noqa: ASYNC110 - the room is made in the kernel's time
                await asyncio.sleep(0.05)


@pytest.mark.parametrize("kind", ["tcp", "tls"])
async def test_one_address_that_holds_all_places_keeps_no_other_out(ca, kind):
    """Whoever comes from elsewhere gets the place of a connection there."""
    tls = {"tls": tls_section(ca)} if kind == "tls" else {}
    async with broker_with({"type": kind, "max_pending": 8, **tls}) as broker:
        port = broker.ports[f"{kind}:0"]
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(9)]
        await until(lambda: broker.refused[f"{kind}:0", "pending"] == 1)
        context = ssl.create_default_context(cafile=ca.file)
        options = {"ssl": context, "server_hostname": "localhost"} if tls else {}
        _, writer = await accepted(port, local_addr=("127.0.0.2", 0), **options)
        assert broker.refused[f"{kind}:0", "pending"] == 2
        for _, other in (*silent, (None, writer)):
            other.transport.abort()


async def test_a_stream_cut_at_every_byte_leaves_nothing_behind():
    stream = (
        encode(p.Connect(client_id="cut"), 4)
        + encode(p.Subscribe(packet_id=1, subscriptions=(p.Subscription("a"),)), 4)
        + encode(p.Publish(topic=b"a", payload=b"x" * 20, qos=1, packet_id=2), 4)
    )
    async with broker_with({}) as broker:
        for stop in range(len(stream)):
            _, writer = await asyncio.open_connection("127.0.0.1", broker.ports["tcp:0"])
            writer.write(stream[:stop])
            await writer.drain()
            writer.close()
        await until(lambda: not broker.channels and not broker.sessions)
        _, writer = await accepted(broker.ports["tcp:0"], "good")
        writer.close()

"""Every way in, over real sockets."""

import asyncio
import contextlib
import socket
import ssl

import paho.mqtt.client as paho
import pytest
import uvloop
from paho.mqtt.enums import CallbackAPIVersion
from pydantic import ValidationError
from websockets.asyncio.client import connect as ws_connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from gossamer.clock import SystemClock
from gossamer.config import ListenerConfig, MqttAuthConfig, MqttConfig, MqttLimitsConfig, MqttServerConfig
from gossamer.mqtt import Broker, Framer, decode, encode, listener, mqtt_spec
from gossamer.mqtt import packets as p
from gossamer.mqtt.proxy import is_within
from gossamer.network import SystemNetwork
from gossamer.routes import Router
from gossamer.supervisor import Runtime, StartFailed, Supervisor

from .certs import Authority

pytestmark = pytest.mark.real


@contextlib.asynccontextmanager
async def broker_with(*listeners, auth=None, limits=None):
    runtime = Runtime()
    broker = Broker(
        Router("node1@test"),
        clock=SystemClock(),
        network=SystemNetwork(),
        config=MqttConfig(
            server=MqttServerConfig(listeners=tuple({"port": 0} | listener for listener in listeners)),
            auth=MqttAuthConfig(**{"allow_anonymous": True} | (auth or {})),
            limits=MqttLimitsConfig(**limits or {}),
        ),
        runtime=runtime,
    )
    await runtime.start(Supervisor, [mqtt_spec(broker)])
    try:
        yield broker
    finally:
        await runtime.stop()


async def until(condition, seconds=20):
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - by design
            await asyncio.sleep(0.005)


async def mqtt(reader, writer, *sent):
    """Write packets, read one."""
    writer.write(b"".join(encode(packet, 4) for packet in sent))
    first = (await reader.readexactly(2))[0:2]
    body = await reader.readexactly(first[1])
    return decode(first[0], body, 4)


def with_paho(port, *, transport="tcp", tls=None, client_id="paho", path="/mqtt"):
    """Connect, subscribe, publish to oneself; what came."""
    got = []
    client = paho.Client(CallbackAPIVersion.VERSION2, client_id=client_id, transport=transport)
    if tls is not None:
        client.tls_set_context(tls)
    if transport == "websockets":
        client.ws_set_options(path=path)
    client.on_connect = lambda *_: client.subscribe("a/#", 1)
    client.on_subscribe = lambda *_: [client.publish("a/b", b"%d" % n * 40, qos=n % 2) for n in range(20)]

    def on_message(_client, _userdata, message):
        got.append(message.payload)
        if len(got) == 20:
            client.disconnect()

    client.on_message = on_message
    client.connect("localhost" if tls else "127.0.0.1", port)
    client.loop_forever()
    return sorted(got) == sorted(b"%d" % n * 40 for n in range(20))


@pytest.fixture
def ca(tmp_path):
    return Authority(tmp_path)


def tls_section(ca, name="localhost", **more):
    pem, key = ca.issue(name, name)
    return {"cert_file": str(pem), "key_file": str(key), **more}


async def test_paho_over_tls(ca):
    async with broker_with({"type": "tls", "tls": tls_section(ca)}) as broker:
        context = ssl.create_default_context(cafile=ca.file)
        async with asyncio.timeout(30):
            assert await asyncio.to_thread(with_paho, broker.ports["tls:0"], tls=context)


async def test_paho_over_websocket_and_secure_websocket(ca):
    async with broker_with({"type": "ws"}, {"type": "wss", "tls": tls_section(ca)}) as broker:
        context = ssl.create_default_context(cafile=ca.file)
        async with asyncio.timeout(30):
            assert await asyncio.to_thread(with_paho, broker.ports["ws:0"], transport="websockets")
            assert await asyncio.to_thread(
                with_paho, broker.ports["wss:1"], transport="websockets", tls=context
            )


async def test_a_client_certificate_is_demanded_and_names_the_user(ca, tmp_path):
    section = tls_section(ca, ca_file=str(ca.file), verify="require", username="cn")
    async with broker_with({"type": "tls", "tls": section}, auth={"allow_anonymous": False}) as broker:
        port = broker.ports["tls:0"]
        context = ssl.create_default_context(cafile=ca.file)
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=context, server_hostname="localhost"
            )
            await mqtt(reader, writer, p.Connect(client_id="none"))
        other = tmp_path / "other"
        other.mkdir()
        stranger = Authority(other, "other")
        for authority, welcome in ((stranger, False), (ca, True)):
            pem, key = authority.issue("ann", file="client")
            context = ssl.create_default_context(cafile=ca.file)
            context.load_cert_chain(pem, key)
            try:
                reader, writer = await asyncio.open_connection(
                    "127.0.0.1", port, ssl=context, server_hostname="localhost"
                )
                connack = await mqtt(reader, writer, p.Connect(client_id="c"))
            except (ssl.SSLError, ConnectionError, asyncio.IncompleteReadError):
                assert not welcome
                continue
            assert welcome
            assert connack.reason == 0
            assert broker.sessions["c"].username == "ann"
            assert broker.access.decisions["connect", "certificate", "allow"] == 1
            writer.close()


async def shown(port, name, ca):
    """The names in the certificate that a server shows."""
    context = ssl.create_default_context(cafile=ca.file)
    context.check_hostname = False
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
    certificate = writer.get_extra_info("peercert")
    writer.close()
    return [value for _, value in certificate["subjectAltName"]]


async def test_each_host_name_has_its_certificate_and_new_ones_need_no_restart(ca):
    pem, key = ca.issue("b.example", "b.example", file="b")
    section = tls_section(ca, hosts={"b.example": {"cert_file": str(pem), "key_file": str(key)}})
    async with broker_with({"type": "tls", "tls": section}) as broker:
        port = broker.ports["tls:0"]
        assert await shown(port, "b.example", ca) == ["b.example"]
        assert await shown(port, "c.example", ca) == ["localhost"]
        ca.issue("b.example", "b.example", "new.example", file="b")
        await broker.runtime.call("mqtt_files", "look")
        assert await shown(port, "b.example", ca) == ["b.example", "new.example"]
        # Half a file: what was read before stays.
        pem.write_text("-----BEGIN")
        await broker.runtime.call("mqtt_files", "look")
        assert await shown(port, "b.example", ca) == ["b.example", "new.example"]


async def comes_in(port, ca, client, version=None):
    """Whether a client with that certificate is let in."""
    context = ssl.create_default_context(cafile=ca.file)
    context.load_cert_chain(*client)
    if version is not None:
        context.maximum_version = version
    writer = None
    try:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=context, server_hostname="localhost"
        )
        connack = await mqtt(reader, writer, p.Connect(client_id="c"))
    except (OSError, asyncio.IncompleteReadError):
        return False
    finally:
        if writer is not None:
            writer.transport.abort()
    return connack.reason == 0


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_new_authorities_and_revocations_hold_from_the_next_connection_on(ca, tmp_path, version):
    (tmp_path / "new").mkdir()
    new = Authority(tmp_path / "new", "ca")
    old_client, other_client = ca.issue("ann", file="ann"), ca.issue("bob", file="bob")
    new_client = new.issue("cleo", file="cleo")
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(ca.file.read_bytes())
    crl = ca.revoke()
    section = tls_section(ca, ca_file=str(trusted), crl_file=str(crl), verify="require")
    async with broker_with({"type": "tls", "tls": section}) as broker:
        port = broker.ports["tls:0"]
        files = broker.runtime.whereis("mqtt_files")

        async def who():
            await broker.runtime.call(files, "look")
            return [await comes_in(port, ca, c, version) for c in (old_client, other_client, new_client)]

        assert await who() == [True, True, False]
        ca.revoke(old_client[0])
        assert await who() == [False, True, False]
        trusted.write_bytes(new.file.read_bytes())
        crl.write_bytes(new.revoke().read_bytes())
        assert await who() == [False, False, True]


async def test_a_certificate_that_cannot_be_used_is_a_clear_error(ca, tmp_path):
    section = tls_section(ca) | {"key_file": str(tmp_path / "missing")}
    with pytest.raises(StartFailed, match=r"TLS: .*expected PEM"):
        async with broker_with({"type": "tls", "tls": section}):
            pass


async def test_a_unix_socket_is_a_way_in_and_a_dead_ones_file_is_replaced(tmp_path):
    path = tmp_path / "mqtt.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    async with broker_with({"type": "unix", "socket": str(path)}) as broker:
        assert broker.ports == {}
        reader, writer = await asyncio.open_unix_connection(str(path))
        assert (await mqtt(reader, writer, p.Connect(client_id="u"))).reason == 0
        assert broker.client(broker.sessions["u"]).peer == "local"
        with pytest.raises(StartFailed, match="already in use"):
            async with broker_with({"type": "unix", "socket": str(path)}):
                pass
        writer.close()


async def test_nodes_share_a_port_where_told(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = {"port": port, "reuse_port": True}
    async with broker_with(shared), broker_with(shared):
        pass


V2 = b"\r\n\r\n\0\r\nQUIT\n"
V2_TCP4 = V2 + b"\x21\x11\0\x0f" + bytes((203, 0, 113, 9, 10, 0, 0, 1)) + b"\x10\x92\x07\x5b" + b"\x04\0\0"


@pytest.mark.parametrize(
    ("header", "peer"),
    [
        (b"PROXY TCP4 203.0.113.9 10.0.0.1 4242 1883\r\n", "203.0.113.9:4242"),
        (b"PROXY TCP6 2001:db8::9 ::1 4242 1883\r\n", "[2001:db8::9]:4242"),
        (b"PROXY UNKNOWN\r\n", "127.0.0.1"),
        (V2_TCP4, "203.0.113.9:4242"),
        (V2 + b"\x21\x21\0\x24" + bytes(15) + b"\x09" + bytes(16) + b"\x10\x92\x07\x5b", "[::9]:4242"),
        (V2 + b"\x20\0\0\0", "127.0.0.1"),
    ],
)
@pytest.mark.parametrize("pieces", [1, 1000])
async def test_the_proxy_header_says_who_the_client_is(header, peer, pieces):
    async with broker_with({"proxy_protocol": True}) as broker:
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.ports["tcp:0"])
        stream = header + encode(p.Connect(client_id="c"), 4)
        size = max(1, len(stream) // pieces)
        for at in range(0, len(stream), size):
            writer.write(stream[at : at + size])
            await writer.drain()
            await asyncio.sleep(0)
        assert (await reader.readexactly(4)) == b"\x20\x02\0\0"
        assert broker.client(broker.sessions["c"]).peer.startswith(peer)
        writer.close()


@pytest.mark.parametrize(
    "stream",
    [
        encode(p.Connect(client_id="c"), 4),
        b"PROXY TCP4 203.0.113.9 10.0.0.1 4242\r\n",
        b"PROXY TCP4 ::1 ::1 1 2\r\n",
        b"PROXY TCP4 " + b"x" * 200,
        V2 + b"\x11\x11\0\x0c" + bytes(12),
        V2 + b"\x21\x11\xff\xff",
        V2 + b"\x21\x11\0\x04" + bytes(4),
    ],
)
async def test_without_a_proper_proxy_header_nobody_comes_in(stream):
    async with broker_with({"proxy_protocol": True}) as broker:
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.ports["tcp:0"])
        writer.write(stream)
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        await until(lambda: not broker.channels)
        assert broker.refused["tcp:0", "no_proxy_header"] == 1
        writer.close()


GREETING = (
    b"GET /mqtt HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Protocol: mqtt\r\n\r\n"
)


def through_proxy(port, ca, *, kind, header, size):
    """A client behind a balancer that says so in pieces of ``size`` bytes; blocks."""
    context = ssl.create_default_context(cafile=ca.file)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    connect = encode(p.Connect(client_id="behind"), 4)
    with socket.create_connection(("127.0.0.1", port), timeout=20) as raw:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def talk(step):
            while True:
                try:
                    found = step()
                except ssl.SSLWantReadError:
                    found = None
                raw.sendall(outgoing.read())
                if found is not None:
                    return found
                data = raw.recv(65536)
                if not data:
                    raise ConnectionError("closed")
                incoming.write(data)

        with contextlib.suppress(ssl.SSLWantReadError):
            tls.do_handshake()
        # The header and the first words of TLS in one piece, or every byte alone.
        stream = header + outgoing.read()
        for at in range(0, len(stream), size):
            raw.sendall(stream[at : at + size])
        talk(lambda: tls.do_handshake() or True)
        if kind == "wss":
            frame = bytes((0x82, 0x80 | len(connect), 0, 0, 0, 0)) + connect
            talk(lambda: tls.write(GREETING + frame))
            answer = b""
            while not answer.endswith(b"\x82\x04\x20\x02\0\0"):
                answer += talk(lambda: tls.read(4096))
        else:
            talk(lambda: tls.write(connect))
            assert talk(lambda: tls.read(4)) == b"\x20\x02\0\0"


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("kind", ["tls", "wss"])
@pytest.mark.parametrize("header", [b"PROXY TCP4 203.0.113.9 10.0.0.1 4242 1883\r\n", V2_TCP4])
def test_the_proxy_header_comes_before_tls(ca, kind, header, loop):
    async def body():
        peers = []
        async with broker_with({"type": kind, "proxy_protocol": True, "tls": tls_section(ca)}) as broker:
            broker.on_return = lambda name: peers.append(broker.client(broker.sessions[name]).peer)
            port = broker.ports[f"{kind}:0"]
            for size in (1, 10, 100_000):
                await asyncio.to_thread(through, port, size)
            await until(lambda: not broker.channels)
            assert peers == ["203.0.113.9:4242"] * 3
            # Without a header TLS is no way in either.
            with pytest.raises((OSError, asyncio.IncompleteReadError)):
                await shown(port, "localhost", ca)
            assert broker.refused[f"{kind}:0", "no_proxy_header"] == 1

    def through(port, size):
        through_proxy(port, ca, kind=kind, header=header, size=size)

    factory = uvloop.new_event_loop if loop == "uvloop" else None
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(body())


@pytest.mark.parametrize("kind", ["tcp", "ws", "tls"])
async def test_only_balancers_are_believed(ca, kind):
    section = {"tls": tls_section(ca)} if kind == "tls" else {}
    listener = {"type": kind, "proxy_protocol": True, "proxy_sources": ["192.0.2.0/24"], **section}
    async with broker_with(listener) as broker:
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.ports[f"{kind}:0"])
        writer.write(b"PROXY TCP4 203.0.113.9 10.0.0.1 4242 1883\r\n")
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        assert broker.access.decisions["accept", "untrusted_proxy", "deny"] == 1
        assert not broker.channels
        writer.close()


@pytest.mark.parametrize(
    ("peer", "within"),
    [
        (("10.1.2.3", 5), True),
        (("11.1.2.3", 5), False),
        (("::ffff:10.1.2.3", 5, 0, 0), True),
        (("2001:db8::1", 5, 0, 0), True),
        (("fe80::1%eth0", 5, 0, 2), False),
        ("", False),
        (None, False),
    ],
)
def test_sources_are_networks_of_both_families(peer, within):
    config = ListenerConfig(proxy_protocol=True, proxy_sources="10.0.0.0/8, 2001:db8::/32")
    assert is_within(peer, config.proxy_sources) is within


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


# Bad input.


async def test_hundreds_that_never_say_connect_are_bounded_and_let_go():
    """Slow-loris: connections without CONNECT are few, short-lived, and in nobody's way."""
    async with broker_with({"max_pending": 100}, {"type": "tcp"}, limits={"connect_timeout": "2s"}) as broker:
        port = broker.ports["tcp:0"]
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(300)]
        for _, writer in idle[::2]:
            writer.write(b"\x10")
        await until(lambda: broker.refused["tcp:0", "pending"] == 200)
        assert len(broker.channels) == 100
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.ports["tcp:1"])
        assert (await mqtt(reader, writer, p.Connect(client_id="good"))).reason == 0
        await until(lambda: len(broker.channels) == 1)
        for _, other in idle:
            other.close()
        reader, again = await asyncio.open_connection("127.0.0.1", port)
        assert (await mqtt(reader, again, p.Connect(client_id="late"))).reason == 0
        writer.close()
        again.close()


async def test_clients_do_not_take_the_descriptors_that_the_node_needs(monkeypatch):
    monkeypatch.setattr(listener, "descriptors", lambda: 100)
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
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.ports["tcp:0"])
        assert (await mqtt(reader, writer, p.Connect(client_id="c"))).reason == 0
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
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.ports["tcp:0"])
        assert (await mqtt(reader, writer, p.Connect(client_id="good"))).reason == 0
        writer.close()


def test_a_listener_that_makes_no_sense_is_refused():
    for wrong in (
        {"type": "tls"},
        {"type": "tcp", "tls": {"cert_file": "a", "key_file": "b"}},
        {"type": "unix"},
        {"type": "tls", "tls": {"cert_file": "a", "key_file": "b", "crl_file": "c"}},
        {"proxy_sources": ["10.0.0.0/33"]},
        {"proxy_sources": "balancer.example"},
        {"type": "tls", "tls": {"cert_file": "a", "key_file": "b", "verify": "require"}},
        {"type": "tls", "tls": {"cert_file": "a", "key_file": "b", "username": "cn"}},
    ):
        with pytest.raises(ValidationError):
            ListenerConfig(**wrong)

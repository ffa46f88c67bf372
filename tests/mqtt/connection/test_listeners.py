"""Every way in, over real sockets."""

import asyncio
import contextlib
import socket
import ssl
from datetime import timedelta

import pytest
from certs import Authority
from pydantic import ValidationError

from gossamer.config import ListenerConfig
from gossamer.mqtt import encode
from gossamer.mqtt.codec import packets as p
from gossamer.supervisor import StartFailed
from mqtt.listening import accepted, broker_with, mqtt, shown, tls_section, with_paho

pytestmark = pytest.mark.real


@pytest.mark.parametrize("kind", ["tls", "ws", "wss"])
async def test_paho_comes_in_over_tls_and_websockets(ca, kind):
    section = {} if kind == "ws" else {"tls": tls_section(ca)}
    context = ssl.create_default_context(cafile=ca.file) if section else None
    transport = "tcp" if kind == "tls" else "websockets"
    async with broker_with({"type": kind, **section}) as broker, asyncio.timeout(30):
        assert await asyncio.to_thread(with_paho, broker.ports[f"{kind}:0"], transport=transport, tls=context)


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


async def test_a_session_is_for_certificates_of_its_user_only(ca):
    section = tls_section(ca, ca_file=str(ca.file), verify="optional", username="cn")
    async with broker_with({"type": "tls", "tls": section}) as broker:
        for name, reason in (("ann", 0), ("bob", 5), (None, 5), ("ann", 0)):
            context = ssl.create_default_context(cafile=ca.file)
            if name is not None:
                context.load_cert_chain(*ca.issue(name, file=name))
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", broker.ports["tls:0"], ssl=context, server_hostname="localhost"
            )
            # Without a certificate the name is a claim.
            username = None if name else "ann"
            connect = p.Connect(client_id="c", clean_start=False, username=username)
            assert (await mqtt(reader, writer, connect)).reason == reason
            writer.close()
        assert broker.sessions["c"].username == "ann"


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


async def test_a_list_of_revocations_that_is_out_of_date_lets_nobody_in(ca):
    client, crl = ca.issue("ann", file="ann"), ca.revoke()
    section = tls_section(ca, ca_file=str(ca.file), crl_file=str(crl), verify="require")
    async with broker_with({"type": "tls", "tls": section}) as broker:
        port = broker.ports["tls:0"]
        assert await comes_in(port, ca, client)
        ca.revoke(renewed=-timedelta(seconds=1))
        await broker.runtime.call(broker.runtime.whereis("mqtt_files"), "look")
        assert not await comes_in(port, ca, client)


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


async def test_a_killed_listener_comes_back_on_its_real_port():
    async with broker_with({}) as broker, asyncio.timeout(20):
        port, runtime = broker.ports["tcp:0"], broker.runtime

        def acceptors():
            return [pid for pid in runtime.processes() if runtime.find(pid).label == "mqtt_listener"]

        reader, writer = await accepted(port, "stays")
        [acceptor] = acceptors()
        runtime.exit(acceptor, "kill")
        new = None
        while acceptors() in ([], [acceptor]) or new is None:
            await asyncio.sleep(0.005)
            with contextlib.suppress(ConnectionError):
                _, new = await accepted(port, "new")
        assert isinstance(await mqtt(reader, writer, p.Pingreq()), p.Pingresp)
        for one in (writer, new):
            one.close()


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


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_revoked_certificate_does_not_come_in_by_resuming_a_session(ca, version):
    client = ca.issue("ann", file="ann")
    crl = ca.revoke()
    section = tls_section(ca, ca_file=str(ca.file), crl_file=str(crl), verify="require")
    context = ssl.create_default_context(cafile=ca.file)
    context.load_cert_chain(*client)
    context.minimum_version = context.maximum_version = version

    def connect(port, session=None):
        """What the handshake gave, after CONNACK: a session to resume, and whether this one was."""
        with (
            socket.create_connection(("127.0.0.1", port), timeout=30) as raw,
            context.wrap_socket(raw, server_hostname="localhost", session=session) as secured,
        ):
            secured.settimeout(30)
            secured.sendall(encode(p.Connect(client_id="c"), 4))
            if secured.recv(4)[3:] != b"\0":
                raise ConnectionError("not let in")
            return secured.session, secured.session_reused

    async with broker_with({"type": "tls", "tls": section}) as broker:
        port = broker.ports["tls:0"]
        session, _ = await asyncio.to_thread(connect, port)
        _, resumed = await asyncio.to_thread(connect, port, session)
        assert not resumed
        ca.revoke(client[0])
        await broker.runtime.call(broker.runtime.whereis("mqtt_files"), "look")
        with pytest.raises(OSError):
            await asyncio.to_thread(connect, port, session)

"""Who names the tenant of a client: its source, else its certificate, else its listener."""

import ssl
import time

import certs
import httpx
import jwt
import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID
from pydantic import ValidationError

from gossamer.config import HttpAuthConfig, ListenerConfig
from gossamer.errors import UsageError
from gossamer.mqtt import Chain, Login, PasswordFile, ReasonCode, Verdict, set_password
from gossamer.mqtt.auth.callout import HttpCallout
from gossamer.mqtt.auth.scram import Credential, set_scram_password
from gossamer.mqtt.client import MqttClient
from gossamer.network import SystemNetwork
from mqtt.harness import connack
from mqtt.listening import broker_with, tls_section

SECRET = "s" * 32


def tenant_of(world):
    """The tenant of the one client of a broker."""
    [name] = world.broker.sessions
    tenant, mark, client_id = name.partition("\0")
    assert (client_id, mark) == ("c", "\0") if mark else name == "c"
    return tenant if mark else ""


@pytest.mark.parametrize(("given", "tenant"), [(None, "shop"), ("acme", "acme"), ("default", "")])
async def test_a_line_of_the_password_file_names_it(make_world, tmp_path, given, tenant):
    file = tmp_path / "users"
    set_password(file, "ann", "first", tenant=given)
    set_password(file, "ann", "pencil")
    world = await make_world(auth={"password_file": file}, listener={"tenant": "shop"}, anonymous=False)
    answer = await connack(world.dial(), username="ann", password=b"pencil")
    assert answer.reason == ReasonCode.SUCCESS
    assert tenant_of(world) == tenant


def test_a_line_with_no_name_of_a_tenant_is_said(tmp_path):
    file = tmp_path / "users"
    set_password(file, "ann", "pencil")
    file.write_text(file.read_text().rstrip() + " a/b\n")
    with pytest.raises(UsageError, match=r"users:1: tenant: got 'a/b', expected the name of a tenant"):
        PasswordFile(file)
    for setting in (set_password, set_scram_password):
        with pytest.raises(UsageError, match="tenant: got 'a b'"):
            setting(tmp_path / "others", "ann", "pencil", tenant="a b")


def test_a_line_of_the_scram_file_names_it_and_keeps_it(tmp_path):
    file = tmp_path / "scram"
    set_scram_password(file, "ann", "pencil", tenant="acme")
    set_scram_password(file, "ann", "eraser")
    assert Credential.parse(file.read_text().partition(":")[2]).tenant == "acme"


@pytest.mark.parametrize(
    ("claims", "tenant"),
    [({"org": "acme"}, "acme"), ({}, "shop"), ({"org": "default"}, ""), ({"org": 7}, "7")],
)
async def test_a_claim_of_a_token_names_it(make_world, claims, tenant):
    world = await make_world(
        auth={"jwt": {"secret": SECRET, "tenant_claim": "org"}}, listener={"tenant": "shop"}, anonymous=False
    )
    token = jwt.encode({"sub": "ann", "exp": time.time() + 1e9, **claims}, SECRET, "HS256")
    assert (await connack(world.dial(), password=token.encode())).reason == ReasonCode.SUCCESS
    assert tenant_of(world) == tenant


async def test_what_is_no_name_of_a_tenant_lets_nobody_in(make_world):
    world = await make_world(auth={"jwt": {"secret": SECRET, "tenant_claim": "org"}}, anonymous=False)
    token = jwt.encode({"sub": "ann", "exp": time.time() + 1e9, "org": "a/b"}, SECRET, "HS256")
    answer = await connack(world.dial(), password=token.encode())
    assert answer.reason == ReasonCode.NOT_AUTHORIZED
    assert "tenant, as jwt says: got 'a/b'" in answer.properties.reason_string
    assert world.broker.access.decisions["connect", "jwt", "deny"] == 1
    assert not world.broker.sessions


@pytest.mark.parametrize(("said", "tenant"), [({"tenant": "acme"}, "acme"), ({}, "shop")])
async def test_the_answer_of_a_service_names_it(make_world, said, tenant):
    def handle(_request):
        return httpx.Response(200, json={"result": "allow"} | said)

    config = HttpAuthConfig(url="http://auth.example/")
    source = HttpCallout(config, now=time.monotonic, transport=httpx.MockTransport(handle))
    world = await make_world(authenticator=Chain([source]), listener={"tenant": "shop"})
    assert (await connack(world.dial(), username="ann")).reason == ReasonCode.SUCCESS
    assert tenant_of(world) == tenant


@pytest.mark.parametrize(("said", "tenant"), [("acme", "acme"), (None, "shop")])
async def test_a_certificate_names_it(ca, monkeypatch, said, tenant):
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, "meter")]
    parts += [x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, said)] if said else []
    plain = certs._name
    monkeypatch.setattr(certs, "_name", lambda name: x509.Name(parts) if name == "meter" else plain(name))
    pem, key = ca.issue("meter")
    section = tls_section(ca, ca_file=str(ca.file), verify="require", username="cn", tenant="ou")
    async with broker_with({"type": "tls", "tls": section, "tenant": "shop"}) as broker:
        context = ssl.create_default_context(cafile=str(ca.file))
        context.load_cert_chain(pem, key)

        class Tls(SystemNetwork):
            async def connect(self, factory, address, **options):
                return await super().connect(factory, address, tls=context, **options)

        client = await MqttClient.connect(Tls(), ("localhost", broker.ports["tls:0"]), "c")
        assert list(broker.sessions) == [f"{tenant}\0c"]
        await client.disconnect()


async def test_a_client_that_authenticates_again_stays_in_its_tenant(make_world):
    world = await make_world(listener={"tenant": "shop"})
    client = await world.client("c", version=5)
    channel = client.channel
    login = world.broker.admission
    for tenant, stays in ((None, True), ("shop", True), ("other", False)):
        verdict = Verdict(ReasonCode.SUCCESS, "test", tenant=tenant)
        login._again(channel, Login(client_id="c"), verdict)
        assert channel.is_up is stays


@pytest.mark.parametrize("tenant", ["a/b", "-", "a" * 65, "ä"])
def test_a_listener_with_no_name_of_a_tenant_is_refused_by_key(tenant):
    with pytest.raises(ValidationError, match=r"tenant\n.*1 to 64 of A-Z, a-z, 0-9"):
        ListenerConfig(tenant=tenant)


async def test_clients_wait_until_every_node_knows_tenants(make_world):
    world = await make_world(listener={"tenant": "shop"})
    world.broker.tenants.enabled = lambda: False
    answer = await connack(world.dial())
    assert answer.reason == ReasonCode.SERVER_UNAVAILABLE
    assert "gossamer features enable tenants" in answer.properties.reason_string

"""A client that authenticates by SCRAM-SHA-256, made without the broker's half of it."""

import base64

import pytest

from gossamer.mqtt import Scram
from gossamer.mqtt.auth.scram import client_proof, credential_of
from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.codec.properties import Properties

from .conftest import V5

METHOD = "SCRAM-SHA-256"
USERS = {
    name: credential_of(password, iterations=4096)
    for name, password in {"ann": "pencil", "bob": "eraser", "c,d=e": "comma"}.items()
}


class Dancer:
    """SCRAM as a client does it (RFC 5802): three messages, and the server is checked as well."""

    def __init__(self, name, password, *, gs2=b"n,,", nonce=b"rOprNGfwEbeRWgbNEkqO"):
        self.password = password
        self.gs2 = gs2
        escaped = name.replace("=", "=3D").replace(",", "=2C").encode()
        self.bare = b"n=" + escaped + b",r=" + nonce
        self.nonce = nonce
        self.signature = b""

    @property
    def first(self):
        return self.gs2 + self.bare

    def final(self, challenge):
        fields = dict(field.split(b"=", 1) for field in challenge.split(b","))
        assert fields[b"r"].startswith(self.nonce)
        assert len(fields[b"r"]) > len(self.nonce) + 20
        without = b"c=" + base64.b64encode(self.gs2) + b",r=" + fields[b"r"]
        message = b",".join((self.bare, challenge, without))
        proof, self.signature = client_proof(
            self.password, base64.b64decode(fields[b"s"]), int(fields[b"i"]), message
        )
        return without + b",p=" + base64.b64encode(proof)

    def check(self, data):
        assert data == b"v=" + base64.b64encode(self.signature)


@pytest.fixture(name="world")
async def scram_world(make_world):
    world = await make_world(anonymous=False)
    world.broker.access.methods[METHOD] = Scram(USERS)
    return world


def auth(reason, data=None, *, method=METHOD):
    return p.Auth(
        reason=reason, properties=Properties(authentication_method=method, authentication_data=data)
    )


def hello(dancer, *, method=METHOD, data=True, **options):
    properties = Properties(
        authentication_method=method, authentication_data=dancer.first if data else None, session_expiry=60
    )
    return p.Connect(client_id="c", version=V5, properties=properties, **options)


async def greet(world, dancer=None, **options):
    """A client that has sent its CONNECT; and what came."""
    client = world.dial(V5)
    client.send(hello(dancer or Dancer("ann", "pencil"), **options))
    return client, await client.got()


async def let_in(world, name="ann", password="pencil", **options):
    """A client that has danced; and its CONNACK."""
    dancer = Dancer(name, password)
    client, [challenge] = await greet(world, dancer, **options)
    assert isinstance(challenge, p.Auth)
    client.send(auth(0x18, dancer.final(challenge.properties.authentication_data)))
    connack = (await client.got())[-1]
    return client, connack, dancer

"""SCRAM-SHA-256: what is no SCRAM, what is kept of a password, and the files that it is kept in."""

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.files import FileError
from gossamer.mqtt import Done, Login, ReasonCode, Scram, set_scram_password
from gossamer.mqtt.auth.scram import BadPasswordError, Credential, credential_of, saslprep

from .conftest import V5
from .dancer import USERS, Dancer, auth, greet, hello, let_in, scram_world
from .statements import keeps

__all__ = ["scram_world"]


async def test_an_unknown_name_is_asked_like_a_known_one(world):
    """With a salt that stays the same: nobody learns who is here."""
    salts = set()
    for name in ("nobody", "nobody", "ann"):
        _, [challenge] = await greet(world, Dancer(name, "x"))
        salts.add(challenge.properties.authentication_data.split(b",")[1])
    assert len(salts) == 2


NOT_SCRAM = [
    b"",
    b"n,,",
    b"n,,n=ann",
    b"n,,r=nonce",
    b"n,,n=,r=nonce",
    b"n,,n=ann,r=",
    b"n,,n=ann,r=a b",
    b"n,,n=a=XX,r=nonce",
    b"n,,n=\xff,r=nonce",
    b"n,,n=a\0b,r=nonce",
    b"n,a=bob,n=ann,r=nonce",
    b"n,,m=new,n=ann,r=nonce",
    b"p=tls-unique,,n=ann,r=nonce",
    b"x" * 5000,
]


@keeps(v5="4.12.0-4")
@pytest.mark.parametrize("data", NOT_SCRAM)
async def test_what_is_no_scram_is_refused(world, data):
    client, dancer = world.dial(V5), Dancer("ann", "pencil")
    dancer.gs2, dancer.bare = b"", data
    client.send(hello(dancer))
    assert [x.reason for x in await client.got()] == [ReasonCode.NOT_AUTHORIZED]
    assert client.closed


@pytest.mark.parametrize(
    "spoil",
    [
        lambda x: b"",
        lambda x: x[:-4],
        lambda x: x.replace(b"c=biws", b"c=eSws"),
        lambda x: x.replace(b"r=", b"r=x"),
        lambda x: x[: x.index(b",p=")] + b",p=%%%",
        lambda x: x[: x.index(b",p=")] + b",p=" + base64.b64encode(b"short"),
        lambda x: x[: x.index(b",p=")],
    ],
)
async def test_a_spoilt_proof_is_refused(world, spoil):
    dancer = Dancer("ann", "pencil")
    client, [challenge] = await greet(world, dancer)
    client.send(auth(0x18, spoil(dancer.final(challenge.properties.authentication_data))))
    assert [x.reason for x in await client.got()] == [ReasonCode.NOT_AUTHORIZED]


MESSAGES = st.binary(max_size=60) | st.lists(
    st.sampled_from(
        [
            b"n,",
            b"y,",
            b",",
            b"a=",
            b"n=",
            b"ann",
            b"nobody",
            b"r=",
            b"x",
            b"c=",
            b"biws",
            b"p=",
            b"=2C",
            b"=",
            b"m=",
        ]
    ),
    max_size=10,
).map(b"".join)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.none() | MESSAGES, min_size=1, max_size=4))
def test_whatever_is_said_the_exchange_asks_or_refuses(said):
    exchange = Scram(USERS).begin(Login(client_id="c"))
    for data in said:
        step = exchange.step(data)
        if isinstance(step, Done):
            assert step.verdict.reason == ReasonCode.NOT_AUTHORIZED
            return


def test_the_example_of_the_rfc():
    credential = credential_of("pencil", salt=base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), iterations=4096)
    method = Scram({"user": credential}, nonce=lambda: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    exchange = method.begin(Login(client_id="c"))
    challenge = exchange.step(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert challenge.data.endswith(b"k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    done = exchange.step(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert done.verdict.username == "user"
    assert done.data == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


async def test_a_file_of_credentials_is_written_and_read_and_read_again(make_world, tmp_path):
    file = tmp_path / "scram"
    assert set_scram_password(file, "ann", "pencil") is False
    world = await make_world(anonymous=False, auth={"scram_file": file})
    assert "pencil" not in file.read_text()
    assert file.stat().st_mode & 0o77 == 0
    _, connack, _ = await let_in(world)
    assert connack.reason == 0
    assert set_scram_password(file, "ann", "eraser") is True
    await world.runtime.call("mqtt_files", "look")
    for password, reason in (("pencil", ReasonCode.NOT_AUTHORIZED), ("eraser", 0)):
        _, connack, _ = await let_in(world, password=password)
        assert connack.reason == reason
    set_scram_password(file, "ann", None)
    assert file.read_text() == ""


@pytest.mark.parametrize(
    "line", ["ann", "ann:x", "ann:$argon2id$x", "ann:SCRAM-SHA-256$0$AA==$AA==$AA==", ":x"]
)
def test_a_line_that_is_no_credential_is_named(tmp_path, line):
    file = tmp_path / "scram"
    file.write_text(f"# users\n{line}\n")
    with pytest.raises(FileError, match=r"scram:2: .*gossamer passwd --scram"):
        Scram(file)


def test_a_credential_hides_itself():
    credential = credential_of("pencil", iterations=4096)
    assert Credential.parse(credential.line()) == credential
    assert base64.b64encode(credential.stored_key).decode() not in repr(credential)


@pytest.mark.parametrize(
    ("given", "same"),
    [("I\xadX", "IX"), ("user", "user"), ("\xaa", "a"), ("\u2168", "IX"), ("a\u00a0b", "a b")],
)
def test_names_that_look_the_same_are_the_same(given, same):
    """The examples of RFC 4013."""
    assert saslprep(given) == same


@pytest.mark.parametrize("given", ["\x07", "\u06271", "a\ue000"])
def test_names_that_are_not_allowed(given, tmp_path):
    with pytest.raises(ValueError):
        saslprep(given)
    with pytest.raises(BadPasswordError):
        set_scram_password(tmp_path / "scram", "ann", given)

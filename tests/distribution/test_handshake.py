"""The handshake, both sides in one process, and with hostile bytes."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.distribution.errors import HandshakeError, WireError
from gossamer.distribution.links.handshake import Handshake, Local, called, calling, cookie_key
from gossamer.distribution.links.seal import BrokenSeal, ChannelKey
from gossamer.distribution.wire import (
    HANDSHAKE_LIMIT,
    OLDEST,
    VERSION,
    Accept,
    Challenge,
    Hello,
    Proof,
    Refuse,
    decode_ack,
    decode_batch,
    decode_handshake,
    encode,
    spoken,
)
from gossamer.features import FEATURES

COOKIE = "correct horse battery staple"


def local(name="b@host", creation=5, env="Test", cookie=COOKIE):
    return Local(name=name, creation=creation, env=env, key=cookie_key(cookie))


def pair(
    caller=None,
    other=None,
    *,
    to=("b@host", 5),
    admit=lambda hello: (7, 22),
    bindings=(b"", b""),
    **options,
):
    caller = caller or local("a@host", 3)
    name, creation = to
    key = ChannelKey(b"a" * 32)
    hello = Hello(
        **{"version": VERSION} | options,
        env=caller.env,
        purpose="data",
        name=caller.name,
        creation=caller.creation,
        to=name,
        session=11,
        yours=22,
        key=key.public,
    )
    other = other or local()
    return (
        Handshake(caller, calling(caller, hello, key, creation=creation, binding=bindings[0]), name),
        Handshake(other, called(other, ChannelKey(b"b" * 32), admit=admit, binding=bindings[1])),
    )


def run(initiator, acceptor):
    """Both ends' last steps."""
    data, there, here = initiator.greeting, None, None
    while data:
        there = acceptor.receive(data)
        if there.send is None:
            break
        here = initiator.receive(there.send)
        data = here.send
    return here, there


def test_both_sides_open_with_the_same_facts():
    here, there = run(*pair())
    assert here.error is there.error is None
    assert (here.opened.peer, here.opened.creation, here.opened.received) == ("b@host", 5, 7)
    assert (there.opened.peer, there.opened.creation) == ("a@host", 3)
    assert (there.opened.purpose, there.opened.session, here.opened.session) == ("data", 11, 22)


def test_a_caller_may_ask_to_be_sent_to():
    initiator, acceptor = pair(pull=9)
    here, there = run(initiator, acceptor)
    assert here.opened.session == 22
    assert there.opened.received == 9


@pytest.mark.parametrize(
    ("change", "code", "expected", "got"),
    [
        ({"other": local(env="Prod")}, "env", "env 'Prod'", "'Test'"),
        ({"other": local(cookie="other")}, "cookie", "a@host to prove", "a wrong proof"),
        ({"other": local("c@host")}, "name", "a call to c@host", "a call to b@host"),
        ({"caller": local("b@host", 9)}, "same_name", "another name", "b@host"),
        ({"other": local(creation=4)}, "stale_creation", "creation 5 or later", "4"),
        ({"bindings": (b"one", b"two")}, "cookie", "prove", "a wrong proof"),
    ],
)
def test_a_difference_is_named_to_both_sides(change, code, expected, got):
    here, there = run(*pair(**change))
    for step in (here, there):
        assert isinstance(step.error, HandshakeError)
        assert step.error.code == code
        assert expected in step.error.expected
        assert got in step.error.got
        assert step.opened is None


def test_no_error_shows_the_cookie_or_its_key():
    here, there = run(*pair(other=local(cookie="other")))
    for text in (str(here.error), str(there.error), repr(local())):
        assert COOKIE not in text
        assert "other" not in text
        assert repr(cookie_key(COOKIE)) not in text


def test_a_called_node_without_the_cookie_is_found_out():
    initiator, _ = pair()
    challenge = Challenge(version=VERSION, name="b@host", creation=5, key=ChannelKey(b"m" * 32).public)
    assert initiator.receive(encode(challenge)).send
    step = initiator.receive(encode(Accept(received=0)))
    assert step.error.code == "cookie"
    assert step.error.refused_by == "a@host"


def test_a_proof_cannot_be_reflected():
    """Each direction has a key of its own."""
    initiator, acceptor = pair()
    challenge = acceptor.receive(initiator.greeting).send
    proof = initiator.receive(challenge).send
    assert initiator.receive(proof).error.code == "cookie"


def test_who_stands_between_cannot_share_the_channel():
    """It knows all that was said, and has put a key of its own in the place of each."""
    initiator, acceptor = pair()
    between = ChannelKey(b"m" * 32)
    hello = msgspec.structs.replace(decode_handshake(initiator.greeting), key=between.public)
    challenge = decode_handshake(acceptor.receive(encode(hello)).send)
    proof = initiator.receive(encode(msgspec.structs.replace(challenge, key=between.public))).send
    assert acceptor.receive(proof).error.code == "cookie"


def test_a_key_that_makes_no_secret_is_refused():
    initiator, acceptor = pair()
    hello = msgspec.structs.replace(decode_handshake(initiator.greeting), key=bytes(32))
    assert acceptor.receive(encode(hello)).error.code == "protocol"


def test_nobody_else_can_say_that_a_session_is_over():
    initiator, acceptor = pair()
    assert initiator.receive(acceptor.receive(initiator.greeting).send).send
    refuse = Refuse(code="stale_session", expected="", got="", refused_by="b@host", advice="")
    assert initiator.receive(encode(refuse)).error.code == "cookie"


def test_messages_are_opened_once_in_order_and_unchanged():
    here, there = run(*pair())
    sender, receiver = here.opened.seal, there.opened.seal
    first, second, third = sender.close(b"first"), sender.close(b"second"), sender.close(b"third")
    assert b"first" not in first
    assert receiver.open(first) == b"first"
    with pytest.raises(BrokenSeal):
        receiver.open(first)
    assert receiver.open(third) == b"third"
    with pytest.raises(BrokenSeal):
        receiver.open(second)
    with pytest.raises(BrokenSeal):
        sender.open(sender.close(b"to myself"))


def test_two_channels_have_nothing_in_common():
    here, _ = run(*pair())
    _, there = run(*pair(caller=local("a@host", 4)))
    with pytest.raises(BrokenSeal):
        there.opened.seal.open(here.opened.seal.close(b"frame"))


def test_who_learns_the_cookie_later_opens_no_channel_that_was_recorded():
    """It has all that was said, and neither key of that channel."""
    caller, called, later = (ChannelKey(bytes([number]) * 32) for number in (1, 2, 3))
    agreed = (cookie_key(COOKIE), b"what both sides said")
    sealed = caller.seals(called.public, *agreed)[0].close(b"frame")
    assert called.seals(caller.public, *agreed)[1].open(sealed) == b"frame"
    for public in (caller.public, called.public):
        for seal in later.seals(public, *agreed):
            with pytest.raises(BrokenSeal):
                seal.open(sealed)


def test_a_caller_that_proves_nothing_is_told_nothing_to_test_guesses_against():
    """What a called node says first is the same bytes under any cookie."""
    said = set()
    for cookie in (COOKIE, "another"):
        initiator, acceptor = pair(other=local(cookie=cookie))
        said.add(acceptor.receive(initiator.greeting).send)
    assert len(said) == 1


def test_a_stranger_is_not_asked_about_membership():
    asked = []
    run(*pair(other=local(cookie="other"), admit=asked.append))
    assert asked == []


def test_a_refused_member_hears_why():
    def admit(hello):
        raise HandshakeError(
            code="unknown_node", expected="a member", got=hello.name, refused_by="b", advice="wait"
        )

    here, there = run(*pair(admit=admit))
    assert here.error.code == there.error.code == "unknown_node"


def test_messages_out_of_order_end_the_handshake():
    initiator, acceptor = pair()
    assert acceptor.receive(encode(Proof())).error.code == "protocol"
    assert initiator.receive(encode(Accept(received=0))).error.code == "protocol"


BEFORE, NEXT, AFTER = {"version": 4}, {"version": 5, "newest": 6}, {"version": 6, "newest": 7}


@pytest.mark.parametrize(
    ("other", "version"),
    [({"version": 3}, 0), (BEFORE, 4), ({"version": 4, "newest": 5}, 5), (NEXT, 5), (AFTER, 0)],
)
def test_a_link_speaks_the_newest_version_of_both(other, version):
    challenge = Challenge(name="b@host", creation=5, key=bytes(32), **other)
    assert spoken(challenge) == version
    here, there = run(*pair(**other))
    assert (here.error is there.error is None) is bool(version)


@pytest.mark.parametrize(
    ("other", "got", "older"),
    [({"version": 3}, "3", "a@host"), (AFTER, "6 to 7", "b@host")],
)
def test_versions_that_are_too_far_apart_are_told_so_with_the_node_to_upgrade(other, got, older):
    here, there = run(*pair(**other))
    for error in (here.error, there.error):
        assert (error.code, error.expected, error.got) == ("version", f"version {OLDEST} to {VERSION}", got)
        assert f"upgrade {older}" in error.advice


def test_a_node_of_the_release_before_reads_the_messages_of_this_one():
    """It knows fewer elements of them, and compares the version with its own."""
    initiator, acceptor = pair(version=OLDEST, newest=VERSION)
    hello = msgspec.msgpack.decode(initiator.greeting)
    challenge = msgspec.msgpack.decode(acceptor.receive(initiator.greeting).send)
    assert (hello[1], challenge[1]) == (4, 4)
    assert decode_handshake(msgspec.msgpack.encode(hello[:12])).newest == 0
    assert decode_handshake(msgspec.msgpack.encode([*hello, "of a later release"])).newest == VERSION


EVERY = ", ".join(feature.name for feature in FEATURES)


@pytest.mark.parametrize(("has_it", "got"), [("caller", EVERY), ("called", "none")])
def test_a_node_without_an_enabled_feature_is_refused_by_either_side(has_it, got):
    caller, called = local("a@host", 3), local()
    (caller if has_it == "caller" else called).features.enabled = {"colour": "0.3.0"}
    here, there = run(*pair(caller, called, admit=called.check_features))
    lacks, has = ("b@host", "a@host") if has_it == "caller" else ("a@host", "b@host")
    for error in (here.error, there.error):
        assert (error.code, error.refused_by) == ("feature", has)
        assert (error.expected, error.got) == ("feature colour (since 0.3.0)", got)
        assert error.advice.endswith(f"upgrade {lacks}")


def test_a_long_message_is_refused_before_it_is_parsed():
    with pytest.raises(WireError, match="at most 4096 bytes"):
        decode_handshake(bytes(HANDSHAKE_LIMIT + 1))


@given(st.binary(max_size=300))
def test_any_bytes_are_answered_with_a_message_or_a_wire_error(data):
    for decode in (decode_handshake, decode_batch, decode_ack):
        try:
            decode(data)
        except WireError:
            pass


@given(st.data())
def test_a_handshake_with_one_changed_byte_never_opens(data):
    initiator, acceptor = pair()
    legs = [initiator.greeting]
    legs.append(acceptor.receive(legs[0]).send)
    legs.append(initiator.receive(legs[1]).send)
    which = data.draw(st.integers(0, 2))
    position = data.draw(st.integers(0, len(legs[which]) - 1))
    flip = data.draw(st.integers(1, 255))

    def damage(leg, message):
        if leg != which:
            return message
        return message[:position] + bytes([message[position] ^ flip]) + message[position + 1 :]

    initiator, acceptor = pair()
    step = acceptor.receive(damage(0, initiator.greeting))
    if not step.error:
        step = initiator.receive(damage(1, step.send))
    if not step.error:
        step = acceptor.receive(damage(2, step.send))
    assert step.opened is None

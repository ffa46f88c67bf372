"""Envelopes, replay, decoding: what comes from the network is never trusted."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gossamer.gossip.steps as steps
import gossamer.gossip.wire as wire
from gossamer.config import GossipConfig
from gossamer.gossip.frames import FrameBuffer, frame
from gossamer.gossip.keyring import (
    OVERHEAD,
    Keyring,
    KeyringError,
    Opened,
    ReplayGuard,
    cluster_key,
    instance,
)
from gossamer.gossip.member import MemberMetadata, MetadataTooLargeError
from gossamer.gossip.swim.swim import Swim
from gossamer.gossip.wire import PacketRejected, compound, decode, encode

ID, OTHER = "0123456789abcdef", "fedcba9876543210"
ONE = instance(OTHER)


def ring(*cookies: str, env: str = "test") -> Keyring:
    return Keyring([cluster_key(c) for c in cookies or ("cookie",)], env=env)


def test_a_sealed_packet_opens_with_the_same_key_only() -> None:
    packet = ring().seal(ID, 7, 1000.9, b"secret words", to=ONE)
    assert len(packet) == len(b"secret words") + OVERHEAD
    assert b"secret words" not in packet
    assert ring().open(packet, own=(ONE,)) == Opened(ID, 7, 1000, b"secret words")
    with pytest.raises(PacketRejected, match="unknown-key"):
        ring("other").open(packet, own=(ONE,))
    with pytest.raises(PacketRejected, match="foreign-env"):
        ring(env="prod").open(packet, own=(ONE,))


def test_every_flipped_bit_is_noticed() -> None:
    keys = ring()
    packet = keys.seal(ID, 7, 1000, b"body", to=ONE)
    for at in range(len(packet) * 8):
        forged = bytearray(packet)
        forged[at // 8] ^= 1 << at % 8
        with pytest.raises(PacketRejected):
            keys.open(bytes(forged), own=(ONE,))


def test_keys_rotate() -> None:
    a, b = ring("old"), ring("old")
    old = a.key_ids()[0]
    with pytest.raises(KeyringError, match="not installed"):
        a.use("00000000")
    with pytest.raises(KeyringError, match="in use"):
        a.remove(old)
    new = a.install(cluster_key("new"))
    b.install(cluster_key("new"))
    a.use(new)
    assert b.open(a.seal(ID, 1, 0, b"x", to=ONE), own=(ONE,)).body == b"x"
    assert a.open(b.seal(OTHER, 1, 0, b"y", to=ONE), own=(ONE,)).body == b"y"
    b.use(new)
    late = b"late"
    packet = ring("old").seal(ID, 2, 0, late, to=ONE)
    assert b.open(packet, own=(ONE,)).body == late
    b.remove(old)
    with pytest.raises(PacketRejected, match="unknown-key"):
        b.open(packet, own=(ONE,))
    with pytest.raises(KeyringError, match="at least one"):
        Keyring([], env="x")


def test_no_message_shows_a_key() -> None:
    key = cluster_key("cookie")
    keys = Keyring([key], env="test")
    assert key.hex() not in repr(keys.key_ids())
    with pytest.raises(KeyringError) as caught:
        keys.remove(keys.key_ids()[0])
    assert key.hex() not in str(caught.value)


def test_a_packet_is_admitted_once_in_any_order() -> None:
    numbers = list(range(1, 500))
    random.Random(1).shuffle(numbers)
    guard = ReplayGuard(window=1024)
    for number in numbers:
        guard.admit(Opened(ID, number, 0, b""), 0)
    for number in numbers:
        with pytest.raises(PacketRejected, match="replayed"):
            guard.admit(Opened(ID, number, 0, b""), 0)


def test_packets_older_than_the_window_are_replays() -> None:
    guard = ReplayGuard(window=64)
    guard.admit(Opened(ID, 1000, 0, b""), 0)
    guard.admit(Opened(ID, 937, 0, b""), 0)
    with pytest.raises(PacketRejected, match="replayed"):
        guard.admit(Opened(ID, 936, 0, b""), 0)
    guard.admit(Opened(ID, 5000, 0, b""), 0)
    guard.admit(Opened(ID, 4999, 0, b""), 0)


def test_an_old_recording_does_not_introduce_its_sender() -> None:
    guard = ReplayGuard(horizon=600)
    with pytest.raises(PacketRejected, match="synchronisation"):
        guard.admit(Opened(ID, 1, 1000, b""), 2000)
    guard.admit(Opened(ID, 1, 1500, b""), 2000)
    guard.admit(Opened(ID, 2, 1500, b""), 9000)


def test_the_guard_remembers_a_bounded_number_of_senders() -> None:
    guard = ReplayGuard(senders=10)
    for number in range(100):
        guard.admit(Opened(f"{number:016x}", 1, 0, b""), 0)
    assert len(guard._seen) == 10


names = st.text(min_size=1, max_size=40)
ids = st.text("0123456789abcdef", min_size=16, max_size=16)
numbers = st.integers(0, 2**53)
sequences = st.integers(0, 2**32 - 1)
hosts = st.ip_addresses().map(str)
ports = st.integers(0, 65535)
metadata = st.builds(
    MemberMetadata,
    name=names,
    creation=numbers,
    start_time=st.floats(allow_nan=False),
    ports=st.dictionaries(st.text(max_size=8), ports, max_size=3),
    services=st.lists(st.text(max_size=8), max_size=3).map(tuple),
    version=st.text(max_size=20),
    pid=numbers,
)
alives = st.builds(wire.Alive, names, ids, hosts, ports, numbers, metadata)
records = st.builds(wire.Record, alives, st.integers(0, 3), st.floats(0, 1e9))
messages: st.SearchStrategy[wire.Message] = st.one_of(
    st.builds(wire.Ping, sequences, ids),
    st.builds(wire.Ack, sequences),
    st.builds(wire.Nack, sequences),
    st.builds(wire.PingRequest, sequences, ids, hosts, ports),
    st.builds(wire.Mismatch, sequences),
    alives,
    st.builds(wire.Suspect, names, ids, numbers, names, st.booleans()),
    st.builds(wire.Dead, names, ids, numbers, names, st.booleans()),
    st.builds(
        wire.Sync,
        st.sampled_from(["join", "sync", "reply"]),
        st.lists(records, max_size=4),
        st.binary(max_size=20),
    ),
    st.builds(wire.Compare, alives, st.binary(min_size=8, max_size=8)),
    st.builds(wire.RowHashes, alives, st.binary(max_size=20)),
    st.builds(wire.Refuse, st.text(max_size=64)),
)


@given(st.lists(messages, max_size=40))
def test_what_is_said_is_heard(said: list[wire.Message]) -> None:
    assert decode(compound([encode(message) for message in said])) == said


LIES = [b"\x91" * 5000, b"\xdd\xff\xff\xff\xff", b"\xdc\xff\xff", b"\x91\x99\x06" + b"\x91" * 3000]


@pytest.mark.parametrize("junk", LIES)
def test_deep_and_long_lies_are_rejected(junk: bytes) -> None:
    with pytest.raises(PacketRejected):
        decode(junk)


@pytest.mark.parametrize("host", ["evil.example", "cafe", "127.0.0.1; rm", "", "a" * 300])
def test_a_host_name_in_a_record_is_rejected(host: str) -> None:
    """The receiver's event loop would wait for DNS."""
    with pytest.raises(PacketRejected):
        decode(compound([encode(wire.Alive("x", ID, host, 1, 1, MemberMetadata("x")))]))


def alone(name: str = "me", number: str = ID, **metadata: Any) -> Swim:
    """A state machine that knows nobody yet."""
    return Swim(
        id=number,
        name=name,
        address=("10.0.0.1", 7946),
        incarnation=5,
        metadata=MemberMetadata(name, **metadata),
        settings=GossipConfig(),
        rng=random.Random(1),
        now=0,
    )


@given(st.lists(st.tuples(messages, ids), max_size=12))
@settings(max_examples=200, deadline=None)
def test_any_sequence_of_valid_messages_leaves_the_machine_working(
    said: list[tuple[wire.Message, str]],
) -> None:
    """Keys leak; a member that lies must not break another."""
    swim = alone()
    now = 0.0
    for message, sender in said:
        body = compound([encode(message)])
        now += 0.01
        for event in (
            steps.PacketReceived(sender, ("10.0.0.9", 1), body),
            steps.StreamRequested(1, sender, ("10.0.0.9", 1), body),
            steps.StreamReplied(("sync", 1), sender, body),
        ):
            try:
                swim.step(event, now)
            except PacketRejected:
                swim.drain()
    assert swim.local.name == "me"
    assert len(swim.members()) == len(swim.table) + 1


def test_a_malformed_answer_ends_the_join_it_belongs_to() -> None:
    swim = alone()
    actions = swim.step(steps.Requested("t", steps.Join((("10.0.0.2", 7946),))), 1)
    opened = [action for action in actions if isinstance(action, steps.OpenStream)]
    with pytest.raises(PacketRejected):
        swim.step(steps.StreamReplied(opened[0].token, OTHER, b"\xff"), 1.1)
    assert swim.drain() == [steps.RequestResult("t", steps.JoinResult((), {("10.0.0.2", 7946): "malformed"}))]


def test_frames_are_collected_and_bounded() -> None:
    whole = frame(b"packet")
    buffer = FrameBuffer(max_frame=100)
    assert [buffer.feed(whole[at : at + 1]) for at in range(len(whole))] == [None] * 9 + [b"packet"]
    with pytest.raises(PacketRejected, match="oversized"):
        FrameBuffer(max_frame=100).feed((101).to_bytes(4, "big"))


def test_metadata_is_bounded() -> None:
    ports = {f"service-number-{n}": 65535 for n in range(30)}
    with pytest.raises(MetadataTooLargeError, match="512"):
        alone(ports=ports)


def test_a_peer_may_say_more_than_we_understand() -> None:
    """Fields that a later version appends are skipped."""
    longer = msgspec.msgpack.encode([[2, 77, "new field"]])
    assert decode(longer) == [wire.Ack(77)]

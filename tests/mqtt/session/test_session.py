"""The session alone: a client that comes and goes gets every message, in order, QoS 2 exactly once."""

from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.mqtt import Framer, Message, decode
from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.messages.message_ids import UNRECORDED, base_of
from gossamer.mqtt.session.qos2 import Once
from gossamer.mqtt.session.session import Session
from gossamer.mqtt.session.transfer import forget, know, unreleased_in
from mqtt.fakes import FakeFanout


class Delivery:
    def __init__(self, qos):
        self.qos = qos
        self.no_local = False
        self.retain_as_published = False
        self.identifiers = ()


class Client:
    """A correct client: acknowledges when told to, and holds the session to its promises."""

    def __init__(self, session):
        self.session = session
        self.got = []
        self.releasing = set()
        self.owed = []
        self.unacked = set()
        self.limit = 0
        self.version = p.V4

    def connect(self, limit, version):
        self.version = version
        self.limit = limit
        self.owed.clear()
        self.unacked.clear()
        self.session.attach(object(), version=version, receive_maximum=limit)
        self.session.resume()

    def disconnect(self):
        self.session.detach()
        self.owed.clear()

    def read(self):
        data = b"".join(self.session.out)
        self.session.out.clear()
        for first, body in Framer().feed(data):
            packet = decode(first, body, self.version)
            if isinstance(packet, p.Publish):
                self.unacked.add(packet.packet_id)
                number = int(packet.payload)
                again = (
                    packet.packet_id in self.releasing
                    if packet.qos == 2
                    else packet.dup and number in self.got
                )
                if not again:
                    self.got.append(number)
                if packet.qos == 2:
                    self.releasing.add(packet.packet_id)
                self.owed.append((packet.qos, packet.packet_id))
            elif isinstance(packet, p.Pubrel):
                self.unacked.add(packet.packet_id)
                self.owed.append((0, packet.packet_id))
        assert len(self.unacked) <= self.limit, "more in flight than the client allows"

    def acknowledge(self):
        if not self.owed:
            return
        kind, packet_id = self.owed.pop(0)
        if kind == 1:
            self.unacked.discard(packet_id)
            assert self.session.acked(packet_id)
        elif kind == 2:
            self.session.received(packet_id)
        else:
            self.releasing.discard(packet_id)
            self.unacked.discard(packet_id)
            assert self.session.completed(packet_id)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 2)),
        st.tuples(st.just("acknowledge"), st.just(0)),
        st.tuples(st.just("disconnect"), st.just(0)),
        st.tuples(st.just("connect"), st.integers(1, 4)),
        st.tuples(st.just("full"), st.booleans()),
    ),
    max_size=80,
)


@settings(max_examples=150, deadline=None)
@given(steps, st.lists(st.sampled_from([p.V4, p.V5]), min_size=1))
def test_everything_arrives_in_order_through_any_number_of_reconnects(script, versions):
    """[MQTT-4.4.0-1], [MQTT-4.6.0-6], [MQTT-3.3.4-9], [MQTT-4.3.3-1] and what they promise together"""
    fanout = FakeFanout()
    session = Session("c", fanout=fanout, max_queued=1000)
    client = Client(session)
    client.connect(3, versions[0])
    connects = 0
    sent = 0
    for step, value in script:
        if step == "publish":
            session.deliver(Message(b"t", b"%d" % sent, qos=2), Delivery(value))
            sent += 1
        elif step == "acknowledge":
            client.acknowledge()
        elif step == "full" and session.channel is not None:
            if value:
                session.pause()
            else:
                session.unpause()
        elif step == "disconnect":
            client.disconnect()
        elif step == "connect":
            connects += 1
            client.disconnect()
            client.connect(value, versions[connects % len(versions)])
        client.read()
    client.disconnect()
    client.connect(4, p.V5)
    client.read()
    while client.owed:
        client.acknowledge()
        client.read()
    assert client.got == list(range(sent))
    assert not session.inflight
    assert not session.queue
    assert fanout.drops == []


def test_one_encoding_serves_all_subscribers_of_a_version_and_qos():
    message = Message(b"t", b"x", qos=1)
    assert message.parts(p.V4, 2, (), 0.0) is message.parts(p.V4, 2, (7,), 5.0)
    assert message.parts(p.V5, 2, (7,), 0.0) != message.parts(p.V5, 2, (), 0.0)


def test_a_zero_queue_keeps_nothing():
    fanout = FakeFanout()
    session = Session("c", fanout=fanout, max_queued=0)
    session.deliver(Message(b"t", b"x", qos=1), Delivery(1))
    assert fanout.drops == ["queue_full"]
    assert not session.queue


def test_an_identifier_that_the_client_half_took_from_another_copy_is_ended_before_it_is_given_again():
    session = Session("c", fanout=FakeFanout())
    session.expiry, session.epoch = 60, 5
    session.attach(object(), version=p.V4, receive_maximum=10)
    session.end_halves([7])
    for number in range(2):
        session.deliver(Message(b"t", b"%d" % number, qos=2), Delivery(2))
    framer = Framer()
    sent = [decode(first, body, p.V4) for first, body in framer.feed(b"".join(session.out))]
    assert sent[0] == p.Pubrel(7)
    # Copies of one session begin apart: the epoch says where.
    assert [packet.packet_id for packet in sent[1:]] == [6, 8]
    assert session.completed(7)
    session.detach()
    session.attach(object(), version=p.V4, receive_maximum=10)
    session.resume()
    assert b"\x62\x02\0\7" not in b"".join(session.out)


def test_what_another_session_gave_the_client_is_forgotten_once_and_its_identifier_serves_again():
    session = Session("c", fanout=FakeFanout())
    session.expiry = 60
    session.attach(object(), version=p.V4, receive_maximum=1)
    known = Once()
    for number in (11, 12):
        message = Message(b"t", b"%d" % number, qos=2)
        message.id = base_of("a@h", 1) + UNRECORDED + number
        known.admit(message.id)
        session.deliver(message, Delivery(2))
    for _ in range(2):
        # It is told again for as long as it has not answered.
        forget(session, known)
        assert (dict(session.inflight), list(session.queue), session.message_ids) == ({}, [], {})


def test_what_a_client_published_to_one_copy_of_a_session_the_other_knows_when_it_comes_again():
    one, other = Session("c", fanout=FakeFanout()), Session("c", fanout=FakeFanout())
    first, second = (base_of("a@h", 1) + UNRECORDED + number for number in (1, 2))
    one.unreleased(7, first)
    one.unreleased(8, first + 5)
    other.unreleased(8, second)
    know(other, unreleased_in(one))
    # What it has itself under the same identifier is later.
    assert (other.message_id_of(7), other.message_id_of(8)) == (first, second)
    assert list(other.doubtful) == [7]
    assert other.release(7)
    assert [number for number, _ in unreleased_in(other)] == [8]

"""Sessions as rows: whatever happens to one, and whenever its node dies, what comes back was there."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gossamer.mqtt.codec.encoder import publish_parts
from gossamer.mqtt.codec.packets import V5, Subscription
from gossamer.mqtt.codec.properties import Properties
from gossamer.mqtt.messages.message import Message
from gossamer.mqtt.messages.message_ids import NO_ID, Tracked, base_of, message_id_in
from gossamer.mqtt.session.durable import DurableSession
from gossamer.mqtt.session.expiry import expiry_of
from gossamer.mqtt.session.store import SESSION, SessionStore
from mqtt.fakes import FakeChannel, FakeFanout, FakeJournal


def store_on(journal, fanout):
    return SessionStore(
        journal, wall=lambda: fanout.at + 1e9, monotonic=lambda: fanout.at, soon=lambda callback: callback()
    )


def make(journal, fanout, **options):
    return DurableSession("c", fanout=fanout, store=store_on(journal, fanout), max_queued=5, **options)


def restarted(journal, fanout):
    """The session as the disc has it."""
    [stored] = store_on(journal, fanout).read(journal.read())
    session = make(journal, fanout)
    session.restore(stored)
    return session


def connected(journal, fanout):
    session = make(journal, fanout)
    session.attach(FakeChannel(), version=V5, receive_maximum=10)
    session.save()
    return session


def state(session):
    return {
        "inflight": list(session.inflight.items()),
        "ends": {n: round(at, 3) for n, packet in session.inflight.items() if (at := expiry_of(packet))},
        "incoming": set(session.incoming),
        "subscriptions": dict(session.subscriptions),
        "queue": [(head, tail, message and message.payload) for head, tail, message in session.queue],
        "self": (session.version, session.username, session.expiry, session.epoch),
    }


class Lives(RuleBasedStateMachine):
    """One session through many lives of its node."""

    @initialize(keep_oldest=st.booleans())
    def begin(self, keep_oldest):
        self.keep_oldest = keep_oldest
        self.fanout = FakeFanout()
        self.journal = FakeJournal()
        self.session = make(self.journal, self.fanout, keep_oldest=keep_oldest)
        self.session.version = V5
        self.session.save()
        self.commit()
        self.number = 0
        self.connected = False

    @rule()
    def commit(self):
        self.journal.commit()
        self.safe = state(self.session)

    @precondition(lambda self: not self.connected)
    @rule(window=st.integers(1, 4))
    def connect(self, window):
        self.session.attach(FakeChannel(), version=V5, receive_maximum=window)
        self.session.save()
        self.session.resume()
        self.connected = True

    @precondition(lambda self: self.connected)
    @rule()
    def disconnect(self):
        self.session.detach()
        self.session.save()
        self.connected = False

    @rule(qos=st.sampled_from([1, 2]), expires=st.booleans())
    def deliver(self, qos, expires):
        self.number += 1
        message = Message(
            b"t",
            b"%d" % self.number,
            qos=qos,
            properties=Properties(message_expiry=50) if expires else Properties(user=(("k", "v"),)),
            expires_at=self.fanout.at + 50 if expires else None,
        )
        self.session.take(message, qos=qos, retain=False)

    @precondition(lambda self: self.connected and self.session.inflight)
    @rule(data=st.data())
    def answer(self, data):
        packet_id = data.draw(st.sampled_from(sorted(self.session.inflight)))
        first = self.session.inflight[packet_id][0]
        if first == 0x62:
            self.session.completed(packet_id)
        elif first & 6 == 2:
            self.session.acked(packet_id)
        else:
            self.session.received(packet_id, data.draw(st.sampled_from([0, 0x80])))

    @rule(name=st.sampled_from("abc"), qos=st.integers(0, 2), identifier=st.none() | st.integers(1, 9))
    def subscribe(self, name, qos, identifier):
        self.session.subscribe(Subscription(name, qos, no_local=qos > 1), identifier)

    @rule(name=st.sampled_from("abc"))
    def unsubscribe(self, name):
        self.session.unsubscribe(name)

    @rule(packet_id=st.integers(1, 3))
    def publish2(self, packet_id):
        self.session.unreleased(packet_id, NO_ID)

    @rule(packet_id=st.integers(1, 3))
    def release2(self, packet_id):
        self.session.release(packet_id)

    @rule()
    def move_queue(self):
        """As a takeover does that came to nothing."""
        self.session.refill(list(self.session.queue))

    @rule(orderly=st.booleans())
    def restart(self, orderly):
        if orderly:
            self.commit()
        self.journal.open = {}
        store = store_on(self.journal, self.fanout)
        [stored] = store.read(self.journal.read())
        session = make(self.journal, self.fanout, keep_oldest=self.keep_oldest)
        session.restore(stored)
        assert state(session) == self.safe
        self.session = session
        self.connected = False
        assert not self.journal.open

    @rule()
    def end(self):
        self.session.forget()
        self.journal.commit()
        assert self.journal.read() == {}
        self.session = make(self.journal, self.fanout, keep_oldest=self.keep_oldest)
        self.session.version = V5
        self.session.save()
        self.commit()
        self.connected = False

    @invariant()
    def nothing_of_qos_2_is_sent_that_the_disc_does_not_know(self):
        if not hasattr(self, "session"):
            return
        on_disc = {key[2] for key in self.journal.read() if key[1] == 3}
        for packet in self.session.out:
            if packet[0] & 0xF6 == 0x34:
                [packet_id] = {i for i, p in self.safe["inflight"] if p[1:] == packet[1:]} or {None}
                assert packet_id is None or packet_id in on_disc
        self.session.out.clear()


TestLives = Lives.TestCase
TestLives.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@pytest.mark.parametrize(("keep_oldest", "kept"), [(False, [b"2", b"3"]), (True, [b"0", b"1"])])
def test_a_full_queue_drops_what_it_was_told_to(keep_oldest, kept):
    fanout = FakeFanout()
    session = DurableSession(
        "c", fanout=fanout, store=store_on(FakeJournal(), fanout), max_queued=2, keep_oldest=keep_oldest
    )
    for number in range(4):
        session.take(Message(b"t", b"%d" % number, qos=1), qos=1, retain=False)
    assert [tail for _, tail, _ in session.queue] == kept
    assert fanout.drops == ["queue_full"] * 2


def test_what_makes_a_client_forget_waits_for_the_commit_and_qos_1_does_not():
    fanout, journal = FakeFanout(), FakeJournal()
    session = connected(journal, fanout)
    one = publish_parts(b"t", b"1", flags=2, version=V5)
    two = publish_parts(b"t", b"2", flags=4, version=V5)
    session.send(*one)
    assert len(session.out) == 1
    session.send(*two)
    session.send(*one)
    assert len(session.out) == 1
    # A client that is connected must not take the connection for dead meanwhile.
    session.push(b"\xd0\0")
    assert [packet[0] for packet in session.out] == [0x32, 0xD0]
    journal.commit()
    assert [packet[0] for packet in session.out] == [0x32, 0xD0, 0x34, 0x32]
    session.out.clear()
    session.received(2)
    assert session.out == []
    journal.commit()
    assert session.out == [b"\x62\x02\x00\x02"]


def test_what_was_to_be_sent_to_a_connection_that_is_gone_is_not_sent_to_the_next():
    fanout, journal = FakeFanout(), FakeJournal()
    session = connected(journal, fanout)
    session.push(b"\x90\x04\x00\x01\x00\x01")
    session.detach()
    session.attach(FakeChannel(), version=V5, receive_maximum=10)
    journal.commit()
    assert session.out == []


def test_what_is_recorded_is_known_by_its_name_after_a_restart():
    """In flight, released or not, and what the client itself has published and not released."""
    fanout, journal = FakeFanout(), FakeJournal()
    session = connected(journal, fanout)
    first = base_of("there", 3) + 100
    for number, qos in enumerate((1, 2, 2, 1)):
        parts = publish_parts(b"t", b"x", flags=qos << 1, version=V5)
        session.send(*parts, first + number if number < 3 else NO_ID)
    session.received(3)
    session.unreleased(9, first + 9)
    journal.commit()
    again = restarted(journal, fanout)
    assert dict(again.message_ids) == {1: first, 2: first + 1, 3: first + 2, -9: first + 9}
    assert not journal.open
    # What has had its last word is forgotten with its packet.
    again.acked(1)
    again.release(9)
    journal.commit()
    [stored] = store_on(journal, fanout).read(journal.read())
    assert stored.message_ids == {2: first + 1, 3: first + 2}


def test_what_is_queued_and_recorded_is_known_by_its_name_after_a_restart():
    fanout, journal = FakeFanout(), FakeJournal()
    session = make(journal, fanout)
    session.save()
    first = base_of("there", 3) + 200
    message = Message(b"t", b"late", qos=1, expires_at=fanout.now() + 500)
    message.id = first + 1
    for number, kept in enumerate((None, message)):
        head, tail = publish_parts(b"t", b"x", flags=2, version=V5)
        session.enqueue(head, Tracked.of(tail, first + number), kept)
    journal.commit()
    [stored] = store_on(journal, fanout).read(journal.read())
    assert [message_id_in(tail) for _, (_, tail, _) in stored.queue] == [first, first + 1]


def test_what_was_taken_is_known_after_a_restart_whatever_became_of_it():
    """A message of QoS 2 that the client has had may come again by another way."""
    fanout, journal = FakeFanout(), FakeJournal()
    session = make(journal, fanout)
    session.expiry = 100
    session.save()
    first = base_of("there", 4)
    taken = [Message(b"t", b"x", qos=2) for _ in range(3)]
    for number, message in enumerate(taken, 300):
        message.id = first + number
        assert session.admits(message)
    session.remember().release([first + 301])
    journal.commit()
    again = restarted(journal, fanout)
    again.expiry = 100
    assert [again.admits(message) for message in taken] == [False, True, False]
    again.forget()
    journal.commit()
    assert not journal.read()


def test_a_row_of_a_later_release_is_read_without_what_is_not_known():
    fanout, journal = FakeFanout(), FakeJournal()
    connected(journal, fanout)
    journal.commit()
    rows = {key: [*value, "new"] if key[1] == SESSION else value for key, value in journal.read().items()}
    [before], [later] = (store_on(journal, fanout).read(found) for found in (journal.read(), rows))
    assert later.facts == before.facts

"""What a node still has of a session that went elsewhere from a copy: what the copy lacked, and no more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.mqtt.codec.encoder import publish_parts
from gossamer.mqtt.codec.packets import V5
from gossamer.mqtt.copies.succession import Copied, note_successor, read_token, token_of
from gossamer.mqtt.messages.message import Message
from gossamer.mqtt.session.durable import DurableSession
from gossamer.mqtt.session.session import Session
from gossamer.mqtt.session.store import Facts, Stored
from gossamer.mqtt.session.transfer import left_of
from mqtt.fakes import FakeChannel, FakeFanout, FakeJournal
from mqtt.session.test_store import store_on

FACTS = Facts(5, None, 100, None, 1, None, None, False, 1, None)


def stored(series=(1, 2), queue=(), inflight=()):
    found = Stored("c")
    found.facts = Facts(*(getattr(FACTS, name) for name in Facts.__struct_fields__[:-1]), series)
    found.queue = [(number, (b"", b"", None)) for number in queue]
    found.inflight = [(number, number + 1, b"") for number in inflight]
    return found


@given(
    st.tuples(st.integers(0, 2**60), st.integers(0, 2**60)),
    st.none() | st.integers(0, 2**40),
    st.none() | st.integers(0, 2**40),
    st.text(min_size=1, max_size=20),
)
def test_a_token_says_what_the_copy_had(series, queue, flight, node):
    """Whatever the node is called."""
    rows = stored(series, () if queue is None else (0, queue), () if flight is None else (0, flight))
    token = token_of(rows, node)
    ends = tuple(0 if last is None else last + 1 for last in (queue, flight))
    assert read_token(token) == Copied(token, node, series, ends)


@pytest.mark.parametrize("token", ["", "here/1/2", "copies/1/2/3/4/here"])
def test_the_token_of_another_move_says_nothing_of_copies(token):
    assert read_token(token) is None


def session_with(*, sent, queued):
    """A session of which so many messages are in flight, and so many queued, named in their order."""
    fanout, journal = FakeFanout(), FakeJournal()
    session = DurableSession("c", fanout=fanout, store=store_on(journal, fanout), max_queued=100)
    session.attach(FakeChannel(), version=V5, receive_maximum=sent or 1)
    for number in range(sent):
        session.send(*publish_parts(b"t", b"%d" % number, flags=2, version=V5))
    session.detach()
    for number in range(sent, sent + queued):
        session.enqueue(*publish_parts(b"t", b"%d" % number, flags=2, version=V5))
    return session


def token(session, *, queue, flight, node="here", series=None):
    """The token of a copy that had the numbers below these."""
    rows = stored(session.series if series is None else series, range(queue), range(flight))
    return token_of(rows, node)


def left(session, moves):
    """Payloads that another node, to which the session came by these moves, is offered."""
    given = session.given is not None and session.move in moves
    return [int(message.payload) for message in left_of(session, given=given)]


@pytest.mark.parametrize(
    ("queue", "flight", "expected"),
    [
        (5, 3, []),
        (2, 3, [5, 6, 7]),
        (0, 3, [3, 4, 5, 6, 7]),
        (5, 1, [1, 2]),
        (2, 1, [1, 2, 5, 6, 7]),
        (0, 0, [0, 1, 2, 3, 4, 5, 6, 7]),
        (100, 100, []),
    ],
)
def test_what_the_copy_had_is_not_offered_again(queue, flight, expected):
    session = session_with(sent=3, queued=5)
    moves = [token(session, queue=queue, flight=flight)]
    note_successor(session, moves, "here")
    assert left(session, moves) == expected


def test_what_has_been_sent_since_the_copy_was_read_counts_from_the_first_that_is_left():
    """The queue begins with a later number here: those before it have gone to the client."""
    session = session_with(sent=1, queued=5)
    session.attach(FakeChannel(), version=V5, receive_maximum=3)
    session.resume()
    session.detach()
    assert session.first == 2
    moves = [token(session, queue=4, flight=1)]
    note_successor(session, moves, "here")
    # The copy had the first two in its queue, and they are in flight here by numbers that it did not have.
    assert left(session, moves) == [1, 2, 5]


@pytest.mark.parametrize(
    ("which", "expected"),
    [((True, False), [0, 1, 2, 5, 6, 7]), ((False, True), [1, 2, 3, 4, 5, 6, 7])],
)
def test_numbers_of_another_series_say_nothing(which, expected):
    session = session_with(sent=3, queued=5)
    series = tuple(own if same else own + 1 for own, same in zip(session.series, which, strict=True))
    moves = [token(session, queue=2, flight=1, series=series)]
    note_successor(session, moves, "here")
    assert left(session, moves) == expected


@pytest.mark.parametrize("change", [{"node": "there"}, {"series": (1, 1)}])
def test_a_copy_of_another_session_changes_nothing(change):
    session = session_with(sent=3, queued=5)
    moves = [token(session, queue=2, flight=1, **change)]
    note_successor(session, moves, "here")
    assert (session.given, session.move, len(session.inflight)) == (None, "", 3)


def test_the_latest_copy_counts_and_only_once():
    session = session_with(sent=0, queued=5)
    moves = [token(session, queue=1, flight=0), "there/1/1", token(session, queue=3, flight=0)]
    note_successor(session, moves, "here")
    assert left(session, moves) == [3, 4]
    session.enqueue(*publish_parts(b"t", b"5", flags=2, version=V5))
    note_successor(session, moves, "here")
    assert left(session, moves) == [3, 4, 5]


def test_what_is_left_in_flight_and_has_expired_is_not_queued():
    session = session_with(sent=0, queued=0)
    session.attach(FakeChannel(), version=V5, receive_maximum=5)
    fanout = session.fanout
    session.take(Message(b"t", b"7", qos=1, expires_at=fanout.at + 5), qos=1, retain=False)
    session.detach()
    moves = [token(session, queue=0, flight=0)]
    fanout.at += 10
    note_successor(session, moves, "here")
    assert left(session, moves) == []


def test_what_is_left_is_on_disc_as_what_was_not_given():
    """The node may restart before it has offered it."""
    session = session_with(sent=3, queued=5)
    moves = [token(session, queue=2, flight=1)]
    note_successor(session, moves, "here")
    journal, fanout = session.store._journal, session.fanout
    journal.commit()
    [found] = store_on(journal, fanout).read(journal.read())
    again = DurableSession("c", fanout=fanout, store=store_on(FakeJournal(), fanout), max_queued=100)
    again.restore(found)
    assert found.left
    assert left(again, moves) == [1, 2, 5, 6, 7]
    note_successor(again, moves, "here")
    assert left(again, moves) == [1, 2, 5, 6, 7]


def test_a_session_in_memory_alone_has_no_copy():
    session = Session("c", fanout=FakeFanout(), max_queued=5)
    note_successor(session, ["copied/1/2/3/4/here"], "here")
    assert session.given is None

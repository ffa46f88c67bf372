"""The stream state machines, alone and over a pipe that breaks."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.distribution.errors import WireError
from gossamer.distribution.links.stream import ReceiveStream, SendStream
from gossamer.distribution.wire import Ack, Batch
from gossamer.histogram import Histogram

LIMIT = 1 << 20


def sender(retain=LIMIT, queue=LIMIT):
    return SendStream(retain=retain, queue=queue, latency=Histogram())


def test_frames_are_numbered_from_one_and_travel_as_one_run():
    stream = sender()
    assert [stream.push(b"a"), stream.push(b"b")] == [1, 2]
    assert stream.next_batch(LIMIT) == Batch(runs=[(1, [b"a", b"b"])])
    assert not stream.pending


def test_unreliable_frames_keep_their_place():
    stream = sender()
    stream.push(b"a")
    stream.push_unreliable(b"x")
    stream.push_unreliable(b"y")
    stream.push(b"b")
    batch = stream.next_batch(LIMIT)
    assert batch == Batch(runs=[(1, [b"a"]), (0, [b"x", b"y"]), (2, [b"b"])])
    assert ReceiveStream().fresh(batch) == [(1, b"a"), (0, b"x"), (0, b"y"), (2, b"b")]


def test_a_batch_is_bounded_but_carries_at_least_one_frame():
    stream = sender()
    for _ in range(3):
        stream.push(bytes(1000))
    assert stream.next_batch(10) == Batch(runs=[(1, [bytes(1000)])])
    assert stream.next_batch(2500) == Batch(runs=[(2, [bytes(1000)] * 2)])


def test_an_ack_releases_what_it_covers():
    stream = sender()
    for _ in range(3):
        stream.push(b"frame")
    stream.next_batch(LIMIT)
    assert stream.ack(2)
    assert not stream.ack(1)
    assert (stream.acked, stream.unacked) == (2, 1)
    assert stream.ack(3)
    assert stream.retained == 0


@pytest.mark.parametrize("claim", [SendStream.ack, SendStream.resume])
def test_a_peer_that_claims_frames_never_sent_is_broken(claim):
    stream = sender()
    stream.push(b"frame")
    with pytest.raises(WireError, match="up to 0"):
        claim(stream, 1)


def test_a_new_connection_resumes_after_what_was_received():
    stream = sender()
    for name in b"abcd":
        stream.push(bytes([name]))
    stream.next_batch(LIMIT)
    stream.ack(1)
    stream.push_unreliable(b"x")
    stream.push(b"e")
    stream.resume(2)
    assert stream.next_batch(LIMIT) == Batch(runs=[(3, [b"c", b"d"]), (0, [b"x"]), (5, [b"e"])])


def test_unreliable_frames_are_never_sent_twice():
    stream = sender()
    stream.push_unreliable(b"x")
    stream.next_batch(LIMIT)
    stream.resume(0)
    assert not stream.pending


def test_a_queue_of_unreliable_frames_is_bounded():
    stream = sender(queue=200)
    assert stream.push_unreliable(bytes(10))
    assert stream.push_unreliable(bytes(10))
    assert not stream.push_unreliable(bytes(10))
    stream.next_batch(LIMIT)
    assert stream.push_unreliable(bytes(10))


def take(receiver, *runs):
    """Hand over what is new in a batch."""
    found = receiver.fresh(Batch(runs=list(runs)))
    receiver.received = max([receiver.received, *(number for number, _ in found)])
    return found


def test_duplicates_are_dropped_and_counted():
    receiver = ReceiveStream()
    assert len(take(receiver, (1, [b"a", b"b"]))) == 2
    assert take(receiver, (2, [b"b", b"c"])) == [(3, b"c")]
    assert take(receiver, (1, [b"a"]), (2, [b"b", b"c", b"d"]), (5, [b"e"])) == [(4, b"d"), (5, b"e")]
    assert receiver.duplicates == 4


def test_a_hole_is_a_broken_peer():
    with pytest.raises(WireError, match="expected frame 1, got frame 2"):
        ReceiveStream().fresh(Batch(runs=[(2, [b"b"])]))


def test_acks_are_cumulative_and_name_what_is_finished_ahead_of_others():
    receiver = ReceiveStream()
    take(receiver, (1, [b""] * 6))
    assert receiver.finish(2)
    assert receiver.finish(4)
    assert receiver.ack() == Ack(0, (2, 4))
    assert not receiver.due
    assert receiver.finish(6)
    assert receiver.finish(1)
    assert receiver.ack() == Ack(2, (6,))
    assert not receiver.finish(2)
    assert not receiver.finish(9)
    # On a new connection it is not known what was heard of those before.
    receiver.connected()
    assert receiver.ack() == Ack(2, (4, 6))


def test_parts_of_a_frame_are_named_until_it_is_finished_or_its_connection_is_gone():
    receiver = ReceiveStream()
    take(receiver, (1, [b""] * 3))
    assert receiver.part(2, [(0, 5), (7, 9)])
    assert receiver.part(3, [(0, 1)])
    assert receiver.finish(3)
    assert receiver.ack() == Ack(0, (3,), ((2, 0, 5), (2, 7, 9)))
    assert not receiver.due
    assert not receiver.part(4, [(0, 5)])
    assert receiver.part(1, [(0, 5)])
    receiver.connected()
    assert receiver.ack() == Ack(0, (3,))


def test_what_is_finished_ahead_is_known_to_the_sender_and_not_released():
    stream = sender()
    for _ in range(3):
        stream.push(b"")
    stream.next_batch(LIMIT)
    assert stream.ahead([2, 3]) == [2, 3]
    assert stream.ack(2)
    assert (stream.ahead([2, 3]), stream.unacked) == ([3], 1)
    with pytest.raises(WireError, match="expected numbers up to 3, got 4"):
        stream.ahead([3, 4])


def test_parts_of_a_frame_that_left_without_some_of_its_bytes_are_not_believed():
    """What had expired was left out, so places in it are not those of the frame that is kept."""
    sender = SendStream(retain=1000, queue=1000, latency=Histogram())
    sender.push(b"expired first", now=0.0)
    sender.push(b"second", now=5.0)
    sender.next_batch(1000, now=5.0, refresh=lambda frame, seconds: frame.removeprefix(b"expired "))
    parts = [(1, 0, 5), (2, 0, 6)]
    assert sender.ahead_in_part(parts) == [(2, 0, 6)]
    sender.ack(1)
    assert sender.ahead_in_part(parts) == [(2, 0, 6)]


def test_a_replaced_user_gets_again_what_was_not_done():
    receiver = ReceiveStream()
    take(receiver, (1, [b"a", b"b", b"c"]))
    receiver.finish(1)
    receiver.finish(3)
    assert receiver.rewind()
    assert not receiver.rewind()
    assert take(receiver, (2, [b"b", b"c"])) == [(2, b"b"), (3, b"c")]


def test_an_ack_lost_with_its_connection_is_repeated_on_the_next():
    receiver = ReceiveStream()
    take(receiver, (1, [b"a"]))
    receiver.finish(1)
    receiver.acked = receiver.done
    assert receiver.connected() == 1
    assert receiver.acked < receiver.done


class Pipe:
    """Both ends of a stream and a connection between them that a seed breaks."""

    def __init__(self, seed, retain):
        self.rng = random.Random(seed)
        self.send, self.receive = sender(retain=retain, queue=4000), ReceiveStream()
        self.forward, self.back = [], []
        self.pushed, self.got, self.undone, self.ahead = {}, [], [], set()
        self.connect()

    def connect(self):
        self.forward.clear()
        self.back.clear()
        self.send.resume(self.receive.connected())

    def push(self, reliable):
        frame = self.rng.randbytes(self.rng.randrange(60))
        if not reliable:
            self.send.push_unreliable(frame)
        elif self.send.retained + len(frame) < self.send.retain:
            self.pushed[self.send.push(frame)] = frame

    def write(self):
        if self.send.pending:
            self.forward.append(self.send.next_batch(self.rng.choice([1, 100, 1000])))

    def deliver(self):
        if self.forward:
            for number, frame in self.receive.fresh(self.forward.pop(0)):
                if number:
                    self.receive.received = number
                    assert self.pushed[number] == frame
                    self.got.append(number)
                    self.undone.append(number)

    def finish(self):
        if self.undone:
            self.receive.finish(self.undone.pop(self.rng.randrange(len(self.undone))))
        if self.receive.due:
            self.back.append(self.receive.ack())

    def ack(self):
        if self.back:
            ack = self.back.pop(0)
            self.send.ack(ack.number)
            ahead = self.send.ahead(ack.ahead)
            self.ahead.update(ahead)
            assert not set(ahead) & set(self.undone)
            assert set(ahead) <= set(self.got)

    def drain(self):
        # A receiver acks anew on every connection what it is done with, frames or not.
        while self.send.pending or self.forward or self.undone or self.back or self.receive.finish(0):
            for step in (self.write, self.deliver, self.finish, self.ack):
                step()


@given(
    seed=st.integers(0, 2**32),
    steps=st.lists(st.sampled_from("ppppuwwwdddfffaac"), max_size=120),
    retain=st.sampled_from([300, 1000, LIMIT]),
)
def test_every_frame_arrives_once_in_order(seed, steps, retain):
    pipe = Pipe(seed, retain)
    actions = {
        "p": lambda: pipe.push(reliable=True),
        "u": lambda: pipe.push(reliable=False),
        "w": pipe.write,
        "d": pipe.deliver,
        "f": pipe.finish,
        "a": pipe.ack,
        "c": pipe.connect,
    }
    for step in steps:
        actions[step]()
    pipe.drain()

    assert pipe.got == sorted(set(pipe.got))
    assert pipe.send.acked == pipe.send.last == pipe.receive.done
    assert pipe.send.unacked == pipe.send.retained == 0
    assert set(pipe.pushed) == set(pipe.got)


def test_a_frame_that_could_not_leave_for_seconds_says_so_each_time_it_is_sent():
    def refresh(frame, seconds):
        return b"%s-%d" % (frame, seconds)

    stream = sender()
    stream.push(b"a", 10.0)
    stream.push_unreliable(b"x", 11.0)
    assert stream.next_batch(LIMIT, 10.9, refresh) == Batch(runs=[(1, [b"a"]), (0, [b"x"])])
    stream.push(b"b", 12.0)
    stream.resume(0)
    assert stream.next_batch(LIMIT, 13.0, refresh) == Batch(runs=[(1, [b"a-3", b"b-1"])])
    stream.resume(0)
    assert stream.next_batch(LIMIT, 15.0, refresh) == Batch(runs=[(1, [b"a-5", b"b-3"])])
    assert stream.ack(2, 16.0)
    assert stream.retained == 0
    assert (stream.latency.count, stream.latency.sum) == (2, 10.0), "since they were pushed"

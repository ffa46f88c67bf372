from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.testing.window import ReceiveSide, SendSide, StreamLimits

LIMITS = StreamLimits(send_buffer=50, window=40, segment=16)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("write"), st.binary(min_size=1, max_size=60)),
            st.tuples(st.just("send"), st.booleans()),
            st.tuples(st.just("read"), st.integers(1, 30)),
            st.tuples(st.just("ack"), st.booleans()),
            st.tuples(st.just("resend"), st.none()),
        ),
        max_size=60,
    )
)
def test_what_is_written_is_read_once_and_in_order_whatever_is_lost(steps):
    """Segments and acknowledgements vanish at will; in the end all arrives, and its end with it."""
    sender, receiver = SendSide(LIMITS, greets=True), ReceiveSide(LIMITS)
    written, read, now = b"", b"", 0.0

    def send(arrives=True):
        segment = sender.take(LIMITS.segment, now)
        if segment is not None and arrives:
            receiver.accept(segment)
        return segment

    for what, value in steps:
        now += 0.1
        match what:
            case "write":
                sender.write(value, now)
                written += value
            case "send":
                send(arrives=value)
            case "read":
                read += receiver.read(value)
            case "ack" if value:
                sender.acknowledged(receiver.expected, receiver.window, now)
            case "resend":
                sender.rewind()
        assert receiver.unread <= LIMITS.window
        assert written.startswith(read)
    sender.finish(now)
    for _ in range(1000):
        now += 0.1
        read += receiver.read()
        sender.acknowledged(receiver.expected, receiver.window, now)
        if not sender.outstanding:
            break
        sender.rewind()
        while send() is not None:
            pass
    assert read == written
    assert receiver.ended
    assert not sender.outstanding


def test_a_closed_window_is_probed():
    """The receiver's opening may be lost on its way; a probe asks for it again."""
    sender = SendSide(LIMITS, greets=False)
    sender.write(bytes(100), 0.0)
    sender.acknowledged(0, 0, 0.0)
    assert sender.take(16, 0.0) is None
    probe = sender.rewind()
    assert probe is not None
    assert (probe.offset, probe.data) == (0, b"")


def test_what_is_sent_beyond_a_gap_does_not_put_off_its_filling():
    """Each acknowledgement of a later segment says again what is missing; the gap's time goes on."""
    sender, receiver = SendSide(LIMITS, greets=False), ReceiveSide(LIMITS)
    sender.write(bytes(40), 0.0)
    assert sender.take(16, 0.0) is not None
    for _ in range(2):
        segment = sender.take(8, 0.1)
        assert segment is not None
        receiver.accept(segment)
        assert not sender.acknowledged(receiver.expected, receiver.window, 0.1)
    sender.rewind()
    segment = sender.take(40, 0.3)
    assert segment is not None
    receiver.accept(segment)
    assert sender.acknowledged(receiver.expected, receiver.window, 0.3)
    assert not sender.outstanding

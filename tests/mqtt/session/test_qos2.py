"""Messages of QoS 2 are taken once, by whatever way they come."""

from hypothesis import given
from hypothesis import strategies as st

from gossamer.mqtt.messages.message_ids import NO_ID, UNRECORDED, base_of, is_recorded
from gossamer.mqtt.session.qos2 import REMEMBERED, Block, Once

CREATIONS = [base_of("a@h", 1), base_of("a@h", 2), base_of("b@h", 1)]
message_ids = st.builds(
    lambda base, number: base + UNRECORDED + number, st.sampled_from(CREATIONS), st.integers(1, 99)
)


@given(st.lists(message_ids))
def test_a_message_is_admitted_the_first_time_alone(sequence):
    once, known = Once(), set()
    for message_id in sequence:
        assert once.admit(message_id) is (message_id not in known)
        known.add(message_id)
        assert message_id in once


@given(st.lists(message_ids), st.lists(message_ids))
def test_what_two_sessions_have_taken_is_joined(here, there):
    one, other = Once(), Once()
    for once, taken in ((one, here), (other, there)):
        for message_id in taken:
            once.admit(message_id)
    one.load(other.dump())
    both = {*here, *there}
    assert all(message_id in one for message_id in both)
    others = range(CREATIONS[0] + UNRECORDED, CREATIONS[0] + UNRECORDED + 120)
    assert all((message_id in one) is (message_id in both) for message_id in others)


def test_what_was_taken_and_not_delivered_can_be_given_back():
    once = Once()
    assert once.admit(CREATIONS[0] + UNRECORDED + 7)
    once.release([NO_ID, CREATIONS[0] + UNRECORDED + 7, CREATIONS[1] + UNRECORDED + 7])
    assert once.admit(CREATIONS[0] + UNRECORDED + 7)


def test_memory_is_bounded_and_keeps_the_latest():
    once = Once()
    first = CREATIONS[0] + UNRECORDED
    for number in range(REMEMBERED + 1):
        assert once.admit(first + number)
    assert first not in once
    assert all(first + number in once for number in range(REMEMBERED // 2 + 256, REMEMBERED + 1))


@given(st.lists(st.tuples(st.booleans(), message_ids)))
def test_what_changes_is_noted(sequence):
    noted: dict[tuple[str, int, int], Block] = {}

    def note(block: Block) -> None:
        noted[block[:3]] = block
        if not block[3]:
            del noted[block[:3]]

    once = Once(note)
    for admitted, message_id in sequence:
        if admitted:
            once.admit(message_id)
        else:
            once.release([message_id])
    again = Once()
    again.load(noted.values())
    assert all((message_id in again) is (message_id in once) for _, message_id in sequence)
    once.clear()
    assert not noted
    assert not once


def test_a_message_that_is_only_counted_once_is_not_recorded():
    assert not is_recorded(NO_ID)
    assert not is_recorded(CREATIONS[2] + UNRECORDED + 1)
    assert is_recorded(CREATIONS[2] + 1)

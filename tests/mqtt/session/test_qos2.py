"""Messages of QoS 2 are taken once, by whatever way they come."""

from hypothesis import given
from hypothesis import strategies as st

from gossamer.mqtt.messages.message_ids import NO_IDENT, UNRECORDED, base_of, is_recorded
from gossamer.mqtt.session.qos2 import REMEMBERED, Block, Once

LIVES = [base_of("a@h", 1), base_of("a@h", 2), base_of("b@h", 1)]
idents = st.builds(
    lambda life, number: life + UNRECORDED + number, st.sampled_from(LIVES), st.integers(1, 99)
)


@given(st.lists(idents))
def test_a_message_is_admitted_the_first_time_alone(sequence):
    once, known = Once(), set()
    for ident in sequence:
        assert once.admit(ident) is (ident not in known)
        known.add(ident)
        assert ident in once


@given(st.lists(idents), st.lists(idents))
def test_what_two_sessions_have_taken_is_joined(here, there):
    one, other = Once(), Once()
    for once, taken in ((one, here), (other, there)):
        for ident in taken:
            once.admit(ident)
    one.load(other.dump())
    both = {*here, *there}
    assert all(ident in one for ident in both)
    others = range(LIVES[0] + UNRECORDED, LIVES[0] + UNRECORDED + 120)
    assert all((ident in one) is (ident in both) for ident in others)


def test_what_was_taken_and_not_delivered_can_be_given_back():
    once = Once()
    assert once.admit(LIVES[0] + UNRECORDED + 7)
    once.release([NO_IDENT, LIVES[0] + UNRECORDED + 7, LIVES[1] + UNRECORDED + 7])
    assert once.admit(LIVES[0] + UNRECORDED + 7)


def test_memory_is_bounded_and_keeps_the_latest():
    once = Once()
    first = LIVES[0] + UNRECORDED
    for number in range(REMEMBERED + 1):
        assert once.admit(first + number)
    assert first not in once
    assert all(first + number in once for number in range(REMEMBERED // 2 + 256, REMEMBERED + 1))


@given(st.lists(st.tuples(st.booleans(), idents)))
def test_what_changes_is_noted(sequence):
    noted: dict[tuple[str, int, int], Block] = {}

    def note(block: Block) -> None:
        noted[block[:3]] = block
        if not block[3]:
            del noted[block[:3]]

    once = Once(note)
    for admitted, ident in sequence:
        if admitted:
            once.admit(ident)
        else:
            once.release([ident])
    again = Once()
    again.load(noted.values())
    assert all((ident in again) is (ident in once) for _, ident in sequence)
    once.clear()
    assert not noted
    assert not once


def test_a_message_that_is_only_counted_once_is_not_recorded():
    assert not is_recorded(NO_IDENT)
    assert not is_recorded(LIVES[2] + UNRECORDED + 1)
    assert is_recorded(LIVES[2] + 1)

"""Queues of the two sides of a move are merged in the order in which messages came to the new one."""

from gossamer.mqtt.messages.message_ids import Tracked
from gossamer.mqtt.session.state import Item
from gossamer.mqtt.session.transfer import behind, in_order


def item(name: str) -> Item:
    return b"\x32", name.encode(), None


def merged(rest: list[str], queued: list[str], aside: list[tuple[str, int, bool]]) -> list[str]:
    entries = [(item(name), place, doubtful) for name, place, doubtful in aside]
    found = in_order([item(name) for name in rest], [item(name) for name in queued], entries)
    return [tail.decode() for _, tail, _ in found]


def test_what_only_the_source_has_is_older_than_what_came_to_the_target():
    assert merged(["1", "2"], ["3"], []) == ["1", "2", "3"]


def test_what_came_to_both_keeps_its_place_at_the_target():
    assert merged(["1", "3"], ["2", "4"], [("3", 1, False)]) == ["1", "2", "3", "4"]


def test_what_the_source_is_known_to_have_and_did_not_give_is_not_taken():
    assert merged([], ["2"], [("1", 0, False)]) == ["2"]


def test_what_the_source_may_lack_is_taken_at_its_place():
    assert merged([], ["1", "3"], [("2", 1, True)]) == ["1", "2", "3"]


def test_what_the_source_was_thought_to_lack_does_not_go_before_older_messages():
    """Its node had not marked: a publisher that moved there is not overtaken by itself. It comes twice, since
    it may be another message of the same content."""
    assert merged(["1", "3"], ["2"], [("3", 1, True)]) == ["1", "2", "3", "3"]


def test_what_a_superseded_session_took_while_the_other_went_on_goes_before_nothing_older():
    """It listened, and knows the newest; the move brings what is between."""

    def exact(number: int) -> Item:
        return b"\x34", Tracked.of(b"%d" % number, number), None

    found = behind([exact(number) for number in (1, 2, 5)], [exact(number) for number in (3, 4, 5, 6)])
    assert [int(tail) for _, tail, _ in found] == [1, 2, 3, 4, 5, 6]


def test_of_qos_1_both_are_sent_since_they_may_be_two_messages():
    found = behind([item("1"), item("2")], [item("2"), item("3")])
    assert [tail.decode() for _, tail, _ in found] == ["1", "2", "2", "3"]

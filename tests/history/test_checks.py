"""The judges of sessions, on histories made by hand: each promise kept, and broken on purpose."""

from __future__ import annotations

import pytest
from real.history.history import read, write
from real.history.story import matches

from history.tales import Tale, pair


def test_a_quiet_tale_breaks_nothing() -> None:
    tale, subscriber, publisher = pair()
    subscriber.gets(publisher.publishes(1), publisher.publishes(2))
    assert tale.broken() == []


def test_what_was_acknowledged_and_never_came_is_lost() -> None:
    tale, subscriber, publisher = pair()
    publisher.publishes(1)
    subscriber.gets(publisher.publishes(2))
    assert tale.broken() == ["lost"]


def test_what_was_not_acknowledged_or_was_refused_may_be_lost() -> None:
    tale, _, publisher = pair()
    publisher.sends(1)
    publisher.note("acknowledged", topic="t", message=publisher.sends(2), qos=1, code=0x97)
    assert tale.broken("delivered") == []


def test_what_was_sent_before_suback_or_after_the_end_of_a_subscription_may_not_come() -> None:
    tale = Tale()
    publisher, subscriber = tale.client("pub").enters(1), tale.client("sub").enters(2)
    publisher.publishes(1)
    subscriber.subscribes("t")
    subscriber.unsubscribes("t")
    publisher.publishes(2)
    assert tale.broken() == []


def test_what_came_before_a_session_was_lost_with_its_node_is_promised_all_the_same() -> None:
    tale, subscriber, publisher = pair()
    tale.operator("down", 2)
    publisher.publishes(1)
    subscriber.enters(3, present=False).subscribes("t")
    subscriber.gets(publisher.publishes(2))
    assert tale.broken() == ["lost"]


def test_what_is_acknowledged_while_a_session_is_made_anew_is_not_promised() -> None:
    tale, subscriber, publisher = pair()
    tale.operator("down", 2)
    subscriber.asks(3)
    publisher.publishes(1)
    subscriber.note("connected", present=False)
    publisher.publishes(2)
    subscriber.subscribes("t")
    assert tale.broken() == []


def test_an_unanswered_connect_while_the_node_is_down_may_have_made_a_new_session() -> None:
    tale, subscriber, publisher = pair()
    tale.operator("down", 2)
    subscriber.asks(3)
    subscriber.note("aborted")
    publisher.publishes(1)
    subscriber.enters(3, present=True)
    publisher.publishes(2)
    subscriber.subscribes("t")
    assert tale.broken() == []


def test_an_unanswered_connect_of_a_healthy_session_excuses_nothing() -> None:
    tale, subscriber, publisher = pair()
    subscriber.asks(3)
    subscriber.note("aborted")
    publisher.publishes(1)
    subscriber.enters(3, present=True).subscribes("t")
    assert tale.broken() == ["lost"]


def test_a_suback_promises_nothing_of_a_node_that_was_not_a_member_then() -> None:
    tale = Tale()
    tale.operator("members", 2, note="2,3")
    tale.wait(5)
    subscriber = tale.client("sub").enters(2).subscribes("t")
    publisher = tale.client("pub").enters(1)
    publisher.publishes(1)
    assert tale.broken() == []
    tale.operator("members", 2, note="1,2,3")
    tale.operator("whole")
    subscriber.gets(publisher.publishes(2))
    publisher.publishes(3)
    assert tale.broken() == ["lost"]


def test_a_suback_that_says_that_a_node_is_not_told_promises_nothing_yet() -> None:
    tale = Tale()
    tale.client("sub").enters(2).subscribes("t", note="not visible at node 1")
    tale.client("pub").enters(1).publishes(1)
    assert tale.broken() == []


def test_qos_2_that_comes_twice_in_one_session_is_twice() -> None:
    tale, subscriber, publisher = pair(2)
    subscriber.gets(*[publisher.publishes(1, qos=2)] * 2, qos=2)
    assert tale.broken() == ["twice"]


def test_qos_2_may_come_again_in_a_later_session() -> None:
    tale, subscriber, publisher = pair(2)
    message = publisher.publishes(1, qos=2)
    subscriber.gets(message, qos=2)
    tale.operator("down", 2)
    subscriber.enters(3, present=False).subscribes("t", 2)
    subscriber.gets(message, qos=2)
    assert tale.broken() == []


def test_qos_2_may_come_again_where_its_publisher_sent_it_in_two_sessions() -> None:
    tale, subscriber, publisher = pair(2)
    message = publisher.sends(1, qos=2)
    tale.operator("down", 1)
    publisher.enters(3, present=False)
    publisher.publishes(1, qos=2)
    subscriber.gets(message, message, qos=2)
    assert tale.broken() == []


def test_qos_1_may_come_twice() -> None:
    tale, subscriber, publisher = pair()
    subscriber.gets(*[publisher.publishes(1)] * 2)
    assert tale.broken() == []


def test_a_suback_that_comes_after_the_client_has_unsubscribed_promises_nothing() -> None:
    tale, subscriber, publisher = pair()
    subscriber.note("subscribing", topic="u", packet_id=7)
    subscriber.unsubscribes("u")
    subscriber.note("subscribed", topic="u", code=1, packet_id=7)
    publisher.publishes(1, "u")
    assert tale.broken() == []
    subscriber.subscribes("u", packet_id=8)
    publisher.publishes(2, "u")
    assert tale.broken() == ["lost"]


def test_qos_2_may_come_twice_where_a_cut_hit_a_move_of_the_session() -> None:
    for moving in (True, False):
        tale, subscriber, publisher = pair(2)
        message = publisher.publishes(1, qos=2)
        subscriber.asks(1)
        if not moving:
            subscriber.note("connected", present=True)
            tale.wait(3)
        tale.operator("cut", 1, code=2)
        if moving:
            subscriber.note("connected", present=True)
        subscriber.gets(message, qos=2)
        subscriber.enters(2, present=True)
        subscriber.gets(message, qos=2)
        tale.operator("joined", 1, code=2)
        assert tale.broken() == ([] if moving else ["twice"])


def test_qos_2_may_come_twice_where_a_session_began_anew_on_one_side_of_a_cut() -> None:
    tale, subscriber, publisher = pair(2)
    tale.wait(3)
    tale.operator("cut", 1, code=2)
    subscriber.enters(1, present=False).subscribes("t", 2)
    message = publisher.publishes(1, qos=2)
    subscriber.gets(message, qos=2)
    subscriber.enters(2, present=True)
    subscriber.gets(message, qos=2)
    tale.operator("joined", 1, code=2)
    assert tale.broken() == []


@pytest.mark.parametrize("met", [False, True])
def test_a_cut_lasts_until_the_nodes_say_that_they_see_each_other(met: bool) -> None:
    tale, subscriber, publisher = pair(2)
    tale.wait(3)
    tale.operator("cut", 1, code=2)
    tale.operator("members", 1, note="1")
    tale.operator("members", 2, note="2,3")
    subscriber.enters(1, present=False).subscribes("t", 2)
    message = publisher.publishes(1, qos=2)
    subscriber.gets(message, qos=2)
    tale.operator("joined", 1, code=2)
    if met:
        tale.operator("members", 1, note="1,2,3")
        tale.operator("members", 2, note="1,2,3")
    subscriber.enters(2, present=True)
    subscriber.gets(message, qos=2)
    assert tale.broken() == (["twice"] if met else [])


@pytest.mark.parametrize("met", [False, True])
def test_a_cut_lasts_until_the_node_that_the_session_moved_to_is_seen(met: bool) -> None:
    tale, subscriber, publisher = pair(2)
    subscriber.enters(1, present=True)
    tale.wait(3)
    for node in (2, 3):
        tale.operator("cut", 1, code=node)
    tale.operator("members", 1, note="1")
    subscriber.enters(2, present=False).subscribes("t", 2)
    message = publisher.publishes(2, qos=2)
    subscriber.gets(message, qos=2)
    subscriber.enters(3, present=True)
    for node in (2, 3):
        tale.operator("joined", 1, code=node)
    tale.operator("members", 1, note="1,2,3" if met else "1,2")
    subscriber.enters(1, present=True)
    subscriber.gets(message, qos=2)
    tale.operator("members", 1, note="1,2,3")
    assert tale.broken() == (["twice"] if met else [])


@pytest.mark.parametrize(
    ("before", "after", "known"), [(0, 0, False), (0, 2, False), (0, 3, True), (3, 2, True)]
)
def test_qos_2_may_come_twice_where_an_older_session_outlives_the_one_that_had_it(
    before: float, after: float, known: bool
) -> None:
    """What that one had in the last second before its node died, or in its first ones."""
    tale, subscriber, publisher = pair(2)
    tale.operator("down", 2)
    subscriber.enters(1, present=False).subscribes("t", 2)
    tale.wait(before)
    message = publisher.publishes(1, qos=2)
    subscriber.gets(message, qos=2)
    tale.wait(after)
    tale.operator("down", 1)
    subscriber.enters(3, present=True)
    tale.operator("up", 2)
    subscriber.gets(message, qos=2)
    assert tale.broken() == (["twice"] if known else [])


@pytest.mark.parametrize(("after", "known"), [(0, False), (2, False), (3, True)])
def test_qos_2_may_come_twice_where_the_node_of_a_session_that_began_anew_is_cut_off(
    after: float, known: bool
) -> None:
    """An older session goes on behind the cut, as where that node had died."""
    tale, subscriber, publisher = pair(2)
    tale.wait(3)
    tale.operator("cut", 1, code=2)
    subscriber.enters(1, present=False).subscribes("t", 2)
    tale.operator("joined", 1, code=2)
    message = publisher.publishes(1, qos=2)
    subscriber.gets(message, qos=2)
    tale.wait(after)
    tale.operator("cut", 1, code=2)
    subscriber.enters(2, present=True)
    subscriber.gets(message, qos=2)
    assert tale.broken() == (["twice"] if known else [])


def test_first_deliveries_out_of_order_break_it() -> None:
    tale, subscriber, publisher = pair()
    subscriber.gets(*reversed([publisher.publishes(1), publisher.publishes(2)]))
    assert tale.broken() == ["order"]


def test_what_a_node_that_was_away_had_queued_may_come_behind_newer_messages() -> None:
    tale, subscriber, publisher = pair()
    first = publisher.publishes(1)
    tale.operator("down", 2, note="killed")
    second = publisher.publishes(2)
    subscriber.gets(second)
    tale.operator("up", 2)
    subscriber.gets(first)
    assert tale.broken() == []


def test_an_old_message_again_behind_newer_ones_is_no_matter_of_order() -> None:
    tale, subscriber, publisher = pair()
    first, second = publisher.publishes(1), publisher.publishes(2)
    subscriber.gets(first, second, first)
    assert tale.broken() == []


def test_order_of_what_was_sent_before_a_session_began_is_open() -> None:
    tale, subscriber, publisher = pair()
    old = publisher.publishes(1)
    tale.operator("down", 2)
    subscriber.enters(3, present=False).subscribes("t")
    subscriber.gets(publisher.publishes(2), old)
    assert tale.broken() == []


def test_what_nobody_sent_is_invented_and_so_is_a_message_on_another_topic() -> None:
    tale, subscriber, publisher = pair()
    subscriber.gets("pub:7")
    subscriber.gets(publisher.publishes(8, topic="u"), topic="t")
    assert tale.broken("not_invented") == ["invented", "invented"]


def test_a_session_is_present_where_its_node_lives() -> None:
    tale, subscriber, _ = pair()
    subscriber.enters(3, present=True)
    assert tale.broken() == []
    subscriber.enters(1, present=False)
    assert tale.broken() == ["session not present"]


def test_a_session_may_be_missing_where_its_node_is_down_unless_one_is_strict() -> None:
    tale, subscriber, _ = pair()
    tale.operator("down", 2)
    subscriber.enters(3, present=False)
    assert tale.broken() == []
    assert tale.broken(strict=True) == ["session not present"]


def test_a_session_is_present_at_its_own_node_after_a_restart() -> None:
    tale, subscriber, _ = pair()
    tale.operator("down", 2)
    tale.operator("up", 2)
    subscriber.enters(2, present=False)
    assert tale.broken() == ["session not present"]


def test_a_session_that_never_began_is_not_present() -> None:
    tale = Tale()
    tale.client("sub").enters(1, present=True)
    assert tale.broken() == ["session out of nothing"]


def test_a_publish_without_an_answer_at_the_end_is_told_once_there_was_time() -> None:
    tale, _, publisher = pair()
    publisher.sends(1)
    tale.wait(5)
    tale.operator("end")
    assert tale.broken() == []
    tale.wait(15)
    tale.operator("end")
    assert tale.broken() == ["not acknowledged"]


def test_a_connect_without_an_answer_in_a_whole_cluster_is_told() -> None:
    tale, subscriber, _ = pair()
    tale.operator("settling")
    subscriber.asks(3)
    tale.wait(12)
    subscriber.note("timeout", note="CONNECT")
    assert tale.broken() == ["no answer"]


def test_a_cluster_that_does_not_become_whole_is_told() -> None:
    tale = Tale()
    tale.operator("not whole", note="within 60 s")
    assert tale.broken() == ["not whole"]


def test_filters_match_as_the_standard_says() -> None:
    assert all(
        matches(f, t) for f, t in [("a/+", "a/b"), ("#", "a/b"), ("a/#", "a"), ("$share/g/a/+", "a/b")]
    )
    assert not any(matches(f, t) for f, t in [("a/+", "a"), ("a", "a/b"), ("+", "a/b"), ("a/b/c", "a/b")])


def test_a_history_is_read_as_it_was_written(tmp_path) -> None:
    tale, subscriber, publisher = pair()
    subscriber.gets(publisher.publishes(1))
    write(tmp_path / "h", {"seed": 1}, tale.events)
    assert read(tmp_path / "h") == ({"seed": 1}, tale.events)


def test_an_identifier_held_from_a_session_that_may_be_gone_hides_nothing() -> None:
    tale, subscriber, publisher = pair(2)
    subscriber.gets(publisher.publishes(1, qos=2), qos=2)
    tale.operator("down", 2)
    subscriber.asks(3)
    subscriber.note("aborted")
    subscriber.enters(3, present=True).subscribes("t", 2)
    hidden = publisher.publishes(2, qos=2)
    subscriber.note("repeated", topic="t", message=hidden, qos=2, note="pub:1")
    assert tale.broken() == []


def test_an_identifier_used_for_another_message_in_one_session_loses_it() -> None:
    tale, subscriber, publisher = pair(2)
    subscriber.gets(publisher.publishes(1, qos=2), qos=2)
    hidden = publisher.publishes(2, qos=2)
    subscriber.note("repeated", topic="t", message=hidden, qos=2, note="pub:1")
    assert tale.broken() == ["lost"]


def test_a_connection_that_the_server_ends_with_a_mistake_of_its_own() -> None:
    tale, subscriber, publisher = pair()
    subscriber.note("closed", code=0x8E)
    publisher.note("closed", code=0x80)
    assert tale.broken("sound") == ["server error"]

"""The judges of what a cluster keeps as a whole, on histories made by hand: kept, and broken on purpose."""

from __future__ import annotations

import pytest
from real.history.history import FULL, ROOM

from history.tales import Tale, Teller


def writer(tale: Tale, *versions: int, node: int = 1) -> Teller:
    client = tale.client("w").enters(node)
    for version in versions:
        message = client.sends(version, qos=1, retain=True)
        client.note("acknowledged", topic="t", message=message, qos=1)
    return client


def reads(tale: Tale, node: int, version: int, name: str = "r") -> None:
    """Version 0: nothing comes."""
    reader = tale.client(name).enters(node, clean=True)
    reader.note("subscribing", topic="t", qos=1)
    reader.note("subscribed", topic="t", code=1)
    if version:
        reader.gets(f"w:{version}", retain=True)
    else:
        tale.wait(3)
    reader.note("goodbye")


def test_a_read_that_goes_back_behind_what_was_acknowledged_or_read_breaks_the_register() -> None:
    tale = Tale()
    writer(tale, 1, 2)
    reads(tale, 2, 2)
    reads(tale, 3, 1)
    assert tale.broken("register") == ["went back"]


def test_a_read_of_nothing_goes_back_as_well() -> None:
    tale = Tale()
    writer(tale, 1)
    reads(tale, 2, 1)
    assert tale.broken("register") == []
    reads(tale, 3, 0)
    assert tale.broken("register") == ["went back"]


def test_a_write_without_acknowledgement_binds_nobody_until_it_is_read() -> None:
    tale = Tale()
    writer(tale, 1).sends(2, qos=1, retain=True)
    reads(tale, 2, 1)
    assert tale.broken("register") == []
    reads(tale, 2, 2)
    reads(tale, 3, 1)
    assert tale.broken("register") == ["went back"]


def test_a_node_that_is_cut_off_may_be_behind_but_not_in_the_end() -> None:
    tale = Tale()
    tale.operator("cut", 1, code=3)
    writer(tale, 1, 2)
    reads(tale, 3, 0)
    assert tale.broken("register") == []
    tale.operator("joined", 1, code=3)
    reads(tale, 3, 1)
    assert tale.broken("register") == []
    reads(tale, 3, 1, name="r/final3")
    assert tale.broken("register") == ["went back"]


def test_the_first_copy_of_a_write_that_was_sent_again_may_take_effect_late() -> None:
    tale = Tale()
    client = writer(tale, 1)
    tale.operator("paused", 1)
    client.sends(2, qos=1, retain=True)
    client.enters(2)
    for version in (2, 3):
        message = client.sends(version, qos=1, retain=True)
        client.note("acknowledged", topic="t", message=message, qos=1)
    reads(tale, 2, 3)
    tale.operator("resumed", 1)
    reads(tale, 2, 2)
    assert tale.broken("register") == []
    reads(tale, 2, 1)
    assert tale.broken("register") == ["went back"]


def cut_off(tale: Tale, node: int, *others: int) -> None:
    for other in others:
        tale.operator("cut", node, code=other)


def test_a_write_that_was_not_acknowledged_when_its_node_went_is_passed_on_in_time() -> None:
    """The third node may lack what the second was told until it has held the first for down for 2.5 s."""
    tale = Tale()
    writer(tale, 1).sends(2, qos=1, retain=True)
    cut_off(tale, 1, 2, 3)
    reads(tale, 2, 2)
    tale.wait(4)
    reads(tale, 3, 1)
    tale.operator("members", 3, note="2,3")
    tale.wait(2)
    reads(tale, 3, 1)
    assert tale.broken("register") == []
    tale.wait(1)
    reads(tale, 3, 1)
    assert tale.broken("register") == ["went back"]


def test_a_write_that_was_not_acknowledged_may_be_missing_for_a_while_where_its_node_is_soon_back() -> None:
    """Nobody held it for down."""
    tale = Tale()
    writer(tale, 1).sends(2, qos=1, retain=True)
    tale.operator("paused", 1)
    reads(tale, 2, 2)
    reads(tale, 3, 1)
    tale.operator("resumed", 1)
    reads(tale, 3, 1)
    assert tale.broken("register") == []
    tale.wait(10)
    reads(tale, 3, 1)
    assert tale.broken("register") == ["went back"]


@pytest.mark.parametrize("planted", ["acknowledged", "the same node", "written elsewhere", "gone before"])
def test_that_a_node_went_is_no_excuse_for_a_write_that_it_had_told_all(planted: str) -> None:
    """Nor for what was read where it is missed, or was written at one that stayed, or was gone before."""
    tale = Tale()
    if planted == "gone before":
        cut_off(tale, 1, 3)
        tale.operator("members", 3, note="2,3")
        tale.wait(4)
    client = writer(tale, 1, node=2 if planted == "written elsewhere" else 1)
    message = client.sends(2, qos=1, retain=True)
    if planted == "acknowledged":
        client.note("acknowledged", topic="t", message=message, qos=1)
    if planted != "gone before":
        tale.operator("down", 1)
    reads(tale, 2, 2)
    reads(tale, 2 if planted == "the same node" else 3, 1)
    assert tale.broken("register") == ["went back"]


def test_a_restart_is_no_excuse_for_a_retained_message_that_is_old() -> None:
    tale = Tale()
    writer(tale, 1, 2)
    tale.operator("down", 3)
    tale.operator("up", 3)
    reads(tale, 3, 1)
    assert tale.broken("register") == ["went back"]


def mortal(tale: Tale, *, delay: int = 0, node: int = 1) -> Teller:
    """A client with a will, watched from node 3."""
    tale.client("watch").enters(3).subscribes("will", 2)
    client = tale.client("c")
    client.asks(node)
    client.note("will", message="c:1", topic="will", code=delay)
    client.note("connected")
    return client


def watched(tale: Tale, times: int = 1) -> None:
    watcher = Teller(tale, "watch")
    watcher.node, watcher.connection = 3, 1
    watcher.gets(*["c:1"] * times, topic="will", qos=2)


def test_a_will_comes_once_when_its_client_falls() -> None:
    tale = Tale()
    mortal(tale).note("aborted")
    assert tale.broken("wills") == ["will never came"]
    watched(tale)
    assert tale.broken("wills") == []
    watched(tale)
    assert tale.broken("wills") == ["will twice"]


def test_a_will_comes_when_the_node_of_its_client_dies() -> None:
    tale = Tale()
    client = mortal(tale)
    tale.operator("down", 1)
    client.note("closed")
    assert tale.broken("wills") == ["will never came"]
    watched(tale)
    assert tale.broken("wills") == []


def test_a_will_may_be_lost_to_a_session_whose_node_died_before_its_disc_had_room() -> None:
    for killed, broken in ((True, []), (False, ["will never came"])):
        tale = Tale()
        client = mortal(tale)
        tale.operator("fault", 3, note=FULL)
        client.note("aborted")
        if killed:
            tale.operator("down", 3)
        tale.operator("fault", 3, note=ROOM)
        tale.wait(20)
        assert tale.broken("wills") == broken


def test_the_will_of_a_client_that_said_goodbye_never_comes() -> None:
    tale = Tale()
    mortal(tale).note("goodbye")
    assert tale.broken("wills") == []
    watched(tale)
    assert tale.broken("wills") == ["will for nothing"]


def test_a_goodbye_that_nobody_answered_may_have_been_read_or_not() -> None:
    tale = Tale()
    mortal(tale).note("aborted", note="after DISCONNECT")
    assert tale.broken("wills") == []
    watched(tale)
    assert tale.broken("wills") == []


def test_a_goodbye_at_a_node_that_is_cut_off_may_be_too_late() -> None:
    tale = Tale()
    client = mortal(tale)
    tale.operator("cut", 1, code=3)
    client.note("goodbye")
    watched(tale)
    assert tale.broken("wills") == []
    watched(tale)
    assert tale.broken("wills") == ["will twice"]


def test_a_delayed_will_does_not_come_too_early() -> None:
    tale = Tale()
    mortal(tale, delay=5).note("aborted")
    watched(tale)
    assert tale.broken("wills") == ["will too early"]


def test_a_delayed_will_may_come_sooner_after_the_death_of_its_node_than_its_client_saw() -> None:
    tale = Tale()
    client = mortal(tale, delay=5)
    tale.operator("paused", 1)
    tale.wait(10)
    client.note("aborted")
    watched(tale)
    assert tale.broken("wills") == []


def test_a_delayed_will_is_void_once_its_client_is_back() -> None:
    tale = Tale()
    client = mortal(tale, delay=5)
    client.note("aborted")
    client.enters(2)
    assert tale.broken("wills") == []
    watched(tale)
    assert tale.broken("wills") == ["will for nothing"]


def test_a_connect_that_is_answered_late_may_void_a_delayed_will() -> None:
    tale = Tale()
    client = mortal(tale, delay=5)
    client.note("aborted")
    client.asks(2)
    tale.wait(6)
    client.note("connected")
    assert tale.broken("wills") == []


def test_a_client_that_comes_back_too_late_does_not_void_its_will() -> None:
    tale = Tale()
    client = mortal(tale, delay=5)
    client.note("aborted")
    tale.wait(10)
    client.enters(2)
    assert tale.broken("wills") == ["will never came"]


def twins(tale: Tale) -> tuple[Teller, Teller]:
    earlier = tale.client("id.a").enters(1)
    return earlier, tale.client("id.b").enters(2)


def test_of_two_connections_of_one_client_the_earlier_one_ends() -> None:
    tale = Tale()
    earlier, later = twins(tale)
    earlier.note("served")
    earlier.note("closed", code=0x8E)
    later.note("served")
    assert tale.broken("one_of_twins") == []


def test_two_that_are_served_for_longer_than_the_bound_are_two_at_once() -> None:
    tale = Tale()
    earlier, later = twins(tale)
    tale.wait(3)
    later.note("served")
    earlier.note("served")
    later.note("served")
    assert tale.broken("one_of_twins") == ["two at once"]


def test_two_may_be_served_while_their_nodes_are_cut() -> None:
    tale = Tale()
    tale.operator("cut", 1, code=2)
    earlier, later = twins(tale)
    tale.wait(3)
    earlier.note("served")
    later.note("served")
    assert tale.broken("one_of_twins") == []


def test_an_earlier_connection_that_outlives_the_later_one_stayed() -> None:
    tale = Tale()
    earlier, later = twins(tale)
    later.note("closed", code=0x8E)
    tale.wait(1)
    earlier.note("served")
    assert tale.broken("one_of_twins") == ["the earlier one stayed"]


def group(tale: Tale) -> tuple[Teller, Teller, Teller]:
    members = [tale.client(f"m{node}").enters(node).subscribes("$share/g/t") for node in (2, 3)]
    return tale.client("pub").enters(1), members[0], members[1]


def test_a_message_for_a_group_comes_to_one_member() -> None:
    tale = Tale()
    publisher, one, _ = group(tale)
    message = publisher.publishes(1)
    assert tale.broken("shared") == ["given to nobody"]
    one.gets(message)
    assert tale.broken("shared") == []


def test_a_message_that_its_member_did_not_acknowledge_has_to_come_to_another() -> None:
    tale = Tale()
    publisher, one, other = group(tale)
    message = publisher.publishes(1)
    one.gets(message, note="unacknowledged")
    assert tale.broken("shared") == ["given to nobody"]
    other.gets(message)
    assert tale.broken("shared") == []


def test_a_message_that_two_members_acknowledge_in_quiet_times_is_given_twice() -> None:
    tale = Tale()
    publisher, one, other = group(tale)
    message = publisher.publishes(1)
    one.gets(message)
    other.gets(message)
    assert tale.broken("shared") == ["given twice"]
    tale.operator("down", 2)
    assert tale.broken("shared") == ["given twice"]


def test_a_message_may_be_given_twice_where_a_node_died() -> None:
    tale = Tale()
    publisher, one, other = group(tale)
    message = publisher.publishes(1)
    one.gets(message)
    tale.operator("down", 2)
    other.gets(message)
    assert tale.broken("shared") == []


def test_a_group_may_get_twice_what_was_sent_twice() -> None:
    tale = Tale()
    publisher, one, other = group(tale)
    publisher.sends(1)
    message = publisher.publishes(1)
    one.gets(message)
    other.gets(message)
    assert tale.broken("shared") == []


def test_what_is_published_in_the_end_comes_to_nobody_who_unsubscribed() -> None:
    tale = Tale()
    client = tale.client("c").enters(2).subscribes("t")
    client.unsubscribes("t")
    publisher = tale.client("p").enters(1)
    client.gets(publisher.publishes(1))
    assert tale.broken("routed") == []
    tale.operator("settling")
    client.gets(publisher.publishes(2))
    assert tale.broken("routed") == ["routed to a stranger"]
    tale.wait(5)
    client.subscribes("t")
    client.gets(publisher.publishes(3))
    assert tale.broken("routed") == ["routed to a stranger"]

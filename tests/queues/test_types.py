"""Types of queues and their limits: which messages stay, and which go."""

from gossamer.queues.values import Append, Leave, Message, Peek, Refused, Why, decoder_of, encode
from tests.queues.replica import join, message, settle


def test_a_message_leaves_a_classic_queue_when_every_group_has_settled_it(group):
    group.ask(join("a"), join("c", group="audit"), message())
    group.ask(settle("a", 0))
    assert group.show().stats.depth == 1
    group.ask(settle("c", 0, group="audit"))
    assert group.show().stats.depth == 0


def test_messages_wait_where_there_is_no_consumer_and_a_full_queue_refuses(group):
    assert group.ask(*map(message, range(6))) == [0, 1, 2, 3, 4, Refused(Why.FULL)]
    group.ask(join("a"))
    assert [offset for _, offset, _ in group.given()] == [0, 1, 2, 3, 4]


def test_with_drop_oldest_the_oldest_goes_and_nobody_waits_for_it(group):
    group.define(limits={"max_depth": 2, "overflow": "drop_oldest"})
    group.ask(join("a", limit=1), message(0))
    group.ask(*map(message, range(1, 4)))
    shown = group.show()
    assert (shown.stats.depth, shown.stats.dropped, shown.stats.first) == (2, 2, 2)
    # The first was with its consumer, which has it no more.
    assert group.ask(settle("a", 0)) == [Refused(Why.NOT_HELD, [0])]
    assert [offset for _, offset, _ in group.given()] == [0, 2]


def test_a_message_that_is_too_large_is_refused(group):
    group.define(limits={"max_message_size": 1024})
    assert group.ask(Append("jobs", "", b"x" * 1025, b"", 0)) == [Refused(Why.TOO_LARGE)]


def test_a_stream_keeps_what_is_settled_and_groups_begin_where_they_say(group):
    group.define("log", type="stream")
    group.ask(*(message(n, queue="log") for n in range(4)))
    start = {"f": "first", "l": "last", "n": "next", "2": "2", "t": "timestamp:1700000000001"}
    for name, where in start.items():
        group.ask(join(name, group=name, start=where, queue="log"))
    given = group.given()
    assert {name: [o for c, o, _ in given if c == name] for name in start} == {
        "f": [0, 1, 2, 3],
        "l": [3],
        "n": [],
        "2": [2, 3],
        "t": [1, 2, 3],
    }
    group.ask(*(settle("f", n, group="f", queue="log") for n in range(4)))
    assert group.show("log").stats.depth == 4
    assert group.ask(join("x", group="x", start="yesterday", queue="log")) == [Refused(Why.BAD_START)]


def test_a_stream_forgets_by_age(group):
    group.define("log", type="stream", max_age=3)
    group.ask(message(queue="log"))
    group.tick(2)
    group.ask(message(queue="log"))
    group.tick(1)
    assert group.show("log").stats.first == 0 or group.show("log").stats.depth == 1
    group.tick(2)
    assert group.show("log").stats.depth == 0


def test_a_last_value_queue_has_one_message_a_key(group):
    group.define("state", type="last_value")
    group.ask(*(message(n, key, queue="state") for n, key in enumerate("aba")))
    assert group.show("state").stats.depth == 2
    group.ask(join("x", queue="state"))
    assert [offset for _, offset, _ in group.given()] == [1, 2]
    group.ask(settle("x", 1, queue="state"), settle("x", 2, queue="state"))
    assert group.show("state").stats.depth == 2
    group.ask(join("y", group="late", start="first", queue="state"))
    assert [offset for _, offset, _ in group.given()] == [1, 2]


def test_what_a_last_value_queue_refuses_leaves_what_it_has(group):
    group.define(type="last_value", limits={"max_depth": 2, "max_message_size": 1024, "max_bytes": 1024})
    small, large = (Append("jobs", "a", bytes(size), b"", 0) for size in (100, 1000))
    assert group.ask(small, message(1, "b"), large) == [0, 1, Refused(Why.FULL)]
    assert [one.key for one in decoder_of(list[Message])(group.machine.read(encode(Peek("jobs", 0, 9))))] == [
        "a",
        "b",
    ]
    assert group.ask(small) == [2]


def test_a_queue_that_becomes_one_of_last_values_keeps_the_latest_of_each_key(group):
    group.ask(*(message(n, key) for n, key in enumerate("abab")))
    group.define(type="last_value")
    assert [one[0] for one in decoder_of(list)(group.machine.read(encode(Peek("jobs", 0, 9))))] == [2, 3]


def test_an_ephemeral_queue_goes_when_nobody_has_wanted_it_for_long(group):
    group.define("temp", type="ephemeral", expires_after=3)
    group.ask(join("a", queue="temp"))
    group.tick(10)
    assert group.show("temp") is not None
    group.ask(Leave("temp", "workers", "a"))
    group.tick(3)
    assert group.show("temp") is None


def test_messages_expire_by_their_own_expiry_or_that_of_the_queue(group):
    group.define(limits={"message_ttl": 5})
    group.ask(message(1, expiry=2000), message(2))
    group.tick(2)
    assert group.show().stats.depth == 1
    group.tick(3)
    assert (group.show().stats.depth, group.show().stats.dropped) == (0, 2)

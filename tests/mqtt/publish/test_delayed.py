"""Publishes that take effect later."""

import msgspec
import pytest

from gossamer.mqtt.auth.acl import Acl, Gate
from gossamer.mqtt.codec.properties import Properties
from gossamer.mqtt.flow.deadlines import Wheel
from gossamer.mqtt.messages.message import Message
from gossamer.mqtt.publish.delayed import Delayed, delayed_topic
from mqtt.fakes import FakeJournal


class World:
    def __init__(self, limit: int = 10) -> None:
        self.now = 50.0
        self.wheel = Wheel()
        self.out: list[tuple[str, bytes, str]] = []
        self.drops: list[str] = []
        self.delayed = Delayed(
            wheel=self.wheel,
            now=lambda: self.now,
            wall=lambda: self.now + 1_000_000,
            dropped=self.drops.append,
            limit=limit,
        )
        self.delayed.publish = lambda message, publisher: self.out.append(
            (message.topic.decode(), message.payload, publisher)
        )

    def take(self, topic: str, payload: bytes = b"x", **options: object):
        return self.delayed.take(Message(topic.encode(), payload, **options), "anna")

    def pass_time(self, seconds: float) -> list[bytes]:
        self.now += seconds
        self.wheel.turn(self.now)
        out, self.out = self.out, []
        return [payload for _, payload, _ in out]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("$delayed/5/a/b", (5, "a/b")),
        ("$delayed/0/a", (0, "a")),
        ("$delayed/007//", (7, "/")),
        ("$delayed/4294967/a", (4_294_967, "a")),
        ("$delayed/4294968/a", None),
        ("$delayed/-1/a", None),
        ("$delayed/1.5/a", None),
        ("$delayed/\u0665/a", None),
        ("$delayed//a", None),
        ("$delayed/5", None),
        ("$delayed/5/", None),
        ("$delayed/5/a/#", None),
        ("$delayed/5/$delayed/5/a", None),
        ("$delayed/" + "9" * 60_000 + "/a", None),
    ],
)
def test_what_is_a_delay(name, found):
    assert delayed_topic(name) == found


def test_messages_come_when_they_are_due_in_the_order_taken():
    world = World()
    world.take("$delayed/10/t", b"later")
    world.take("$delayed/5/t", b"first")
    world.take("$delayed/5/t", b"second")
    assert world.delayed.count == 3
    assert world.pass_time(4.5) == []
    assert world.pass_time(1) == [b"first", b"second"]
    assert world.pass_time(5) == [b"later"]
    assert world.delayed.count == 0


def test_what_cannot_be_delayed_is_counted():
    world = World(limit=1)
    world.take("$delayed/soon/t")
    world.take("$delayed/1/t", b"kept")
    world.take("$delayed/1/t", b"one too many")
    assert world.drops == ["bad_delay", "too_many_delayed"]
    assert world.pass_time(1) == [b"kept"]


def test_a_message_that_expires_before_it_is_due_is_not_published():
    world = World()
    world.take("$delayed/5/t", properties=Properties(message_expiry=3), expires_at=world.now + 3)
    assert world.pass_time(6) == []
    assert world.drops == ["expired"]


def test_what_is_on_disc_comes_back_and_what_is_overdue_comes_soon():
    journal, before = FakeJournal(), World()
    before.delayed.restore(journal, {}, soon=lambda function: function())
    safe: list[bool] = []
    for seconds, payload in ((100, b"c"), (20, b"b"), (1, b"sent"), (3, b"a")):
        (keeper,) = before.take(f"$delayed/{seconds}/t", payload, qos=1, retain=payload == b"a")
        keeper.append_acked(b"", safe.append)
    assert safe == []
    journal.commit()
    assert safe == [True] * 4
    assert before.pass_time(1) == [b"sent"]
    journal.commit()

    after = World()
    after.now = before.now + 10
    decode = msgspec.msgpack.decode
    rows = {decode(key): decode(value) for key, value in journal.rows.items() if value is not None}
    rows[b"\0\0\0\0\0\0\0\x09"] = [1.0, "", b"no record"]
    assert after.delayed.restore(journal, rows, soon=lambda function: function()) == 3
    after.take("$delayed/0/t", b"new")
    assert after.pass_time(0) == [b"new"]
    assert after.pass_time(9) == [], "the cluster is not found yet"
    assert after.pass_time(1) == [b"a", b"b"]
    assert after.pass_time(80) == [b"c"]
    journal.commit()
    assert not [value for value in journal.rows.values() if value is not None]


def test_the_acl_asks_about_the_topic_behind_a_prefix(tmp_path):
    file = tmp_path / "acl"
    file.write_text("deny all * secret/#\nallow all * #\n")
    gate = Gate(Acl(file), "anna", None, lambda topic: None)
    assert gate.may_publish(b"$delayed/5/open/x")
    assert not gate.may_publish(b"$delayed/5/secret/x")
    assert not gate.may_publish(b"$delayed/soon/secret/x"), "no rule fits what is no topic"
    assert gate.may_subscribe("$exclusive/open/x")
    assert not gate.may_subscribe("$exclusive/secret/x")
    assert not gate.may_subscribe("$exclusive/#")

"""Deadlines: called once due, again when they ask for it, never once cancelled."""

import random

from gossamer.mqtt.flow.deadlines import Wheel


def test_deadlines_are_called_when_due_and_in_order():
    wheel = Wheel()
    called = []
    for when in (3.0, 1.0, 2.0, 9.0):
        wheel.at(when, lambda _now, when=when: called.append(when))
    wheel.turn(3.0)
    assert called == [1.0, 2.0, 3.0]
    assert len(wheel) == 1


def test_a_callback_may_ask_to_be_called_again():
    wheel = Wheel()
    called = []

    def callback(now):
        called.append(now)
        return now + 5 if now < 10 else None

    wheel.at(1.0, callback)
    for now in range(30):
        wheel.turn(float(now))
    assert called == [1.0, 6.0, 11.0]
    assert len(wheel) == 0


def test_a_cancelled_deadline_is_not_called_and_not_kept():
    """However many come and go, the wheel holds no more than twice what is live."""
    wheel = Wheel()
    rng = random.Random(7)
    live = []
    called = []
    for n in range(5000):
        live.append(wheel.at(rng.uniform(100, 200), lambda _now, n=n: called.append(n)))
        if len(live) > 20:
            live.pop(rng.randrange(len(live))).cancel()
        assert len(wheel) <= 2 * len(live) + 66
    wheel.turn(1000.0)
    assert len(called) == len(live)
    assert len(wheel) == 0


def test_a_callback_may_cancel_others_and_itself():
    wheel = Wheel()
    called = []
    others = [wheel.at(5.0, lambda _now: called.append("other")) for _ in range(200)]

    def callback(now):
        for other in others:
            other.cancel()
        me.cancel()
        return now + 1

    me = wheel.at(1.0, callback)
    wheel.turn(10.0)
    wheel.turn(20.0)
    assert called == []

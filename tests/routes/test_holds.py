"""A frame is done when its effect is: whoever takes records may hold back what the peer hears."""

import pytest

from gossamer.distribution import Frame
from gossamer.routes import Router, SubscriptionOptions
from tests.routes.fakes import Links, Table


class Later:
    def __init__(self):
        self.waiting = []

    def then(self, callback):
        self.waiting.append(callback)

    def release(self):
        for callback in self.waiting:
            callback()


def frame(number, payload):
    return Frame("node2", "data", number, payload)


@pytest.mark.parametrize("group", [False, True])
def test_held_frames_are_done_when_the_hold_ends_in_order(group):
    router = Router("node1")
    links = Links()
    hold = Later()
    if group:
        name = b"$share/g/a"
        mark = b"\xff" + len(name).to_bytes(3, "big") + name
        router.subscribe(name.decode(), object(), SubscriptionOptions(qos=0))
        router.on_group_forward(lambda peer, group, records: hold)
        router.on_forward(lambda peer, records: None)
    else:
        mark = b""
        router.on_forward(lambda peer, records: hold)
    router.attach(Table("node1"), links)
    frames = [frame(n, mark + b"r%d" % n) for n in (1, 2)]
    for one in frames:
        links.receiver(one)
    assert links.finished == []
    assert router.counts["frames_held"] == 2
    hold.release()
    assert links.finished == frames


def test_a_frame_that_nobody_holds_is_done_at_once():
    router = Router("node1")
    links = Links()
    router.on_forward(lambda peer, records: None)
    router.attach(Table("node1"), links)
    links.receiver(frame(1, b"r"))
    assert len(links.finished) == 1

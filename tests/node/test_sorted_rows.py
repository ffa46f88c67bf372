"""Rows of clients, subscriptions and retained messages, by the field that they are to be sorted by."""

from types import SimpleNamespace

import pytest

from gossamer.api import ListOrder
from gossamer.api.peers.paging import page_of
from gossamer.clock import SystemClock
from gossamer.mqtt import Message
from gossamer.mqtt.publish.retained import LocalRetained
from gossamer.node.views.clients import ClientsView


class View(ClientsView):
    def __init__(self, **broker):
        self.name = "node1@127.0.0.1"
        self._node = SimpleNamespace(broker=SimpleNamespace(**broker), clock=SystemClock())


async def in_pages(walk, order):
    """All rows, a page of one row each."""
    rows, after = [], None
    while True:
        page, after = await page_of(walk(order), limit=1, after=after)
        rows += page
        if after is None:
            return rows


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("field", ["client", "filter", "qos", "node"])
async def test_subscriptions_come_by_any_of_their_columns(field, descending):
    sessions = {
        client: SimpleNamespace(
            subscriptions={
                name: (SimpleNamespace(qos=qos, no_local=False, retain_as_published=False), None)
                for name, qos in wanted.items()
            }
        )
        for client, wanted in {"b": {"x": 2, "z": 0}, "a": {"y": 1, "x": 0}}.items()
    }
    rows = await in_pages(View(sessions=sessions).subscriptions, ListOrder(field, descending=descending))
    assert len(rows) == 4
    values = [getattr(row, field) for row in rows]
    assert values == sorted(values, reverse=descending)


@pytest.mark.parametrize(
    ("field", "expected"),
    [(None, "abcd"), ("topic", "abcd"), ("qos", "dbac"), ("bytes", "dcba"), ("expires_at", "cbad")],
)
async def test_retained_messages_come_by_any_of_their_columns(field, expected):
    """``d`` is on other nodes: its QoS and size are not known here, and ``a`` and ``d`` never expire."""
    retained = LocalRetained()
    for topic, qos, size, left in (
        ("a", 1, 30, None),
        ("b", 0, 20, 90.0),
        ("c", 2, 10, 60.0),
        ("d", 0, 1, None),
    ):
        message = Message(topic=topic.encode(), payload=bytes(size), qos=qos, retain=True)
        message.expires_at = None if left is None else SystemClock().monotonic() + left
        retained.put(message)
    known = retained.get

    def get(topic):
        return known(topic) if topic != "d" else lambda: None

    retained.get = get

    def walk(order):
        return View(retained=retained).retained("#", order)

    rows = await in_pages(walk, ListOrder(field))
    assert "".join(row.topic for row in rows) == expected
    rows = await in_pages(walk, ListOrder(field, descending=True)) if field else rows[::-1]
    assert [row.topic for row in rows if row.topic not in "ad"] == [
        topic for topic in reversed(expected) if topic not in "ad"
    ]

"""A row of a client says what a quorum has of its session, and since when."""

from types import SimpleNamespace

import pytest
from mqtt.copies.fake_nodes import FakeNode, new_node

from gossamer.api import ClientSearch, ListOrder
from gossamer.basekv import KINDS
from gossamer.clock import SystemClock
from gossamer.node.views.clients import ClientsView


def row_of(node, client_id="c", *, copies=True):
    """The row of a client at a node whose copies are as ``node`` has them."""
    clock, fanout = SystemClock(), node.fanout
    view = ClientsView()
    view.name = "node1@127.0.0.1"
    view._node = SimpleNamespace(
        broker=SimpleNamespace(sessions=node.sessions, copies=node.copies if copies else None, tenants=()),
        clock=SimpleNamespace(wall=clock.wall, monotonic=lambda: fanout.at),
    )
    [(_, show)] = view.clients(ClientSearch(client=client_id), ListOrder())
    return show().copied, clock.wall()


async def test_a_session_is_level_once_a_quorum_has_it():
    node = await new_node()
    node.begin()
    copied, _ = row_of(node)
    assert (copied.range, copied.state, copied.since) == (KINDS[0], "unconfirmed", None)
    await node.settle()
    node.fanout.at += 30
    copied, now = row_of(node)
    assert copied.state == "level"
    assert copied.since == pytest.approx(now - 30, abs=5)


async def test_before_there_are_replicas_enough_no_session_is_copied():
    node = FakeNode({})
    node.keys = node.copies._keys = SimpleNamespace(range_of=lambda _key: 2)
    node.begin()
    copied, _ = row_of(node)
    assert (copied.range, copied.state, copied.since) == (KINDS[2], "not_copied", None)


async def test_without_copies_nothing_is_said_of_them():
    node = await new_node()
    node.begin()
    assert row_of(node, copies=False)[0] is None

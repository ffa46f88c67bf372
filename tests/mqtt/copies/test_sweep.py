"""Copies that expire while nobody has their sessions."""

import pytest

from gossamer.mqtt.copies.sweep import MARGIN, Sweep
from gossamer.mqtt.session.sessions import NEVER
from mqtt.copies.fake_nodes import FakeNode, fill, new_node


@pytest.fixture
async def node():
    return await new_node(name="dead")


def sweep_of(node, *up):
    """``up``: nodes that delete their copies themselves."""
    return Sweep(node.keys, wall=lambda: wall_of(node), writes=lambda owner: owner.node in up)


def wall_of(node):
    return node.store.time_of_day(node.fanout.now())


async def begin(node, *clients, expiry=100, ends_in=None):
    for client_id in clients:
        session = node.begin(client_id)
        fill(session)
        session.expiry = expiry
        session.expires_at = None if ends_in is None else node.fanout.now() + ends_in
        session.save()
    await node.settle()


async def kept(node, *clients):
    return [client_id for client_id in clients if await node.image(client_id) is not None]


async def test_what_ended_while_its_node_was_away_is_deleted_and_nothing_else(node):
    await begin(node, "a", "b", "c", ends_in=100)
    await begin(node, "later", ends_in=1000)
    await begin(node, "forever", expiry=NEVER)
    sweep = sweep_of(node)
    node.fanout.at += 100
    assert await sweep.run() == 0
    node.fanout.at += MARGIN + 1
    assert await sweep.run() == 3
    assert await kept(node, "a", "b", "c", "later", "forever") == ["later", "forever"]


async def test_a_node_that_is_up_deletes_its_copies_itself(node):
    await begin(node, "a", ends_in=10)
    other = FakeNode(node.keys, "up")
    assert other.copies.begun()
    await begin(other, "b", ends_in=10)
    node.fanout.at += 1000
    assert await sweep_of(node, "up").run() == 1
    assert await kept(node, "a", "b") == ["b"]


async def test_a_client_that_was_connected_has_its_expiry_from_when_that_is_seen(node):
    await begin(node, "a")
    node.fanout.at += 10_000
    sweep = sweep_of(node)
    assert await sweep.run() == 0
    node.fanout.at += 100 + MARGIN
    assert await sweep.run() == 0
    node.fanout.at += 1
    assert await sweep.run() == 1


async def test_a_copy_that_is_taken_over_meanwhile_stays(node):
    await begin(node, "a", ends_in=10)
    node.fanout.at += 1000
    other = FakeNode(node.keys, "up")
    scan = node.keys.scan

    async def taken_over(*asked, **options):
        rows = await scan(*asked, **options)
        if not options:
            # It has found the owner.
            node.keys.scan = scan
            assert await other.copies.claim("a", node.owner("a"), 11) is not None
        return rows

    node.keys.scan = taken_over
    assert await sweep_of(node).run() == 0
    assert other.owner("a").node == "up"

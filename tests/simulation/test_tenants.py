"""Tenants of one cluster: what one of them does is nothing to the others, on whichever node."""

import asyncio
from functools import partial

import pytest
from mqtt.tenants.test_isolation import of_tenants

from gossamer.api.resources.listing import BY_NAME
from gossamer.errors import UsageError
from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.codec.properties import Properties

from .clusters import nodes, restart
from .flows import gone, session, subscriber


@pytest.fixture
def tenants(cluster):
    """Clients of the user TENANT/NAME are of that tenant, now and after a restart."""

    def name():
        for node in cluster.nodes.values():
            node.broker.access._authenticator = of_tenants()
            node.broker.table._owned = False

    name()
    return name


def topics(client):
    return [(message.topic, message.payload) for message in client.messages]


@nodes(3, seeds=2)
@pytest.mark.parametrize("version", [p.V4, p.V5])
async def test_messages_wills_groups_and_retained_messages_stay_in_a_tenant(sim, cluster, tenants, version):
    mine, others, kind = [], [], {"version": version}
    will = p.Will(topic=b"w", payload=b"w")
    filters = ("#", "$own/#", "$share/g/#", "$share/g/+/x")
    for number in (1, 2, 3):
        mine.append(await subscriber(cluster, number, *filters[:2], qos=2, username="a/u", **kind))
        others.append(await subscriber(cluster, number, *filters, qos=2, username="b/u", **kind))
        others.append(await subscriber(cluster, number, *filters, qos=2, **kind))
    writer = await cluster.client(1, "w", username="a/u", **kind, will=will)
    sent = [(b"x", b"0"), (b"x/y", b"1"), (b"$own/x", b"2"), (b"large", bytes(3000))]
    for qos, (topic, payload) in enumerate(sent):
        await writer.publish(topic.decode(), payload, qos=min(qos, 2), retain=True)
    writer.drop()
    await asyncio.sleep(5)
    for client in mine:
        assert sorted(topics(client)) == sorted([*sent, (b"w", b"w")])
    late = await subscriber(cluster, 3, "#", qos=1, username="a/u")
    others.append(await subscriber(cluster, 3, "#", "$own/#", qos=1, username="b/u"))
    others.append(await subscriber(cluster, 3, "#", "$own/#", qos=1))
    await asyncio.sleep(5)
    assert sorted(topics(late)) == sorted(one for one in sent if not one[0].startswith(b"$"))
    assert all(client.messages == [] for client in others)


@nodes(3, seeds=2)
async def test_a_session_is_taken_over_from_another_node_by_its_own_tenant_only(sim, cluster, tenants):
    keep = {"clean_start": False, "session_expiry": 300}
    first = await session(cluster, 1, "c", "x", qos=1, username="a/u")
    other = await subscriber(cluster, 2, "x", qos=1, name="c", username="b/u", **keep)
    plain = await subscriber(cluster, 3, "x", qos=1, name="c", **keep)
    writer = await cluster.client(3, "w", username="a/u")
    first.drop()
    await asyncio.sleep(1)
    await writer.publish("x", b"1", qos=1)
    again = await cluster.client(2, "c", username="a/u", **keep)
    await asyncio.sleep(2)
    assert again.session_present
    assert topics(again) == [(b"x", b"1")]
    assert other.connected
    assert plain.connected
    assert other.messages == plain.messages == []


@nodes(2, seeds=2, discs=True)
async def test_what_a_tenant_has_outlives_a_restart_of_its_node(sim, cluster, tenants):
    await gone(cluster, 1, "c", "x/#", "$share/g/y", qos=2, username="a/u")
    writer = await cluster.client(2, "w", username="a/u", version=p.V5)
    other = await cluster.client(2, "w", username="b/u")
    await writer.publish("x/1", b"queued", qos=1)
    await writer.publish("y", b"shared", qos=2)
    await writer.publish("x/r", b"kept", qos=1, retain=True)
    await other.publish("x/1", b"other", qos=1)
    cluster.crash(1)
    await restart(cluster, 1)
    tenants()
    await writer.publish("x/2", b"later", qos=1, properties=Properties(content_type="t"))
    again = await cluster.client(1, "c", username="a/u", clean_start=False, session_expiry=300)
    await asyncio.sleep(5)
    assert again.session_present
    assert sorted(topics(again)) == [
        (b"x/1", b"queued"),
        (b"x/2", b"later"),
        (b"x/r", b"kept"),
        (b"y", b"shared"),
    ]
    assert (await subscriber(cluster, 1, "#", qos=1)).messages == []


@nodes(3, discs=True)
async def test_limits_hold_at_all_nodes_and_after_a_restart(sim, cluster, tenants):
    async def limits(number):
        return cluster.nodes[number].broker.tenants.of("a").limits.max_connections

    node = cluster.nodes[1]
    await node.runtime.run(partial(node.broker.tenants.set, "a", {"max_connections": 7}))
    await asyncio.sleep(2)
    assert [await limits(number) for number in (1, 2, 3)] == [7, 7, 7]
    cluster.crash(2)
    await restart(cluster, 2)
    assert await limits(2) == 7


@nodes(2, seeds=1)
async def test_operators_read_and_say_names_as_the_clients_of_a_tenant_do(sim, cluster, tenants):
    mine = await subscriber(cluster, 2, "x/#", "$share/g/y", qos=1, username="a/u")
    theirs = await subscriber(cluster, 2, "x/#", qos=1)
    writer = await cluster.client(1, "w", username="a/u")
    await writer.publish("x/kept", b"1", qos=1, retain=True)
    await asyncio.sleep(2)
    view = cluster.nodes[1].view
    rows = {(row.filter, row.tenant) for row in view.topics()}
    assert rows >= {("x/#", ""), ("x/#", "a")}
    assert {row.tenant for row in view.topics(tenant="a")} == {"a"}
    assert {row.tenant for row in view.topics(tenant="default")} == {""}
    assert [(one.filter, one.tenant) for one in view.match("x/1", "a").matches] == [("x/#", "a")]
    kept = [show() for _, show in view.retained("#", BY_NAME, "a")]
    assert [(one.topic, one.tenant, one.bytes) for one in kept] == [("x/kept", "a", 1)]
    assert not list(view.retained("#", BY_NAME))
    assert await view.publish("x/said", b"2", qos=1, retain=False, tenant="a") == (1, True)
    await asyncio.sleep(1)
    assert (b"x/said", b"2") in topics(mine)
    assert theirs.messages == []
    with pytest.raises(UsageError):
        view.match("x/+", "a")

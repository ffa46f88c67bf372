"""The process that heals: whom it tells, what may be set while it runs, what it does when something fails."""

import asyncio

import pytest

from gossamer.api.model.cluster import HealSettings
from gossamer.autoheal import (
    AUTOHEAL,
    ChangeSetting,
    Cleaned,
    DryRun,
    Incident,
    Partition,
    Settings,
    Subscribe,
    server,
)
from gossamer.errors import UnavailableError
from gossamer.gossip import ForceLeave
from gossamer.mnesia_like import InconsistentDatabase
from gossamer.node import healing
from gossamer.supervisor import CallFailed, call, cast, receive, self_pid

from .clusters import Shape, all_healed, mend, nodes, restart

healing_soon = nodes(3, start="in turn", cluster={"autoheal": 2.0, "autoclean": 40.0})


def ask(node, request):
    return node.runtime.call(AUTOHEAL, request)


async def cut_and_mend(cluster, length=12.0):
    cluster.partition([1, 2], [3])
    await asyncio.sleep(length)
    cluster.heal()
    await all_healed(cluster)


@healing_soon
async def test_a_process_that_subscribed_hears_of_splits_heals_and_removals(sim, cluster):
    heard = []

    async def listener():
        cast(AUTOHEAL, Subscribe(self_pid()))
        while True:
            heard.append(await receive())

    cluster.nodes[1].runtime.spawn(listener)
    tables = []
    cluster.nodes[1].store.subscribe(tables.append)
    await cut_and_mend(cluster)
    assert [type(event) for event in heard] == [Partition, Incident]
    assert heard[0].context == "running_partitioned_network"
    # Those who subscribed to the tables hear of it in Mnesia's words.
    assert InconsistentDatabase(heard[0].context, cluster.nodes[3].name) in tables
    assert heard[1].reloaded == (cluster.nodes[3].name,)
    gone = cluster.nodes[3].name
    cluster.crash(3)
    await asyncio.sleep(60)
    assert [type(event) for event in heard] == [Partition, Incident, Cleaned]
    assert heard[2].member == gone


@healing_soon
async def test_settings_reach_all_nodes_and_those_that_come_later(sim, cluster):
    await ask(cluster.nodes[2], ChangeSetting("autoheal", None))
    await asyncio.sleep(1)
    await ask(cluster.nodes[3], ChangeSetting("autoclean", 77.0))
    await asyncio.sleep(1)
    cluster.crash(1)
    await asyncio.sleep(10)
    await restart(cluster, 1, pause=1)
    for node in cluster.nodes.values():
        assert (node.healing.autoheal, node.healing.autoclean) == (None, 77.0)


@healing_soon
async def test_switched_off_a_split_is_told_and_left_then_healed_once_switched_on(sim, cluster):
    await ask(cluster.nodes[1], ChangeSetting("autoheal", None))
    cluster.partition([1, 2], [3])
    await asyncio.sleep(12)
    cluster.heal()
    await asyncio.sleep(20)
    (alarm,) = (a for a in cluster.nodes[1].view.healing.alarms() if a.name == "partition")
    assert alarm.active
    assert "autoheal is off" in alarm.text
    assert not cluster.nodes[1].healing.history
    await ask(cluster.nodes[1], ChangeSetting("autoheal", 1.0))
    await all_healed(cluster)


@healing_soon
async def test_a_rehearsal_shows_the_plan_and_changes_nothing(sim, cluster):
    assert await ask(cluster.nodes[2], DryRun()) is None
    await ask(cluster.nodes[1], ChangeSetting("autoheal", 60.0))
    cluster.partition([1, 2], [3])
    await asyncio.sleep(12)
    cluster.heal()
    await asyncio.sleep(8)
    stores = {number: node.runtime.whereis("mnesia_like") for number, node in cluster.nodes.items()}
    plan = await ask(cluster.nodes[3], DryRun())
    assert plan.victims == (cluster.nodes[3].name,)
    assert plan.coordinator == cluster.nodes[1].name
    assert stores == {number: node.runtime.whereis("mnesia_like") for number, node in cluster.nodes.items()}
    await all_healed(cluster)


@healing_soon
async def test_a_rehearsal_answers_although_a_node_does_not(sim, cluster):
    cluster.partition([1, 2], [3])
    # Its link is up still, as far as node 1 knows.
    plan = await cluster.nodes[1].runtime.call(AUTOHEAL, DryRun(), timeout=10.0)
    assert plan is None


@healing_soon
async def test_a_reload_that_fails_is_tried_again(sim, cluster, monkeypatch):
    tries = []
    restart = healing.Supervisor.restart_child

    async def stubborn(supervisor, child, timeout=5.0):
        if child == "mnesia_like":
            tries.append(child)
            if len(tries) == 1:
                raise TimeoutError
        return await restart(supervisor, child, timeout)

    monkeypatch.setattr(healing.Supervisor, "restart_child", stubborn)
    await cut_and_mend(cluster)
    assert len(tries) == 2
    await cluster.settled()


@healing_soon
async def test_a_removal_that_gossip_does_not_answer_is_tried_again(sim, cluster, monkeypatch):
    refused = []

    async def deaf(destination, request, **options):
        if isinstance(request, ForceLeave) and not refused:
            refused.append(request)
            raise UnavailableError("no answer")
        return await call(destination, request, **options)

    monkeypatch.setattr(server, "call", deaf)
    gone = cluster.nodes[3].name
    cluster.crash(3)
    await asyncio.sleep(100)
    assert refused == [ForceLeave(gone, final=False)]
    assert [cleaned.member for cleaned in cluster.nodes[1].healing.cleaned] == [gone]


@healing_soon
async def test_an_unknown_request_is_the_callers_mistake_and_harms_nobody(sim, cluster):
    with pytest.raises(CallFailed):
        await cluster.nodes[1].runtime.call(AUTOHEAL, "what?", timeout=5.0)
    await asyncio.sleep(2)
    await cut_and_mend(cluster)


@nodes(1)
@pytest.mark.parametrize("error", [UnavailableError("no room"), TimeoutError()], ids=["refused", "late"])
async def test_a_setting_that_is_not_kept_is_an_error_for_the_operator(sim, cluster, monkeypatch, error):
    async def fails(*_):
        raise error

    monkeypatch.setattr(Settings, "set", fails)
    for setting in ("autoheal", "autoclean"):
        with pytest.raises(UnavailableError):
            await cluster.nodes[1].view.healing.configure(HealSettings(**{setting: 7.0}))


@nodes(3, discs=True)
async def test_what_was_set_outlives_every_node(sim, cluster):
    await ask(cluster.nodes[2], ChangeSetting("autoheal", 7.0))
    await ask(cluster.nodes[2], ChangeSetting("autoclean", None))
    await asyncio.sleep(1)
    for number in list(cluster.nodes):
        cluster.crash(number)
    await cluster.start()
    healings = [node.healing for node in cluster.nodes.values()]
    assert {(healing.autoheal, healing.autoclean) for healing in healings} == {(7.0, None)}


@pytest.mark.parametrize("seed", [0])
@pytest.mark.parametrize(
    "cluster",
    [Shape(3, "in turn", options={"cluster": {"heal_restarts": what}}) for what in ("store", "node")],
    indirect=True,
    ids=["store", "node"],
)
async def test_what_two_sides_of_a_split_set_is_agreed_on_after_it(sim, cluster):
    cluster.partition([1, 2], [3])
    await asyncio.sleep(15)
    await ask(cluster.nodes[1], ChangeSetting("autoheal", 7.0))
    await asyncio.sleep(1)
    await ask(cluster.nodes[3], ChangeSetting("autoheal", 9.0))
    await asyncio.sleep(1)
    assert [cluster.nodes[number].healing.autoheal for number in (2, 3)] == [7.0, 9.0]
    await mend(cluster, pause=2)
    assert {node.healing.autoheal for node in cluster.nodes.values()} == {9.0}

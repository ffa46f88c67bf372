"""Feature flags of a whole cluster: new ones, upgraded ones, and nodes of a release without."""

import asyncio
from dataclasses import replace

import pytest

from gossamer.features import FEATURES, Feature, FeatureBlockedError, Features
from gossamer.node import NodeFailedError, parts

from .clusters import nodes, restart, until

COLOUR = Feature("colour", "0.3.0", "")


@pytest.fixture
def release(monkeypatch):
    """Flags that the release has with which nodes are started from now on."""
    flags = [*FEATURES]
    monkeypatch.setattr(parts, "Features", lambda: Features(flags))
    return flags


def enabled(cluster):
    return {number: sorted(node.features.enabled) for number, node in sorted(cluster.nodes.items())}


async def upgrade(cluster, number):
    await cluster.stop(number)
    await restart(cluster, number)


@nodes(3, seeds=2)
async def test_a_new_cluster_has_all_stable_features(sim, cluster):
    stable = sorted(feature.name for feature in FEATURES if feature.stability == "stable")
    assert enabled(cluster) == {1: stable, 2: stable, 3: stable}


@nodes(3, seeds=2, start=False, discs=True)
async def test_a_feature_of_a_new_release_waits_for_all_nodes_and_for_an_operator(sim, cluster, release):
    await cluster.start()
    await cluster.settled()
    before = sorted(cluster.nodes[1].features.enabled)
    release.append(COLOUR)
    for number in (1, 2):
        await upgrade(cluster, number)
    with pytest.raises(FeatureBlockedError, match=f"{cluster.nodes[3].name} lacks it; upgrade"):
        await cluster.nodes[1].view.enable_features("colour")
    await upgrade(cluster, 3)
    assert enabled(cluster) == {1: before, 2: before, 3: before}
    await cluster.nodes[2].view.enable_features("colour")
    await cluster.settled()
    after = sorted([*before, "colour"])
    assert enabled(cluster) == {1: after, 2: after, 3: after}
    # It stands over a restart of all, and none of them can go back.
    for number in (1, 2, 3):
        await cluster.stop(number)
    await cluster.start(1, 2)
    assert enabled(cluster) == {1: after, 2: after}
    release.remove(COLOUR)
    with pytest.raises(ExceptionGroup) as failed:
        await cluster.start(3)
    [error] = failed.value.exceptions
    assert isinstance(error, NodeFailedError)
    assert "without colour (since 0.3.0), which its cluster has enabled" in str(error)


@nodes(3, seeds=2, start=False)
async def test_a_node_that_is_down_is_asked_before_a_feature_is_enabled(sim, cluster, release):
    release.clear()
    await cluster.start()
    await cluster.settled()
    release.append(COLOUR)
    for number in (1, 2):
        await upgrade(cluster, number)
    name = cluster.nodes[3].name
    cluster.crash(3)
    with pytest.raises(FeatureBlockedError, match=f"{name}"):
        await cluster.nodes[1].view.enable_features(None)


@nodes(3, seeds=2, start=False)
async def test_a_node_that_was_let_in_while_a_feature_was_enabled_loses_its_links(sim, cluster, release):
    release.append(replace(COLOUR, stability="experimental"))
    await cluster.start(1, 2)
    release.pop()
    await cluster.start(3)
    await cluster.settled()
    # As an order that was given a moment before node 3 came.
    cluster.nodes[1].store.table("features").write(("enabled", COLOUR.name), COLOUR.since)
    await until(lambda: not cluster.nodes[3].distribution.nodes())
    await asyncio.sleep(10)
    assert not cluster.nodes[3].distribution.nodes()
    assert cluster.nodes[1].distribution.nodes() == [cluster.nodes[2].name]

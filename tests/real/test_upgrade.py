"""Nodes of the release before and of this one in one cluster; the former is built from the repository."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from real.history import previous
from real.history.cluster import Cluster
from real.history.history import History, read

PERSISTENT = "home-1,home-2,roam-1,roam-2"
TAKEN_OVER = 0x8E


@pytest.fixture(autouse=True)
def history_is_there() -> None:
    if why := previous.lacking():
        # Where every change is checked, a clone without history would hide that nothing was.
        (pytest.fail if os.environ.get("CI") else pytest.skip)(why)


@pytest.mark.timeout(240)
def test_a_cluster_is_upgraded_node_by_node_under_load_and_clients_miss_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.real.history", "--fault", "upgrade", "--workload", PERSISTENT]
    command += ["--seed", "1", "--pace", "0.3", "--keep", str(tmp_path)]
    done = subprocess.run(
        command, cwd=previous.ROOT, capture_output=True, text=True, timeout=220, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    drained, upgraded = set[int](), set[int]()
    for event in read(tmp_path / "upgrade-1" / "history.jsonl")[1]:
        match event.kind:
            case "down":
                drained.add(event.node)
            case "up":
                upgraded |= drained & {event.node}
                drained.discard(event.node)
            case "closed":
                assert event.node in drained or event.code == TAKEN_OVER, event
    assert upgraded == {1, 2, 3}


@pytest_asyncio.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    """Three nodes of the release before."""
    made = Cluster(tmp_path, History(), previous=previous.unpack(tmp_path))
    try:
        await made.open()
        yield made
    finally:
        await made.close()


async def restart(cluster: Cluster, *nodes: int) -> None:
    for node in nodes:
        await cluster.stop(node)
        assert await cluster.start(node)
    assert await cluster.whole()


async def rows(cluster: Cluster, node: int, what: str) -> list[dict[str, object]]:
    _, printed, _ = await cluster.command(node, what, "--json")
    return json.loads(printed)["items"]


async def protocols(cluster: Cluster, node: int) -> list[object]:
    """Of the links to the other nodes, by number."""
    return [row["protocol"] for row in await rows(cluster, node, "nodes") if row["link"] != "self"]


async def enabled(cluster: Cluster, node: int) -> set[object]:
    """Whether the flags that are for everybody are enabled."""
    found = await rows(cluster, node, "features")
    return {row["enabled"] for row in found if row["stability"] == "stable"}


@pytest.mark.timeout(240)
async def test_features_wait_for_the_last_node_and_close_the_way_back(
    cluster: Cluster, tmp_path: Path
) -> None:
    tree = cluster.trees[4]
    await restart(cluster, 1)
    assert await protocols(cluster, 1) == [4, 4]
    # The way back is open.
    cluster.trees[1] = tree
    await restart(cluster, 1)
    await restart(cluster, 1, 2)
    assert sorted(await protocols(cluster, 1)) == [4, 5]
    assert await enabled(cluster, 1) == {False}
    code, _, said = await cluster.command(1, "features", "enable", "--all")
    assert code == 6
    assert f"node3@{cluster.addresses[3][0]} lacks it; upgrade that node" in said
    await restart(cluster, 3)
    assert await protocols(cluster, 3) == [5, 5]
    assert await enabled(cluster, 3) == {False}
    assert (await cluster.command(2, "features", "enable", "--all"))[0] == 0
    for node in cluster.nodes:
        assert await enabled(cluster, node) == {True}
    # A node of the release before is told why it is not let in, and so is who reads the others' logs.
    await cluster.start(4)
    name = f"node4@{cluster.addresses[4][0]}"
    for node in (1, 4):
        log = (tmp_path / f"node{node}.log").read_text()
        lacked = " and ".join(
            f"feature {flag} (since 0.1.0)"
            for flag in ("basekv", "consensus", "protocol_5", "queues", "tenants")
        )
        assert f"(feature): expected {lacked}, got none" in log
        assert f"upgrade {name}" in log
    assert all(row["link"] != "up" for row in await rows(cluster, 1, "nodes") if row["name"] == name)
    await cluster.stop(4)
    assert await cluster.whole()
    # Nor does it start on what this release has left, whose flags it would not look at.
    await cluster.stop(3)
    cluster.trees[3] = tree
    assert not await cluster.start(3)
    assert "format 2, expected 1; start the release that wrote it" in (tmp_path / "node3.log").read_text()
    await cluster.stop(3)
    assert await cluster.start(3)
    assert await cluster.whole()

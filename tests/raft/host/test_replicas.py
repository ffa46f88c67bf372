"""Replicas of a node, opened again with what its disc has."""

from random import Random

import pytest
from structlog.testing import capture_logs

from gossamer.raft import Membership, NamesMachine
from gossamer.raft.host.replicas import Replicas
from gossamer.raft.host.thread import DiscThread


async def opened(path):
    replicas = Replicas(
        "a",
        DiscThread(path),
        lambda _kind: NamesMachine(lambda: 0.0),
        rng=Random(1),
        clock=lambda: 0.0,
        send=lambda _messages: None,
    )
    await replicas.open()
    return replicas


@pytest.mark.parametrize("damage", ["another byte", "no such file"])
async def test_a_damaged_snapshot_costs_its_group_and_no_other(tmp_path, damage):
    before = await opened(tmp_path / "raft")
    for number in (1, 2, 3):
        await before.begin(number, 1, Membership((1,)), index=10)
    await before.close()
    file = tmp_path / "raft" / f"{2:016x}-10.snapshot"
    if damage == "no such file":
        file.unlink()
    else:
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(data)
    with capture_logs() as said:
        after = await opened(tmp_path / "raft")
    assert sorted(after.groups) == [1, 3]
    [line] = said
    assert line["event"] == "raft_snapshot_damaged"
    assert "replicas with new numbers" in line["error"]
    await after.forget()
    await after.close()
    again = await opened(tmp_path / "raft")
    assert sorted(again.groups) == [1, 3]
    await again.close()
    assert [path.name for path in tmp_path.iterdir()] == ["raft"]

"""Replicas of a node, opened again with what its disc has, and what they send of it."""

import errno
from random import Random

import pytest
from structlog.testing import capture_logs

from gossamer.raft import Membership, NamesMachine
from gossamer.raft.host.replicas import Replicas
from gossamer.raft.host.thread import DiscThread


async def opened(path, send=lambda _messages: None, node="a"):
    replicas = Replicas(
        node,
        DiscThread(path),
        lambda _kind: NamesMachine(lambda: 0.0),
        rng=Random(1),
        clock=lambda: 0.0,
        send=send,
    )
    await replicas.open()
    return replicas


def spoil(file, damage):
    if damage == "no such file":
        file.unlink()
    else:
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(data)


@pytest.mark.parametrize("damage", ["another byte", "no such file"])
async def test_a_damaged_snapshot_costs_its_group_and_no_other(tmp_path, damage):
    before = await opened(tmp_path / "raft")
    for number in (1, 2, 3):
        await before.begin(number, 1, Membership((1,)), index=10)
    await before.close()
    file = tmp_path / "raft" / f"{2:016x}-10.snapshot"
    spoil(file, damage)
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


@pytest.mark.parametrize("damage", ["", "another byte", "no such file"])
async def test_a_snapshot_that_is_damaged_at_its_leader_is_stored_again_and_sent(tmp_path, damage):
    sent = []

    def send(work):
        sent.extend(message for _, messages in work for message in messages)

    leader = await opened(tmp_path / "a", send)
    member = await opened(tmp_path / "b", send, node="b")
    group = await leader.begin(1, 1, Membership((1,)), index=10)
    behind = await member.begin(1, 2, Membership())
    for now in range(40):
        group.replica.tick(now)
        await leader.take_turn()
    assert group.leads
    if damage:
        spoil(tmp_path / "a" / f"{1:016x}-10.snapshot", damage)
    group.replica.change_membership((1,), (2,))
    with capture_logs() as said:
        for now in range(40, 80):
            group.replica.tick(now)
            for message in sent:
                (group if message.to == 1 else behind).replica.step(message)
            sent.clear()
            await leader.take_turn()
            await member.take_turn()
    assert behind.replica.log.applied == group.replica.log.applied > 10
    assert [line["event"] for line in said] == ["raft_snapshot_damaged"] * bool(damage)
    await leader.close()
    await member.close()
    again = await opened(tmp_path / "a")
    assert again.groups[1].replica.log.last == group.replica.log.last
    await again.close()


async def test_on_a_full_disc_a_damaged_snapshot_is_looked_at_once_a_heartbeat(tmp_path, monkeypatch):
    sent = []

    def send(work):
        sent.extend(message for _, messages in work for message in messages)

    leader = await opened(tmp_path / "a", send)
    member = await opened(tmp_path / "b", send, node="b")
    group = await leader.begin(1, 1, Membership((1,)), index=10)
    behind = await member.begin(1, 2, Membership())
    for now in range(40):
        group.replica.tick(now)
        await leader.take_turn()
    spoil(tmp_path / "a" / f"{1:016x}-10.snapshot", "another byte")
    write = leader._disc.write

    async def full(records, snapshots=(), *, sync):
        if snapshots:
            raise OSError(errno.ENOSPC, "No space left on device")
        await write(records, snapshots, sync=sync)

    monkeypatch.setattr(leader._disc, "write", full)
    group.replica.change_membership((1,), (2,))
    with capture_logs() as said:
        for now in range(40, 60):
            group.replica.tick(now)
            for message in sent:
                (group if message.to == 1 else behind).replica.step(message)
            sent.clear()
            turns = 0
            while await leader.take_turn():
                turns += 1
                assert turns < 10
            await member.take_turn()
    assert 0 < len(said) <= 20
    assert {line["event"] for line in said} == {"raft_snapshot_damaged"}
    await leader.close()
    await member.close()

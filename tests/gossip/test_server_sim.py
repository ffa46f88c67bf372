"""The gossip server, envelopes and all, on the simulated network."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gossamer.gossip import KeyFile, KeyFileError, Keys, Leave, cluster_key
from gossamer.network import Address
from gossamer.testing import SimHost, SimNetwork, seeds
from tests.gossip.nodes import Node, cluster, stop, whole, within


async def test_a_wall_clock_that_jumps_moves_nobody_and_keeps_strangers_out(sim: SimNetwork) -> None:
    nodes = await cluster(sim, 3)
    nodes[1].clock.jump(86_400)
    await asyncio.sleep(60)
    assert whole(*nodes)()
    assert [node.downs() for node in nodes] == [0, 0, 0]
    late = await Node(sim, 9).start()
    result = await late.join(nodes[1])
    assert result.failed == {nodes[1].address: "closed"}
    assert nodes[1].view.counters["rejected.stale"] >= 1
    await late.join(nodes[0])
    await within(5, lambda: "node9" in nodes[2].online())
    await stop(late, *nodes)


async def test_a_wall_clock_set_back_moves_nobody_and_a_restart_is_still_newer(sim: SimNetwork) -> None:
    nodes = await cluster(sim, 3)
    nodes[1].clock.jump(-86_400)
    await asyncio.sleep(60)
    assert whole(*nodes)()
    assert [node.downs() for node in nodes] == [0, 0, 0]
    nodes[1].crash()
    await within(10, whole(nodes[0], nodes[2]))
    nodes[1].boot()
    nodes[1].clock.jump(-300)
    await nodes[1].start(nodes[0])
    await within(10, whole(*nodes))
    await stop(*nodes)


async def test_a_server_killed_in_mid_flight_is_no_failure_to_the_others(sim: SimNetwork) -> None:
    nodes = await cluster(sim, 4)
    life = nodes[2].view.local.id
    for _ in range(3):
        pid = nodes[2].runtime.whereis("gossip")
        assert pid is not None
        nodes[2].runtime.exit(pid, "kill")
        await within(1, lambda: nodes[2].runtime.whereis("gossip") is None)
        await nodes[2].start()
        await asyncio.sleep(5)
    assert whole(*nodes)()
    assert [node.downs() for node in nodes] == [0, 0, 0, 0]
    assert nodes[2].view.local.id == life
    await stop(*nodes)


@seeds(2)
async def test_keys_rotate_under_a_running_cluster_of_five(sim: SimNetwork) -> None:
    """Install everywhere, use everywhere, remove everywhere: nobody is suspected and nothing refused."""
    nodes = await cluster(sim, 5)
    old = (await nodes[0].runtime.call("gossip", Keys("list")))[0]
    for node in nodes:
        names = await node.runtime.call("gossip", Keys("install", cluster_key("a newer cookie")))
        await asyncio.sleep(3)
    new = next(name for name in names if name != old)
    for node in nodes:
        assert await node.runtime.call("gossip", Keys("use", new)) == [new, old]
        await asyncio.sleep(3)
    for node in nodes:
        assert await node.runtime.call("gossip", Keys("remove", old)) == [new]
        await asyncio.sleep(3)
    assert whole(*nodes)()
    for node in nodes:
        counters = node.view.counters
        assert (counters["member_suspect"], counters["rejected.unknown-key"]) == (0, 0)
    late = await Node(sim, 9).start()
    assert not (await late.join(nodes[0])).joined
    await late.runtime.call("gossip", Keys("install", cluster_key("a newer cookie")))
    await late.runtime.call("gossip", Keys("use", new))
    await late.join(nodes[0])
    await within(5, whole(late, *nodes))
    await stop(late, *nodes)


@seeds(2)
async def test_a_node_that_dies_in_mid_rotation_comes_back_with_its_keys(
    sim: SimNetwork, tmp_path: Path
) -> None:
    nodes = [Node(sim, number) for number in (1, 2, 3)]
    for node in nodes:
        node.key_file = KeyFile(tmp_path / node.name)
        await node.start(*nodes[:1])
    await within(10, whole(*nodes))

    async def dies_and_returns(node: Node) -> None:
        node.crash()
        await within(10, whole(*(other for other in nodes if other is not node)))
        node.boot()
        await node.start(*(other for other in nodes if other is not node))
        await within(10, whole(*nodes))

    fresh = cluster_key("a newer cookie")
    for node in nodes:
        old, new = await node.keys("install", fresh)
    assert await nodes[0].keys("use", new) == [new, old]
    await dies_and_returns(nodes[1])
    assert await nodes[1].keys("list") == [old, new]
    for node in nodes[1:]:
        await node.keys("use", new)
    await dies_and_returns(nodes[0])
    assert await nodes[0].keys("list") == [new, old]
    for node in nodes:
        assert await node.keys("remove", old) == [new]
    await dies_and_returns(nodes[2])
    assert await nodes[2].keys("list") == [new]
    assert [node.view.counters["rejected.unknown-key"] for node in nodes] == [0, 0, 0]
    await stop(*nodes)


async def test_a_change_of_keys_that_cannot_be_kept_does_not_happen(sim: SimNetwork, tmp_path: Path) -> None:
    node = Node(sim, 1)
    node.key_file = KeyFile(tmp_path / "missing" / "keys")
    await node.start()
    (old,) = await node.keys("list")
    answer = await node.keys("install", cluster_key("a newer cookie"))
    assert isinstance(answer, KeyFileError)
    assert await node.keys("list") == [old]
    await stop(node)


class Tap:
    """Everything that was said so far, and a stranger who says it once more."""

    def __init__(self, sim: SimNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
        self.recorded: list[tuple[Address, bytes]] = []
        self._sim = sim
        self._patch = monkeypatch
        carry = sim.carry_datagram

        def tap(source: SimHost, sender: Address, to: Address, data: bytes) -> None:
            self.recorded.append((to, data))
            carry(source, sender, to, data)

        monkeypatch.setattr(sim, "carry_datagram", tap)

    async def off(self) -> asyncio.DatagramTransport:
        self._patch.undo()
        host = self._sim.host("10.9.9.9")
        stranger, _ = await host.open_datagram(asyncio.DatagramProtocol, ("10.9.9.9", 7946))
        return stranger


async def test_replayed_and_forged_packets_change_nothing(
    sim: SimNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything that was said while a member came, left and came again, said once more by a stranger."""
    tap = Tap(sim, monkeypatch)
    nodes = await cluster(sim, 4)
    await nodes[3].runtime.call("gossip", Leave())
    await within(10, whole(*nodes[:3]))
    await nodes[3].join(nodes[0])
    await within(10, whole(*nodes))
    await asyncio.sleep(10)
    stranger = await tap.off()
    before = [[(m.id, m.incarnation, m.status) for m in node.view.members()] for node in nodes]
    rng = sim.rng("forger")
    packets = rng.sample(tap.recorded, 300)
    for to, data in packets:
        stranger.sendto(data, to)
        forged = bytearray(data)
        forged[rng.randrange(len(forged))] ^= 1 << rng.randrange(8)
        stranger.sendto(bytes(forged), to)
    await asyncio.sleep(5)
    assert [[(m.id, m.incarnation, m.status) for m in node.view.members()] for node in nodes] == before
    refused = sum(
        count
        for node in nodes
        for reason, count in node.view.counters.items()
        if reason.startswith("rejected.")
    )
    assert refused == 2 * len(packets)
    assert [node.downs() for node in nodes] == [0] * 4
    await stop(*nodes)


async def test_nothing_recorded_long_ago_is_believed_by_a_node_that_has_just_started(
    sim: SimNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    tap = Tap(sim, monkeypatch)
    nodes = await cluster(sim, 3)
    await asyncio.sleep(10)
    stranger = await tap.off()
    late = nodes.pop()
    late.crash()
    await stop(*nodes)
    await asyncio.sleep(700)
    late.boot()
    await late.start()
    for _, data in tap.recorded:
        stranger.sendto(data, late.address)
    await asyncio.sleep(5)
    refused = late.view.counters["rejected.stale"], late.view.counters["rejected.misdirected"]
    assert min(refused) > 0
    assert sum(refused) == len(tap.recorded)
    assert late.online() == {late.name}
    await stop(late)

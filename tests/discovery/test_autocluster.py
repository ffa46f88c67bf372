"""Whole gossip servers and autocluster loops on the simulated network."""

from __future__ import annotations

import asyncio
from typing import Self

import pytest
from structlog.testing import capture_logs

from gossamer.discovery import (
    Autocluster,
    Discovered,
    DiscoveryFailedError,
    Manual,
    Static,
    Strategy,
)
from gossamer.gossip import Join, Leave, Member
from gossamer.network import Address
from gossamer.testing import LOSSY, SimNetwork, seeds
from tests.gossip.nodes import Node, stop, whole, within

PORT = 7946


class SimNode(Node):
    """Discovery beside gossip."""

    def __init__(self, sim: SimNetwork, number: int, strategy: Strategy) -> None:
        super().__init__(sim, number)
        self.strategy = strategy

    async def start(self, *_: Node) -> Self:
        await super().start()
        await self.runtime.start(
            Autocluster, name="discovery", strategy=self.strategy, view=self.view, rng=self.network.rng
        )
        return self


def seeds_of(*numbers: int) -> Static:
    return Static([(f"10.0.0.{number}", PORT) for number in numbers])


@seeds(3)
@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1)])
async def test_static_seeds_work_in_any_start_order(sim: SimNetwork, order: tuple[int, ...]) -> None:
    """The first node is blank, the others list the ones before it."""
    sim.weather(LOSSY)
    strategies = {1: seeds_of(), 2: seeds_of(1), 3: seeds_of(1, 2)}
    nodes = []
    for number in order:
        nodes.append(await SimNode(sim, number, strategies[number]).start())
        await asyncio.sleep(7)
    await within(15, whole(*nodes))
    await stop(*nodes)


@seeds(3)
async def test_static_seeds_work_all_at_once(sim: SimNetwork) -> None:
    nodes = [await SimNode(sim, number, seeds_of(1, 2, 3, 4, 5)).start() for number in range(1, 6)]
    for node in nodes:
        await node.runtime.call("discovery", "settled", timeout=5)
    assert await within(3, whole(*nodes)) < 3
    await stop(*nodes)


async def test_two_islands_become_one_when_a_seed_they_share_appears(sim: SimNetwork) -> None:
    left = [await SimNode(sim, n, seeds_of(1, 9)).start() for n in (1, 2)]
    right = [await SimNode(sim, n, seeds_of(3, 9)).start() for n in (3, 4)]
    await within(5, whole(*left))
    await within(5, whole(*right))
    await asyncio.sleep(60)
    bridge = await SimNode(sim, 9, seeds_of()).start()
    await within(10, whole(bridge, *left, *right))
    await stop(bridge, *left, *right)


async def test_a_blank_first_node_that_was_stopped_in_order_is_found_again(sim: SimNetwork) -> None:
    first = await SimNode(sim, 1, seeds_of()).start()
    others = [await SimNode(sim, n, seeds_of(1)).start() for n in (2, 3)]
    await within(5, whole(first, *others))
    await first.runtime.call("gossip", Leave())
    await first.runtime.stop()
    await asyncio.sleep(30)
    again = await SimNode(sim, 1, seeds_of()).start()
    await within(10, whole(again, *others))
    await stop(again, *others)


async def test_manual_looks_for_nobody(sim: SimNetwork) -> None:
    nodes = [await SimNode(sim, n, Manual()).start() for n in (1, 2)]
    await nodes[0].runtime.call("discovery", "settled", timeout=2)
    await asyncio.sleep(60)
    assert nodes[0].online() == {"node1"}
    await nodes[0].runtime.call("gossip", Join((nodes[1].address,)))
    await within(3, whole(*nodes))
    await stop(*nodes)


class Register(Strategy):
    """A register shared by nodes, with a lock; notes what is asked of it and breaks when told to."""

    name = "register"

    def __init__(self, shared: dict[str, Address], log: list[str]) -> None:
        self._shared = shared
        self._member = ""
        self.log = log
        self.broken: str | None = None

    @property
    def registered(self) -> bool:  # type: ignore[override]
        return self._member in self._shared

    def _step(self, step: str) -> None:
        self.log.append(step)
        if self.broken == step:
            raise DiscoveryFailedError("register", f"{step} failed")

    async def lock(self) -> None:
        self._step("lock")

    async def discover(self, local: Address) -> Discovered:
        self._step("discover")
        return Discovered(tuple(self._shared.values()))

    async def register(self, member: Member) -> None:
        self._step("register")
        self._member = member.name
        self._shared[member.name] = member.endpoint

    async def unlock(self) -> None:
        self.log.append("unlock")

    async def unregister(self) -> None:
        self._shared.pop(self._member, None)


async def test_lock_discover_join_register_unlock_in_this_order_and_only_once(sim: SimNetwork) -> None:
    shared: dict[str, Address] = {}
    strategies = [Register(shared, []) for _ in range(3)]
    nodes = [await SimNode(sim, n, strategy).start() for n, strategy in enumerate(strategies, 1)]
    await within(10, whole(*nodes))
    await asyncio.sleep(60)
    for strategy in strategies:
        steps = [step for step in strategy.log if step != "discover"]
        assert steps == ["lock", "register", "unlock"]
        assert strategy.log[:4] == ["lock", "discover", "register", "unlock"]
    await stop(*nodes)


@pytest.mark.parametrize("step", ["lock", "discover", "register"])
async def test_a_failure_always_unlocks_is_told_once_and_is_tried_again(sim: SimNetwork, step: str) -> None:
    strategy = Register({"node2": ("10.0.0.2", PORT)}, [])
    strategy.broken = step
    with capture_logs() as logs:
        node = await SimNode(sim, 1, strategy).start()
        await asyncio.sleep(60)
        tries = strategy.log.count("lock")
        assert tries > 10
        assert strategy.log.count("unlock") == tries
        assert not strategy.registered
        strategy.broken = None
        other = await SimNode(sim, 2, Manual()).start()
        await node.runtime.call("discovery", "settled", timeout=20)
        await within(10, whole(node, other))
    told = [entry for entry in logs if entry["event"] == "seed_not_resolved"]
    assert [entry["problem"] for entry in told] == [f"{step} failed"]
    await stop(node, other)


async def test_who_waits_for_a_lock_still_answers(sim: SimNetwork) -> None:
    class Locked(Register):
        async def lock(self) -> None:
            await asyncio.sleep(600)

    node = await SimNode(sim, 1, Locked({}, [])).start()
    await asyncio.sleep(1)
    assert await node.runtime.call("discovery", "problems", timeout=1) == {}
    await stop(node)


async def test_who_is_not_registered_any_more_registers_again(sim: SimNetwork) -> None:
    shared: dict[str, Address] = {}
    strategy = Register(shared, [])
    node = await SimNode(sim, 1, strategy).start()
    await within(5, lambda: "node1" in shared)
    shared.clear()
    await within(10, lambda: "node1" in shared)
    await node.runtime.call("gossip", Leave())
    await stop(node)


async def test_who_left_is_not_found_any_more(sim: SimNetwork) -> None:
    shared: dict[str, Address] = {}
    nodes = [await SimNode(sim, n, Register(shared, [])).start() for n in (1, 2)]
    await within(10, whole(*nodes))
    await within(10, lambda: len(shared) == 2)
    await nodes[1].runtime.call("gossip", Leave())
    await within(20, lambda: list(shared) == ["node1"])
    await asyncio.sleep(30)
    assert nodes[0].online() == {"node1"}
    await stop(*nodes)

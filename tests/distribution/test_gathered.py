"""Calls that leave together, and are answered each with its own."""

import asyncio

import pytest

from gossamer.distribution import Gathered
from gossamer.distribution.remote.rpc import Exited, Raised, Returned, Unreachable

from .test_rpc import leave, rpc_pair


@pytest.fixture
async def pair(net):
    """Two nodes; what the second is asked, in order."""
    a, b = await rpc_pair(net)
    b.asked = []

    def noted(x, y=1):
        b.asked.append(x)
        if x == "bad":
            raise ValueError(x)
        return x * y

    async def waits(x):
        b.asked.append(x)
        await asyncio.sleep(0.1)
        return x

    b.functions |= {"noted": noted, "waits": waits, "leave": leave}
    return a, b


async def test_many_calls_cost_a_few_and_each_has_its_own_answer(pair):
    a, b = pair

    async def body():
        gathered, sent = Gathered(a.runtime.spawn), a.runtime.remote.counts.sent
        results = await asyncio.gather(*(gathered.call("b", "noted", n, 2) for n in range(500)))
        assert results == [Returned(2 * n) for n in range(500)]
        assert b.asked == list(range(500))
        assert a.runtime.remote.counts.sent - sent < 10
        waited = await asyncio.gather(*(gathered.call("b", "waits", n) for n in range(9)))
        assert waited == [Returned(n) for n in range(9)]

    await a.runtime.run(body)


async def test_a_call_that_fails_is_not_the_others(pair):
    a, _ = pair

    async def body():
        gathered = Gathered(a.runtime.spawn)
        ends = await asyncio.gather(*(gathered.call("b", "noted", x) for x in (1, "bad", 3)))
        assert (ends[0], ends[2]) == (Returned(1), Returned(3))
        assert isinstance(ends[1], Raised)
        assert ends[1].error == "ValueError"
        left = await asyncio.gather(*(gathered.call("b", "leave", x) for x in ("x", "y")))
        assert left == [Exited("x"), Exited("y")]
        [refused, _] = await asyncio.gather(*(gathered.call("b", "os.system", x) for x in "xy"))
        assert refused.error == "NotAllowedError"

    await a.runtime.run(body)


async def test_a_node_that_does_not_know_calls_together_is_asked_one_by_one(pair, monkeypatch):
    a, b = pair
    monkeypatch.setattr("gossamer.distribution.remote.gathered.EACH", "rpc.of_a_later_release")

    async def body():
        gathered = Gathered(a.runtime.spawn)
        answers = await asyncio.gather(*(gathered.call("b", "noted", n) for n in range(3)))
        assert answers == [Returned(n) for n in range(3)]
        assert b.asked == [0, 1, 2]

    await a.runtime.run(body)


async def test_a_node_without_an_answer_holds_up_nobody_for_longer_than_he_waits(pair):
    a, _ = pair
    loop = asyncio.get_running_loop()

    async def body():
        gathered, begun = Gathered(a.runtime.spawn), loop.time()
        assert await gathered.multicall(["b", "c"], "noted", 7) == {
            "b": Returned(7),
            "c": Unreachable("noconnection"),
        }
        first = asyncio.ensure_future(gathered.call("b", "slowly", 60, timeout=3))
        await asyncio.sleep(1)
        assert await gathered.call("b", "slowly", 0, timeout=1) == Unreachable("timeout")
        assert loop.time() - begun < 2.5
        assert await first == Unreachable("timeout")
        assert await gathered.call("b", "slowly", 0, timeout=1) == Returned("done")
        gathered.cast("b", "noted", 8)
        assert await gathered.call("b", "noted", 9) == Returned(9)

    await a.runtime.run(body)

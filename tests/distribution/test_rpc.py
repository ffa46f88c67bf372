"""Functions called by name on other nodes, and every way in which that can end."""

import asyncio

from gossamer.distribution import RemoteProcesses, remote_services
from gossamer.distribution.remote import pg
from gossamer.distribution.remote.rpc import (
    RPC,
    Exited,
    Raised,
    Returned,
    Rpc,
    Unreachable,
    call,
    multicall,
)
from gossamer.supervisor import ExitProcess, Supervisor, exit, self_pid  # noqa: A004


def add(x, y=1):
    return x + y


async def slowly(seconds):
    await asyncio.sleep(seconds)
    return "done"


async def leave(reason):
    raise ExitProcess(reason)


async def kill_me():
    exit(self_pid(), "kill")
    await asyncio.sleep(1)


async def rpc_pair(net):
    nodes = await net.pair()
    for node in nodes:
        RemoteProcesses(node)
        node.functions = {"add": add, "slowly": slowly, "leave": leave, "kill_me": kill_me, "object": object}
        await node.runtime.start(Rpc, node.functions, name=RPC)
    return nodes


async def test_the_ends_of_a_call_are_told_apart(net):
    a, _ = await rpc_pair(net)

    async def body():
        assert await call("b", "add", 2, y=3) == Returned(5)
        assert await call("a", "add", 2) == Returned(3)
        assert await call("b", "slowly", 0.5) == Returned("done")
        raised = await call("b", "add", 2, "x")
        assert isinstance(raised, Raised)
        assert raised.error == "TypeError"
        assert "unsupported operand" in raised.message
        assert "in add" in raised.traceback
        assert await call("b", "leave", ("my", "reason")) == Exited(("my", "reason"))
        assert await call("b", "kill_me") == Exited("killed")
        assert await call("b", "slowly", 60, timeout=1) == Unreachable("timeout")
        assert await call("c", "add", 1) == Unreachable("noconnection")
        unsendable = await call("b", "object")
        assert isinstance(unsendable, Unreachable)
        assert unsendable.reason[0] == "unsendable"

    await a.runtime.run(body)


async def test_only_what_was_allowed_runs(net):
    a, b = await rpc_pair(net)

    async def body():
        refused = await call("b", "os.system", "true")
        assert refused.error == "NotAllowedError"
        assert "os.system" in refused.message
        b.functions["more"] = lambda: 42
        assert await call("b", "more") == Returned(42)

    await a.runtime.run(body)


async def test_multicall_answers_for_every_node(net):
    a, _ = await rpc_pair(net)
    results = await a.runtime.run(multicall, ["a", "b", "c"], "add", 1)
    assert results == {"a": Returned(2), "b": Returned(2), "c": Unreachable("noconnection")}
    assert list(results) == ["a", "b", "c"]


async def test_a_call_whose_node_is_lost_is_unreachable(net):
    a, _ = await rpc_pair(net)
    calling = asyncio.ensure_future(a.runtime.run(call, "b", "slowly", 60))
    await asyncio.sleep(0.1)
    a.disconnect("b", "failed")
    assert await calling == Unreachable("noconnection")


async def test_one_child_makes_a_node_reachable(net):
    a, b = await net.pair()
    groups = pg.Groups()
    await a.runtime.start(Supervisor, [remote_services(a)])
    await b.runtime.start(Supervisor, [remote_services(b, functions={"add": add}, groups=groups)])

    async def body():
        await pg.join("pool", self_pid())
        assert await call("b", "add", 1) == Returned(2)
        await asyncio.sleep(0.1)
        assert groups.members("pool") == [self_pid()]

    await a.runtime.run(body)

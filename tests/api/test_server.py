"""The API as a supervised process, on real sockets of this machine."""

import asyncio
import functools
import socket

import httpx
import pytest

from api.fakes import FakeView
from api.served import served
from gossamer.api import ApiServer, make_app
from gossamer.api.model.node import ProcessInfo
from gossamer.config import ApiConfig
from gossamer.network import SystemNetwork
from gossamer.supervisor import ChildSpec, Runtime, StartFailed, Supervisor, receive, spawn_link


@pytest.fixture
async def runtime():
    runtime = Runtime(node="node1@127.0.0.1", creation=1)
    yield runtime
    await runtime.stop()


def serve(config, **options):
    """What starts an API as a process of a node."""
    make = functools.partial(make_app, FakeView())
    return functools.partial(ApiServer.start_link, make, config=config, network=SystemNetwork(), **options)


async def get(url):
    async with httpx.AsyncClient() as client:
        return await client.get(url)


async def test_it_serves_and_stops():
    async with served() as node:
        assert (await node.get("/cluster"))[1]["local"] == "id1"
        url = f"http://127.0.0.1:{node.port}/cluster"
    with pytest.raises(httpx.ConnectError):
        await get(url)


async def test_a_taken_port_names_the_key_to_change(runtime):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StartFailed, match=f"127.0.0.1:{port}.*api.port"):
            make = functools.partial(make_app, FakeView())
            await runtime.start(ApiServer, make, config=ApiConfig(port=port), network=SystemNetwork())


async def test_a_tree_with_many_of_a_kind_is_folded(runtime):
    async def idle():
        await receive()

    async def parent():
        for _ in range(30):
            spawn_link(idle, label="Channel")
        await receive()

    runtime.spawn(parent, label="Listener")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    (root,) = map(ProcessInfo.model_validate, await runtime.tree(fold=5))
    assert (root.label, len(root.children), root.more) == ("Listener", 5, 25)
    assert [(kind.label, kind.number) for kind in root.folded] == [("Channel", 25)]


async def test_killed_it_comes_back_on_the_same_port(runtime):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    child = ChildSpec("api", serve(ApiConfig(port=port), name="api"))
    supervisor = await runtime.start(Supervisor, [child], strategy="one_for_one", intensity=3, period=5.0)
    first = runtime.whereis("api")
    url = f"http://127.0.0.1:{port}/health"
    async with httpx.AsyncClient() as held:
        assert (await held.get(url)).status_code == 200
        ended = runtime.join(first)
        runtime.exit(first, "kill")
        async with asyncio.timeout(5):
            await ended
            # Answered after the restart, which the supervisor began with the exit of its child.
            await runtime.run(Supervisor.which_children, supervisor)
        assert (await get(url)).status_code == 200


@pytest.mark.parametrize("busy", [False, True])
async def test_a_reader_who_goes_away_ends_the_trace(busy):
    async with served() as node:
        node.view.hangs, node.view.busy = True, busy
        url = f"http://127.0.0.1:{node.port}/api/v1/trace?pid=gossip&limit=100000"
        async with httpx.AsyncClient() as client, client.stream("GET", url) as answer:
            assert "tracing" in await anext(answer.aiter_lines())
            assert node.view.traces_over == 0
        async with asyncio.timeout(20):
            await node.view.trace_over.wait()

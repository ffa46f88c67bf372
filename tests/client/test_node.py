"""A node on real sockets: its applications, the blocking client, and the front door."""

import asyncio
import subprocess
import sys

import pytest

import gossamer
from gossamer import BlockingClient, Node
from gossamer.config import Config
from gossamer.distribution import StreamTransport
from gossamer.distribution.remote import rpc
from gossamer.network import SystemNetwork
from gossamer.node import NodeFailedError
from gossamer.supervisor import CallFailed


def node_of(*applications):
    config = Config.model_validate(
        {
            "node": {"name": "solo@127.0.0.1", "applications": applications},
            "cluster": {"port": 0, "discovery": "manual"},
            "distribution": {"port": 0},
            "mqtt": {"server": {"listeners": []}},
            "api": {"enable": False},
        }
    )
    return Node(config, creation=1, cookie="secret", transport=StreamTransport(SystemNetwork()))


@pytest.fixture
async def node():
    made = node_of("client.applications:application")
    await made.start()
    yield made
    await made.stop()


async def test_a_node_runs_its_applications(node):
    assert await node.runtime.call("echo", 1) == 1
    result = await node.runtime.run(rpc.call, "solo@127.0.0.1", "shout", "hi")
    assert result == rpc.Returned("HI")


@pytest.mark.parametrize(
    "name", ["client.nothing:x", "client.applications:nothing", "x", "client.applications:strange"]
)
async def test_an_application_that_is_none_stops_the_node_and_says_so(name):
    with pytest.raises(NodeFailedError, match=r"node\.applications"):
        await node_of(name).start()


async def test_the_blocking_client_does_what_the_async_one_does(node):
    port = node.ports["distribution"]

    def use():
        transport = StreamTransport(SystemNetwork())
        with BlockingClient(("127.0.0.1", port), cookie="secret", transport=transport) as client:
            subscription = client.subscribe("t/#", qos=1)
            client.publish("t/x", "hello", qos=1)
            assert subscription.get(20).payload == b"hello"
            with pytest.raises(TimeoutError):
                subscription.get(0.01)
            subscription.close()
            assert list(subscription) == []
            assert client.call("echo", (1, "two")) == (1, "two")
            client.cast("echo", "nobody listens to casts")
            with pytest.raises(CallFailed):
                client.call("nobody", 1)
            return client.attached_to

    assert await asyncio.to_thread(use) == "solo@127.0.0.1"


def test_the_front_door_has_what_it_names():
    assert [name for name in gossamer.__all__ if not hasattr(gossamer, name)] == []
    with pytest.raises(AttributeError):
        gossamer.nothing  # noqa: B018


def test_the_front_door_loads_nothing_until_it_is_asked():
    code = "import gossamer, sys; print([m for m in sys.modules if m.startswith('gossamer.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['gossamer.lazy']"

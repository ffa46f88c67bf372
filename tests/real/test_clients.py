"""The clients people have, across the nodes of a real cluster."""

import asyncio
import subprocess

import aiomqtt
import pytest

from real.clients import Mqtt
from real.harness import Cluster, eventually

VERSIONS = ["311", "5"]
LEVELS = ["0", "1", "2"]


@pytest.mark.parametrize("qos", LEVELS)
@pytest.mark.parametrize("version", VERSIONS)
def test_mosquitto_clients_cross_nodes(cluster: Cluster, version: str, qos: str) -> None:
    """One node subscribes with both wildcards, another publishes, also to the parent of ``#``."""
    common = ["-V", version, "-q", qos]
    listen = ["mosquitto_sub", "-p", cluster.port(3), *common, "-v", "-C", "3", "-W", "20"]
    with subprocess.Popen(
        [*listen, "-t", "home/+/temp", "-t", "yard/#"], stdout=subprocess.PIPE, text=True
    ) as subscriber:
        eventually(lambda: len(cluster.get(1, "/api/v1/topics")["items"]) == 2)
        for topic in ("home/hall/temp", "yard", "yard/gate/open", "home/hall/light"):
            publish = ["mosquitto_pub", "-p", cluster.port(1), *common, "-t", topic, "-m", "on"]
            subprocess.run(publish, check=True, timeout=20)
        out, _ = subscriber.communicate(timeout=30)
    assert out.splitlines() == ["home/hall/temp on", "yard on", "yard/gate/open on"]
    eventually(lambda: not cluster.get(1, "/api/v1/topics")["items"], says="the routes are gone")


@pytest.mark.parametrize("version", [aiomqtt.ProtocolVersion.V311, aiomqtt.ProtocolVersion.V5])
async def test_aiomqtt_crosses_nodes(cluster: Cluster, version: aiomqtt.ProtocolVersion) -> None:
    def client(number: int) -> aiomqtt.Client:
        return aiomqtt.Client("127.0.0.1", int(cluster.port(number)), protocol=version)

    async with asyncio.timeout(30), client(2) as listener, client(3) as speaker:
        # SUBACK means that every node has the route, so nothing has to be waited for.
        await listener.subscribe("work/+", qos=2)
        for qos in range(3):
            await speaker.publish("work/done", str(qos), qos=qos)
        messages = [await anext(listener.messages) for _ in range(3)]
    assert [message.payload for message in messages] == [b"0", b"1", b"2"]


def test_nothing_is_lost_or_doubled_while_a_third_node_is_killed_and_restarted(cluster: Cluster) -> None:
    """QoS 1 by paho from node 1 to node 2; node 3 gets kill -9 in the middle and comes back."""
    count = 5000
    got: list[int] = []
    with (
        Mqtt(cluster.port(2), "listener", "flow/one", take=lambda m: got.append(int(m.payload))),
        Mqtt(cluster.port(1), "speaker") as speaker,
    ):
        sent = []
        for number in range(count):
            sent.append(speaker.client.publish("flow/one", str(number), qos=1))
            if number == count // 3:
                eventually(lambda: len(got) > 10, says="the flow runs")
                cluster.kill(3)
        for message in sent:
            message.wait_for_publish(60)
        eventually(lambda: len(got) >= count, says="everything arrives")
        cluster.wait_until_whole()
    assert got == list(range(count))

"""``kill -9`` of the node that has a session: what others take meanwhile is kept for it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest

from real.harness import Cluster, eventually

COUNT = 400


def third(cluster: Cluster) -> dict[str, Any]:
    return next(one for one in cluster.get(1, "/api/v1/members") if one["name"].startswith("node3@"))


def serves(cluster: Cluster, killed: set[int]) -> str:
    """Where the third node takes clients, in a life after those."""
    found = third(cluster)
    back = found["status"] == "online" and found["pid"] not in killed
    return str(found["ports"]["mqtt"]) if back and "mqtt" in found["services"] else ""


def connect(client_id: str, port: str, *, clean: bool = True) -> paho.Client:
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id=client_id, clean_session=clean)
    client.max_queued_messages_set(0)
    client.connect("127.0.0.1", int(port))
    client.loop_start()
    return client


def leave(client: paho.Client) -> None:
    client.disconnect()
    client.loop_stop()


@pytest.mark.timeout(150)
def test_what_others_take_for_a_session_of_a_killed_node_comes_in_order_and_once(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        subscribed: list[object] = []
        sleeper = connect("sleeper", cluster.port(3), clean=False)
        sleeper.on_subscribe = lambda *_: subscribed.append(True)
        sleeper.subscribe("t/#", qos=2)
        eventually(lambda: subscribed, says="SUBACK")
        leave(sleeper)
        speakers = {qos: connect(f"speaker{qos}", cluster.port(1)) for qos in (1, 2)}
        sent: list[paho.MQTTMessageInfo] = []
        killed: set[int] = set()
        for number in range(COUNT):
            sent += [client.publish(f"t/{qos}", str(number), qos=qos) for qos, client in speakers.items()]
            if number in (COUNT // 4, COUNT // 2):
                killed.add(third(cluster)["pid"])
                os.kill(third(cluster)["pid"], signal.SIGKILL)
            if number == COUNT * 3 // 8:
                eventually(lambda: serves(cluster, killed), says="it is back")
        for one in sent:
            one.wait_for_publish(60)
        assert all(one.is_published() for one in sent)
        port = eventually(lambda: serves(cluster, killed), says="it is back")
        got: dict[str, list[int]] = {"t/1": [], "t/2": []}
        sleeper = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id="sleeper", clean_session=False)
        sleeper.on_message = lambda _client, _data, message: got[message.topic].append(int(message.payload))
        sleeper.connect("127.0.0.1", int(port))
        sleeper.loop_start()
        eventually(lambda: all(len(set(numbers)) == COUNT for numbers in got.values()), says="all of them")
        for client in (sleeper, *speakers.values()):
            leave(client)
        assert got["t/2"] == list(range(COUNT))
        assert list(dict.fromkeys(got["t/1"])) == list(range(COUNT))

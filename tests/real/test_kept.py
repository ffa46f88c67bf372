"""``kill -9`` of the node that has a session: what others take meanwhile is kept for it."""

from __future__ import annotations

from pathlib import Path

import paho.mqtt.client as paho
import pytest

from real.clients import Mqtt
from real.harness import Cluster, eventually

COUNT = 400


@pytest.mark.timeout(150)
def test_what_others_take_for_a_session_of_a_killed_node_comes_in_order_and_once(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        Mqtt(cluster.port(3), "sleeper", "t/#", qos=2, clean=False).end()
        speakers = {qos: Mqtt(cluster.port(1), f"speaker{qos}") for qos in (1, 2)}
        sent: list[paho.MQTTMessageInfo] = []
        killed: list[int] = []
        for number in range(COUNT):
            sent += [one.client.publish(f"t/{qos}", str(number), qos=qos) for qos, one in speakers.items()]
            if number in (COUNT // 4, COUNT // 2):
                killed.append(cluster.kill(3))
            if number == COUNT * 3 // 8:
                eventually(lambda: cluster.port_of_next_life(3, *killed), says="it is back")
        for one in sent:
            one.wait_for_publish(60)
        assert all(one.is_published() for one in sent)
        port = eventually(lambda: cluster.port_of_next_life(3, *killed), says="it is back")
        got: dict[str, list[int]] = {"t/1": [], "t/2": []}
        sleeper = Mqtt(port, "sleeper", clean=False, take=lambda m: got[m.topic].append(int(m.payload)))
        eventually(lambda: all(len(set(numbers)) == COUNT for numbers in got.values()), says="all of them")
        for client in (sleeper, *speakers.values()):
            client.end()
        assert got["t/2"] == list(range(COUNT))
        assert list(dict.fromkeys(got["t/1"])) == list(range(COUNT))

"""Real nodes that get SIGTERM, one, two or all at once: nobody sees a fault, a split or a heal."""

import asyncio
import json
import signal

import httpx
import pytest

from gossamer.mqtt.client import MqttClient
from gossamer.network import SystemNetwork
from real.harness import Program, eventually
from real.test_rolling_restart import free_on

HOSTS = {number: f"127.0.8.{number}" for number in (1, 2, 3)}


class Fleet:
    """Three nodes on addresses of their own, which keep their discs and ports when they are restarted."""

    def __init__(self, directory):
        self.directory = directory
        self.port = free_on(list(HOSTS.values()))
        self.nodes = {}
        self.ports = {}
        self.lives = 0

    def start(self, *numbers):
        self.lives += 1
        for number in numbers:
            host = HOSTS[number]
            home = self.directory / str(number)
            tree = {
                "node": {"name": f"node{number}@{host}", "data_dir": str(home / "data"), "cookie": "x" * 16},
                "cluster": {
                    "host": host,
                    "port": self.port,
                    "seed_endpoints": [f"{seed}:{self.port}" for seed in HOSTS.values()],
                    "discovery": {"strategy": "static"},
                },
                "distribution": {"host": host, "port": 0},
                "mqtt": {"server": {"listeners": [{"port": 0}]}, "auth": {"allow_anonymous": True}},
                "api": {"port": 0},
            }
            home.mkdir(exist_ok=True)
            (home / "node.yaml").write_text(json.dumps(tree))
            life = home / f"life{self.lives}"
            self.nodes[number] = Program(life, "start", "-c", home / "node.yaml", "--json")
        for number in numbers:
            self.ports[number] = self.nodes[number].wait_for_ready()["ports"]
        eventually(self.whole, says="three nodes are one cluster")

    def stop(self, *numbers):
        for number in numbers:
            self.nodes[number].process.send_signal(signal.SIGTERM)
        for number in numbers:
            assert self.nodes.pop(number).process.wait(30) == 0

    def get(self, number, path):
        url = f"http://127.0.0.1:{self.ports[number]['api']}{path}"
        return httpx.get(url, trust_env=False, timeout=10)

    def whole(self):
        answers = [self.get(number, "/ready") for number in self.nodes]
        return all(a.status_code == 200 and len(a.json()["members"]) == len(HOSTS) for a in answers)

    def log(self):
        return "".join(path.read_text() for path in self.directory.glob("*/life*/err"))

    async def client(self, number):
        address = ("127.0.0.1", self.ports[number]["mqtt"])
        return await MqttClient.connect(
            SystemNetwork(), address, "mover", clean_start=False, session_expiry=600, timeout=60
        )


@pytest.mark.timeout(300)
def test_nodes_that_are_stopped_are_said_to_be_stopped_and_come_back_without_a_heal(tmp_path):
    fleet = Fleet(tmp_path)
    try:
        fleet.start(1, 2, 3)

        async def leave():
            client = await fleet.client(3)
            await client.disconnect()

        async def move():
            # Its session is with a node that has just been stopped: that is known, and not waited for.
            client = await fleet.client(1)
            client.drop()

        asyncio.run(leave())
        for batch in ((2, 3), (3, 2, 1), (3,)):
            fleet.stop(*batch)
            if 1 in fleet.nodes:
                asyncio.run(asyncio.wait_for(move(), 5))
                status = {m["name"]: m["status"] for m in fleet.get(1, "/api/v1/members").json()}
                gone = {name for name, word in status.items() if word == "stopped"}
                assert gone == {f"node{number}@{HOSTS[number]}" for number in batch}
                assert not fleet.get(1, "/api/v1/status").json()["hints"]
            fleet.start(*batch)
        events = [e for n in fleet.nodes for e in fleet.get(n, "/api/v1/events").json()["items"]]
        assert {e["text"] for e in events if e["kind"] == "down"} == {"stopped"}
        kinds = {e["kind"] for e in events}
        assert kinds <= {"up", "link_up", "down", "link_down"}
        for word in ("inconsistent_database", "partition_hint", "leave_failed"):
            assert word not in fleet.log()
        assert not [a for a in fleet.get(1, "/api/v1/alarms").json()["items"] if a["active"]]
    finally:
        fleet.stop(*fleet.nodes)

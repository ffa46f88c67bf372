"""Real nodes that get SIGTERM, one, two or all at once: nobody sees a fault, a split or a heal."""

import asyncio
import signal

import pytest

from real.clients import enter
from real.harness import Node, eventually, whole
from real.test_rolling_restart import free_on

HOSTS = {number: f"127.0.8.{number}" for number in (1, 2, 3)}


class Fleet:
    """Three nodes on addresses of their own, which keep their discs and ports when they are restarted.

    ``changes`` go into the sections of their configuration.
    """

    def __init__(self, directory, **changes):
        self.directory = directory
        self.changes = changes
        self.port = free_on(list(HOSTS.values()))
        self.nodes = {}
        self.lives = 0

    def start(self, *numbers):
        self.lives += 1
        cluster = {
            "port": self.port,
            "seed_endpoints": [f"{seed}:{self.port}" for seed in HOSTS.values()],
            "discovery": {"strategy": "static"},
        }
        for number in numbers:
            home = self.directory / str(number)
            self.nodes[number] = Node(
                home / f"life{self.lives}",
                f"node{number}@{HOSTS[number]}",
                **{
                    **self.changes,
                    "node": {
                        "cookie": "x" * 16,
                        "data_dir": str(home / "data"),
                        **self.changes.get("node", {}),
                    },
                    "cluster": cluster,
                    "mqtt": {"auth": {"allow_anonymous": True}},
                },
            )
        eventually(lambda: whole(*self.nodes.values()), says="three nodes are one cluster")

    def stop(self, *numbers):
        for number in numbers:
            self.nodes[number].process.send_signal(signal.SIGTERM)
        for number in numbers:
            assert self.nodes.pop(number).process.wait(30) == 0

    def log(self):
        return "".join(path.read_text() for path in self.directory.glob("*/life*/err"))

    async def client(self, number):
        return await enter(self.nodes[number].ports["mqtt"], "mover", host=HOSTS[number])


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
                status = {m["name"]: m["status"] for m in fleet.nodes[1].get("/api/v1/members")}
                gone = {name for name, word in status.items() if word == "stopped"}
                assert gone == {f"node{number}@{HOSTS[number]}" for number in batch}
                assert not fleet.nodes[1].get("/api/v1/status")["hints"]
            fleet.start(*batch)
        events = [e for node in fleet.nodes.values() for e in node.get("/api/v1/events")["items"]]
        assert {e["text"] for e in events if e["kind"] == "down"} == {"stopped"}
        kinds = {e["kind"] for e in events}
        assert kinds <= {"up", "link_up", "down", "link_down"}
        for word in ("inconsistent_database", "partition_hint", "leave_failed"):
            assert word not in fleet.log()
        assert not [a for a in fleet.nodes[1].get("/api/v1/alarms")["items"] if a["active"]]
    finally:
        fleet.stop(*fleet.nodes)

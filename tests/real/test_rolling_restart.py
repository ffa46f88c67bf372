"""Five real nodes behind a real name server: one is restarted, then two at a time.

That all five may be, in every way, is shown on simulated networks; processes and name server are real here.
"""

import asyncio
import json
import signal
import socket
import threading

import httpx
import pytest
from discovery.names import NameServer

from real.harness import Program, eventually

NAME = "gossamer.test"
COOKIE = "a cookie for five nodes"


@pytest.fixture
def zone():
    """The zone of a name server that runs in a thread of its own."""
    server = NameServer()
    started, ended = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve():
        async with server:
            started.set()
            await ended.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=[serve()])
    thread.start()
    assert started.wait(10)
    yield server
    loop.call_soon_threadsafe(ended.set)
    thread.join()
    loop.close()


def free_on(hosts):
    """A port that is free for UDP and TCP on each of these addresses."""
    while True:
        with socket.socket() as probe:
            probe.bind((hosts[0], 0))
            port = probe.getsockname()[1]
        try:
            for host in hosts:
                for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
                    with socket.socket(type=kind) as probe:
                        probe.bind((host, port))
        except OSError:
            continue
        return port


class Fleet:
    """Nodes on addresses of their own, all of them listed under one name while they run."""

    def __init__(self, directory, zone):
        self.directory = directory
        self.zone = zone
        self.hosts = {number: f"127.0.9.{number}" for number in range(1, 6)}
        self.port = free_on(list(self.hosts.values()))
        self.nodes = {}
        self.apis = {}

    def start(self, *numbers):
        for number in numbers:
            host = self.hosts[number]
            home = self.directory / host
            home.mkdir(exist_ok=True)
            dns = {"name": NAME, "nameservers": [f"127.0.0.1:{self.zone.port}"], "max_ttl": "1s"}
            tree = {
                "node": {"name": f"node{number}@{host}", "data_dir": str(home / "data"), "cookie": COOKIE},
                "cluster": {
                    "host": host,
                    "port": self.port,
                    "discovery": {"strategy": "dns", "dns": dns, "retry_interval": "1s"},
                },
                "distribution": {"host": host, "port": 0},
                "mqtt": {"server": {"listeners": [{"port": 0}]}},
                "api": {"port": 0},
                "log": {"level": "warning"},
            }
            (home / "node.yaml").write_text(json.dumps(tree))
            self.nodes[number] = Program(home, "start", "-c", home / "node.yaml", "--json")
        self.list()
        for number in numbers:
            self.apis[number] = self.nodes[number].wait_for_ready()["ports"]["api"]

    def stop(self, *numbers, how=signal.SIGTERM):
        for number in numbers:
            self.nodes[number].process.send_signal(how)
        for number in numbers:
            self.nodes.pop(number).process.wait(30)
        self.list()

    def list(self):
        self.zone.zone[NAME, "A"] = (1, [self.hosts[number] for number in self.nodes])

    def whole(self):
        """Is every node ready, and linked with all five?"""
        everybody = {f"node{number}@{host}" for number, host in self.hosts.items()}
        for port in self.apis.values():
            answer = httpx.get(f"http://127.0.0.1:{port}/ready", trust_env=False, timeout=10)
            if answer.status_code != 200 or set(answer.json()["members"]) != everybody:
                return False
        return True


def test_five_nodes_behind_dns_are_restarted_in_turn_and_are_one_cluster_each_time(tmp_path, zone):
    fleet = Fleet(tmp_path, zone)
    try:
        fleet.start(1, 2, 3, 4, 5)
        eventually(fleet.whole, says="five nodes are one cluster")
        for batch, how in (((1,), signal.SIGTERM), ((2, 3), signal.SIGKILL)):
            fleet.stop(*batch, how=how)
            fleet.start(*batch)
            eventually(fleet.whole, says=f"one cluster after a restart of {batch}")
    finally:
        for node in fleet.nodes.values():
            node.process.send_signal(signal.SIGKILL)
            node.process.wait()

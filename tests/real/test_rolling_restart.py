"""Five real nodes behind a real name server: one is restarted, then two at a time.

That all five may be, in every way, is shown on simulated networks; processes and name server are real here.
"""

import signal
import socket

from discovery.names import NameServer

from real.harness import InThread, Node, eventually, whole

NAME = "gossamer.test"
COOKIE = "a cookie for five nodes"


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

    def start(self, *numbers):
        dns = {"name": NAME, "nameservers": [f"127.0.0.1:{self.zone.port}"], "max_ttl": "1s"}
        discovery = {"strategy": "dns", "dns": dns, "retry_interval": "1s"}
        for number in numbers:
            host = self.hosts[number]
            self.nodes[number] = Node(
                self.directory / host,
                f"node{number}@{host}",
                node={"cookie": COOKIE},
                cluster={"port": self.port, "discovery": discovery},
                log={"level": "warning"},
            )
        self.list()
        eventually(lambda: whole(*self.nodes.values()), says=f"one cluster after {numbers} were started")

    def stop(self, *numbers, how=signal.SIGTERM):
        for number in numbers:
            self.nodes[number].process.send_signal(how)
        for number in numbers:
            self.nodes.pop(number).process.wait(30)
        self.list()

    def list(self):
        self.zone.zone[NAME, "A"] = (1, [self.hosts[number] for number in self.nodes])


def test_five_nodes_behind_dns_are_restarted_in_turn_and_are_one_cluster_each_time(tmp_path):
    with InThread(zone := NameServer()):
        fleet = Fleet(tmp_path, zone)
        try:
            fleet.start(1, 2, 3, 4, 5)
            for batch, how in (((1,), signal.SIGTERM), ((2, 3), signal.SIGKILL)):
                fleet.stop(*batch, how=how)
                fleet.start(*batch)
        finally:
            for node in fleet.nodes.values():
                node.end(signal.SIGKILL)

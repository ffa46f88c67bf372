"""The examples of docs/deploy run: each container a process, an address of loopback in place of its own."""

import os
import random

import httpx
import yaml
from discovery.deployments import DEPLOY, compose, environment
from discovery.names import NameServer

from real.clients import assert_crosses
from real.harness import InThread, Program, ask, eventually


class Network:
    """Addresses that containers would get: loopback has 127.0.0.0/8, and one part of it is free enough."""

    def __init__(self):
        self._part = f"127.{random.Random().randint(20, 250)}.{os.getpid() % 250 + 1}"
        self.addresses = {}

    def address(self, host):
        return self.addresses.setdefault(host, f"{self._part}.{len(self.addresses) + 1}")


class Container(Program):
    """One container of a service: what it mounts, what it gets from its environment, where it is."""

    def __init__(self, directory, example, service, host, network, **environ):
        self.address = network.address(host)
        self.name = f"gossamer@{host}"
        directory = directory / host
        directory.mkdir()
        text = (DEPLOY / "compose" / example / "node.yaml").read_text()
        for name, address in network.addresses.items():
            text = text.replace(f"{name}:", f"{address}:")
        tree = yaml.safe_load(text)
        # A container has all its addresses to itself; here, others bind the same ports beside it.
        tree["cluster"]["host"] = tree["distribution"]["host"] = self.address
        tree["mqtt"]["server"]["listeners"][0]["host"] = self.address
        tree["api"] = {"host": self.address, **tree.get("api", {})}
        config = directory / "node.yaml"
        config.write_text(yaml.safe_dump(tree))
        environ |= environment(service)
        environ |= {"GOSSAMER_NODE__NAME": self.name, "GOSSAMER_NODE__DATA_DIR": str(directory / "data")}
        super().__init__(directory, "start", "-c", config, "--json", **environ)

    def ready(self):
        """What the health check asks."""
        try:
            return ask(f"http://{self.address}:8091/ready")
        except httpx.TransportError:
            assert self.process.poll() is None, self.err
            return {"ready": False}


def meet(containers):
    names = {container.name for container in containers}
    try:
        eventually(
            lambda: all(
                (answer := container.ready())["ready"] and set(answer["members"]) == names
                for container in containers
            ),
            says="one cluster of all containers",
        )
        first, last = containers[0].address, containers[-1].address
        topics = f"http://{first}:8091/api/v1/topics"
        assert_crosses(("-h", last), ("-h", first), "a/b", "a/b", lambda: ask(topics)["items"])
    finally:
        for container in containers:
            container.process.terminate()
        for container in containers:
            container.end()


def test_the_example_of_static_becomes_one_cluster(tmp_path):
    network = Network()
    services = compose("static")["services"]
    for service in services.values():
        network.address(service["hostname"])
    meet([Container(tmp_path, "static", one, one["hostname"], network) for one in services.values()])


def test_the_example_of_dns_becomes_one_cluster(tmp_path):
    """A name server answers beside the containers, as Docker's does."""
    network = Network()
    ((name, service),) = compose("dns")["services"].items()
    hosts = [f"3f2a9c0d1e4{number}" for number in range(service["deploy"]["replicas"])]
    with InThread(dns := NameServer()):
        dns.zone[name, "A"] = (600, [network.address(host) for host in hosts])
        # In a container, /etc/resolv.conf names Docker's server.
        nameserver = {"GOSSAMER_CLUSTER__DISCOVERY__DNS__NAMESERVERS": f"127.0.0.1:{dns.port}"}
        meet([Container(tmp_path, "dns", service, host, network, **nameserver) for host in hosts])
    assert (name, "A") in dns.asked

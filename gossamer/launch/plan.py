"""What ``gossamer up`` is going to start: names, ports, directories and the configuration of every node.

Rules: 1. Pure, but for the ports that are asked for as 0.  2. Node 1 has the ports a user would try first;
the others count up from there.  3. No port twice.  4. Everything listens on loopback only, which is why
anonymous clients are let in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gossamer.errors import WrongValueError

HOST = "127.0.0.1"
SERVICES = ("mqtt", "api", "gossip", "distribution")
WEBSOCKET = "mqtt_ws"
MAX_NODES = 64


class BadPortsError(WrongValueError):
    """Ports on the command line that do not fit the nodes."""

    def __init__(self, *, option: str, got: str, expected: str) -> None:
        self.option = option
        self.got = got
        self.expected = expected
        super().__init__(f"{option}: got {got}, expected {expected}")


@dataclass(frozen=True, slots=True)
class PortSpec:
    """An option such as ``--mqtt-port``: one number to count up from, 0 to choose, or one for each node."""

    option: str
    text: str

    def ports(self, nodes: int, choose: Callable[[], int]) -> list[int]:
        """A port for each of ``nodes``.

        Raises:
            BadPortsError: it is not that many ports.
        """
        wanted = f"a port to count up from, 0 to choose free ones, or {nodes} ports such as 1883,2883"
        parts = [part.strip() for part in self.text.split(",")]
        if not all(part.isdecimal() for part in parts):
            raise BadPortsError(option=self.option, got=self.text, expected=wanted)
        numbers = [int(part) for part in parts]
        if len(numbers) == 1 and nodes > 1 and numbers[0] != 0:
            numbers = [numbers[0] + index for index in range(nodes)]
        elif len(numbers) == 1 and numbers[0] == 0:
            numbers = [0] * nodes
        if len(numbers) != nodes or max(numbers) > 65535:
            raise BadPortsError(option=self.option, got=self.text, expected=wanted)
        return [number or choose() for number in numbers]


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One node to start."""

    name: str
    directory: Path
    ports: dict[str, int]
    host: str = HOST
    """The address that all of it listens on."""

    @property
    def config_file(self) -> Path:
        return self.directory / "node.yaml"

    @property
    def log_file(self) -> Path:
        return self.directory / "node.log"

    @property
    def api(self) -> str:
        """Base URL of its API."""
        return f"http://{self.host}:{self.ports['api']}"


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """All of them."""

    directory: Path
    env: str
    nodes: tuple[NodePlan, ...]
    shared_port: int | None


def make_plan(
    *,
    nodes: int,
    directory: Path,
    env: str,
    specs: dict[str, PortSpec],
    shared_port: int | None,
    choose: Callable[[], int],
) -> ClusterPlan:
    """Who gets which port; ``specs`` has an entry for each of ``SERVICES``, and for WebSockets if wanted.

    Raises:
        BadPortsError: ports that do not fit, or one port for two things.
    """
    columns = {service: spec.ports(nodes, choose) for service, spec in specs.items()}
    users: dict[int, str] = {}
    if shared_port is not None:
        users[shared_port] = "--shared-port"
    for service, ports in columns.items():
        for number, port in enumerate(ports, 1):
            here = f"{service} of node{number}"
            if port in users:
                option = specs[service].option
                raise BadPortsError(
                    option=option, got=f"{port} for {here}", expected=f"another: it is {users[port]} already"
                )
            users[port] = here
    return ClusterPlan(
        directory=directory,
        env=env,
        shared_port=shared_port,
        nodes=tuple(
            NodePlan(
                name=f"node{number + 1}@{HOST}",
                directory=directory / f"node{number + 1}",
                ports={service: ports[number] for service, ports in columns.items()},
            )
            for number in range(nodes)
        ),
    )


def node_tree(plan: ClusterPlan, node: NodePlan) -> dict[str, Any]:
    """The configuration file of ``node``, as plain data; its cookie is in a file of its own."""
    listeners: list[dict[str, Any]] = [{"type": "tcp", "host": node.host, "port": node.ports["mqtt"]}]
    if WEBSOCKET in node.ports:
        listeners.append({"type": "ws", "host": node.host, "port": node.ports[WEBSOCKET]})
    if plan.shared_port is not None:
        listeners.append({"type": "tcp", "host": node.host, "port": plan.shared_port, "reuse_port": True})
    seeds: Sequence[NodePlan] = plan.nodes
    return {
        "node": {"name": node.name, "data_dir": str(node.directory)},
        "cluster": {
            "env": plan.env,
            "host": node.host,
            "port": node.ports["gossip"],
            "seed_endpoints": [f"{seed.host}:{seed.ports['gossip']}" for seed in seeds],
        },
        "distribution": {"host": node.host, "port": node.ports["distribution"]},
        "mqtt": {"server": {"listeners": listeners}, "auth": {"allow_anonymous": True}},
        "api": {"host": node.host, "port": node.ports["api"]},
    }

"""What ``gossamer up`` is going to start: names, ports, directories and the configuration of every node.

Rules: 1. Pure, but for the look at ports: one that is free may be taken before its node starts, and then the
node says so; asking first names every port that is taken, and the option to change, at once.  2. Node 1 has
the ports a user would try first; the others count up from there.  3. No port twice.  4. Everything listens
on loopback only, which is why anonymous clients are let in.
"""

from __future__ import annotations

import errno
import random
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gossamer.errors import UnavailableError, WrongValueError

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
    listeners: list[dict[str, object]] = [{"type": "tcp", "host": node.host, "port": node.ports["mqtt"]}]
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


WEBSOCKET_PORT = "9001"
"""Where listeners for WebSockets are by default: 64 of them are clear of the other services' ports."""
# Below the range from which the kernel takes the local ports of outgoing connections.
_CHOICES = range(20_000, 32_000)


class PortsTakenError(UnavailableError):
    """Ports that the cluster needs are in use."""

    def __init__(self, *, taken: list[tuple[int, str, str]]) -> None:
        self.taken = taken
        lines = "".join(f"\n  port {port} ({user}): set {option} to another" for port, user, option in taken)
        super().__init__(f"in use already, by another program or another cluster:{lines}")


def taken_ports(plan: ClusterPlan, options: dict[str, str]) -> list[tuple[int, str, str]]:
    """``(port, what it is for, option to change)`` for every port of ``plan`` that cannot be bound."""
    taken = []
    for node in plan.nodes:
        for service, port in node.ports.items():
            kinds = [socket.SOCK_STREAM, socket.SOCK_DGRAM] if service == "gossip" else [socket.SOCK_STREAM]
            if not _is_free(port, kinds):
                taken.append((port, f"{service} of {node.name}", options[service]))
    if plan.shared_port is not None and not _is_free(plan.shared_port, [socket.SOCK_STREAM]):
        taken.append((plan.shared_port, "mqtt of all nodes", "--shared-port"))
    return taken


def plan_with_websockets(
    make: Callable[[PortSpec], ClusterPlan], *, option: str, others_chosen: bool
) -> ClusterPlan:
    """The plan with listeners for WebSockets that nobody asked for by port; ``make`` takes their ports.

    They are at :data:`WEBSOCKET_PORT` and up; where one of these is in use, by another program or for
    something that was asked for, or where the ports of the others are chosen, too, they are free ones.

    Raises:
        BadPortsError: the other ports do not fit.
    """
    texts = ["0"] * 3 if others_chosen else [WEBSOCKET_PORT, "0", "0"]
    for last, text in zip((False, False, True), texts, strict=True):
        try:
            plan = make(PortSpec(option, text))
        except BadPortsError as error:
            # A port that was chosen may be one that was asked for.
            if error.option != option or last:
                raise
            continue
        if all(_is_free(node.ports[WEBSOCKET], [socket.SOCK_STREAM]) for node in plan.nodes):
            break
    return plan


def _is_free(port: int, kinds: Iterable[socket.SocketKind]) -> bool:
    for kind in kinds:
        with socket.socket(socket.AF_INET, kind) as probe:
            if kind == socket.SOCK_STREAM:
                # As a server does it, or connections that are winding down would count as taken.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
                if kind == socket.SOCK_STREAM:
                    probe.listen(1)
            except OSError as error:
                if error.errno in {errno.EADDRINUSE, errno.EACCES}:
                    return False
                raise
    return True


def chooser(rng: random.Random | None = None) -> Callable[[], int]:
    """A function that gives a free port at each call, and none twice."""
    candidates = list(_CHOICES)
    (rng or random.Random()).shuffle(candidates)

    def choose() -> int:
        while candidates:
            port = candidates.pop()
            if _is_free(port, [socket.SOCK_STREAM, socket.SOCK_DGRAM]):
                return port
        raise UnavailableError(f"no port from {_CHOICES.start} to {_CHOICES.stop - 1} is free")

    return choose

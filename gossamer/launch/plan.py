"""Plan of ``gossamer up``: names, ports, directories and the configuration of every node.

Rules: 1. Pure, but for the look at ports: one that is free may be taken before its node starts, and then the
node says so; asking first names every port that is taken, and the option to change, at once.  2. Node 1 has
the ports a user would try first; the others count up from there.  3. No port twice.  4. Everything listens
on loopback only, which is why anonymous clients are let in.
"""

from __future__ import annotations

import errno
import random
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gossamer.errors import UnavailableError, WrongValueError

HOST = "127.0.0.1"
CA_FILE = "ca.pem"
SERVICES = ("mqtt", "api", "gossip", "distribution")
WEBSOCKET = "mqtt_ws"
WEBSOCKET_TLS = "mqtt_wss"
MQTT_TLS = "mqtt_tls"
LISTENERS = {"mqtt": "tcp", WEBSOCKET: "ws", MQTT_TLS: "tls", WEBSOCKET_TLS: "wss"}
"""Type of the listener at each port for clients."""
MAX_NODES = 64


class BadPortsError(WrongValueError):
    """Ports on the command line that do not fit the nodes."""

    def __init__(self, option: str, got: str, expected: str) -> None:
        self.option = option
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
        parts = [part.strip() for part in self.text.split(",")]
        numbers = [int(part) for part in parts if part.isdecimal()]
        if len(parts) == len(numbers) == 1:
            first = numbers[0]
            numbers = [first and first + index for index in range(nodes)]
            parts *= nodes
        if not len(parts) == len(numbers) == nodes or max(numbers) > 65535:
            wanted = f"a port to count up from, 0 to choose free ones, or {nodes} ports such as 1883,2883"
            raise BadPortsError(self.option, self.text, wanted)
        return [number or choose() for number in numbers]


@dataclass(frozen=True, slots=True)
class NodePlan:
    """Plan of one node."""

    name: str
    directory: Path
    ports: dict[str, int]
    host: str = HOST
    """The address that all of it listens on."""
    certificates: Path | None = None
    """Directory of certificates (``gossamer up --tls``); None: all of it is plain."""

    @property
    def ca_file(self) -> Path | None:
        """Certificate of the authority, where there is one."""
        return self.certificates and self.certificates / CA_FILE

    def tls(self) -> dict[str, str]:
        """The certificate of the node, as configuration names it."""
        stem = f"{self.certificates}/{self.directory.name}"
        return {"cert_file": f"{stem}.pem", "key_file": f"{stem}.key"}

    @property
    def config_file(self) -> Path:
        return self.directory / "node.yaml"

    @property
    def log_file(self) -> Path:
        return self.directory / "node.log"

    @property
    def api(self) -> str:
        """Base URL of its API."""
        return f"http{'s' if self.certificates else ''}://{self.host}:{self.ports['api']}"


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """Plan of all nodes."""

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
    """Assign ports to nodes; ``specs`` has an entry for each of ``SERVICES``, and more where wanted.

    Raises:
        BadPortsError: the ports do not fit, or one is used twice.
    """
    columns = {service: spec.ports(nodes, choose) for service, spec in specs.items()}
    users = {} if shared_port is None else {shared_port: "--shared-port"}
    for service, ports in columns.items():
        for number, port in enumerate(ports, 1):
            here = f"{service} of node{number}"
            if port in users:
                expected = f"another: it is {users[port]} already"
                raise BadPortsError(specs[service].option, f"{port} for {here}", expected)
            users[port] = here
    return ClusterPlan(
        directory=directory,
        env=env,
        shared_port=shared_port,
        nodes=tuple(
            NodePlan(
                f"node{number}@{HOST}",
                directory / f"node{number}",
                {service: ports[number - 1] for service, ports in columns.items()},
                certificates=directory / "tls" if MQTT_TLS in specs else None,
            )
            for number in range(1, nodes + 1)
        ),
    )


def node_tree(plan: ClusterPlan, node: NodePlan) -> dict[str, object]:
    """The configuration file of ``node``, as plain data; its cookie is in a file of its own."""
    listeners: list[dict[str, object]] = [
        {"type": kind, "host": node.host, "port": node.ports[service]}
        | ({"tls": node.tls()} if service in (MQTT_TLS, WEBSOCKET_TLS) else {})
        for service, kind in LISTENERS.items()
        if service in node.ports
    ]
    if plan.shared_port is not None:
        listeners.append({"type": "tcp", "host": node.host, "port": plan.shared_port, "reuse_port": True})
    links: dict[str, object] = {"host": node.host, "port": node.ports["distribution"]}
    api: dict[str, object] = {"host": node.host, "port": node.ports["api"]}
    if node.certificates is not None:
        links["tls"] = {**node.tls(), "ca_file": str(node.ca_file)}
        api["tls"] = node.tls()
    return {
        "node": {"name": node.name, "data_dir": str(node.directory)},
        "cluster": {
            "env": plan.env,
            "host": node.host,
            "port": node.ports["gossip"],
            "seed_endpoints": [f"{seed.host}:{seed.ports['gossip']}" for seed in plan.nodes],
        },
        "distribution": links,
        "mqtt": {"server": {"listeners": listeners}, "auth": {"allow_anonymous": True}},
        "api": api,
    }


WEBSOCKET_PORT = "9001"
"""Default first port of WebSocket listeners: 64 of them do not overlap the other services' ports."""
# Below the range from which the kernel takes the local ports of outgoing connections.
_CHOICES = range(20_000, 32_000)


def check_ports(plan: ClusterPlan, options: Mapping[str, str]) -> None:
    """See that every port of ``plan`` can be bound; ``options`` are those that set the port of a service.

    Raises:
        UnavailableError: with all that are in use, and the options to change.
    """
    wanted = [
        (port, f"{service} of {node.name}", options[service], service == "gossip")
        for node in plan.nodes
        for service, port in node.ports.items()
    ]
    if plan.shared_port is not None:
        wanted.append((plan.shared_port, "mqtt of all nodes", "--shared-port", False))
    taken = "".join(
        f"\n  port {port} ({user}): set {option} to another"
        for port, user, option, datagrams in wanted
        if not _is_free(port, datagrams=datagrams)
    )
    if taken:
        raise UnavailableError(f"in use already, by another program or another cluster:{taken}")


def plan_with_websockets(
    make: Callable[[PortSpec], ClusterPlan], service: str, *, option: str, others_chosen: bool
) -> ClusterPlan:
    """Make the plan with WebSocket listeners (``service``) on default ports; ``make`` is called with these.

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
        if all(_is_free(node.ports[service]) for node in plan.nodes):
            break
    return plan


def _is_free(port: int, *, datagrams: bool = False) -> bool:
    """Return whether a port is free for streams, and with ``datagrams`` for those too."""
    try:
        # As a server does it, or connections that are winding down would count as taken.
        socket.create_server((HOST, port), backlog=1).close()
        if datagrams:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.bind((HOST, port))
    except OSError as error:
        if error.errno not in {errno.EADDRINUSE, errno.EACCES}:
            raise
        return False
    return True


def chooser() -> Callable[[], int]:
    """A function that gives a free port at each call, and none twice."""
    candidates = random.sample(_CHOICES, len(_CHOICES))

    def choose() -> int:
        while candidates:
            port = candidates.pop()
            if _is_free(port, datagrams=True):
                return port
        raise UnavailableError(f"no port from {_CHOICES.start} to {_CHOICES.stop - 1} is free")

    return choose

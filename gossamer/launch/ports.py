"""Ports before they are used: are they free, and which ones are?

Asking first turns N nodes that fail one after another into one list that names every port and the option to
change. It decides nothing: a port can still be taken in between, and then the node says so.
"""

from __future__ import annotations

import errno
import random
import socket
from collections.abc import Callable, Iterable

from gossamer.errors import UnavailableError
from gossamer.launch.plan import HOST, WEBSOCKET, BadPortsError, ClusterPlan, PortSpec

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

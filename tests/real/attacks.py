"""Attacks of docs/security.md on a fresh cluster of real processes, by somebody who has no key.

::

    ./script/attack              all of them
    ./script/attack join tokens  these

A line for each: ``held`` or ``broken``, and why. Exit code: 0 all held, 1 some broke.
"""

from __future__ import annotations

import secrets
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import httpx
import yaml

from gossamer.config import COOKIE_FILE
from gossamer.gossip.keyring import Keyring, at_address, cluster_key
from gossamer.gossip.wire import Ping, compound, encode

from .harness import Cluster, Node, eventually

Attack = Callable[[Cluster, Path], str]
"""Returns what broke; blank: nothing did."""

CONNECT = bytes.fromhex("101000044d5154540402003c000461747461")
"""MQTT 3.1.1, clean session, client identifier ``atta``."""
CONNECT_TIMEOUT = 10.0


def env_of(cluster: Cluster) -> str:
    """The ``cluster.env`` of its nodes, which is no secret."""
    tree = yaml.safe_load((cluster.data_dir / "node1" / "node.yaml").read_text())
    return str(tree["cluster"]["env"])


def sockets(count: int, port: int, *, source: str = "127.0.0.1") -> Iterator[socket.socket]:
    """Open connections to a port of this machine."""
    for _ in range(count):
        yield socket.create_connection(("127.0.0.1", port), 5, source_address=(source, 0))


def ended(connection: socket.socket, seconds: float) -> bool:
    """Has the other side ended a connection, at the latest in so many seconds?"""
    connection.settimeout(seconds)
    try:
        while connection.recv(65536):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def serves(cluster: Cluster) -> str:
    """What a client and an operator cannot do any more."""
    with socket.create_connection(("127.0.0.1", int(cluster.port(1))), 5) as client:
        client.sendall(CONNECT)
        client.settimeout(5)
        if client.recv(4)[:2] != b"\x20\x02":
            return "a client is not let in"
    answers = [cluster.get(number, "/ready") for number in range(1, len(cluster.nodes) + 1)]
    return "" if all(answer.get("ready") for answer in answers) else f"/ready says {answers}"


def silent(cluster: Cluster, _: Path) -> str:
    """500 MQTT connections that say nothing."""
    with ExitStack() as stack:
        held = [stack.enter_context(one) for one in sockets(500, int(cluster.port(1)))]
        if broke := serves(cluster):
            return broke
        deadline = time.monotonic() + CONNECT_TIMEOUT + 10
        left = sum(not ended(one, max(0.1, deadline - time.monotonic())) for one in held)
    return f"{left} of them are still held" if left else ""


def oversized(cluster: Cluster, _: Path) -> str:
    """An MQTT packet that says it has 256 MiB."""
    for connection in sockets(1, int(cluster.port(1))):
        with connection:
            connection.sendall(CONNECT + b"\x30\xff\xff\xff\x7f")
            if not ended(connection, 5):
                return "it is waited for"
    return serves(cluster)


def join(cluster: Cluster, directory: Path) -> str:
    """The places of gossip taken by 140 connections of three addresses, made again as they end."""
    port, over = int(cluster.port(1, "gossip")), threading.Event()

    def hold(source: str) -> None:
        while not over.is_set():
            try:
                with socket.create_connection(("127.0.0.1", port), 5, source_address=(source, 0)) as one:
                    begun = time.monotonic()
                    ended(one, 5)
            except OSError:
                begun = time.monotonic()
            over.wait(0.2 if time.monotonic() - begun < 1 else 0)

    threads = [threading.Thread(target=hold, args=(f"127.0.0.{n % 3 + 3}",)) for n in range(140)]
    for thread in threads:
        thread.start()
    made = cluster.data_dir / "node1"
    seeds = {"env": env_of(cluster), "seed_endpoints": [f"127.0.0.1:{port}"]}
    late = Node(
        directory / "late",
        "late@127.0.0.1",
        cluster={"host": "127.0.0.1", "port": 0, **seeds},
        node={
            "name": "late@127.0.0.1",
            "data_dir": str(directory / "late" / "data"),
            "cookie": (made / COOKIE_FILE).read_text().strip(),
        },
    )
    names = {node["name"] for node in cluster.nodes} | {"late@127.0.0.1"}
    try:
        time.sleep(15)
        if late.out and late.sees() not in (set(), names):
            return "a node that joins serves alone, as a second cluster"
        over.set()
        eventually(lambda: late.sees() == names, says="the late node is a member")
    except AssertionError as error:
        return str(error)
    finally:
        over.set()
        for thread in threads:
            thread.join(10)
        late.end()
    return ""


def forged(cluster: Cluster, _: Path) -> str:
    """Gossip sealed with a guessed cookie, and bytes that are none."""
    there = ("127.0.0.1", int(cluster.port(1, "gossip")))
    ring = Keyring([cluster_key("guess")], env=env_of(cluster))
    body = compound([encode(Ping(1, "0" * 16))])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.settimeout(1)
        for number in range(200):
            sender.sendto(ring.seal("f" * 16, number, time.time(), body, to=at_address(there)), there)
            sender.sendto(secrets.token_bytes(200), there)
        try:
            return f"it was answered: {sender.recv(65536)[:20]!r}"
        except TimeoutError:
            return serves(cluster)


def links(cluster: Cluster, _: Path) -> str:
    """Connections to the port of links that say nothing, or more than a stranger may."""
    with ExitStack() as stack:
        held = [stack.enter_context(one) for one in sockets(100, int(cluster.port(1, "distribution")))]
        for one in held[:50]:
            one.sendall(b"\xff" * 8192)
        if broke := serves(cluster):
            return broke
        deadline = time.monotonic() + 15
        left = sum(not ended(one, max(0.1, deadline - time.monotonic())) for one in held)
    return f"{left} of them are still held" if left else ""


def tokens(cluster: Cluster, _: Path) -> str:
    """Guessed tokens."""
    codes = []
    with httpx.Client(trust_env=False, base_url=cluster.api(1)) as client:
        for _number in range(50):
            guess = {"Authorization": f"Bearer gsm_{secrets.token_hex(32)}"}
            codes.append(client.get("/api/v1/nodes", headers=guess).status_code)
    if set(codes) - {401, 429}:
        return f"answered with {sorted(set(codes))}"
    return "" if 429 in codes else "as many guesses as one likes"


def pages(cluster: Cluster, _: Path) -> str:
    """A page of another site that uses the API of its visitor's machine."""
    for headers in ({"Origin": "http://evil.example"}, {"Host": "evil.example"}):
        answer = httpx.post(
            cluster.api(1) + "/api/v1/cluster/leave", headers=headers, trust_env=False, timeout=10
        )
        if answer.status_code < 400:
            return f"{headers} is answered with {answer.status_code}"
    return serves(cluster)


def bodies(cluster: Cluster, _: Path) -> str:
    """300 requests whose bodies never end."""
    with ExitStack() as stack:
        for one in sockets(300, int(cluster.port(1, "api"))):
            stack.enter_context(one)
            one.sendall(b"POST /api/v1/publish HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n{")
        return serves(cluster)


ATTACKS: dict[str, Attack] = {
    attack.__name__: attack for attack in (silent, oversized, forged, links, tokens, pages, bodies, join)
}


def main(names: Sequence[str]) -> int:
    if unknown := [name for name in names if name not in ATTACKS]:
        print(f"got {', '.join(unknown)}, expected some of {', '.join(ATTACKS)}", file=sys.stderr)
        return 2
    broken = 0
    with tempfile.TemporaryDirectory() as folder, Cluster(Path(folder), nodes=2) as cluster:
        for name in names or ATTACKS:
            try:
                broke = ATTACKS[name](cluster, Path(folder))
            except (OSError, httpx.HTTPError) as error:
                broke = f"{type(error).__name__}: {error}"
            broken += bool(broke)
            print(f"{'broken' if broke else 'held  '} {name}: {broke or ATTACKS[name].__doc__}", flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

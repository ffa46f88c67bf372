"""Attacks of docs/security.md on a fresh cluster of real processes, by somebody who has no key.

What takes certificates, or a place between two nodes, is tried by tests that make both.

::

    ./script/attack              all of them
    ./script/attack join tokens  these

A line for each: ``held`` or ``broken``, and why. Exit code: 0 all held, 1 some broke.
"""

from __future__ import annotations

import secrets
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import yaml

from gossamer.config import COOKIE_FILE
from gossamer.gossip.keyring import Keyring, at_address, cluster_key
from gossamer.gossip.wire import Ping, compound, encode
from gossamer.mqtt import encode as packet
from gossamer.mqtt.auth.passwords import set_password
from gossamer.mqtt.codec import packets as p

from .clients import Mqtt
from .harness import Cluster, Node, eventually

ROOT = Path(__file__).parents[2]
Attack = Callable[[Cluster, Path], str]
"""Returns what broke; blank: nothing did."""

CONNECT = bytes.fromhex("101000044d5154540402003c000461747461")
"""MQTT 3.1.1, clean session, client identifier ``atta``."""
HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000")
ACKNOWLEDGED = bytes.fromhex("000000040100000000")
CALL = b"\x83\x86\x04\x02/a\x01\x01a\x0f\x10\x10application/grpc\x00\x02te\x08trailers"
HEADERS = len(CALL).to_bytes(3, "big") + b"\x01\x04"
"""Headers of a gRPC call of the method ``/a``, as HTTP/2 packs them; the stream stands between the two."""
CONNECT_TIMEOUT = 10.0
RIGHT, WRONG = b"right", b"wrong"
QUICK = 8.0
"""Seconds that a login may take beside a flood: fewer than CONNECT_TIMEOUT, which ends the flood."""


def fresh(directory: Path) -> Cluster:
    """Two nodes that check the passwords of ann and bob, and let others in without a name."""
    for user in ("ann", "bob"):
        set_password(directory / "passwords", user, RIGHT.decode())
    return Cluster(directory, nodes=2, GOSSAMER_MQTT__AUTH__PASSWORD_FILE=str(directory / "passwords"))


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


def login(
    port: str, user: str, password: bytes = RIGHT, *, source: str = "127.0.0.1", **connect: Any
) -> tuple[int, ...]:
    """Session present, and the return code of CONNACK."""
    options = {"client_id": f"{user}-{source}", "username": user, "password": password} | connect
    for one in sockets(1, int(port), source=source):
        with one:
            one.sendall(packet(p.Connect(**options), 4))
            one.settimeout(20)
            answer = one.recv(4)
    return tuple(answer[2:])


@contextmanager
def overheard(ports: set[int]) -> Iterator[bytearray]:
    """What comes from or goes to these ports of this machine. Raises PermissionError: takes CAP_NET_RAW."""
    said, over, ipv4 = bytearray(), threading.Event(), 0x0800
    with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ipv4)) as ear:
        ear.bind(("lo", ipv4))
        ear.settimeout(0.2)

        def listen() -> None:
            while not over.is_set():
                try:
                    heard = ear.recv(65536)
                except TimeoutError:
                    continue
                transport = heard[(heard[0] & 15) * 4 :]
                if ports.intersection(struct.unpack("!HH", transport[:4])):
                    said.extend(transport)

        thread = threading.Thread(target=listen)
        thread.start()
        try:
            yield said
        finally:
            over.set()
            thread.join()


def reader(cluster: Cluster, _: Path) -> str:
    """Somebody on the path between nodes, who looks for a payload, a token, the cookie and the gossip key."""
    nodes = (1, 2)
    between = {int(cluster.port(n, service)) for n in nodes for service in ("gossip", "distribution")}
    before = {int(cluster.port(n, service)) for n in nodes for service in ("mqtt", "api")}
    with overheard(between) as sealed, overheard(before) as plain:
        with Mqtt(cluster.port(2), "hears", "private") as hears, Mqtt(cluster.port(1), "tells") as tells:
            payload = secrets.token_hex(16)
            tells.publish("private", payload)
            eventually(lambda: payload in hears.payloads, says="the message")
        with httpx.Client(trust_env=False, base_url=cluster.api(1) + "/api/v1", timeout=10) as client:
            made = client.post("/tokens", json={"name": "overheard", "role": "viewer"}).json()["token"]
            headers = {"Authorization": f"Bearer {made}"}
            relayed = client.get(f"/nodes/{cluster.nodes[1]['name']}/whoami", headers=headers)
        eventually(lambda: made.encode() in plain, says="what clients say")
    cookie = (cluster.data_dir / "node1" / COOKIE_FILE).read_text().strip()
    if relayed.status_code != 200 or payload.encode() not in plain or not sealed:
        return f"nothing was said to read: {relayed.text}"
    sought = {"payload": payload.encode(), "token": made.encode(), "cookie": cookie.encode()}
    sought |= {"gossip key": cluster_key(cookie)}
    found = [what for what, text in sought.items() if text in sealed]
    return f"it reads the {' and the '.join(found)}" if found else ""


def passwords(cluster: Cluster, _: Path) -> str:
    """400 wrong passwords of one address, beside right ones of another address and of the same."""
    port = cluster.port(1)
    with ExitStack() as stack:
        for number, one in enumerate(sockets(400, int(port), source="127.0.0.2")):
            stack.enter_context(one)
            one.sendall(packet(p.Connect(client_id=f"guess{number}", username="ann", password=WRONG), 4))
        for source in ("127.0.0.1", "127.0.0.2"):
            begun = time.monotonic()
            if (answer := login(port, "ann", source=source)) != (0, 0):
                return f"from {source} the right one is answered with {answer}"
            if (took := time.monotonic() - begun) > QUICK:
                return f"from {source} the right one takes {took:.1f} s"
    return serves(cluster)


def takeover(cluster: Cluster, _: Path) -> str:
    """The session of another user, asked for by its client identifier on another node."""
    mine = {"client_id": "owned", "clean_start": False}
    if login(cluster.port(1), "ann", **mine) != (0, 0):
        return "its user is not let in"
    others: list[tuple[str | None, bytes | None]] = [("bob", RIGHT), ("ann", WRONG), (None, None)]
    for user, password in others:
        for clean in (True, False):
            asked = mine | {"clean_start": clean, "username": user}
            if login(cluster.port(2), "", password, **asked) not in ((0, 4), (0, 5)):
                return f"{user} has it with clean_start={clean}"
    return "" if login(cluster.port(2), "ann", **mine) == (1, 0) else "its user has lost it"


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
    """Connections to the port of links that say nothing or too much, or go on calling what is not there."""
    with ExitStack() as stack:
        held = [stack.enter_context(one) for one in sockets(400, int(cluster.port(1, "distribution")))]
        for one in held[:50]:
            one.sendall(b"\xff" * 8192)
        for one in held[100:]:
            one.sendall(HTTP2)
        if broke := serves(cluster):
            return broke
        for one in held[100:]:
            one.sendall(ACKNOWLEDGED)
        deadline = time.monotonic() + 12
        for stream in range(1, 24, 2):
            for one in held[100:]:
                with suppress(OSError):
                    one.sendall(HEADERS + stream.to_bytes(4, "big") + CALL)
            time.sleep(1)
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
    attack.__name__: attack
    for attack in (
        silent,
        oversized,
        reader,
        passwords,
        takeover,
        forged,
        links,
        tokens,
        pages,
        bodies,
        join,
    )
}


def by_tests(says: str, *tests: str) -> Attack:
    """An attack that tests of this repository make."""

    def attack(_cluster: Cluster, _directory: Path) -> str:
        command = [sys.executable, "-m", "pytest", "-q", "--tb=line", *tests]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout.strip().rpartition("\n")[2] if done.returncode else ""

    attack.__doc__ = says
    return attack


TESTED: dict[str, Attack] = {
    "between": by_tests(
        "Somebody between two nodes who changes, adds and repeats, over tcp and grpc, with TLS and without.",
        "tests/distribution/test_seal.py",
        "tests/distribution/test_tls.py::test_a_relay_that_ends_tls_is_found_out_though_both_ends_know_the_cookie",
    ),
    "revoked": by_tests(
        "A revoked client certificate that resumes its session of TLS 1.2 or 1.3.",
        "tests/mqtt/connection/test_listeners.py::test_a_revoked_certificate_does_not_come_in_by_resuming_a_session",
    ),
    "claimed": by_tests(
        "A user name that nobody checks, before rules for that name.",
        "tests/mqtt/auth/test_sources.py::test_sources_do_not_open_the_door_to_unknown_names",
        "tests/mqtt/auth/test_sources.py::test_a_name_that_nobody_checks_does_not_come_in",
        "tests/mqtt/auth/test_acl.py::test_a_name_that_nobody_checks_is_no_name",
    ),
    "denied": by_tests(
        "A connected client whose subscriptions and will new rules do not allow any more.",
        "tests/mqtt/auth/test_acl.py::test_new_rules_hold_for_those_who_are_there",
        "tests/mqtt/auth/test_acl.py::test_new_rules_end_subscriptions_and_wills_of_those_who_are_there",
    ),
    "sites": by_tests(
        "A page of another site that speaks MQTT over its visitor's WebSockets.",
        "tests/mqtt/connection/test_websocket.py::test_a_page_of_another_host_connects_only_where_it_is_named",
    ),
    "salts": by_tests(
        "A guesser of user names who compares the salts that SCRAM tells, also after a restart.",
        "tests/mqtt/spec/test_scram.py::test_an_unknown_name_is_asked_like_a_known_one",
        "tests/node/test_private_files.py::test_salts_of_unknown_names_outlive_a_restart_and_are_those_of_the_cluster",
    ),
    "escapes": by_tests(
        "Names and topics that would move the terminal of who looks at them.",
        "tests/cli/render/test_escapes.py::test_no_table_lets_a_value_move_the_terminal",
        "tests/cli/local/test_logs.py::test_a_value_moves_no_terminal_and_forges_no_line",
    ),
    "register": by_tests(
        "A stranger at the ports of an embedded etcd that has certificates.",
        "tests/discovery/test_etcd_embedded.py::test_with_certificates_embedded_members_and_their_clients_know_each_other_by_them",
    ),
}


def main(names: Sequence[str]) -> int:
    known = ATTACKS | TESTED
    if unknown := [name for name in names if name not in known]:
        print(f"got {', '.join(unknown)}, expected some of {', '.join(known)}", file=sys.stderr)
        return 2
    broken = 0
    with tempfile.TemporaryDirectory() as folder, fresh(Path(folder)) as cluster:
        for name in names or known:
            try:
                broke = known[name](cluster, Path(folder))
            except PermissionError as error:
                print(f"left out {name}: {error}", flush=True)
                continue
            except (OSError, httpx.HTTPError) as error:
                broke = f"{type(error).__name__}: {error}"
            broken += bool(broke)
            print(f"{'broken' if broke else 'held  '} {name}: {broke or known[name].__doc__}", flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

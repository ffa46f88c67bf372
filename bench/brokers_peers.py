"""The brokers that ``brokers.py`` compares: how each is started on its core, and where it listens.

Rules: 1. All of a broker's processes are on the one core, both nodes of a pair too.  2. Everything of a
broker is in a temporary directory, on ports that were free a moment ago, on loopback.  3. Settings are each
broker's own, but for what would make it lose or refuse what the others deliver; a line says so where that is.
4. What is not installed is not there: :func:`installed` says which are.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from gossamer.launch.authority import Authority, local_names

HERE = Path(__file__).parent
PYTHON = sys.executable
RABBITMQ = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")


@dataclass
class Running:
    """A broker under test: its processes and the MQTT port of each node."""

    processes: list[subprocess.Popen[bytes]]
    ports: list[int]
    directory: tempfile.TemporaryDirectory[str] = field(repr=False)
    after: Callable[[], object] | None = None
    own: list[int] = field(default_factory=list)
    """Port of each node's own protocol, where that is not MQTT."""
    tls: int = 0
    """Port for TLS of the first node, where it has one; ``ca.pem`` beside its data signed for it."""

    def pids(self) -> list[int]:
        """Its processes and theirs: some brokers are started by a script."""
        parents: dict[int, list[int]] = {}
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                parents.setdefault(int(path.read_text().rpartition(")")[2].split()[1]), []).append(
                    int(path.parent.name)
                )
        found = [process.pid for process in self.processes]
        for pid in found:
            found += parents.get(pid, [])
        return found

    def stop(self) -> None:
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self.after is not None:
            self.after()
        self.directory.cleanup()


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, below those that the system gives to whoever connects."""
    with contextlib.ExitStack() as stack:
        found: list[int] = []
        while len(found) < count:
            one = stack.enter_context(socket.socket())
            port = random.randrange(10_000, 32_000)
            with contextlib.suppress(OSError):
                one.bind(("127.0.0.1", port))
                found.append(port)
        return found


def launch(
    core: int | str,
    command: list[str],
    directory: tempfile.TemporaryDirectory[str],
    environment: dict[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a broker's process on its core; what it says goes to a file beside its data."""
    path = Path(directory.name) / f"{len(list(Path(directory.name).iterdir()))}.log"
    with path.open("wb") as log:
        return subprocess.Popen(
            ["taskset", "-c", str(core), *command],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=None if environment is None else {**os.environ, **environment},
        )


def await_port(port: int, process: subprocess.Popen[bytes], directory: str, patience: float = 60) -> None:
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        if process.poll() is not None:
            break
        time.sleep(0.05)
    said = "\n".join(
        path.read_text(errors="replace")[-2000:] for path in sorted(Path(directory).glob("*.log"))
    )
    process.kill()
    raise RuntimeError(f"no broker on port {port} within {patience:g} s; it said:\n{said}")


def program(*names: str) -> str | None:
    """The first of these programs that is installed; daemons are not on every user's path."""
    for name in names:
        found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin:/usr/local/bin")
        if found:
            return found
    return None


def mosquitto(core: int, nodes: int = 1) -> Running:
    """It has no cluster; two of them are joined by its bridge, from the first to the second."""
    secure, *ports = free_ports(nodes + 1)
    directory = tempfile.TemporaryDirectory(prefix="bench-")
    running = Running([], ports, directory, tls=secure)
    shown = certificates_in(Path(directory.name))
    for index, port in reversed(list(enumerate(ports))):
        config = Path(directory.name) / f"mosquitto{index}.conf"
        # Its queue bound would make it drop what the others deliver.
        lines = [
            f"listener {port} 127.0.0.1",
            "allow_anonymous true",
            "max_queued_messages 0",
            "log_type error",
        ]
        if nodes == 1:
            # It would give up the rights to read the key.
            lines += ["user root", f"listener {secure} 127.0.0.1", f"certfile {shown['cert_file']}"]
            lines += [f"keyfile {shown['key_file']}"]
        if index + 1 < nodes:
            lines += [
                "max_inflight_messages 0",
                "connection next",
                f"address 127.0.0.1:{ports[index + 1]}",
                "topic # out 1",
            ]
        config.write_text("\n".join(lines) + "\n")
        process = launch(core, [program("mosquitto") or "mosquitto", "-c", str(config)], directory)
        running.processes.insert(0, process)
        await_port(port, process, directory.name)
    if nodes > 1:
        time.sleep(1)
    return running


def nats(core: int | str, nodes: int = 1) -> Running:
    """Its MQTT needs JetStream, here in files of the temporary directory; two nodes are one cluster."""
    ports = free_ports(3 * nodes)
    directory = tempfile.TemporaryDirectory(prefix="bench-")
    running = Running([], ports[2::3], directory, own=ports[::3])
    routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports[1::3])
    try:
        for index in range(nodes):
            client, cluster, mqtt = ports[3 * index : 3 * index + 3]
            config = Path(directory.name) / f"nats{index}.conf"
            lines = [
                f"server_name: bench{index}",
                f"listen: 127.0.0.1:{client}",
                f'jetstream {{ store_dir: "{directory.name}/store{index}" }}',
                # Its default of 100 unacknowledged is slow; 65,535 are for all filters of a client.
                f"mqtt {{ listen: 127.0.0.1:{mqtt}, max_ack_pending: 1300 }}",
            ]
            if nodes > 1:
                lines.append(f"cluster {{ name: bench, listen: 127.0.0.1:{cluster}, routes: [{routes}] }}")
            config.write_text("\n".join(lines) + "\n")
            running.processes.append(
                launch(core, [program("nats-server") or "nats-server", "-c", str(config)], directory)
            )
        for process, port in zip(running.processes, running.ports, strict=True):
            await_port(port, process, directory.name)
        if nodes > 1:
            time.sleep(8)  # they choose a leader
    except BaseException:
        running.stop()
        raise
    return running


def rabbitmq(core: int | str, nodes: int = 1) -> Running:
    """Debian's, with its MQTT plugin; the second node joins the first by its configuration."""
    ports = free_ports(3 * nodes + 1)
    directory = tempfile.TemporaryDirectory(prefix="bench-")
    base = Path(directory.name)
    mapper = {"ERL_EPMD_PORT": str(ports[-1]), "ERL_EPMD_ADDRESS": "127.0.0.1", "HOME": directory.name}
    names = [f"bench{index}@localhost" for index in range(nodes)]
    running = Running([], ports[2 : 3 * nodes : 3], directory, own=ports[: 3 * nodes : 3])
    running.after = lambda: subprocess.run(
        ["epmd", "-kill"], env={**os.environ, **mapper}, capture_output=True, check=False
    )
    cookie = base / ".erlang.cookie"
    cookie.write_text("bench-only-cookie")
    cookie.chmod(0o400)
    (base / "plugins").write_text("[rabbitmq_mqtt].\n")
    try:
        for index in range(nodes):
            amqp, dist, mqtt = ports[3 * index : 3 * index + 3]
            lines = [
                f"listeners.tcp.1 = 127.0.0.1:{amqp}",
                f"mqtt.listeners.tcp.1 = 127.0.0.1:{mqtt}",
                "mqtt.allow_anonymous = true",
                "mqtt.default_user = guest",
                "mqtt.default_pass = guest",
                "log.file.level = error",
                "cluster_formation.peer_discovery_backend = classic_config",
                *(
                    f"cluster_formation.classic_config.nodes.{at + 1} = {name}"
                    for at, name in enumerate(names)
                ),
            ]
            config = base / f"rabbitmq{index}.conf"
            config.write_text("\n".join(lines) + "\n")
            environment = {
                **mapper,
                "RABBITMQ_NODENAME": names[index],
                "RABBITMQ_NODE_PORT": str(amqp),
                "RABBITMQ_DIST_PORT": str(dist),
                "RABBITMQ_CONFIG_FILE": str(config),
                "RABBITMQ_MNESIA_BASE": str(base / f"mnesia{index}"),
                "RABBITMQ_LOG_BASE": str(base / f"log{index}"),
                "RABBITMQ_ENABLED_PLUGINS_FILE": str(base / "plugins"),
                "RABBITMQ_PID_FILE": str(base / f"pid{index}"),
                "ERL_CRASH_DUMP": str(base / "crash"),
                # One core: one scheduler, as its manual advises.
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none",
            }
            process = launch(core, [str(RABBITMQ)], directory, environment)
            running.processes.append(process)
            await_port(running.ports[index], process, directory.name, 120)
        if nodes > 1:
            time.sleep(3)
    except BaseException:
        running.stop()
        raise
    return running


def aedes_directory() -> Path | None:
    """Where ``npm install aedes aedes-server-factory`` was run: ``AEDES_DIR``."""
    path = Path(os.environ.get("AEDES_DIR", "."))
    return path if (path / "node_modules" / "aedes").is_dir() else None


AEDES = """
const {Aedes} = require('aedes'), {createServer} = require('aedes-server-factory');
Aedes.createBroker({concurrency: 1000}).then(broker =>
  createServer(broker).listen(+process.argv[1], '127.0.0.1'));
"""


def aedes(core: int) -> Running:
    (port,) = free_ports(1)
    directory = tempfile.TemporaryDirectory(prefix="bench-")
    modules = {"NODE_PATH": str((aedes_directory() or Path()).resolve() / "node_modules")}
    process = launch(core, [program("node", "nodejs") or "node", "-e", AEDES, str(port)], directory, modules)
    await_port(port, process, directory.name)
    return Running([process], [port], directory)


def tiny(core: int) -> Running:
    (port,) = free_ports(1)
    directory = tempfile.TemporaryDirectory(prefix="bench-")
    process = launch(core, [PYTHON, str(HERE / "tiny_broker.py"), str(port)], directory)
    await_port(port, process, directory.name)
    return Running([process], [port], directory)


def single(core: int) -> Running:
    """The MQTT side alone: no cluster, no supervision tree of a node around it."""
    (port,) = free_ports(1)
    directory = tempfile.TemporaryDirectory(prefix="bench-")
    process = launch(core, [PYTHON, str(HERE / "mqtt_single.py"), "--port", str(port)], directory)
    await_port(port, process, directory.name)
    return Running([process], [port], directory)


def gossamer(core: int, nodes: int = 1, transport: str = "grpc", *, tls: bool = False) -> Running:
    """Whole nodes, started as a user starts them; they share the core. ``transport`` carries their links,
    with certificates where ``tls`` says so."""
    secure, *ports = free_ports(4 * nodes + 1)
    directory = tempfile.TemporaryDirectory(prefix="bench-")
    seeds = [f"127.0.0.1:{ports[0]}"]
    running = Running([], ports[3::4], directory, tls=secure)
    shown = certificates_in(Path(directory.name))
    server = {key: shown[key] for key in ("cert_file", "key_file")}
    try:
        for index in range(nodes):
            gossip, links, http, mqtt = ports[4 * index : 4 * index + 4]
            config = {
                "node": {
                    "name": f"bench{index + 1}@127.0.0.1",
                    "cookie": "bench-only-cookie",
                    "data_dir": str(Path(directory.name) / f"node{index + 1}"),
                },
                "cluster": {
                    "env": "bench",
                    "host": "127.0.0.1",
                    "port": gossip,
                    "seed_endpoints": seeds,
                    "discovery": {"strategy": "static"},
                },
                "distribution": {
                    "host": "127.0.0.1",
                    "port": links,
                    "transport": transport,
                    "tls": shown if tls else None,
                },
                "mqtt": {
                    "server": {
                        "enable": True,
                        "listeners": [
                            {"type": "tcp", "host": "127.0.0.1", "port": mqtt},
                            *[{"type": "tls", "host": "127.0.0.1", "port": secure, "tls": server}][index:],
                        ],
                    },
                    "auth": {"allow_anonymous": True},
                },
                "api": {"enable": True, "host": "127.0.0.1", "port": http},
            }
            path = Path(directory.name) / f"node{index + 1}.yaml"
            path.write_text(json.dumps(config))  # YAML, all the same
            process = launch(core, [PYTHON, "-m", "gossamer.cli", "start", "-c", str(path)], directory)
            running.processes.append(process)
        for process, port in zip(running.processes, running.ports, strict=True):
            await_port(port, process, directory.name)
        if nodes > 1:
            time.sleep(3)  # they find each other
    except BaseException:
        running.stop()
        raise
    return running


def certificates_in(directory: Path) -> dict[str, str]:
    """The ``tls`` section of nodes on this machine, which share one new certificate."""
    Authority(directory).issue("node", local_names("127.0.0.1"))
    files = {"cert_file": "node.pem", "key_file": "node.key", "ca_file": "ca.pem"}
    return {key: str(directory / name) for key, name in files.items()}


@dataclass(frozen=True)
class Peer:
    """How to start it, and on how many nodes it runs."""

    start: Callable[[int], Running]
    nodes: int
    there: Callable[[], object]


PEERS = {
    "mosquitto": Peer(mosquitto, 1, lambda: program("mosquitto")),
    "gossamer": Peer(gossamer, 1, lambda: True),
    "single": Peer(single, 1, lambda: True),
    "tiny": Peer(tiny, 1, lambda: True),
    "nats": Peer(nats, 1, lambda: program("nats-server")),
    "aedes": Peer(aedes, 1, lambda: aedes_directory() and program("node", "nodejs")),
    "rabbitmq": Peer(rabbitmq, 1, RABBITMQ.exists),
    "mosquitto x2": Peer(lambda core: mosquitto(core, nodes=2), 2, lambda: program("mosquitto")),
    "gossamer x2": Peer(lambda core: gossamer(core, nodes=2), 2, lambda: True),
    "gossamer tcp x2": Peer(lambda core: gossamer(core, nodes=2, transport="tcp"), 2, lambda: True),
    "gossamer tls x2": Peer(lambda core: gossamer(core, nodes=2, tls=True), 2, lambda: True),
    "gossamer tcp tls x2": Peer(
        lambda core: gossamer(core, nodes=2, transport="tcp", tls=True), 2, lambda: True
    ),
    "nats x2": Peer(lambda core: nats(core, nodes=2), 2, lambda: program("nats-server")),
    "rabbitmq x2": Peer(lambda core: rabbitmq(core, nodes=2), 2, RABBITMQ.exists),
}


def installed() -> list[str]:
    """The peers that can run here."""
    return [name for name, peer in PEERS.items() if peer.there()]

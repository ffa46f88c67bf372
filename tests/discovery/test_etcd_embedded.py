"""An etcd that a node runs itself: its command line, its supervision, its quorum."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
from pathlib import Path

import psutil
import pytest
from certs import Authority
from structlog.testing import capture_logs

from discovery.etcds import PATIENCE, Registrant, eventually, free_port
from gossamer.config import config_from
from gossamer.config.discovery import EtcdConfig
from gossamer.discovery import Strategy, strategy_of
from gossamer.discovery.etcd_embedded import etcd_arguments, etcd_programs, sound_etcd
from gossamer.supervisor import Runtime, StopInit, Supervisor


def of(tree: dict[str, object], tmp_path: Path, node: str = "node1@127.0.0.1") -> Strategy:
    config = config_from({"cluster": {"discovery": {"strategy": "etcd", "etcd": tree}}})
    return strategy_of(config.cluster, node=node, data_dir=tmp_path)


def test_the_command_line_of_an_embedded_etcd_has_the_keys_of_the_configuration() -> None:
    """What binds everything is not what others are told: they reach the host that gossip has."""
    keys = {
        "embedded": True,
        "data_dir": "/var/lib/etcd",
        "bind_addr": "0.0.0.0:2380",
        "client_addr": "0.0.0.0:2379",
        "initial_cluster": "broker-1=http://10.0.0.1:2380, broker-2=http://10.0.0.2:2380",
        "bootstrap": False,
    }
    config = EtcdConfig.model_validate(keys)
    line = etcd_arguments(config, node="broker-1@10.0.0.1", host="10.0.0.1", data_dir=Path("data"))
    options = dict(zip(line[::2], line[1::2], strict=True))
    assert options == {
        "--name": "broker-1",
        "--data-dir": "/var/lib/etcd",
        "--listen-peer-urls": "http://0.0.0.0:2380",
        "--initial-advertise-peer-urls": "http://10.0.0.1:2380",
        "--listen-client-urls": "http://0.0.0.0:2379",
        "--advertise-client-urls": "http://10.0.0.1:2379",
        "--initial-cluster": "broker-1=http://10.0.0.1:2380,broker-2=http://10.0.0.2:2380",
        "--initial-cluster-state": "existing",
        "--auto-compaction-retention": "1",
        "--log-level": "error",
    }
    alone = EtcdConfig(embedded=True)
    line = etcd_arguments(alone, node="a@10.0.0.1", host="10.0.0.1", data_dir=Path("data"))
    assert line[line.index("--initial-cluster") + 1] == "a@10.0.0.1=http://127.0.0.1:2380"
    assert line[line.index("--data-dir") + 1] == "data/etcd"


def pretend(folder: Path, version: str) -> str:
    """A program that says that it is etcd of this version."""
    folder.mkdir()
    program = folder / "etcd"
    program.write_text(f"#!/bin/sh\necho 'etcd Version: {version}'\necho 'Go Version: go1'\n")
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize(
    ("versions", "chosen"),
    [
        (("3.5.3",), 0),
        (("3.4.23",), 0),
        (("3.5.1", "3.4.23", "3.5.9"), 1),
        (("3.5.0", "3.5.1", "3.5.2"), None),
        (("",), None),
    ],
)
async def test_no_etcd_that_loses_data_is_embedded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, versions: tuple[str, ...], chosen: int | None
) -> None:
    there = [pretend(tmp_path / str(number), version) for number, version in enumerate(versions)]
    monkeypatch.setenv("PATH", ":".join(str(Path(program).parent) for program in there))
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    programs = etcd_programs()
    assert programs == there
    # What the shell of the pretended programs needs.
    monkeypatch.undo()
    if chosen is not None:
        assert await sound_etcd(programs) == programs[chosen]
        return
    with pytest.raises(StopInit, match=r"3\.5\.3 or later.*etcd-server") as caught:
        await sound_etcd(programs)
    assert all(version in str(caught.value) for version in versions)


@pytest.fixture
def any_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """The etcd that the tests have may be one that a node refuses."""
    monkeypatch.setattr("gossamer.discovery.etcd_embedded.LOSES_DATA", frozenset())


class Embedded(Registrant):
    """A node's strategy with the etcd that it runs beside it."""

    def __init__(self, directory: Path, number: int, **keys: object) -> None:
        self.client, self.peer = free_port(), free_port()
        super().__init__(number)
        self.directory = directory / f"node{number}"
        addresses = {"client_addr": f"127.0.0.1:{self.client}", "bind_addr": f"127.0.0.1:{self.peer}"}
        self._tree = {"embedded": True, "timeout": "1s", **addresses, **keys}
        self.runtime = Runtime(node=f"node{number}@127.0.0.1")

        self._scheme = "https" if "tls" in keys else "http"

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.peer}"

    async def start(self, **keys: object) -> Embedded:
        self.strategy = of(self._tree | keys, self.directory, self.runtime.node)
        await self.runtime.start(Supervisor, self.strategy.children(), intensity=3, name="top")
        return self

    def process(self) -> psutil.Process:
        """The etcd itself."""
        mine = [child for child in psutil.Process().children(recursive=True) if child.name() == "etcd"]
        (one,) = [child for child in mine if str(self.directory / "etcd") in child.cmdline()]
        return one


@pytest.mark.usefixtures("any_release")
async def test_an_embedded_etcd_is_restarted_when_it_dies_and_ends_with_its_node(tmp_path: Path) -> None:
    node = await Embedded(tmp_path, 1).start()
    await node.enter()
    assert (tmp_path / "node1" / "etcd" / "member").is_dir()
    await node.sees(1)
    first = node.process()
    first.kill()
    await eventually(lambda: bool((etcds := _etcds(node)) and etcds != [first.pid]))
    await node.sees(1)
    assert node.strategy.registered
    await node.runtime.stop()
    assert _etcds(node) == []
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", node.client))


def _etcds(node: Embedded) -> list[int]:
    try:
        return [node.process().pid]
    except (psutil.Error, ValueError):
        return []


@pytest.mark.usefixtures("any_release")
async def test_one_that_does_not_bootstrap_joins_the_etcd_that_it_was_added_to(tmp_path: Path) -> None:
    one, two = Embedded(tmp_path, 1), Embedded(tmp_path, 2, bootstrap=False)
    initial = f"node1={one.url}"
    await one.start(initial_cluster=initial)
    await one.enter()
    add = ["member", "add", "node2", f"--peer-urls={two.url}"]
    control = str(Path(etcd_programs()[0]).with_name("etcdctl"))
    await asyncio.to_thread(
        subprocess.run,
        [control, "--endpoints", f"http://127.0.0.1:{one.client}", *add],
        check=True,
        capture_output=True,
        timeout=PATIENCE,
    )
    await two.start(initial_cluster=f"{initial},node2={two.url}")
    await two.enter()
    for node in (one, two):
        await node.sees(1, 2)
    await asyncio.gather(one.runtime.stop(), two.runtime.stop())


@pytest.mark.usefixtures("any_release")
async def test_with_certificates_embedded_members_and_their_clients_know_each_other_by_them(
    tmp_path: Path,
) -> None:
    ours, theirs = Authority(tmp_path, "ours"), Authority(tmp_path, "theirs")

    def tls(of: Authority, name: str) -> dict[str, str]:
        cert, key = of.issue(name, "127.0.0.1")
        return {"ca": str(ours.file), "cert": str(cert), "key": str(key)}

    members = [Embedded(tmp_path, number, tls=tls(ours, f"member{number}")) for number in (1, 2, 3)]
    initial = ",".join(f"node{number}={member.url}" for number, member in enumerate(members, 1))
    await asyncio.gather(*(member.start(initial_cluster=initial) for member in members))
    await asyncio.gather(*(member.enter() for member in members))
    for member in members:
        await member.sees(1, 2, 3)
    stranger = tls(theirs, "stranger")
    for port in (members[0].client, members[0].peer):
        for certificate in (False, True):
            context = ssl.create_default_context(cafile=ours.file)
            if certificate:
                context.load_cert_chain(stranger["cert"], stranger["key"])
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await _ask(port, context)
        assert await _ask(port, None) in (b"", b"HTTP/1.0 400 Bad Request")
    await asyncio.gather(*(member.runtime.stop() for member in members))


async def _ask(port: int, context: ssl.SSLContext | None) -> bytes:
    """The first line of what etcd says; whether it wants a certificate of TLS 1.3 shows with that."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        writer.write(b"GET /version HTTP/1.0\r\n\r\n")
        return (await reader.readline()).strip()
    finally:
        writer.transport.abort()


@pytest.mark.usefixtures("any_release")
async def test_an_embedded_etcd_whose_port_is_taken_says_which(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        tree = {
            "embedded": True,
            "client_addr": f"127.0.0.1:{port}",
            "bind_addr": f"127.0.0.1:{free_port()}",
        }
        runtime = Runtime(node="node1@127.0.0.1")
        with capture_logs(), pytest.raises(Exception, match=f"client_addr 127.0.0.1:{port} free"):
            await runtime.start(Supervisor, of(tree, tmp_path).children(), name="top")
        await runtime.stop()

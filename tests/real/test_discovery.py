"""Whole nodes, each a process of its own, that find each other through etcd and through Kubernetes."""

import asyncio
import json
import threading

import httpx
import psutil
from discovery.apiserver import ApiServer, pod, slice_of
from discovery.etcds import free_port

from real.harness import PATIENCE, Program, eventually

COOKIE = "discovery-cookie"


class Node(Program):
    """``gossamer start`` on free ports of ``host``."""

    def __init__(self, directory, number, cluster, host="127.0.0.1"):
        self.name = f"node{number}@{host}"
        self.api_port = free_port()
        directory = directory / f"node{number}"
        directory.mkdir()
        tree = {
            "node": {"name": self.name, "data_dir": str(directory / "data"), "cookie": COOKIE},
            "cluster": {"host": host, "port": 0, **cluster},
            "distribution": {"host": host, "port": 0},
            "mqtt": {"server": {"listeners": [{"host": host, "port": 0}]}},
            "api": {"host": host, "port": self.api_port},
        }
        config = directory / "node.yaml"
        config.write_text(json.dumps(tree))
        super().__init__(directory, "start", "-c", config, "--json")
        self.api = f"http://{host}:{self.api_port}"

    def sees(self):
        try:
            answer = httpx.get(f"{self.api}/ready", trust_env=False, timeout=10).json()
        except httpx.TransportError:
            assert self.process.poll() is None, self.err
            return set()
        return set(answer["members"]) if answer["ready"] else set()

    def etcd(self):
        """The embedded one."""
        (child,) = [child for child in self.family() if child.name() == "etcd"]
        return child


def whole(*nodes):
    names = {node.name for node in nodes}
    return lambda: all(node.sees() == names for node in nodes)


def end(nodes):
    """All at once, each in order: a second signal would end it without waiting for its etcd."""
    for node in nodes:
        node.process.terminate()
    for node in nodes:
        node.process.wait(PATIENCE)


def test_three_nodes_find_each_other_through_the_etcd_that_they_run_themselves(tmp_path):
    """All at once: none can ask an etcd before two of the three run. One etcd that is killed comes back."""
    clients = [free_port() for _ in range(3)]
    peers = [free_port() for _ in range(3)]
    initial = ",".join(f"node{n}=http://127.0.0.1:{port}" for n, port in enumerate(peers, 1))
    nodes = []
    try:
        for number in (1, 2, 3):
            etcd = {
                "embedded": True,
                "data_dir": "etcd",
                "bind_addr": f"127.0.0.1:{peers[number - 1]}",
                "client_addr": f"127.0.0.1:{clients[number - 1]}",
                "initial_cluster": initial,
                "bootstrap": True,
                "servers": [f"127.0.0.1:{port}" for port in clients],
            }
            nodes.append(Node(tmp_path, number, {"discovery": {"strategy": "etcd", "etcd": etcd}}))
        eventually(whole(*nodes), says="three nodes are one cluster")
        assert all((tmp_path / f"node{n}" / "data" / "etcd" / "member").is_dir() for n in (1, 2, 3))

        before = nodes[0].etcd()
        before.kill()
        eventually(lambda: [c for c in nodes[0].family() if c.name() == "etcd" and c.pid != before.pid])
        assert whole(*nodes)()
        etcds = [node.etcd() for node in nodes]
    finally:
        end(nodes)
    assert not [etcd for etcd in etcds if etcd.is_running() and etcd.status() != psutil.STATUS_ZOMBIE]


class ApiServerThread:
    """The API server in a loop of its own, beside a test that waits for processes."""

    def __init__(self, directory):
        self._up = threading.Event()
        self._over = asyncio.Event()
        self._directory = directory
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    async def _serve(self):
        self._loop = asyncio.get_running_loop()
        async with ApiServer(self._directory) as self.server:
            self._up.set()
            await self._over.wait()

    def do(self, coroutine):
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    def __enter__(self):
        self._thread.start()
        assert self._up.wait(10)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(10)


def test_pods_find_each_other_through_the_api_server_also_when_it_is_down_at_first(tmp_path):
    """Each pod has an address of its own and gossips on the port that the service names."""
    hosts, port = ("127.0.1.1", "127.0.1.2"), free_port()
    account = tmp_path / "serviceaccount"
    account.mkdir()
    nodes = []
    with ApiServerThread(tmp_path) as thread:
        server = thread.server
        server.slices = [slice_of(*(pod(host, f"gossamer-{n}") for n, host in enumerate(hosts)), port=port)]
        for name, text in (("token", "old"), ("ca.crt", server.authority.pem), ("namespace", "mqtt")):
            (account / name).write_text(text)
        thread.do(server.down())
        k8s = {"apiserver": server.url, "credentials": str(account)}
        discovery = {"strategy": "k8s", "retry_interval": "1s", "k8s": k8s}
        try:
            for number, host in enumerate(hosts):
                nodes.append(Node(tmp_path, number, {"discovery": discovery, "port": port}, host=host))
            for node in nodes:
                eventually(lambda node=node: "nothing answers there" in node.err)
            thread.do(server.up())
            for node in nodes:
                eventually(lambda node=node: "the service-account token is missing or not valid" in node.err)
            (account / "token").write_text(server.token)
            eventually(whole(*nodes), says="two pods are one cluster")
        finally:
            end(nodes)

"""Whole nodes, each a process of its own, that find each other through etcd and through Kubernetes."""

import asyncio
from contextlib import suppress

import psutil
import pytest
from discovery.apiserver import ApiServer, pod, slice_of
from discovery.etcds import free_port

from gossamer.discovery.etcd_embedded import etcd_programs, sound_etcd
from gossamer.supervisor import StopInit
from real.harness import PATIENCE, InThread, Node, alive, eventually, whole

COOKIE = "discovery-cookie"


def start(directory, name, cluster):
    return Node(directory / name.partition("@")[0], name, node={"cookie": COOKIE}, cluster=cluster)


def etcd_of(node, *, besides=None):
    """The embedded one, once it serves: before it starts the program is asked for its version."""

    def serving():
        with suppress(psutil.NoSuchProcess):
            return [
                child
                for child in node.family()
                if child.name() == "etcd" and "--data-dir" in " ".join(child.cmdline()) and child != besides
            ]
        return []

    (child,) = eventually(serving, says="an etcd")
    return child


def end(nodes):
    """All at once, each in order: a second signal would end it without waiting for its etcd."""
    for node in nodes:
        node.process.terminate()
    for node in nodes:
        node.process.wait(PATIENCE)


@pytest.fixture
def embeddable():
    try:
        asyncio.run(sound_etcd(etcd_programs()))
    except StopInit as error:
        pytest.skip(str(error))


@pytest.mark.usefixtures("embeddable")
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
            discovery = {"strategy": "etcd", "etcd": etcd}
            nodes.append(start(tmp_path, f"node{number}@127.0.0.1", {"discovery": discovery}))
        eventually(lambda: whole(*nodes), says="three nodes are one cluster")
        assert all((tmp_path / f"node{n}" / "data" / "etcd" / "member").is_dir() for n in (1, 2, 3))

        before = etcd_of(nodes[0])
        before.kill()
        etcds = [etcd_of(nodes[0], besides=before), *map(etcd_of, nodes[1:])]
        assert whole(*nodes)
    finally:
        end(nodes)
    assert not alive(etcds)


def test_pods_find_each_other_through_the_api_server_also_when_it_is_down_at_first(tmp_path):
    """Each pod has an address of its own and gossips on the port that the service names."""
    hosts, port = ("127.0.1.1", "127.0.1.2"), free_port()
    account = tmp_path / "serviceaccount"
    account.mkdir()
    nodes = []
    with InThread(server := ApiServer(tmp_path)) as thread:
        server.slices = [slice_of(*(pod(host, f"gossamer-{n}") for n, host in enumerate(hosts)), port=port)]
        for name, text in (("token", "old"), ("ca.crt", server.authority.pem), ("namespace", "mqtt")):
            (account / name).write_text(text)
        thread.do(server.down())
        k8s = {"apiserver": server.url, "credentials": str(account)}
        discovery = {"strategy": "k8s", "retry_interval": "1s", "k8s": k8s}
        try:
            for number, host in enumerate(hosts):
                name = f"node{number}@{host}"
                nodes.append(start(tmp_path, name, {"discovery": discovery, "port": port}))
            for node in nodes:
                eventually(lambda node=node: "nothing answers there" in node.err)
            thread.do(server.up())
            for node in nodes:
                eventually(lambda node=node: "the service-account token is missing or not valid" in node.err)
            (account / "token").write_text(server.token)
            eventually(lambda: whole(*nodes), says="two pods are one cluster")
        finally:
            end(nodes)

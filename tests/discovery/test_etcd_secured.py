"""The etcd strategy against a real etcd that speaks TLS and knows its users."""

from __future__ import annotations

from pathlib import Path

import pytest
from certs import Authority

from discovery.etcds import Node, Server, eventually, keys
from gossamer.config import config_from
from gossamer.config.discovery import EtcdTlsConfig
from gossamer.discovery import DiscoveryFailedError, strategy_of
from gossamer.discovery.etcd import Etcd
from gossamer.discovery.etcd_client import EtcdClient


async def problem(client: EtcdClient) -> str:
    """What is wrong, twice in the same words; never the password."""
    told = []
    for _ in range(2):
        with pytest.raises(DiscoveryFailedError) as caught:
            await client.range("g/")
        told.append(str(caught.value))
    await client.close()
    assert told[0] == told[1]
    assert "hunter2" not in told[0]
    return told[0]


async def test_tls_with_an_authority_and_certificates_of_both_sides(tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path, "ours"), Authority(tmp_path, "theirs")
    with Server(tmp_path / "etcd", ours, certificates_of_clients=True) as server:
        ca, other = ours.file, theirs.file
        cert, key = ours.issue("node", "127.0.0.1")
        stranger, stranger_key = theirs.issue("stranger", "127.0.0.1")

        def asking(*files: Path, name: str = "") -> EtcdClient:
            ca, cert, key = (*files, None, None)[:3]
            return server.client(tls=EtcdTlsConfig(ca=ca, cert=cert, key=key, server_name=name))

        good = Node(server, 1, client=asking(ca, cert, key))
        await keys(good.client)
        await (await good.start()).enter()
        assert await keys(good.client) == ["g/test/nodes/node1"]
        await good.stop()

        assert "does it want TLS" in await problem(server.client())
        assert "tls.ca does not vouch for" in await problem(asking(other, cert, key))
        assert "refuses this node's certificate" in await problem(asking(ca))
        assert "refuses this node's certificate" in await problem(asking(ca, stranger, stranger_key))
        assert "for another host" in await problem(asking(ca, cert, key, name="etcd.example"))
        assert "are tls.ca, tls.cert and tls.key PEM" in await problem(asking(ca, cert, ca))
        missing = await problem(asking(tmp_path / "nothing.crt", cert, key))
        assert f"cannot read {tmp_path / 'nothing.crt'}: No such file" in missing


async def test_without_ca_the_authorities_of_the_system_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    with Server(tmp_path / "etcd", authority) as server:
        await keys(server.client(tls=EtcdTlsConfig(ca=authority.file)))
        named = {"servers": f"localhost:{server.port}", "tls": {"server_name": "localhost"}}
        tree = {"cluster": {"discovery": {"strategy": "etcd", "etcd": named}}}
        strategy = strategy_of(config_from(tree).cluster, node="a@b")
        assert isinstance(strategy, Etcd)
        assert "does not vouch for" in await problem(strategy._client)
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
        assert await keys(strategy._client) == []
        await strategy.release()


async def test_a_user_with_a_role_for_the_prefix_is_enough_and_goes_on_when_tokens_are_lost(
    tmp_path: Path,
) -> None:
    with Server(tmp_path / "etcd") as server:
        await keys(server.client())
        for command in (
            "user add root:hunter2",
            "user grant-role root root",
            "role add discovery",
            "role grant-permission discovery readwrite g/ --prefix=true",
            "user add node:hunter2",
            "user grant-role node discovery",
            "user add stranger:hunter2",
            "auth enable",
        ):
            server.control(*command.split())

        def asking(user: str, password: str = "hunter2") -> EtcdClient:
            return server.client(username=user, password=password)

        assert "check username and password" in await problem(server.client())
        assert "check username and password" in await problem(asking("node", "wrong"))
        assert "check username and the roles of that user" in await problem(asking("stranger"))

        one, two = Node(server, 1, client=asking("node")), Node(server, 2, client=asking("node"))
        for node in (one, two):
            await (await node.start()).enter()
        await one.sees(1, 2)
        # etcd keeps its simple tokens in memory; both the only endpoint and all tokens are lost here.
        server.kill()
        await eventually(one.troubled)
        server.start()
        three = await Node(server, 3, client=asking("node")).start()
        await three.enter()
        await one.sees(1, 2, 3)
        await one.strategy.keep()
        await one.sees(1, 2, 3)
        assert one.strategy.registered
        assert len(await keys(one.client)) == 3
        for node in (one, two, three):
            await node.stop()

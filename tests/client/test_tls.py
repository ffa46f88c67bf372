"""A node and a Python client that meet over TLS, on real sockets."""

import asyncio

import pytest
from certs import Authority

from gossamer import Client, Node
from gossamer.client.keeper import NotAttachedError
from gossamer.config import Config, LinkTlsConfig
from gossamer.errors import ConfigError
from gossamer.node.configured_files import file_problems

both = pytest.mark.parametrize("transport", ["grpc", "tcp"])


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


def tls_of(authority, file, *names):
    cert, key = authority.issue(file, *names)
    return LinkTlsConfig(cert_file=cert, key_file=key, ca_file=authority.file)


def config_of(tls, transport="grpc"):
    return Config.model_validate(
        {
            "node": {"name": "solo@127.0.0.1"},
            "cluster": {"port": 0, "discovery": "manual"},
            "distribution": {"port": 0, "transport": transport, "tls": tls.model_dump(mode="json")},
            "mqtt": {"server": {"listeners": []}},
            "api": {"enable": False},
        }
    )


@pytest.fixture
async def start():
    """Start a node, which is stopped at the end."""
    made = []

    async def start(config):
        made.append(await asyncio.to_thread(Node, config, creation=1, cookie="secret"))
        await made[-1].start()
        return made[-1]

    yield start
    for node in made:
        await node.stop()


def client_of(node, tls, transport, **options):
    where = ("127.0.0.1", node.ports["distribution"])
    return Client(where, cookie="secret", transport=transport, tls=tls, **options)


@both
async def test_a_client_names_itself_after_its_certificate(authority, start, transport):
    node = await start(config_of(tls_of(authority, "node", "127.0.0.1"), transport))
    async with client_of(node, tls_of(authority, "app", "app.example"), transport) as client:
        subscription = await client.subscribe("t/#", qos=1)
        await client.publish("t/x", "hello", qos=1)
        assert (await anext(subscription)).payload == b"hello"
        assert client.name.endswith("@app.example")


@both
async def test_a_client_without_tls_or_of_another_name_is_told(authority, start, transport):
    node = await start(config_of(tls_of(authority, "node", "127.0.0.1"), transport))
    with pytest.raises(NotAttachedError):
        await client_of(node, None, transport, timeout=1.0).start()
    tls = tls_of(authority, "app", "app.example")
    with pytest.raises(NotAttachedError):
        await client_of(node, tls, transport, name="solo2@127.0.0.1", timeout=1.0).start()


@both
async def test_a_reload_renews_certificates_and_keeps_the_client_attached(
    authority, start, transport, tmp_path
):
    node = await start(config_of(tls_of(authority, "node", "127.0.0.1"), transport))
    async with client_of(node, tls_of(authority, "app", "app.example"), transport) as client:
        session = node.distribution.session_of(client.name)
        renewed = Authority(tmp_path)
        renewed.issue("node", "127.0.0.1")
        assert str(authority.file) in await node.view.reload()
        await client.publish("t/x", "still here", qos=1)
        assert node.distribution.session_of(client.name) == session
        async with client_of(node, tls_of(renewed, "other", "other.example"), transport) as other:
            await other.publish("t/x", "of the new authority", qos=1)


def test_files_of_links_are_checked_before_a_node_starts(authority):
    config = config_of(tls_of(authority, "node", "10.0.0.9"))
    (problem,) = file_problems(config)
    assert "distribution.tls" in str(problem)
    assert "expected one that names 127.0.0.1" in str(problem)
    (authority.directory / "node.key").unlink()
    (problem,) = file_problems(config)
    assert problem.key == "distribution.tls.key_file"
    assert ConfigError("node.yaml", [problem])

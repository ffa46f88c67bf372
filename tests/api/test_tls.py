"""The API over HTTPS, and the command that asks it."""

import asyncio
import functools
import ssl

import httpx
import pytest
from certs import Authority

from api.fakes import FakeView
from gossamer.api import ApiServer, make_app
from gossamer.certificates import Certificates
from gossamer.cli.client import ApiClient
from gossamer.cli.errors import NodeUnreachableError
from gossamer.config import ApiConfig, TlsHostConfig
from gossamer.network import SystemNetwork
from gossamer.supervisor import Runtime


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


@pytest.fixture
def certificates(authority):
    cert, key = authority.issue("api", "127.0.0.1")
    return Certificates(TlsHostConfig(cert_file=cert, key_file=key))


@pytest.fixture
async def port(certificates):
    """The port of an API that serves HTTPS."""
    runtime = Runtime(node="node1@127.0.0.1", creation=1)
    pid = await runtime.start(
        ApiServer,
        functools.partial(make_app, FakeView()),
        config=ApiConfig(port=0),
        network=SystemNetwork(),
        tls=certificates.context,
    )
    yield (await runtime.call(pid, "address"))[1]
    await runtime.stop()


def asked(url, path="nodes"):
    """What the command gets."""
    with ApiClient(url) as client:
        return client.rows(path)


async def test_the_command_reaches_it_with_the_authority_of_its_environment(port, authority, monkeypatch):
    url = f"https://127.0.0.1:{port}"
    with pytest.raises(NodeUnreachableError, match="GOSSAMER_CACERT names the file of who signed it"):
        await asyncio.to_thread(asked, url)
    monkeypatch.setenv("GOSSAMER_CACERT", str(authority.file))
    assert await asyncio.to_thread(asked, url)


async def test_plain_http_is_refused_and_the_command_says_what_to_do(port, authority):
    with pytest.raises(NodeUnreachableError, match="try https://"):
        await asyncio.to_thread(asked, f"http://127.0.0.1:{port}")
    # And it goes on serving.
    context = ssl.create_default_context(cafile=authority.file)
    async with httpx.AsyncClient(verify=context) as client:
        assert (await client.get(f"https://127.0.0.1:{port}/health")).status_code == 200


async def test_other_nodes_are_asked_by_https_where_one_was(monkeypatch, authority):
    monkeypatch.setenv("GOSSAMER_CACERT", str(authority.file))
    row = {"name": "b@10.0.0.2", "status": "online", "address": "10.0.0.2:7946", "ports": {"api": 8091}}
    with ApiClient("https://10.0.0.1:8091") as client, client.direct(row) as direct:
        assert direct.url == "https://10.0.0.2:8091"


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"POST /api/v1/publish HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100000000\r\n\r\nx", b"413"),
        (b"no HTTP at all\r\n\r\n", b"400"),
    ],
)
async def test_a_caller_that_still_sends_gets_its_answer(port, authority, request_, status):
    """TLS has no half-closed connections."""
    context = ssl.create_default_context(cafile=authority.file)
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    failures = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, failure: failures.append(failure))
    writer.write(request_)
    async with asyncio.timeout(10):
        assert (await reader.readline()).startswith(b"HTTP/1.1 " + status)
        await reader.read()
    writer.close()
    assert not failures


async def test_a_renewed_certificate_is_shown_from_the_next_connection_on(port, certificates, tmp_path):
    renewed = Authority(tmp_path)
    renewed.issue("api", "127.0.0.1")
    await asyncio.to_thread(certificates.load)
    context = ssl.create_default_context(cafile=renewed.file)
    async with httpx.AsyncClient(verify=context) as client:
        assert (await client.get(f"https://127.0.0.1:{port}/health")).status_code == 200

"""The console over HTTPS, in a browser that believes the cluster's certificate and no other."""

import base64
import hashlib
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from playwright.sync_api import Error, expect

from real.console.checks import PATIENCE, talk
from real.harness import Cluster


@pytest.fixture(scope="module")
def secure(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("secure"), "--tls", "--tls-port", "0", nodes=2) as cluster:
        yield cluster


def url(cluster, number):
    return cluster.api(number).replace("http://", "https://")


def key_of(certificate: Path) -> str:
    """What a browser is told to believe: the digest of the public key."""
    public = x509.load_pem_x509_certificate(certificate.read_bytes()).public_key()
    digest = hashlib.sha256(public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))
    return base64.b64encode(digest.digest()).decode()


@pytest.fixture(scope="module")
def believer(launched, secure):
    """A browser that believes the certificates of both nodes."""
    files = Path(secure.facts["ca_file"]).parent
    keys = ",".join(key_of(files / f"node{number}.pem") for number in (1, 2))
    with launched(f"--ignore-certificate-errors-spki-list={keys}") as browser:
        yield browser


def test_pages_and_the_mqtt_client_work_without_one_plain_connection(believer, secure):
    page = believer.new_page(base_url=url(secure, 1))
    page.set_default_timeout(PATIENCE)
    asked, wrong = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("websocket", lambda socket: asked.append(socket.url))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda line: wrong.append(line.text) if line.type in ("error", "warning") else None)
    page.goto("/#/overview")
    expect(page.get_by_role("heading", name="node2@127.0.0.1")).to_be_visible()
    page.goto("/#/mqtt")
    expect(page.get_by_label("Address")).to_have_value(f"wss://127.0.0.1:{secure.port(1, 'mqtt_wss')}/mqtt")
    talk(page, "sealed")
    assert wrong == []
    assert {address.partition(":")[0] for address in asked} == {"https", "wss"}
    page.close()


def test_a_browser_that_does_not_know_the_authority_shows_nothing(browser, secure):
    page = browser.new_page()
    with pytest.raises(Error, match="ERR_CERT_AUTHORITY_INVALID"):
        page.goto(url(secure, 1))
    page.close()

"""``gossamer up --tls`` with real processes: links, API and MQTT, end to end."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from gossamer import BlockingClient
from gossamer.cli import ExitCode
from gossamer.config import LinkTlsConfig
from real.harness import Cluster, eventually, run


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("up"), "--tls", "--tls-port", "0", nodes=2) as made:
        yield made


@pytest.fixture(scope="module")
def ca_file(cluster) -> str:
    return cluster.facts["ca_file"]


def api(cluster, number):
    return cluster.api(number).replace("http://", "https://")


def command(cluster, ca_file, *arguments):
    outcome = run(*arguments, "--json", "--api", api(cluster, 1), env=environ(ca_file))
    assert (outcome.returncode, outcome.stderr) == (0, "")
    return json.loads(outcome.stdout)


def nodes(cluster, ca_file):
    found = command(cluster, ca_file, "nodes")
    return found["items"] if isinstance(found, dict) else found


def environ(ca_file):
    return {**os.environ, "GOSSAMER_CACERT": ca_file}


def mosquitto(ca_file, cluster, number, *arguments):
    return ["--cafile", ca_file, "-h", "127.0.0.1", "-p", cluster.port(number, "mqtt_tls"), *arguments]


def test_mosquitto_clients_cross_nodes_over_tls(cluster, ca_file):
    listen = mosquitto(ca_file, cluster, 2, "-t", "hello", "-q", "1", "-C", "1", "-W", "30")
    with subprocess.Popen(["mosquitto_sub", *listen], stdout=subprocess.PIPE, text=True) as listening:
        eventually(lambda: command(cluster, ca_file, "subscriptions"), says="a subscription")
        speak = mosquitto(ca_file, cluster, 1, "-t", "hello", "-q", "1", "-m", "tls")
        subprocess.run(["mosquitto_pub", *speak], check=True, timeout=30)
        assert listening.communicate(timeout=30)[0] == "tls\n"


def test_the_api_and_the_links_are_over_tls(cluster, ca_file):
    assert {node["status"] for node in nodes(cluster, ca_file)} == {"online"}
    refused = run("nodes", "--api", cluster.api(1))
    assert refused.returncode == ExitCode.UNREACHABLE
    assert "try https://" in refused.stderr
    written = yaml.safe_load((cluster.data_dir / "node1" / "node.yaml").read_text())
    assert written["distribution"]["tls"]["ca_file"] == ca_file


def test_a_python_client_comes_in_with_the_certificate_made_for_it(cluster, ca_file):
    files = Path(ca_file).parent
    tls = LinkTlsConfig(
        cert_file=files / "client.pem", key_file=files / "client.key", ca_file=files / "ca.pem"
    )
    with BlockingClient(cluster.data_dir / "cluster.json", tls=tls) as client:
        subscription = client.subscribe("t/#", qos=1)
        client.publish("t/x", "hello", qos=1)
        assert subscription.get(20).payload == b"hello"


def test_a_reload_keeps_links_up(cluster, ca_file):
    key = Path(ca_file).parent / "node1.key"
    key.write_bytes(key.read_bytes())
    before = nodes(cluster, ca_file)[1]["link"]
    assert str(key) in json.dumps(command(cluster, ca_file, "config", "reload"))
    assert nodes(cluster, ca_file)[1]["link"] == before == "up"

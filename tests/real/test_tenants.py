"""Two tenants and the default one on two real nodes, with the clients that people have."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gossamer.mqtt import set_password
from real.harness import Cluster, eventually

USERS = {"ann": "acme", "sue": "shop", "dan": None}


@pytest.fixture
def tenants(tmp_path: Path) -> Iterator[Cluster]:
    users = tmp_path / "users"
    for name, tenant in USERS.items():
        set_password(users, name, "pw", tenant=tenant)
    environ = {"GOSSAMER_MQTT__AUTH__PASSWORD_FILE": str(users)}
    with Cluster(tmp_path / "data", nodes=2, **environ) as cluster:
        yield cluster


def _as(user: str, cluster: Cluster, number: int, version: str) -> list[str]:
    return ["-p", cluster.port(number), "-u", user, "-P", "pw", "-V", version, "-q", "1"]


@pytest.mark.parametrize("version", ["311", "5"])
def test_clients_of_a_tenant_get_its_messages_and_no_others_from_the_other_node(
    tenants: Cluster, version: str
) -> None:
    """All subscribe to everything under one client identifier; each is sent one message, and one retained."""
    readers = {}
    for user in USERS:
        listen = [
            "mosquitto_sub",
            *_as(user, tenants, 2, version),
            "-i",
            "reader",
            "-v",
            "-C",
            "3",
            "-W",
            "30",
        ]
        filters = ["-t", "#", "-t", "$own/#"]
        readers[user] = subprocess.Popen([*listen, *filters], stdout=subprocess.PIPE, text=True)
    eventually(lambda: len(tenants.get(1, "/api/v1/topics")["items"]) == 2 * len(USERS))
    for user in USERS:
        for topic, more in (("x/y", []), ("$own/z", []), ("kept", ["-r"])):
            publish = [
                "mosquitto_pub",
                *_as(user, tenants, 1, version),
                "-t",
                topic,
                "-m",
                f"of {user}",
                *more,
            ]
            subprocess.run(publish, check=True, timeout=20)
    for user, reader in readers.items():
        out, _ = reader.communicate(timeout=30)
        assert sorted(out.splitlines()) == [f"$own/z of {user}", f"kept of {user}", f"x/y of {user}"]
        again = ["mosquitto_sub", *_as(user, tenants, 2, version), "-v", "-t", "#", "-W", "2"]
        late = subprocess.run(again, stdout=subprocess.PIPE, text=True, timeout=20, check=False)
        assert late.stdout.splitlines() == [f"kept of {user}"]

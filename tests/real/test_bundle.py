"""``gossamer support-bundle`` of a real node: what a helper wants, and none of what was to stay secret."""

import json
import os
import tarfile

import paho.mqtt.client as mqtt

from real.harness import Node, eventually, run

COOKIE, SECRET, PASSWORD, PAYLOAD = (
    "cookie-k7w2",
    "jwt-secret-p4x9-of-thirty-two-bytes",
    "password-q8z1",
    "payload-m3v6",
)


def test_no_secret_of_a_node_gets_into_it(tmp_path):
    users = tmp_path / "users"
    made = run("passwd", users, "ada", "--stdin", input=PASSWORD)
    assert made.returncode == 0, made.stderr
    hashed = users.read_text().partition(":")[2].strip()
    node = Node(
        tmp_path / "node",
        "one@127.0.0.1",
        node={"cookie": COOKIE},
        cluster={"discovery": "manual"},
        mqtt={"auth": {"password_file": str(users), "jwt": {"secret": SECRET}}},
        log={"level": "debug", "format": "json"},
    )
    try:
        api = node.api
        token = json.loads(
            run("tokens", "create", "helper", "--role", "admin", "--json", "--api", api).stdout
        )["token"]
        environ = {**os.environ, "GOSSAMER_TOKEN": token}
        client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, "meter-1")
        client.username_pw_set("ada", PASSWORD)
        client.connect("127.0.0.1", node.ports["mqtt"])
        client.loop_start()
        client.publish("plant/1", PAYLOAD, qos=1, retain=True).wait_for_publish(30)
        client.loop_stop()
        client.disconnect()
        eventually(lambda: "client_gone" in node.err)
        bundle = tmp_path / "bundle.tar.gz"
        done = run("support-bundle", bundle, "--clients", "--api", api, env=environ)
        assert done.returncode == 0, done.stderr
    finally:
        node.end()
    with tarfile.open(bundle) as archive:
        found = {name: archive.extractfile(name).read().decode() for name in archive.getnames()}
    assert any(name.endswith("one@127.0.0.1/config.json") for name in found), sorted(found)
    assert "client_gone" in next(
        text for name, text in found.items() if name.endswith("/logs/one@127.0.0.1.log")
    )
    assert any("ada" in text for text in found.values())
    for name, text in found.items():
        for secret in (COOKIE, SECRET, PASSWORD, PAYLOAD, hashed, token):
            assert secret not in text, f"{name} holds {secret}"

"""``gossamer autoheal`` on a real cluster that is cut in two and heals, from whichever node it is asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import paho.mqtt.client as paho
import pytest

from real.harness import Cluster, eventually, run
from real.test_faults import online, order
from real.test_kept import connect, leave


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes that may be broken, and are healed soon."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GOSSAMER_DRILL__FAULTS", "true")
        patch.setenv("GOSSAMER_CLUSTER__AUTOHEAL", "1s")
        with Cluster(tmp_path_factory.mktemp("split")) as cluster:
            yield cluster


def ask(cluster: Cluster, number: int, *words: str) -> Any:
    """``gossamer autoheal … --json``, asked of a node."""
    done = run("autoheal", *words, "--api", cluster.api(number), "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def keep(port: str, payload: str) -> None:
    client = connect(f"keeper of {payload}", port)
    client.publish("both/sides", payload, qos=1, retain=True).wait_for_publish(30)
    leave(client)


def kept(port: str) -> list[str]:
    """What is retained there."""
    got: list[str] = []
    client = connect("reader", port)
    client.on_message = lambda _client, _data, message: got.append(message.payload.decode())
    client.subscribe("both/sides", qos=1)
    eventually(lambda: got, says="the retained message")
    leave(client)
    return got


@pytest.mark.timeout(170)
def test_a_split_seen_healed_and_told_by_the_command(split: Cluster) -> None:
    name = {number: split.nodes[number - 1]["name"] for number in (1, 2, 3)}
    assert ask(split, 2, "history") == {"items": []}
    assert ask(split, 1, "plan", "--dry-run")["split"] is False
    subscribed: list[object] = []
    sleeper = connect("sleeper", split.port(3), clean=False)
    sleeper.on_subscribe = lambda *_: subscribed.append(True)
    sleeper.subscribe("across", qos=1)
    eventually(lambda: subscribed, says="SUBACK")
    leave(sleeper)

    for number, peers in ((1, (3,)), (2, (3,)), (3, (1, 2))):
        order(split, number, *peers)
    eventually(lambda: online(split, 1) == online(split, 2) == {1, 2}, says="two see each other")
    eventually(lambda: online(split, 3) == {3}, says="the third is alone")
    keep(split.port(1), "of two")
    speaker = connect("speaker", split.port(1))
    speaker.publish("across", "kept", qos=1).wait_for_publish(30)
    leave(speaker)
    keep(split.port(3), "of one")
    for number in (1, 2, 3):
        order(split, number)

    [episode] = eventually(lambda: ask(split, 3, "history")["items"], says="healed")
    assert sorted(episode["survivors"]) == [name[1], name[2]]
    assert episode["reloaded"] == [name[3]]
    status = eventually(
        lambda: (found := ask(split, 1, "status"))["phase"] == "idle" and not found["open"] and found,
        says="rest",
    )
    assert status["leader"] in name.values()

    got: list[bytes] = []
    sleeper = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id="sleeper", clean_session=False)
    sleeper.on_message = lambda _client, _data, message: got.append(message.payload)
    sleeper.connect("127.0.0.1", int(split.port(3)))
    sleeper.loop_start()
    eventually(lambda: got == [b"kept"], says="what was kept for the session on the other side")
    leave(sleeper)

    # The later of the two stands everywhere; the other is in the quarantine, whoever is asked.
    eventually(lambda: all(kept(split.port(number)) == ["of one"] for number in (1, 2, 3)), says="one of two")
    lists = [ask(split, number, "quarantine")["items"] for number in (1, 2, 3)]
    ids = [sorted(row["id"] for row in rows if row["table"] == "retained") for rows in lists]
    assert ids[0] == ids[1] == ids[2] != []
    again = run("autoheal", "quarantine", "replay", ids[0][0], "--api", split.api(3), "--json")
    assert again.returncode == 0, again.stderr
    eventually(lambda: all(kept(split.port(number)) == ["of two"] for number in (1, 2, 3)), says="replayed")
    assert ids[0][0] not in [row["id"] for row in ask(split, 2, "quarantine")["items"]]


@pytest.mark.timeout(120)
def test_what_is_set_is_agreed_and_outlives_a_node(split: Cluster) -> None:
    assert (
        run("autoheal", "set", "--autoheal", "7s", "--autoclean", "9m", "--api", split.api(2)).returncode == 0
    )

    def agreed() -> bool:
        told = [ask(split, number, "status") for number in (1, 2, 3)]
        return [(one["autoheal"], one["autoclean"]) for one in told] == [(7.0, 540.0)] * 3

    eventually(agreed, says="all nodes have it")
    file = split.data_dir / "node2@127.0.0.1" / "autoheal.json"
    files = [file] if file.exists() else list(split.data_dir.rglob("autoheal.json"))
    assert len(files) in (1, 3)
    assert all(json.loads(one.read_text())["settings"]["autoheal"] == 7.0 for one in files)

"""``gossamer autoheal`` on a real cluster that is cut in two and heals, from whichever node it is asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from real.clients import Mqtt
from real.harness import Cluster, eventually, run


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
    with Mqtt(port, f"keeper of {payload}") as client:
        client.publish("both/sides", payload, retain=True)


def kept(port: str) -> list[str]:
    """What is retained there."""
    with Mqtt(port, "reader", "both/sides") as client:
        eventually(lambda: client.got, says="the retained message")
        return client.payloads


@pytest.mark.timeout(170)
def test_a_split_seen_healed_and_told_by_the_command(split: Cluster) -> None:
    name = {number: split.nodes[number - 1]["name"] for number in (1, 2, 3)}
    assert ask(split, 2, "history") == {"items": []}
    assert ask(split, 1, "plan", "--dry-run")["split"] is False
    Mqtt(split.port(3), "sleeper", "across", clean=False).end()

    listener = Mqtt(split.port(3), "listener", "over/there")
    split.cut((1, 2), (3,))
    eventually(lambda: split.online(1) == split.online(2) == {1, 2}, says="two see each other")
    eventually(lambda: split.online(3) == {3}, says="the third is alone")
    # Nobody is told of a cut: what is sent is dropped, or stands still.
    dropped = split.get(3, "/api/v1/drill/faults")
    assert dropped["datagrams_dropped"] > 0
    assert dropped["streams_stalled"] >= 1
    keep(split.port(1), "of two")
    with Mqtt(split.port(1), "speaker") as speaker:
        speaker.publish("across", "kept")
    keep(split.port(3), "of one")
    split.cut()

    [episode] = eventually(lambda: ask(split, 3, "history")["items"], says="healed")
    assert sorted(episode["survivors"]) == [name[1], name[2]]
    assert episode["reloaded"] == [name[3]]
    status = eventually(
        lambda: (found := ask(split, 1, "status"))["phase"] == "idle" and not found["open"] and found,
        says="rest",
    )
    assert status["leader"] in name.values()

    with Mqtt(split.port(1), "speaker") as speaker:
        speaker.publish("over/there", "healed")
    eventually(lambda: listener.payloads == ["healed"], says="messages cross again")
    assert not listener.lost
    listener.end()
    with Mqtt(split.port(3), "sleeper", clean=False) as sleeper:
        eventually(lambda: sleeper.payloads == ["kept"], says="what was kept for the session")

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
    killed = split.kill(2)
    eventually(lambda: split.port_of_next_life(2, killed), says="it is back")
    split.wait_until_whole()
    assert agreed()

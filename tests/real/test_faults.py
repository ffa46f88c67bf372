"""The fault gate of real nodes: two are cut off from the third over HTTP, nobody is told, and it heals."""

from collections.abc import Iterator

import httpx
import paho.mqtt.client as paho
import pytest

from real.harness import Cluster, eventually


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes that may be broken."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GOSSAMER_DRILL__FAULTS", "true")
        with Cluster(tmp_path_factory.mktemp("broken")) as cluster:
            yield cluster


def order(cluster: Cluster, number: int, *peers: int) -> None:
    """Cut node ``number`` off from ``peers``, and from nobody else."""
    faults = [{"peer": cluster.nodes[peer - 1]["name"], "cut": True} for peer in peers]
    answer = httpx.put(
        cluster.api(number) + "/api/v1/drill/faults", json={"faults": faults}, trust_env=False, timeout=30
    )
    assert answer.status_code == 200, answer.text


def online(cluster: Cluster, number: int) -> set[int]:
    """Whom node ``number`` has a link to or believes to be there."""
    members = cluster.get(number, "/api/v1/members")
    return {int(str(m["name"])[4]) for m in members if m["status"] != "offline"}


def test_two_nodes_cut_off_from_a_third_and_back(broken: Cluster) -> None:
    got: list[str] = []
    listener = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id="listener")
    gone: list[object] = []
    subscribed: list[object] = []
    listener.on_disconnect = lambda *_: gone.append(True)
    listener.on_subscribe = lambda *_: subscribed.append(True)
    listener.on_message = lambda _client, _data, message: got.append(message.payload.decode())
    listener.connect("127.0.0.1", int(broken.port(3)))
    listener.loop_start()
    listener.subscribe("over/there", qos=1)
    eventually(lambda: subscribed, says="SUBACK")
    try:
        for number, peers in ((1, (3,)), (2, (3,)), (3, (1, 2))):
            order(broken, number, *peers)
        eventually(lambda: online(broken, 1) == online(broken, 2) == {1, 2}, says="two see each other")
        eventually(lambda: online(broken, 3) == {3}, says="the third is alone")
        dropped = broken.get(3, "/api/v1/drill/faults")
        assert dropped["datagrams_dropped"] > 0
        assert dropped["streams_stalled"] >= 1
        for number in (1, 2, 3):
            order(broken, number)
        for number in (1, 2, 3):
            eventually(
                lambda n=number: len(broken.get(n, "/ready").get("members", ())) == 3, says="whole again"
            )
        speaker = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id="speaker")
        speaker.connect("127.0.0.1", int(broken.port(1)))
        speaker.loop_start()
        eventually(
            lambda: any(t["filter"] == "over/there" for t in broken.get(1, "/api/v1/topics")["items"]),
            says="the route is back",
        )
        speaker.publish("over/there", "healed", qos=1).wait_for_publish(30)
        eventually(lambda: got == ["healed"], says="messages cross again")
        speaker.disconnect()
        speaker.loop_stop()
        assert gone == []
    finally:
        listener.disconnect()
        listener.loop_stop()

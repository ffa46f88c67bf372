"""The fault gate of real nodes: two are cut off from the third over HTTP, nobody is told, and it heals."""

from collections.abc import Iterator

import pytest

from real.clients import Mqtt
from real.harness import Cluster, eventually


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes that may be broken."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GOSSAMER_DRILL__FAULTS", "true")
        with Cluster(tmp_path_factory.mktemp("broken")) as cluster:
            yield cluster


def test_two_nodes_cut_off_from_a_third_and_back(broken: Cluster) -> None:
    with Mqtt(broken.port(3), "listener", "over/there") as listener:
        broken.cut((1, 2), (3,))
        eventually(lambda: broken.online(1) == broken.online(2) == {1, 2}, says="two see each other")
        eventually(lambda: broken.online(3) == {3}, says="the third is alone")
        dropped = broken.get(3, "/api/v1/drill/faults")
        assert dropped["datagrams_dropped"] > 0
        assert dropped["streams_stalled"] >= 1
        broken.cut()
        broken.wait_until_whole()
        eventually(
            lambda: any(t["filter"] == "over/there" for t in broken.get(1, "/api/v1/topics")["items"]),
            says="the route is back",
        )
        with Mqtt(broken.port(1), "speaker") as speaker:
            speaker.publish("over/there", "healed")
        eventually(lambda: listener.payloads == ["healed"], says="messages cross again")
        assert not listener.lost

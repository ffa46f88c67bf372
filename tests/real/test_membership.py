"""Join, leave and force-leave, by command and by HTTP, with real processes of strategy manual."""

import signal

import httpx
import pytest
from cli.conftest import run as run

from gossamer.cli import ExitCode
from real.harness import Node, eventually

COOKIE = "membership-cookie"


class Member(Node):
    """A node that is told to join and leave, by command and over HTTP."""

    def __init__(self, directory, name, run):
        self.run = run
        name = f"{name}@127.0.0.1"
        super().__init__(directory / name, name, node={"cookie": COOKIE}, cluster={"discovery": "manual"})

    @property
    def gossip(self):
        return f"127.0.0.1:{self.ports['gossip']}"

    def cluster_command(self, *arguments):
        return self.run("cluster", *arguments, "--api", self.api)

    def post(self, order, **body):
        return httpx.post(f"{self.api}/api/v1/cluster/{order}", json=body, trust_env=False, timeout=30)

    def status_of(self):
        return {row["name"]: row["status"] for row in self.get("/api/v1/members")}

    def online(self):
        """The others that it sees, and itself unless it has left."""
        return {name for name, status in self.status_of().items() if status == "online"}

    def refuses(self, order, words, *arguments, code=ExitCode.REFUSED, status=400, **body):
        """The command and HTTP say the same words, each in its own way."""
        outcome = self.cluster_command(order, *arguments)
        assert (outcome.code, outcome.out) == (code, "")
        assert words in outcome.err
        answer = self.post(order, **body)
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
        assert words in answer.json()["detail"]


@pytest.fixture
def nodes(tmp_path, run):
    started = [Member(tmp_path, name, run) for name in ("one", "two")]
    try:
        yield started
    finally:
        for node in started:
            node.end()


def joined(*nodes):
    names = {node.name for node in nodes}
    return lambda: all(node.online() == names for node in nodes)


def test_join_leave_and_force_leave_by_hand_each_with_its_exact_errors(nodes):
    one, two = nodes
    one.refuses("leave", "one@127.0.0.1: is alone, there is no cluster to leave")
    one.refuses(
        "join",
        "no seed joined: 127.0.0.1:9: refused (nothing listens there",
        "127.0.0.1:9",
        code=ExitCode.UNAVAILABLE,
        status=503,
        endpoints=["127.0.0.1:9"],
    )
    one.refuses(
        "join",
        "got 'nowhere', expected a gossip endpoint such as 10.0.0.2:7946",
        "nowhere",
        code=ExitCode.USAGE,
        status=422,
        endpoints=["nowhere"],
    )
    # Joining oneself is nothing to do, and no error.
    assert one.cluster_command("join", one.gossip).code == ExitCode.DONE
    assert one.online() == {one.name}

    assert two.cluster_command("join", one.gossip).code == ExitCode.DONE
    eventually(joined(one, two))
    two.refuses("join", "already in this cluster; nothing to join", one.gossip, endpoints=[one.gossip])
    one.refuses("force-leave", "one@127.0.0.1: is this node; use leave", one.name, name=one.name)
    one.refuses("force-leave", "two@127.0.0.1: is alive; run leave on that node", two.name, name=two.name)
    one.refuses("force-leave", "who@127.0.0.1: no member of that name", "who@127.0.0.1", name="who@127.0.0.1")

    assert two.post("leave").status_code == 200
    eventually(lambda: one.online() == {one.name})
    assert two.online() == set()
    two.refuses("leave", "two@127.0.0.1: is alone, there is no cluster to leave")
    # A name is as good as an address.
    assert two.cluster_command("join", one.gossip.replace("127.0.0.1", "localhost")).code == ExitCode.DONE
    eventually(joined(one, two))

    two.end(signal.SIGKILL)
    eventually(lambda: one.status_of()[two.name] == "offline")
    assert one.cluster_command("force-leave", two.name).code == ExitCode.DONE
    one.refuses("force-leave", "two@127.0.0.1: no member of that name", two.name, name=two.name)

"""``gossamer config reload``, of a node that is really there and a file that is really wrong."""

from contextlib import asynccontextmanager

import httpx
import pytest
from api.served import in_thread

from gossamer.cli import ExitCode
from gossamer.config import config_from
from gossamer.node import Node

HOME = {"host": "127.0.0.1", "port": 0}


@pytest.fixture
def acl(tmp_path):
    file = tmp_path / "acl"
    file.write_text("allow all * own/%c/#\n")
    return file


@pytest.fixture
def node(acl):
    """The URL of the API of a node in a thread of its own, which has ``acl``."""
    config = config_from(
        {
            "node": {"name": "node1@127.0.0.1"},
            "cluster": HOME,
            "distribution": HOME,
            "api": HOME,
            "mqtt": {"server": {"listeners": [HOME]}, "auth": {"acl_file": str(acl)}},
        }
    )

    @asynccontextmanager
    async def live():
        node = Node(config, creation=1, cookie="of a node that is alone")
        await node.start()
        yield node
        await node.stop()

    with in_thread(live) as (node, _):
        yield f"http://127.0.0.1:{node.ports['api']}"


def test_a_file_with_a_mistake_is_refused_by_name_and_ends_the_command_with_a_code(node, acl, run):
    taken = run("config", "reload", "--api", node)
    assert (taken.code, str(acl) in taken.out) == (ExitCode.DONE, True), taken.err

    acl.write_text("allow all * own/%c/#\nallow everybody everything\n")
    answer = httpx.post(f"{node}/api/v1/config/reload", json={}, trust_env=False)
    assert answer.status_code == 400
    for word in (str(acl), "what was read before stays"):
        assert word in answer.json()["detail"]

    refused = run("config", "reload", "--api", node)
    assert (refused.code, refused.out) == (ExitCode.REFUSED, "")
    assert answer.json()["detail"] in refused.err

    acl.write_text("allow all * own/%c/#\nallow all * all/#\n")
    assert run("config", "reload", "--api", node).code == ExitCode.DONE

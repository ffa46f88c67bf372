"""``gossamer config reload``, of a node that is really there and a file that is really wrong."""

import asyncio
import threading

import httpx
import pytest
import structlog

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
    running, told = threading.Event(), {}

    async def live():
        node = Node(config, creation=1, cookie="of a node that is alone")
        await node.start()
        told.update(port=node.ports["api"], loop=asyncio.get_running_loop(), stop=asyncio.Event())
        running.set()
        await told["stop"].wait()
        await node.stop()

    # A node says on standard output what it does, which is a process of its own elsewhere.
    with structlog.testing.capture_logs():
        thread = threading.Thread(target=lambda: asyncio.run(live()), daemon=True)
        thread.start()
        assert running.wait(30)
        yield f"http://127.0.0.1:{told['port']}"
        told["loop"].call_soon_threadsafe(told["stop"].set)
        thread.join(30)


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

"""``gossamer config reload``, of a node that is really there and a file that is really wrong."""

import asyncio
import json
import signal
import subprocess
import sys
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


async def declared(url, name):
    """Wait until a queue is there; return it."""
    async with httpx.AsyncClient(trust_env=False) as client:
        for _ in range(300):
            answer = await client.get(f"{url}/api/v1/queues/{name}")
            if answer.status_code == 200:
                break
            await asyncio.sleep(0.2)
    return answer.json()


async def test_a_signal_or_the_command_has_declared_queues_as_the_file_has_them_now(tmp_path, run):
    file, own = tmp_path / "node.yaml", {"host": "127.0.0.1", "port": 0}
    tree = {"node": {"name": "n1@127.0.0.1", "cookie": "c" * 64, "data_dir": str(tmp_path / "data")}}
    tree |= {"cluster": own, "distribution": own, "api": own, "mqtt": {"server": {"listeners": [own]}}}

    def declares(*queues):
        file.write_text(json.dumps(tree | {"queues": queues}))

    declares({"name": "jobs"})
    command = (sys.executable, "-m", "gossamer.cli", "start", "-c", str(file), "--json")
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    node = await asyncio.create_subprocess_exec(*command, **pipes)
    try:
        url = f"http://127.0.0.1:{json.loads(await node.stdout.readline())['ports']['api']}"
        await declared(url, "jobs")
        declares({"name": "jobs"}, {"name": "more"})
        node.send_signal(signal.SIGHUP)
        await declared(url, "more")
        declares({"name": "jobs", "replication": {"group": "hot"}}, {"name": "more", "type": "stream"})
        came = await asyncio.to_thread(run, "config", "reload", "--api", url)
        assert (came.code, "gossamer queues move jobs --group hot" in came.err) == (ExitCode.REFUSED, True)
        assert "jobs refused, more changed" in came.out
        assert (await declared(url, "more"))["type"] == "stream"
    finally:
        node.terminate()
        await node.wait()

"""The back end of namespaces with real nodes: they lose each other, find each other, and leave nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from drill.made import cut_between

from gossamer.drill.stage.backend import BackEndError
from gossamer.drill.stage.netns import NetnsBackEnd
from gossamer.drill.stage.netplan import maker_of
from gossamer.launch import NodePlan
from real.harness import eventually

DRILL = """
import asyncio, sys
from pathlib import Path
from gossamer.drill.stage.netns import NetnsBackEnd
async def main():
    backend = NetnsBackEnd(ended=print)
    await backend.start(nodes=2, directory=Path(sys.argv[1]), settings={}, patience=60)
    print("pids", *backend.pids.values(), flush=True)
    await asyncio.sleep(1000)
asyncio.run(main())
"""


@pytest.fixture(autouse=True)
def _rights() -> None:
    try:
        NetnsBackEnd(ended=lambda *_: None)
    except BackEndError as error:
        pytest.skip(str(error))


def spaces_of(pid: int) -> list[str]:
    names = (path.name for path in Path("/run/netns").iterdir())
    return [name for name in names if (maker := maker_of(name)) is not None and maker.pid == pid]


def online(node: NodePlan) -> list[str]:
    members = httpx.get(f"{node.api}/api/v1/members", trust_env=False, timeout=10).json()
    return sorted(member["name"] for member in members if member["status"] == "online")


async def test_nodes_lose_and_find_each_other_by_packets_alone(tmp_path: Path):
    ends: list[object] = []
    backend = NetnsBackEnd(ended=lambda *end: ends.append(end))
    try:
        await backend.start(nodes=2, directory=tmp_path, settings={}, patience=60)
        one, two = backend.nodes
        assert online(one) == online(two) == [one.name, two.name]
        await backend.apply(cut_between([one.name], [two.name]), seconds=600)
        eventually(lambda: (online(one), online(two)) == ([one.name], [two.name]), says="both are alone")
        await backend.apply((), seconds=0)
        eventually(lambda: online(one) == online(two) == [one.name, two.name], says="one cluster")
    finally:
        await backend.close()
        await backend.close()
    assert ends == []


def test_a_drill_that_is_killed_leaves_no_node_and_no_namespace(tmp_path: Path):
    command = [sys.executable, "-c", DRILL, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as drill:
        assert drill.stdout is not None
        pids = next(line.split()[1:] for line in drill.stdout if line.startswith("pids"))
        assert len(spaces_of(drill.pid)) == 3
        drill.send_signal(signal.SIGKILL)
    eventually(lambda: not spaces_of(drill.pid), says="the namespaces go")
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), says="the nodes end")

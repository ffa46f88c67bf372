"""Namespaces of a drill: packets really stop, the drill itself still gets through, and nothing is left."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from drill.made import cut_between

from gossamer.drill.stage.backend import BackEndError, LinkFault
from gossamer.drill.stage.netns import Namespaces, NetnsBackEnd, abilities_here, check_rights, leftovers
from gossamer.drill.stage.netplan import maker_of
from gossamer.launch import NodePlan
from real.harness import eventually

NAMES = {"one": 1, "two": 2, "three": 3}
PORT = 7777
BETWEEN = 20
"""Datagrams for each question whether they pass."""

# Echoes datagrams and connections at an address.
ECHO = f"""
import socket, sys, threading
host = sys.argv[1]
listener = socket.create_server((host, {PORT}))
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind((host, {PORT}))
def serve():
    while True:
        data, address = datagrams.recvfrom(2000)
        datagrams.sendto(data, address)
threading.Thread(target=serve, daemon=True).start()
print("ready", flush=True)
while True:
    connection, _ = listener.accept()
    threading.Thread(target=lambda c: [c.sendall(d) for d in iter(lambda: c.recv(100), b"")],
                     args=(connection,), daemon=True).start()
"""
# Says what it hears.
HEAR = """
import socket
hearing = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
hearing.bind(("", 8888))
print("ready", flush=True)
print(hearing.recv(100))
"""
# Says how many of some datagrams to an address come back.
ASK = f"""
import socket, sys
asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asking.settimeout(float(sys.argv[2]))
heard = 0
for number in range({BETWEEN}):
    asking.sendto(bytes([number]), (sys.argv[1], {PORT}))
    try:
        asking.recv(100)
        heard += 1
    except TimeoutError:
        pass
print(heard)
"""

# Starts two nodes, and waits to be killed.
DRILL = """
import asyncio, sys
from pathlib import Path
from gossamer.drill.stage.netns import NetnsBackEnd
async def main():
    backend = NetnsBackEnd(ended=print)
    await backend.start(nodes=2, directory=Path(sys.argv[1]), settings={}, start_timeout=60)
    print("pids", *backend.pids.values(), flush=True)
    await asyncio.sleep(1000)
asyncio.run(main())
"""


@pytest.fixture(scope="module")
def able() -> frozenset[str]:
    try:
        check_rights()
        return abilities_here()
    except BackEndError as error:
        pytest.skip(str(error))


@pytest.fixture
def net(able: frozenset[str]) -> Iterator[Namespaces]:
    net = Namespaces(3, abilities=able)
    processes: list[subprocess.Popen[bytes]] = []
    try:
        net.open()
        for node in NAMES.values():
            echo = [sys.executable, "-c", ECHO, net.plan.host(node)]
            command = ["ip", "netns", "exec", net.plan.space(node), *echo]
            processes.append(subprocess.Popen(command, stdout=subprocess.PIPE))
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
        yield net
    finally:
        net.close()
        for process in processes:
            process.communicate(timeout=60)


def apply(net: Namespaces, *faults: LinkFault) -> None:
    net.apply(faults, NAMES)


def heard(net: Namespaces, source: int, target: int, *, patience: float = 0.02) -> int:
    """How many of twenty datagrams from one node to another come back; 0 is the hub."""
    ask = [sys.executable, "-c", ASK, net.plan.host(target), str(patience)]
    done = subprocess.run(
        ["ip", "netns", "exec", net.plan.space(source), *ask],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return int(done.stdout)


def test_a_cut_stops_packets_and_open_connections_until_it_is_lifted(net: Namespaces):
    with socket.create_connection((net.plan.host(3), PORT), timeout=30) as mine:
        mine.sendall(b"before")
        assert mine.recv(100) == b"before"
        apply(net, *cut_between(["one", "two"], ["three"]))
        assert heard(net, 1, 2, patience=5) == BETWEEN
        assert heard(net, 1, 3) == heard(net, 3, 2) == 0
        # The drill stands outside of its faults.
        mine.sendall(b"during")
        assert mine.recv(100) == b"during"
        assert heard(net, 0, 3, patience=5) == BETWEEN
    apply(net)
    assert heard(net, 1, 3, patience=5) == heard(net, 3, 2, patience=5) == BETWEEN


def test_a_cut_of_one_way_leaves_the_other(net: Namespaces):
    """Whatever node 1 says is lost, so no question of node 2 is answered; node 3 hears and is heard."""
    apply(net, LinkFault("one", "two", cut=True))
    assert heard(net, 1, 2) == heard(net, 2, 1) == 0
    assert heard(net, 1, 3, patience=5) == BETWEEN
    command = ["ip", "netns", "exec", net.plan.space(1), sys.executable, "-c", HEAR]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as hears:
        assert hears.stdout is not None
        assert hears.stdout.readline() == "ready\n"
        say = f"import socket; socket.socket(2, 2).sendto(b'still', ('{net.plan.host(1)}', 8888))"
        subprocess.run(
            ["ip", "netns", "exec", net.plan.space(2), sys.executable, "-c", say], check=True, timeout=60
        )
        assert hears.stdout.readline() == "b'still'\n"


def test_loss_and_delay_where_the_kernel_has_them(net: Namespaces, able: frozenset[str]):
    """Where it has not, the error says what to do instead."""
    for fault in (LinkFault("one", "two", loss=1.0), LinkFault("one", "two", delay=0.3)):
        what = "loss" if fault.loss else "delay"
        if what not in able:
            with pytest.raises(BackEndError, match=r"netem.*--backend gate"):
                apply(net, fault)
            continue
        apply(net, fault)
        assert heard(net, 1, 2, patience=0.1) == 0
        assert heard(net, 1, 3, patience=5) == BETWEEN
    apply(net)
    assert heard(net, 1, 2, patience=5) == BETWEEN


def here() -> Path:
    """The namespace that this thread is in."""
    return Path("/proc/thread-self/ns/net").readlink()


def spaces_of(pid: int) -> list[str]:
    """Namespaces that a process made."""
    names = (path.name for path in Path("/run/netns").iterdir())
    return [name for name in names if (maker := maker_of(name)) is not None and maker.pid == pid]


def test_closing_takes_everything_away_and_may_be_done_again(able: frozenset[str]):
    before = here()
    net = Namespaces(2, abilities=able)
    net.open()
    assert len(spaces_of(os.getpid())) == 3
    assert here() != before
    child = subprocess.Popen(["ip", "netns", "exec", net.plan.space(1), "sleep", "1000"])
    eventually(lambda: Path(f"/proc/{child.pid}/comm").read_text() == "sleep\n", says="the process runs")
    net.close()
    net.close()
    assert spaces_of(os.getpid()) == []
    assert here() == before
    assert child.wait(60) == -signal.SIGKILL


def test_what_a_killed_drill_and_its_janitor_left_goes_with_the_next_and_no_other(
    able: frozenset[str],
):
    script = (
        "from gossamer.drill.stage.netns import Namespaces\nimport subprocess, time\n"
        "net = Namespaces(1, abilities=frozenset())\nnet.open()\n"
        "child = subprocess.Popen(['ip', 'netns', 'exec', net.plan.space(1), 'sleep', '1000'])\n"
        "print(child.pid, net.janitor._process.pid, flush=True)\ntime.sleep(1000)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        inside, janitor = map(int, killed.stdout.readline().split())
        theirs = set(spaces_of(killed.pid))
        assert len(theirs) == 2
        assert not theirs & set(leftovers())
        os.kill(janitor, signal.SIGKILL)
        killed.kill()
    assert theirs <= set(leftovers())
    net = Namespaces(1, abilities=able)
    try:
        net.open()
        assert spaces_of(killed.pid) == []
        assert len(spaces_of(os.getpid())) == 2
        eventually(lambda: not Path(f"/proc/{inside}").exists(), says="its processes end")
    finally:
        net.close()


def online(node: NodePlan) -> list[str]:
    members = httpx.get(f"{node.api}/api/v1/members", trust_env=False, timeout=10).json()
    return sorted(member["name"] for member in members if member["status"] == "online")


async def test_nodes_lose_and_find_each_other_by_packets_alone(able: frozenset[str], tmp_path: Path):
    ends: list[object] = []
    backend = NetnsBackEnd(ended=lambda *end: ends.append(end))
    try:
        await backend.start(nodes=2, directory=tmp_path, settings={}, start_timeout=60)
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


def test_a_drill_that_is_killed_leaves_no_node_and_no_namespace(able: frozenset[str], tmp_path: Path):
    command = [sys.executable, "-c", DRILL, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as drill:
        assert drill.stdout is not None
        pids = next(line.split()[1:] for line in drill.stdout if line.startswith("pids"))
        assert len(spaces_of(drill.pid)) == 3
        drill.send_signal(signal.SIGKILL)
    eventually(lambda: not spaces_of(drill.pid), says="the namespaces go")
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), says="the nodes end")


def test_without_rights_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(BackEndError, match="need root; run this by sudo, or take --backend gate"):
        check_rights()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(BackEndError, match="install iproute2"):
        check_rights()

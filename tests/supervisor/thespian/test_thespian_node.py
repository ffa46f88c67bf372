"""Thespian actors on a real node, and an actor system of before on the port: nothing is faked here."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import psutil
import pytest
from real.harness import Program, eventually
from structlog.testing import capture_logs

from gossamer.supervisor import StartFailed, call, trap_exit
from gossamer.supervisor.thespian import ThespianActor
from gossamer.supervisor.thespian.wire import MAX_FRAME, to_node
from tests.supervisor.harness import is_alive
from tests.supervisor.thespian.test_thespian import actor, start_system

pytest.importorskip("thespian")
pytestmark = pytest.mark.real

HERE = Path(__file__).parent


def host_of(node):
    """The process in which the actor system of ``node`` lives."""
    return next((p for p in node.family() if "gossamer.supervisor.thespian.host" in p.cmdline()), None)


def test_an_actor_publishes_and_subscribes_through_a_node(tmp_path):
    """Client, broker, bridge, actor and all the way back; and again after the actor system was killed."""
    tree = {
        "node": {
            "name": "solo@127.0.0.1",
            "data_dir": str(tmp_path / "data"),
            "applications": ["thespian_app:children"],
        },
        "cluster": {"port": 0},
        "distribution": {"port": 0},
        "mqtt": {"server": {"listeners": [{"port": 0}]}, "auth": {"allow_anonymous": True}},
        "api": {"port": 0},
    }
    file = tmp_path / "node.yaml"
    file.write_text(json.dumps(tree))
    node = Program(tmp_path, "start", "-c", file, "--json", PYTHONPATH=str(HERE))
    try:
        ports = node.wait_for_ready()["ports"]

        def filters():
            answer = httpx.get(f"http://127.0.0.1:{ports['api']}/api/v1/topics", trust_env=False).json()
            return {item["filter"] for item in answer["items"]}

        listen = ["mosquitto_sub", "-p", str(ports["mqtt"]), "-t", "out/#", "-v", "-q", "1", "-W", "60"]
        with subprocess.Popen([*listen, "-C", "3"], stdout=subprocess.PIPE, text=True) as listener:
            eventually(lambda: filters() == {"in/#", "out/#"}, says="both have subscribed")
            publish = ["mosquitto_pub", "-p", str(ports["mqtt"]), "-q", "1"]
            subprocess.run([*publish, "-t", "in/live", "-m", "live"], check=True, timeout=30)
            subprocess.run([*publish, "-r", "-t", "in/kept", "-m", "kept"], check=True, timeout=30)
            assert [listener.stdout.readline() for _ in range(2)] == [
                "out/in/live LIVE\n",
                "out/in/kept KEPT\n",
            ]
            family = node.family()
            host = host_of(node)
            host.kill()
            # Its supervisor starts it again, and it subscribes again: what is retained comes first.
            assert listener.stdout.readline() == "out/in/kept KEPT\n"
            assert host_of(node).pid != host.pid
        family += node.family()
    finally:
        code = node.end()
    assert code == 0
    eventually(lambda: not any(is_alive(p.pid) for p in family), says="all of it is gone")


OLD = """
import sys, time
from thespian.actors import ActorSystem
ActorSystem("multiprocTCPBase", {"Admin Port": int(sys.argv[1])})
print("up", flush=True)
time.sleep(3600)
"""


async def test_an_admin_of_before_is_refused_and_left_alone(real_rt):
    """A main process that was killed leaves its admin running, to which Thespian would attach."""
    trap_exit(True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with subprocess.Popen(  # noqa: ASYNC220 - nothing else runs on this loop yet
        [sys.executable, "-c", OLD, str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "THESPIAN_BASE_IPADDR": "127.0.0.1"},
    ) as main:
        assert main.stdout.readline() == b"up\n"
        admins = [p for p in psutil.process_iter() if listens(p, port)]
        main.kill()
    try:
        # The admin, and its logger that inherited the socket.
        assert admins
        assert all(is_alive(p.pid) for p in admins)
        with capture_logs() as logs, pytest.raises(StartFailed, match="refused: admin port"):
            await start_system(port=port)
        said = " ".join(str(entry) for entry in logs)
        assert f"refused: admin port {port}" in said
        assert "an actor system of before may run there" in said
        # On a port of its own it runs beside it.
        await start_system()
        adder = await ThespianActor.start("thespian", actor("Adder"))
        assert await call(adder, 1, timeout=60) == 2
        assert all(is_alive(p.pid) for p in admins)
    finally:
        for process in admins:
            process.kill()


def listens(process, port):
    try:
        return any(c.laddr.port == port and c.status == "LISTEN" for c in process.net_connections("inet"))
    except psutil.Error:
        return False


EXPOSED = """
import socket, sys
open_to_all = socket.create_server(("0.0.0.0", 0))
from gossamer.supervisor.thespian.host import main
main(sys.argv[1:])
"""


@pytest.mark.parametrize("exposed", [True, False])
def test_a_host_that_listens_on_the_network_refuses_to_serve(exposed):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    code = EXPOSED if exposed else EXPOSED.replace("0.0.0.0", "127.0.0.1")
    with (
        ours,
        subprocess.Popen(
            [sys.executable, "-c", code, str(theirs.fileno()), "0"],
            pass_fds=[theirs.fileno()],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        ) as host,
    ):
        theirs.close()
        ours.settimeout(60)
        try:
            if exposed:
                assert host.wait(60) == 72
                assert "refused: sockets are open to the network" in host.stderr.read()
            else:
                assert to_node(ours.recv(2 * MAX_FRAME)).port > 0
        finally:
            family = [p.pid for p in psutil.process_iter() if group_of(p) == host.pid]
            if host.poll() is None:
                os.killpg(host.pid, signal.SIGKILL)
    eventually(lambda: not any(map(is_alive, family)), says="all of its group is gone")


def group_of(process):
    try:
        return os.getpgid(process.pid)
    except ProcessLookupError:
        return None

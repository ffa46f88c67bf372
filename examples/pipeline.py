"""A pipeline over three nodes that survives ``kill -9`` of one: three real processes, stages on each.

    $ python examples/pipeline.py
    starting three nodes
    three nodes are up, the client is attached to node1@127.0.0.1
    100 results
    kill -9 node1@127.0.0.1
    200 results
    300 results
    nothing is missing, nothing is wrong; the client moved to another node

Every node runs the stages ``parse``, ``square`` and ``label`` as supervised children. A stage hands what it
made to the next stage on another node, and asks one more node when that one does not answer. Who drives it
is a ``Client``: it calls the first stage, and when its node is killed it moves on and asks again.
"""

import asyncio
import contextlib
import itertools
import logging
import os
import signal
import socket
import sys
import tempfile
from functools import partial

import structlog

from gossamer import ChildSpec, Client, GenServer, Node, call
from gossamer.config import Config
from gossamer.distribution import node, nodes
from gossamer.supervisor import CallFailed, CallTimeout, Reply

COOKIE = "pipeline"
STAGES = {
    "parse": (int, "square"),
    "square": (lambda number: number * number, "label"),
    "label": (lambda number: f"result {number}", None),
}


class Stage(GenServer):
    """Does its work on an item and passes it on."""

    async def init(self, name):
        self.work, self.next = STAGES[name]
        self.turn = itertools.count()

    async def handle_call(self, item, caller):
        made = self.work(item)
        return Reply(made if self.next is None else await self.pass_on(made))

    async def pass_on(self, item):
        while True:
            names = sorted([*nodes(), node()])
            where = names[next(self.turn) % len(names)]
            with contextlib.suppress(CallFailed, CallTimeout):
                return await call((self.next, where), item, 1.0)


def children():
    stages = [ChildSpec(name, partial(Stage.start_link, name, name=name)) for name in STAGES]
    return [*stages, ChildSpec("seen", partial(Seen.start_link, name="seen"))]


async def run_node(number, directory, ports):
    """One node, in a process of its own, until it is killed."""
    gossip, link = ports[2 * number : 2 * number + 2]
    config = Config.model_validate(
        {
            "node": {"name": f"node{number + 1}@127.0.0.1", "cookie": COOKIE, "data_dir": directory},
            "cluster": {"port": gossip, "seed_endpoints": [f"127.0.0.1:{port}" for port in ports[::2]]},
            "distribution": {"port": link},
            "mqtt": {"server": {"listeners": []}},
            "api": {"enable": False},
        }
    )
    running = Node(config, creation=1, cookie=COOKIE, children=children())
    await running.start()
    await running.wait()


def free_ports(number):
    """Ports that nobody has right now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


async def listening(port):
    """The first node is up, and so it is the one that the client attaches to."""
    while True:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        await asyncio.sleep(0.05)


async def drive(processes, ports):
    results = []
    async with Client([f"127.0.0.1:{port}" for port in ports[1::2]], cookie=COOKIE, timeout=60) as client:
        # Until every node sees the other two.
        while min([len(await seen(client, f"node{n}@127.0.0.1")) for n in (1, 2, 3)]) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        attached = client.attached_to
        print("three nodes are up, the client is attached to", attached, flush=True)
        for number in range(300):
            results.append(await ask(client, str(number)))
            if len(results) % 100 == 0:
                print(len(results), "results", flush=True)
            if len(results) == 100:
                print("kill -9", attached, flush=True)
                processes[attached].send_signal(signal.SIGKILL)
        moved = client.attached_to != attached
    if results == [f"result {number * number}" for number in range(300)] and moved:
        print("nothing is missing, nothing is wrong; the client moved to another node")
    else:
        sys.exit(f"this should not happen: {len(results)} results, moved: {moved}, {results}")


async def seen(client, name):
    """The other nodes that ``name`` sees; nobody while it cannot be asked."""
    with contextlib.suppress(CallFailed, CallTimeout):
        return await client.call(("seen", name), None, 2.0)
    return []


async def ask(client, item):
    """Call the first stage on the node of the attachment, for as long as it takes."""
    while True:
        with contextlib.suppress(CallFailed, CallTimeout):
            return await client.call("parse", item, 10.0)


class Seen(GenServer):
    """Answers which nodes are up, for who waits for the cluster."""

    async def handle_call(self, request, caller):
        return Reply(nodes())


async def watch(name, process):
    """Nobody waits for a node that ended by itself."""
    code = await process.wait()
    if code != -signal.SIGKILL:
        raise RuntimeError(f"{name} ended with {code}; its own words stand above")


async def main():
    print("starting three nodes", flush=True)
    ports = free_ports(6)
    processes = {}
    with tempfile.TemporaryDirectory() as directory:
        try:
            async with asyncio.TaskGroup() as group:
                watching = []
                for number in range(3):
                    name = f"node{number + 1}@127.0.0.1"
                    processes[name] = await asyncio.create_subprocess_exec(
                        sys.executable, __file__, str(number), f"{directory}/{number}", *map(str, ports)
                    )
                    watching.append(group.create_task(watch(name, processes[name])))
                await listening(ports[1])
                await drive(processes, ports)
                for one in watching:
                    one.cancel()
        finally:
            for process in processes.values():
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    if len(sys.argv) > 1:
        asyncio.run(run_node(int(sys.argv[1]), sys.argv[2], [int(port) for port in sys.argv[3:]]))
    else:
        os.environ["GRPC_VERBOSITY"] = "NONE"
        asyncio.run(main())

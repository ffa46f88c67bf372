"""Every way to speak to a process of another node, by pid and by name; and in which order it arrives."""

import asyncio
import re
from pathlib import Path

import pytest

import gossamer
from gossamer.distribution import (
    RemoteProcesses,
    pid_of,
    remote_services,
)
from gossamer.errors import UsageError
from gossamer.supervisor import (
    Cast,
    Down,
    Exit,
    GenServer,
    Pid,
    Reply,
    Supervisor,
    call,
    cast,
    exit,  # noqa: A004
    link,
    monitor,
    receive,
    self_pid,
    send,
    trap_exit,
)
from gossamer.testing import seeds

from .conftest import failure

WAYS = pytest.mark.parametrize("way", ["pid", "name"])


class Echo(GenServer):
    async def init(self):
        trap_exit()
        self.got = []

    async def handle_call(self, request, caller):
        match request:
            case "got":
                return Reply(self.got)
            case "who":
                return Reply(caller.pid)
        return Reply(request)

    async def handle_cast(self, request):
        self.got.append(("cast", request))

    async def handle_info(self, message):
        self.got.append(("info", message))


async def pair(net):
    a, b = await net.pair()
    for node in (a, b):
        RemoteProcesses(node)
        await node.runtime.start(Supervisor, [remote_services(node)])
    pid = await b.runtime.start(Echo, name="echo")
    return a, b, {"pid": pid, "name": ("echo", "b")}


@WAYS
async def test_every_signal_reaches_a_process_by_pid_and_by_name(net, way):
    a, _, ways = await pair(net)
    where, pid = ways[way], ways["pid"]

    async def body():
        assert send(where, "sent") is True
        cast(where, "cast")
        assert await call(where, "called") == "called"
        assert await call(where, "who") == self_pid()
        exit(where, "signal")
        source = monitor(where)
        got = await call(where, "got")
        assert [kind for kind, _ in got] == ["info", "cast", "info"]
        assert (got[0][1], got[1][1], got[2][1].reason) == ("sent", "cast", "signal")
        exit(where, "kill")
        assert await receive() == Down(source, pid, "killed")

    await a.runtime.run(body)


@WAYS
async def test_whoever_is_no_process_may_do_the_same(net, way):
    a, b, ways = await pair(net)
    where = ways[way]
    assert a.runtime.send(where, 1)
    a.runtime.cast(where, 2)
    a.runtime.exit(where, "signal")
    got = await a.runtime.call(where, "got")
    assert got[:2] == [("info", 1), ("cast", 2)]
    assert got[2][1] == Exit(Pid("a", 1, 0), "signal")
    a.runtime.exit(where, "kill")
    await asyncio.sleep(0.1)
    assert not b.runtime.alive(ways["pid"])


async def test_a_link_takes_a_pid_and_a_name_is_looked_up_for_it(net):
    a, b, ways = await pair(net)

    async def body():
        trap_exit()
        with pytest.raises(UsageError, match="pid_of"):
            link(("echo", "b"))
        pid = await pid_of("echo", "b")
        assert pid == ways["pid"]
        link(pid)
        await call(pid, "linked")
        b.runtime.exit(pid, "kill")
        assert await receive() == Exit(pid, "killed")
        assert await pid_of("echo", "b") is None
        assert await failure(pid_of("echo", "z")) == "noconnection"

    await a.runtime.run(body)


@pytest.mark.parametrize("where", [("echo", "z"), ("nobody", "b"), Pid("z", 1, 1), Pid("b", 1, 99_999)])
async def test_who_is_not_there_is_told_as_the_kind_of_signal_demands(net, where):
    a, _, _ = await pair(net)
    lost = "z" in (getattr(where, "node", ""), *(where if isinstance(where, tuple) else ()))
    reason = "noconnection" if lost else "noproc"

    async def body():
        trap_exit()
        # A message may vanish; it is false only where that is known at once.
        assert send(where, 1) is not lost
        cast(where, 1)
        exit(where, "kill")
        assert await failure(call(where, 1)) == reason
        ref = monitor(where)
        down = await receive(timeout=5)
        assert (down.ref, down.reason) == (ref, reason)
        if isinstance(where, Pid):
            link(where)
            assert await receive(timeout=5) == Exit(where, reason)

    await a.runtime.run(body)


def test_no_module_that_reads_from_peers_can_unpickle_or_import():
    root = Path(gossamer.__file__).parent
    forbidden = re.compile(r"\b(pickle|marshal|shelve|dill|importlib|__import__|eval|exec)\b(?!`)")
    for package in ("distribution", "gateway", "client", "gossip", "mnesia_like", "routes"):
        for path in (root / package).rglob("*.py"):
            code = [
                line for line in path.read_text().splitlines() if line.lstrip().startswith(("import", "from"))
            ]
            assert not [line for line in code if forbidden.search(line)], path


class Storm:
    """Processes on three nodes tell each other numbers, by every kind of signal, while links break."""

    def __init__(self, net):
        self.rng = net.sim.rng("storm")
        self.net = net
        self.got = {}

    async def receiver(self):
        trap_exit()
        while True:
            message = await receive()
            if isinstance(message, Exit):
                message = message.reason
            elif isinstance(message, Cast):
                message = message.request
            sender, number, to = message
            self.got.setdefault((sender, to), []).append(number)

    async def sender(self, name, targets):
        numbers = dict.fromkeys(targets, 0)
        for _ in range(400):
            target = self.rng.choice(list(numbers))
            message = (name, numbers[target], str(target))
            numbers[target] += 1
            self.rng.choice([send, cast, exit])(target, message)
            await asyncio.sleep(self.rng.choice([0, 0, 0.001, 0.01]))
        return numbers

    async def run(self):
        nodes = [await self.net.start(name) for name in "abc"]
        for node in nodes:
            RemoteProcesses(node)
        self.net.connect(*nodes)
        await asyncio.sleep(2)
        receivers = [node.runtime.spawn(self.receiver) for node in nodes for _ in range(2)]
        sending = [
            asyncio.ensure_future(node.runtime.run(self.sender, f"{node.runtime.node}{n}", receivers))
            for node in nodes
            for n in range(2)
        ]
        while not all(one.done() for one in sending):
            self.net.reset(*self.rng.sample("abc", self.rng.randint(1, 3)))
            await asyncio.sleep(self.rng.uniform(0.01, 0.2))
        await asyncio.sleep(30)
        for index, one in enumerate(sending):
            for target, count in one.result().items():
                assert self.got.get((f"{'abc'[index // 2]}{index % 2}", str(target)), []) == list(
                    range(count)
                )


@seeds(4)
async def test_order_holds_for_every_pair_whatever_breaks(net):
    await Storm(net).run()

"""What peers do wrong to each other's processes, between whole nodes: nobody is hurt, and it is said."""

import asyncio
import dataclasses
from contextlib import contextmanager

import pytest
import structlog
from structlog.testing import capture_logs

from gossamer.distribution import register_message
from gossamer.distribution.remote.terms import _by_name
from gossamer.supervisor import (
    CallFailed,
    Down,
    Exit,
    GenServer,
    Pid,
    Reply,
    link,
    monitor,
    receive,
    trap_exit,
)
from gossamer.supervisor.process.signals import ExitSignal, SendSignal

from .clusters import nodes, restart


class Ledger(GenServer):
    async def init(self):
        self.got = []

    async def handle_call(self, request, caller):
        return Reply(self.got if request == "got" else request)

    async def handle_info(self, message):
        self.got.append(message)


@dataclasses.dataclass(frozen=True)
class Newer:
    """A message that the sender's version has and the receiver's has not."""

    amount: int


@contextmanager
def warnings():
    """What is logged, warnings included, which tests of whole nodes leave out else."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    with capture_logs() as logs:
        yield logs


@pytest.fixture
def unknown():
    """``Newer`` can be written, and not be read: as on a node of an older version."""
    register_message(Newer)
    name = f"{Newer.__module__}.Newer"
    del _by_name[name]
    yield name
    _by_name.pop(name, None)


@nodes(2, seeds=2)
async def test_a_message_of_an_unknown_type_is_refused_by_name(sim, cluster, unknown):
    here, there = cluster.nodes[1], cluster.nodes[2]
    ledger = await there.runtime.start(Ledger, name="ledger")
    with warnings() as logs:
        with pytest.raises(CallFailed) as caught:
            await here.runtime.call(("ledger", there.name), Newer(1))
        assert here.runtime.send(ledger, Newer(2))
        here.runtime.cast(ledger, Newer(3))
        await asyncio.sleep(1)
    # The caller is told what to do; of what nobody waits for, the receiver's log tells.
    assert caught.value.reason[0] == "unreadable"
    assert unknown in str(caught.value)
    assert "register_message()" in str(caught.value)
    refused = [entry for entry in logs if entry["event"] == "term_unreadable"]
    assert [(entry["node"], entry["to"]) for entry in refused] == [
        (here.name, "ledger"),
        (here.name, str(ledger)),
        (here.name, str(ledger)),
    ]
    assert all("register_message()" in entry["error"] for entry in refused)
    assert await here.runtime.call(ledger, "got") == []
    assert there.runtime.alive(ledger)


@nodes(2, seeds=2)
async def test_a_pid_of_an_earlier_life_of_a_node_is_nobody(sim, cluster):
    here = cluster.nodes[1]
    old = await cluster.nodes[2].runtime.start(Ledger, name="ledger")
    assert await here.runtime.call(old, "ping") == "ping"
    cluster.crash(2, "kill")
    await restart(cluster, 2)
    there = cluster.nodes[2]
    assert there.runtime.creation > old.creation
    # A process with the same number lives there now, and must not be taken for the old one.
    new = await there.runtime.start(Ledger, name="ledger")
    same_number = Pid(old.node, there.runtime.creation, old.number)

    async def body():
        trap_exit(True)
        ref = monitor(old)
        down = await receive()
        link(old)
        return ref, down, await receive()

    ref, down, left = await here.runtime.run(body)
    assert down == Down(ref, old, "noproc")
    assert left == Exit(old, "noproc")
    with pytest.raises(CallFailed, match=r"noproc.*its node has started again since; look it up by its name"):
        await here.runtime.call(old, "ping")
    here.runtime.send(old, "lost")
    here.runtime.exit(old, "kill")
    await asyncio.sleep(1)
    assert await here.runtime.call(new, "got") == []
    assert there.runtime.alive(same_number) == (same_number in there.runtime.table)
    assert await here.runtime.call(("ledger", there.name), "ping") == "ping"


@nodes(2, seeds=2)
async def test_a_peer_that_speaks_for_an_earlier_life_is_not_obeyed(sim, cluster):
    here, there = cluster.nodes[1], cluster.nodes[2]
    target = await here.runtime.start(Ledger, name="target")
    stale = Pid(there.name, there.runtime.creation - 1, 7)
    with warnings() as logs:
        there.runtime.route(ExitSignal(here.name, target, stale, "kill", linked=False))
        there.runtime.route(SendSignal(here.name, Pid(here.name, here.runtime.creation - 1, 1), "to nobody"))
        await asyncio.sleep(1)
    assert here.runtime.alive(target)
    assert here.runtime.remote.counts.stale == 1
    (report,) = [entry for entry in logs if entry["event"] == "stale_signal"]
    assert (report["node"], report["source"], report["to"]) == (there.name, str(stale), str(target))
    assert str(there.runtime.creation) in report["expected"]
    assert await there.runtime.call(target, "got") == []

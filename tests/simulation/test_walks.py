"""The walks of docs/design/architecture.md: which files a PUBLISH and a SUBSCRIBE go through, in order."""

import asyncio
import re
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

import gossamer

from .clusters import nodes

HERE = Path(__file__).resolve()
PACKAGE = str(Path(gossamer.__file__).parent) + "/"
PAGE = HERE.parents[2] / "docs/design/architecture.md"
OTHERS = ("gossip/", "testing/")
CLIENT = PACKAGE + "mqtt/client.py"


def walk(title):
    """The files that a section of the page links to, in its order."""
    [section] = re.findall(rf"^## {title}\n(.*?)^## ", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    return re.findall(r"\]\(\.\./\.\./gossamer/(\S+\.py)\)", section)


@contextmanager
def traced():
    """The nodes' calls of functions, by file, and the tasks that they create."""
    calls, tasks = [], []
    loop = asyncio.get_running_loop()

    def note(frame, event, _argument):
        file = frame.f_code.co_filename
        if event != "call" or not file.startswith(PACKAGE) or file[len(PACKAGE) :].startswith(OTHERS):
            return
        above = frame
        while above is not None and above.f_code.co_filename != CLIENT:
            above = above.f_back
        if above is None:
            calls.append(file[len(PACKAGE) :])

    def make(loop, work, **options):
        tasks.append(work)
        return asyncio.Task(work, loop=loop, **options)

    loop.set_task_factory(make)
    sys.setprofile(note)
    try:
        yield calls, tasks
    finally:
        sys.setprofile(None)
        loop.set_task_factory(None)


async def quietest(act, times=8):
    """The calls and tasks of the time at which the least else went on."""
    found = []
    for number in range(times):
        await asyncio.sleep(0.37)
        with traced() as (calls, tasks):
            await act(number)
        found.append((len(tasks), len(calls), calls))
    return min(found)


async def a_publish(cluster, version):
    """The calls of a PUBLISH of QoS 1 from the first node to the second, up to PUBACK."""
    speaker, listener = [await cluster.client(number, version=version) for number in (1, 2)]
    await listener.subscribe("t", qos=1)
    await speaker.publish("t", b"once, so that the route is known", qos=1)
    tasks, _, calls = await quietest(lambda _: speaker.publish("t", b"x", qos=1))
    assert tasks == 0
    return calls


async def a_subscription(cluster, version):
    """The calls of all nodes from SUBSCRIBE to SUBACK."""
    listener = await cluster.client(1, version=version)
    await listener.subscribe("t", qos=1)
    tasks, _, calls = await quietest(lambda number: listener.subscribe(f"new/{number}", qos=1))
    assert tasks == 0
    return calls


@nodes(2)
@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize(("title", "act"), [("Publish", a_publish), ("Subscribe", a_subscription)])
async def test_the_page_says_which_files_a_packet_goes_through(sim, cluster, version, title, act):
    calls = await act(cluster, version)
    steps = walk(title)
    assert len(steps) > 8
    assert [file for file in dict.fromkeys(calls) if file in steps] == steps


@nodes(2)
@pytest.mark.parametrize(("version", "most"), [(4, 45), (5, 55)])
async def test_a_publish_is_few_calls(sim, cluster, version, most):
    """Of both nodes; 5.0 is written to the peer as 3.1.1, and back."""
    assert len(await a_publish(cluster, version)) <= most


@nodes(1)
@pytest.mark.parametrize("version", [4, 5])
async def test_a_subscription_is_few_calls(sim, cluster, version):
    calls = await a_subscription(cluster, version)
    assert len(calls) <= 65
    assert "mnesia_like/replicator.py" not in calls, "there is no peer to tell"


@nodes(2)
async def test_a_subscription_that_a_peer_has_to_know_is_few_calls_on_both(sim, cluster):
    assert len(await a_subscription(cluster, 4)) <= 240

"""What the healer knows of splits reaches those who subscribed to the tables."""

import asyncio

from gossamer.autoheal import AUTOHEAL, Partition, Subscribe
from gossamer.mnesia_like import InconsistentDatabase, Store
from gossamer.node.replication import split_relay_spec
from gossamer.supervisor import GenServer, Runtime, Supervisor, send


class Healer(GenServer):
    """Tells every subscriber of one partition."""

    async def init(self):
        pass

    async def handle_cast(self, request):
        assert isinstance(request, Subscribe)
        send(request.pid, Partition("b", "running_partitioned_network", 1.0, 2.0))


async def test_a_split_is_passed_on_also_after_the_healer_has_restarted():
    """Each time in Mnesia's words; what else the healer says is not the tables' affair."""
    runtime = Runtime(node="a", creation=1)
    store = Store(node="a", creation=1)
    told = []
    store.subscribe(told.append)
    healer = await runtime.start(Healer, name=AUTOHEAL)
    await runtime.start(Supervisor, [split_relay_spec(store)])
    event = InconsistentDatabase("running_partitioned_network", "b")
    await until(lambda: told == [event])
    runtime.exit(healer, "kill")
    await until(lambda: runtime.whereis(AUTOHEAL) is None)
    await runtime.start(Healer, name=AUTOHEAL)
    await until(lambda: told == [event, event])
    await runtime.stop()


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - any state of any object may be waited for
            await asyncio.sleep(0.001)

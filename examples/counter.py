"""A counter that crashes and is there again: a GenServer below a Supervisor, in one process.

$ python examples/counter.py
counted to 3
crashed: ValueError: three is enough
the supervisor started another, which begins at 0
counted to 1
"""

import asyncio
import logging
from functools import partial

import structlog

from gossamer import ChildSpec, GenServer, Supervisor, call, cast, monitor, receive
from gossamer.supervisor import Reply, Runtime, whereis


class Counter(GenServer):
    """Counts casts, answers calls."""

    async def init(self):
        self.total = 0

    async def handle_cast(self, request):
        if request == "crash":
            raise ValueError("three is enough")
        self.total += request

    async def handle_call(self, request, caller):
        return Reply(self.total)


async def main():
    child = ChildSpec("counter", partial(Counter.start_link, name="counter"))
    await Supervisor.start_link([child], name="counters")
    for _ in range(3):
        cast("counter", 1)
    print("counted to", await call("counter", "total"))

    first = whereis("counter")
    monitor(first)
    cast("counter", "crash")
    down = await receive()
    print("crashed:", down.reason)

    while whereis("counter") in (None, first):  # noqa: ASYNC110 - nobody tells of names
        await asyncio.sleep(0.001)
    print("the supervisor started another, which begins at", await call("counter", "total"))
    cast("counter", 1)
    print("counted to", await call("counter", "total"))


async def run():
    runtime = Runtime()
    await runtime.run(main)
    await runtime.stop()


if __name__ == "__main__":
    # The crash report is worth reading; here it would stand between the lines above.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    asyncio.run(run())

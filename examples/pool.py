"""A pool of workers below a DynamicSupervisor: started on demand, bounded, and replaced when one crashes.

$ python examples/pool.py
3 workers, a fourth is refused: MaxChildren
one worker was handed a poisoned job
9 jobs done by 3 workers: [0, 1, 4, 9, 16, 25, 36, 49, 64]
"""

import asyncio
import logging
from functools import partial

import structlog

from gossamer import ChildSpec, DynamicSupervisor, GenServer, call, cast
from gossamer.supervisor import MaxChildren, Reply, Runtime, monitor, receive

SIZE = 3


class Worker(GenServer):
    """Squares numbers."""

    async def handle_call(self, number, caller):
        return Reply(number * number)

    async def handle_cast(self, request):
        raise RuntimeError(f"cannot do {request}")


async def workers():
    """Who is there now, once the pool is whole."""
    while True:
        children = [child.pid for child in await DynamicSupervisor.which_children("pool")]
        if len(children) == SIZE and None not in children:
            return children
        await asyncio.sleep(0.001)


async def main():
    await DynamicSupervisor.start_link(max_children=SIZE, intensity=5, period=1.0, name="pool")
    spec = ChildSpec("worker", partial(Worker.start_link))
    for _ in range(SIZE):
        await DynamicSupervisor.start_child("pool", spec)
    try:
        await DynamicSupervisor.start_child("pool", spec)
    except MaxChildren as error:
        print(f"{SIZE} workers, a fourth is refused:", type(error).__name__)

    victim = (await workers())[0]
    monitor(victim)
    cast(victim, "poison")
    await receive()
    print("one worker was handed a poisoned job")

    pool = await workers()
    jobs = [call(pool[number % SIZE], number) for number in range(9)]
    print(f"9 jobs done by {SIZE} workers:", await asyncio.gather(*jobs))


async def run():
    runtime = Runtime()
    await runtime.run(main)
    await runtime.stop()


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    asyncio.run(run())

"""A Thespian program under gossamer's supervisors: its actors unchanged, each in a process of its own.

    $ python examples/thespian_port.py
    listening
    house/kitchen/heater on
    crashed: ValueError: could not convert string to float: b'warm'
    restarted, listening
    house/cellar/heater off
    done

Needs the extra ``thespian``. A thermostat takes readings from the broker and publishes orders to a heater; a
nonsense reading kills it, the supervisor starts it again, and the program ends with no process left.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial

import structlog
from thespian.actors import Actor

from gossamer.supervisor import ChildSpec, Runtime, Supervisor, call, monitor, receive, whereis
from gossamer.supervisor.thespian import (
    BRIDGE,
    BRIDGE_NAME,
    Delivered,
    Publish,
    Subscribe,
    ThespianActor,
    ThespianSystem,
)


class Thermostat(Actor):
    """Written for Thespian; all it learned is to subscribe and to publish."""

    target = 20.0

    def receiveMessage(self, message, sender):  # noqa: N802 - Thespian's name
        bridge = self.createActor(BRIDGE, globalName=BRIDGE_NAME)
        if message == "listen":
            self.send(bridge, Subscribe("house/+/temperature"))
            self.send(sender, "listening")
        elif isinstance(message, Delivered):
            room = message.topic.split("/")[1]
            order = b"on" if float(message.payload) < self.target else b"off"
            self.send(bridge, Publish(f"house/{room}/heater", order))


class TinyBroker:
    """Stands for a broker: the two functions that a ``MessagePort`` has."""

    def __init__(self) -> None:
        self.deliver = {}
        self.published: asyncio.Queue[Publish] = asyncio.Queue()
        self.subscribed = asyncio.Event()

    def publish(self, message):
        self.published.put_nowait(message)

    def subscribe(self, request, deliver):
        self.deliver[request.filter] = deliver
        self.subscribed.set()
        return lambda: self.deliver.pop(request.filter, None)

    async def reading(self, room, value):
        """A reading of a sensor, once somebody listens."""
        async with asyncio.timeout(30):
            await self.subscribed.wait()
        for deliver in self.deliver.values():
            deliver(Delivered(f"house/{room}/temperature", value))


async def main():
    broker = TinyBroker()
    children = [
        ChildSpec("system", partial(ThespianSystem.start_link, broker=broker, name="thespian")),
        ChildSpec("thermostat", partial(ThespianActor.start_link, "thespian", Thermostat, name="thermostat")),
    ]
    await Supervisor.start_link(children, strategy="rest_for_one", intensity=3)

    print(await call("thermostat", "listen"))
    await broker.reading("kitchen", b"18.5")
    order = await asyncio.wait_for(broker.published.get(), 30)
    print(order.topic, order.payload.decode())

    first = whereis("thermostat")
    watch = monitor(first)
    await broker.reading("kitchen", b"warm")
    down = await receive(30, lambda message: getattr(message, "ref", None) == watch)
    print("crashed:", down.reason)
    while whereis("thermostat") is None:  # noqa: ASYNC110 - the supervisor starts it right now
        await asyncio.sleep(0.05)
    broker.subscribed.clear()
    print("restarted,", await call("thermostat", "listen", timeout=30))
    await broker.reading("cellar", b"21")
    order = await asyncio.wait_for(broker.published.get(), 30)
    print(order.topic, order.payload.decode())


async def program():
    runtime = Runtime()
    try:
        await runtime.run(main)
    finally:
        await runtime.stop()
    print("done")


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    asyncio.run(program())

"""An actor that speaks MQTT: it runs on a node, subscribes to readings and publishes orders.

$ python examples/thermostat.py
kitchen 18.5: rooms/kitchen/heater on
kitchen 22.0: rooms/kitchen/heater off
the supervisor started another, which subscribed again
kitchen 18.0: rooms/kitchen/heater on
"""

import asyncio
import logging
import tempfile
from functools import partial

import structlog

from gossamer import ChildSpec, Delivered, GenServer, Mqtt, Node, Reply, call, monitor, receive
from gossamer.config import Config


class Thermostat(GenServer):
    """Turns the heater of a room on below 20 degrees, and off above."""

    async def init(self, mqtt):
        self.mqtt = mqtt
        await mqtt.subscribe("rooms/+/temperature", qos=1)

    async def handle_call(self, request, caller):
        return Reply(request)

    async def handle_info(self, message):
        if isinstance(message, Delivered):
            room = message.topic.split("/")[1]
            order = "on" if float(message.payload) < 20 else "off"
            await self.mqtt.publish(f"rooms/{room}/heater", order, qos=1)


def application(node):
    """What `node.applications` names; any node runs it beside its broker."""
    return [ChildSpec("thermostat", partial(Thermostat.start_link, Mqtt(node), name="thermostat"))]


async def kitchen(mqtt, runtime):
    """Stands for the sensor and the heater; any MQTT client does as well."""
    await mqtt.subscribe("rooms/kitchen/heater", qos=1)
    await measure(mqtt, "18.5")
    await measure(mqtt, "22.0")

    watch = monitor("thermostat")
    first = runtime.whereis("thermostat")
    await mqtt.publish("rooms/kitchen/temperature", "warm", qos=1)
    await receive(match=lambda message: getattr(message, "ref", None) == watch)
    while runtime.whereis("thermostat") in (None, first):  # noqa: ASYNC110 - nobody tells of names
        await asyncio.sleep(0.01)
    # It answers once its init is done.
    await call("thermostat", "ready")
    print("the supervisor started another, which subscribed again")
    await measure(mqtt, "18.0")


async def measure(mqtt, value):
    await mqtt.publish("rooms/kitchen/temperature", value, qos=1)
    order = await receive(10, lambda message: isinstance(message, Delivered))
    print(f"kitchen {value}: {order.topic} {order.payload.decode()}")


async def main(directory):
    config = Config.model_validate(
        {
            "node": {
                "name": "node1@127.0.0.1",
                "cookie": "thermostat",
                "data_dir": directory,
                "applications": ["thermostat:application"],
            },
            "cluster": {"port": 0, "discovery": {"strategy": "singleton"}},
            "distribution": {"port": 0},
            "mqtt": {"server": {"listeners": []}},
            "api": {"enable": False},
        }
    )
    node = Node(config, creation=1, cookie="thermostat")
    await node.start()
    try:
        await node.runtime.run(kitchen, Mqtt(node), node.runtime)
    finally:
        await node.stop()


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(main(place))

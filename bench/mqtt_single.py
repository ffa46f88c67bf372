"""One broker on one port, nothing else: what load tests of the publish path run against.

taskset -c 0 python bench/mqtt_single.py --port 1883
"""

import argparse
import asyncio
import cProfile
import signal

import structlog
import uvloop

from gossamer.clock import SystemClock
from gossamer.config import ListenerConfig, MqttAuthConfig, MqttConfig, MqttServerConfig
from gossamer.mqtt import Broker, mqtt_spec
from gossamer.network import SystemNetwork
from gossamer.routes import Router
from gossamer.supervisor import Runtime, Supervisor


async def main(port: int) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    config = MqttConfig(
        server=MqttServerConfig(listeners=(ListenerConfig(port=port),)),
        auth=MqttAuthConfig(allow_anonymous=True),
    )
    runtime = Runtime()
    broker = Broker(
        Router("node1@127.0.0.1"),
        clock=SystemClock(),
        network=SystemNetwork(),
        config=config,
        runtime=runtime,
    )
    await runtime.start(Supervisor, [mqtt_spec(broker)])
    print("ready", broker.ports, flush=True)
    await stop.wait()
    print(broker.stats(), flush=True)
    await runtime.stop()


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=1883)
    parser.add_argument("--profile")
    options = parser.parse_args()
    if options.profile:
        with cProfile.Profile() as profile:
            uvloop.run(main(options.port))
        profile.dump_stats(options.profile)
    else:
        uvloop.run(main(options.port))

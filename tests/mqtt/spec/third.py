"""A broker on real sockets, and paho's client on a thread of its own."""

import asyncio
import contextlib
import socket
import threading
import time

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties as PahoProperties
from paho.mqtt.subscribeoptions import SubscribeOptions

from mqtt.listening import broker_with

TIMEOUT = 20
"""Seconds for anything to happen; all of it takes milliseconds."""


@pytest.fixture
async def broker():
    async with broker_with({}, response_information="replies/%c") as broker:
        yield broker


@pytest.fixture
def port(broker):
    return broker.ports["tcp:0"]


def props(kind, **values):
    found = PahoProperties(kind)
    for name, value in values.items():
        setattr(found, name, value)
    return found


def until(condition):
    """For threads."""
    end = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


class Paho:
    """A paho client on a thread of its own; what happened to it, and waiting for that."""

    def __init__(self, port, client_id="", *, clean=True, manual=False, will=None, **connect):
        self.changed = threading.Condition()
        self.messages, self.subacks, self.acked = [], [], []
        self.connack = self.gone = None
        client = self.client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=client_id,
            protocol=MQTTProtocolVersion.MQTTv5,
            manual_ack=manual,
        )
        client.on_connect = lambda _c, _u, flags, code, props: self.note("connack", (flags, code, props))
        client.on_disconnect = lambda _c, _u, _flags, code, props: self.note("gone", code.value)
        client.on_message = lambda _c, _u, message: self.note("messages", message)
        client.on_subscribe = lambda _c, _u, _mid, codes, _props: self.note("subacks", codes)
        client.on_publish = lambda _c, _u, mid, code, _props: self.note("acked", code.value)
        client.reconnect_delay_set(1000, 1000)
        if will is not None:
            client.will_set(**will)
        client.connect("127.0.0.1", port, clean_start=clean, properties=props(PacketTypes.CONNECT, **connect))
        client.loop_start()
        self.wait(lambda: self.connack)

    def note(self, name, value):
        with self.changed:
            if isinstance(getattr(self, name), list):
                getattr(self, name).append(value)
            else:
                setattr(self, name, value)
            self.changed.notify_all()

    def wait(self, condition):
        with self.changed:
            assert self.changed.wait_for(condition, TIMEOUT), vars(self)

    def subscribe(self, topic, identifier=None, **options):
        count = len(self.subacks)
        properties = props(PacketTypes.SUBSCRIBE)
        if identifier is not None:
            properties.SubscriptionIdentifier = identifier
        self.client.subscribe(topic, options=SubscribeOptions(**options), properties=properties)
        self.wait(lambda: len(self.subacks) > count)
        return self.subacks[-1][0].value

    def publish(self, topic, payload=b"x", *, qos=0, retain=False, **properties):
        count = len(self.acked)
        self.client.publish(topic, payload, qos, retain, props(PacketTypes.PUBLISH, **properties))
        self.wait(lambda: len(self.acked) > count)

    def payloads(self, count):
        self.wait(lambda: len(self.messages) >= count)
        return [m.payload for m in self.messages]

    def break_off(self):
        """The network fails."""
        self.client.loop_stop()
        self.client.socket().shutdown(socket.SHUT_RDWR)
        self.client.socket().close()

    def close(self):
        with contextlib.suppress(OSError, ValueError):
            self.client.disconnect()
        self.client.loop_stop()


@pytest.fixture
def play(broker, port):
    """Run a scenario in a thread, with a way to make clients, which are closed behind it."""

    async def run(scenario):
        made = []

        def make(*args, **options):
            made.append(Paho(port, *args, **options))
            return made[-1]

        def body():
            try:
                scenario(make)
            finally:
                for one in made:
                    one.close()

        async with asyncio.timeout(60):
            await asyncio.to_thread(body)

    return run

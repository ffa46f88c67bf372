"""MQTT clients that people have, for tests that look at what they get."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any, Self

import paho.mqtt.client as paho

from gossamer.mqtt.client import MqttClient
from gossamer.network import SystemNetwork

from .harness import eventually


class Mqtt:
    """A paho client that keeps what it gets; connected, and subscribed to the filters, once it is made."""

    def __init__(
        self,
        port: int | str,
        name: str,
        *filters: str,
        qos: int = 1,
        clean: bool = True,
        version: int = paho.MQTTv311,
        take: Callable[[paho.MQTTMessage], object] | None = None,
        come_back: float = 1,
    ) -> None:
        self.name = name
        self.got: list[paho.MQTTMessage] = []
        self.lost = 0
        """How often its connection ended."""
        self.present: list[bool] = []
        """Whether there was a session, for each time that it connected."""
        self._acks: list[int] = []
        options: dict[str, Any] = {} if version == paho.MQTTv5 else {"clean_session": clean}
        self.client = paho.Client(
            paho.CallbackAPIVersion.VERSION2, client_id=name, protocol=version, **options
        )
        self.client.max_queued_messages_set(0)
        self.client.reconnect_delay_set(come_back, come_back)
        keep = take or self.got.append
        self.client.on_message = lambda _client, _data, message: keep(message)
        self.client.on_connect = lambda _client, _data, flags, *_: self.present.append(flags.session_present)
        self.client.on_disconnect = lambda *_: setattr(self, "lost", self.lost + 1)
        self.client.on_subscribe = lambda _client, _data, number, *_: self._acks.append(number)
        self.client.connect("127.0.0.1", int(port))
        self.client.loop_start()
        eventually(lambda: self.present, says="CONNACK")
        for topic_filter in filters:
            self.subscribe(topic_filter, qos)

    @property
    def payloads(self) -> list[str]:
        return [message.payload.decode() for message in self.got]

    def subscribe(self, topic_filter: str, qos: int = 1) -> None:
        _, number = self.client.subscribe(topic_filter, qos=qos)
        eventually(lambda: number in self._acks, says="SUBACK")

    def publish(self, topic: str, payload: str, qos: int = 1, **options: Any) -> None:
        """Publish, and wait until it is acknowledged."""
        self.client.publish(topic, payload, qos=qos, **options).wait_for_publish(60)

    def end(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


async def enter(port: int | str, name: str, *, host: str = "127.0.0.1", clean: bool = False) -> MqttClient:
    """A client of our own; its session is there for ten minutes after it unless it is ``clean``."""
    expiry = 0 if clean else 600
    return await MqttClient.connect(
        SystemNetwork(), (host, int(port)), name, clean_start=clean, session_expiry=expiry, timeout=60
    )


def assert_crosses(
    listen: tuple[str, ...], speak: tuple[str, ...], topic_filter: str, topic: str, routed: Callable[[], Any]
) -> None:
    """A message of ``mosquitto_pub`` reaches ``mosquitto_sub`` at another address, ``routed`` being true."""
    wait = ["mosquitto_sub", *listen, "-t", topic_filter, "-q", "1", "-C", "1", "-W", "30", "-v"]
    with subprocess.Popen(wait, stdout=subprocess.PIPE, text=True) as subscriber:
        eventually(routed, says="the route")
        publish = ["mosquitto_pub", *speak, "-t", topic, "-q", "1", "-m", "hello"]
        subprocess.run(publish, check=True, timeout=30)
        out, _ = subscriber.communicate(timeout=40)
    assert out == f"{topic} hello\n"

"""Clients of other people, option by option: paho for what 5.0 added, and mosquitto's command line tools."""

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

from gossamer.clock import SystemClock
from gossamer.config import ListenerConfig, MqttAuthConfig, MqttConfig, MqttServerConfig
from gossamer.mqtt import Broker, mqtt_spec
from gossamer.network import SystemNetwork
from gossamer.routes import Router
from gossamer.supervisor import Runtime, Supervisor

from .statements import keeps

pytestmark = pytest.mark.real
PATIENCE = 20
"""Seconds for anything to happen; all of it takes milliseconds."""


@pytest.fixture
async def broker():
    runtime = Runtime()
    broker = Broker(
        Router("node1@test"),
        clock=SystemClock(),
        network=SystemNetwork(),
        config=MqttConfig(
            server=MqttServerConfig(listeners=(ListenerConfig(port=0),)),
            auth=MqttAuthConfig(allow_anonymous=True),
            response_information="replies/%c",
        ),
        runtime=runtime,
    )
    await runtime.start(Supervisor, [mqtt_spec(broker)])
    yield broker
    await runtime.stop()


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
    end = time.monotonic() + PATIENCE
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
            assert self.changed.wait_for(condition, PATIENCE), vars(self)

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


@keeps(v5="3.1.3-7 3.2.2-16 3.1.2-28")
async def test_paho_hears_what_the_broker_offers(play):
    def scenario(make):
        client = make(RequestResponseInformation=1)
        _, code, told = client.connack
        assert code == 0
        assert told.AssignedClientIdentifier
        assert told.ResponseInformation == f"replies/{told.AssignedClientIdentifier}"
        assert (told.ReceiveMaximum, told.MaximumPacketSize, told.TopicAliasMaximum) == (1024, 1 << 20, 64)

    await play(scenario)


async def test_paho_requests_and_responds(play):
    def scenario(make):
        asking, answering = make("asking"), make("answering")
        answering.subscribe("request", qos=1)
        asking.subscribe("reply/asking", qos=1)
        asking.publish(
            "request",
            b"?",
            qos=1,
            ResponseTopic="reply/asking",
            CorrelationData=b"\0\1",
            UserProperty=("k", "v"),
        )
        answering.payloads(1)
        asked = answering.messages[0].properties
        assert asked.UserProperty == [("k", "v")]
        answering.publish(asked.ResponseTopic, b"!", qos=1, CorrelationData=asked.CorrelationData)
        assert asking.payloads(1) == [b"!"]
        assert asking.messages[0].properties.CorrelationData == b"\0\1"

    await play(scenario)


@keeps(v5="3.3.4-3 3.8.3-3 3.3.1-9,10,11,12,13")
async def test_paho_subscribes_with_every_option(play):
    def scenario(make):
        pub, sub = make("pub"), make("sub")
        pub.publish("t/kept", b"kept", qos=1, retain=True)
        for handling, count in ((2, 0), (1, 0), (0, 1)):
            assert sub.subscribe("t/#", identifier=7, qos=1, retainHandling=handling) == 1
            pub.publish("t/mark", b"mark")
            assert sub.payloads(count + 1) == [b"kept"] * count + [b"mark"]
            sub.messages.clear()
        sub.subscribe("t/#", identifier=9, qos=2, noLocal=True, retainAsPublished=True, retainHandling=2)
        sub.publish("t/own", b"own", qos=1)
        pub.publish("t/flag", b"flag", qos=2, retain=True)
        assert sub.payloads(1) == [b"flag"]
        [got] = sub.messages
        assert (got.retain, got.qos, got.properties.SubscriptionIdentifier) == (True, 2, [9])

    await play(scenario)


@keeps(v5="3.3.2-12 3.1.2-26")
async def test_paho_uses_topic_aliases_both_ways(play):
    def scenario(make):
        sub, pub = make("sub", TopicAliasMaximum=2), make("pub")
        sub.subscribe("#")
        pub.publish("long/topic", b"0", TopicAlias=5)
        for n in (b"1", b"2"):
            pub.publish("", n, TopicAlias=5)
        assert sub.payloads(3) == [b"0", b"1", b"2"]
        # paho itself does not look an alias up: the second and third come with an empty topic.
        assert [(m.topic, m.properties.TopicAlias) for m in sub.messages] == [
            ("long/topic", 1),
            ("", 1),
            ("", 1),
        ]

    await play(scenario)


@keeps(v5="3.1.2-8 3.1.3-9,10")
async def test_pahos_will_is_delayed(play):
    def scenario(make):
        sub = make("sub")
        sub.subscribe("will", qos=1)
        properties = props(PacketTypes.WILLMESSAGE, WillDelayInterval=1, UserProperty=("b", "1"))
        will = {"topic": "will", "payload": b"gone", "qos": 1, "properties": properties}
        for client_id in ("back", "gone"):
            make(client_id, will=will, SessionExpiryInterval=60).break_off()
        make("back", clean=False, SessionExpiryInterval=60)
        assert sub.payloads(1) == [b"gone"]
        assert sub.messages[0].properties.UserProperty == [("b", "1")]
        sub.publish("will", b"end", qos=1)
        assert sub.payloads(2) == [b"gone", b"end"]

    await play(scenario)


@keeps(v5="3.1.2-5,23 3.2.2-3 3.3.2-6 4.4.0-1")
async def test_pahos_session_is_kept(play, broker):
    def scenario(make):
        first = make("s", manual=True, SessionExpiryInterval=60)
        first.subscribe("t", qos=2)
        pub = make("pub")
        pub.publish("t", b"0", qos=1)
        assert first.payloads(1) == [b"0"]
        first.break_off()
        until(lambda: broker.sessions["s"].channel is None)
        for n, qos in ((b"1", 1), (b"2", 2)):
            pub.publish("t", n, qos=qos, MessageExpiryInterval=1000)
        back = make("s", clean=False, SessionExpiryInterval=60)
        assert back.connack[0].session_present
        assert back.payloads(3) == [b"0", b"1", b"2"]
        assert [m.dup for m in back.messages] == [True, False, False]
        assert 900 < back.messages[1].properties.MessageExpiryInterval <= 1000

    await play(scenario)


@keeps(v5="3.3.4-9 4.9.0-2")
async def test_paho_is_sent_no_more_than_it_takes(play):
    def scenario(make):
        sub, pub = make("sub", manual=True, ReceiveMaximum=2), make("pub")
        sub.subscribe("t", qos=1)
        for n in range(5):
            pub.publish("t", b"%d" % n, qos=1)
        assert sub.payloads(2) == [b"0", b"1"]
        # Whatever is on the way overtakes no PUBLISH of QoS 0.
        pub.publish("t", b"mark", qos=0)
        assert sub.payloads(3) == [b"0", b"1", b"mark"]
        sub.client.ack(sub.messages[0].mid, 1)
        assert sub.payloads(4)[3:] == [b"2"]

    await play(scenario)


@keeps(v5="3.1.4-3 3.14.2-1 3.1.2-24,25")
async def test_paho_is_told_why_it_must_go_and_gets_nothing_too_large(play):
    def scenario(make):
        small, pub = make("small", MaximumPacketSize=200), make("pub")
        small.subscribe("t", qos=1)
        pub.publish("t", b"z" * 500, qos=1)
        pub.publish("t", b"fits", qos=1)
        assert small.payloads(1) == [b"fits"]
        make("small")
        small.wait(lambda: small.gone is not None)
        assert small.gone == 0x8E

    await play(scenario)


# mosquitto_pub, mosquitto_sub, mosquitto_rr.


async def mosquitto(tool, port, *args, version="mqttv5"):
    return await asyncio.create_subprocess_exec(
        f"mosquitto_{tool}", "-h", "127.0.0.1", "-p", str(port), "-V", version, *args,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip


async def ended(process, code=0):
    async with asyncio.timeout(PATIENCE):
        out, error = await process.communicate()
    assert process.returncode == code, error.decode()
    return out.decode()


async def subscribed(broker, topic_filter):
    async with asyncio.timeout(PATIENCE):
        while not any(topic_filter in s.subscriptions for s in broker.sessions.values()):  # noqa: ASYNC110
            await asyncio.sleep(0.005)


@keeps(v5="3.3.2-4,15,16,17,18,20 3.3.4-3")
async def test_mosquitto_sends_and_prints_every_property(broker, port):
    sub = await mosquitto(
        "sub", port, "-t", "t/+", "-C", "1", "-q", "2", "-D", "subscribe", "subscription-identifier", "42",
        "-F", "%t|%p|%q|%r|%C|%D|%E|%F|%P|%R|%S",
    )  # fmt: skip
    await subscribed(broker, "t/+")
    user = ("-D", "publish", "user-property")
    pub = await mosquitto(
        "pub", port, "-t", "t/x", "-m", "hello", "-q", "2", *user, "b", "1", *user, "a", "2",
        "-D", "publish", "content-type", "text/plain", "-D", "publish", "correlation-data", "c0",
        "-D", "publish", "message-expiry-interval", "60", "-D", "publish", "payload-format-indicator", "1",
        "-D", "publish", "response-topic", "reply", "-D", "publish", "topic-alias", "3",
    )  # fmt: skip
    await ended(pub)
    assert await ended(sub) == "t/x|hello|2|0|text/plain|c0|60|1|b:1 a:2|reply|42\n"


@pytest.mark.parametrize("version", ["mqttv311", "mqttv5"])
async def test_mosquitto_keeps_and_removes_retained_messages(broker, port, version):
    await ended(await mosquitto("pub", port, "-t", "t", "-m", "kept", "-r", "-q", "1", version=version))
    printed = ("-t", "t", "-C", "1", "-W", "10", "-F", "%r %p")
    found = await ended(await mosquitto("sub", port, *printed, "--retained-only", version=version))
    assert found == "1 kept\n"
    removing = await mosquitto("sub", port, "-t", "t", "--remove-retained", "-W", "1", version=version)
    async with asyncio.timeout(PATIENCE):
        while len(broker.retained):  # noqa: ASYNC110 - by design
            await asyncio.sleep(0.005)
    removing.kill()
    await removing.wait()


async def test_mosquitto_keeps_a_session(broker, port):
    options = ("-t", "t", "-q", "1", "-c", "-i", "keeper", "-x", "60", "-F", "%p")
    sub = await mosquitto("sub", port, *options, "-E")
    await ended(sub)
    for n in range(3):
        await ended(await mosquitto("pub", port, "-t", "t", "-m", str(n), "-q", "1"))
    assert await ended(await mosquitto("sub", port, *options, "-C", "3")) == "0\n1\n2\n"


async def test_mosquitto_asks_and_is_answered(broker, port, play):
    """mosquitto_rr makes up the correlation; paho answers."""

    def scenario(make):
        answering = make("answering")
        answering.subscribe("ask", qos=1)
        ready.set()
        answering.payloads(1)
        asked = answering.messages[0].properties
        more = {"CorrelationData": asked.CorrelationData} if hasattr(asked, "CorrelationData") else {}
        answering.publish(asked.ResponseTopic, b"yes", qos=1, **more)

    ready = threading.Event()
    answerer = asyncio.ensure_future(play(scenario))
    await asyncio.to_thread(ready.wait, PATIENCE)
    rr = await mosquitto("rr", port, "-t", "ask", "-e", "answer", "-m", "?", "-q", "1", "-W", "10")
    assert await ended(rr) == "yes\n"
    await answerer


@keeps(v5="3.1.2-8 3.3.1-13")
async def test_mosquittos_will_and_retain_as_published(broker, port):
    watcher = await mosquitto("sub", port, "-t", "will", "--retain-as-published", "-C", "1", "-F", "%r %p %P")
    await subscribed(broker, "will")
    dying = await mosquitto(
        "sub", port, "-t", "x", "-x", "60", "--will-topic", "will", "--will-payload", "gone", "--will-retain",
        "-D", "will", "will-delay-interval", "1", "-D", "will", "user-property", "k", "v",
    )  # fmt: skip
    await subscribed(broker, "x")
    dying.kill()
    await dying.wait()
    assert await ended(watcher) == "1 gone k:v\n"


async def test_mosquitto_shares_a_subscription(broker, port):
    members = [
        await mosquitto("sub", port, "-t", "$share/g/t", "-C", "2", "-F", "%p", "-i", f"m{n}")
        for n in range(2)
    ]
    async with asyncio.timeout(PATIENCE):
        while sum("$share/g/t" in s.subscriptions for s in broker.sessions.values()) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    for n in range(4):
        await ended(await mosquitto("pub", port, "-t", "t", "-m", str(n), "-q", "1"))
    got = [(await ended(member)).split() for member in members]
    assert sorted(got[0] + got[1]) == ["0", "1", "2", "3"]

"""paho, a client of other people: what 5.0 added, option by option, over real sockets."""

import pytest
from paho.mqtt.packettypes import PacketTypes

from .statements import keeps
from .third import broker, play, port, props, until

__all__ = ["broker", "play", "port"]

pytestmark = pytest.mark.real


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

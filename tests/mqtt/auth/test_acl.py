"""Who may do what: the rules, and what clients see of them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.errors import UsageError
from gossamer.mqtt import ReasonCode
from gossamer.mqtt.auth.acl import _covers, _meets, parse_acl
from gossamer.mqtt.codec import packets as p
from gossamer.routes import matches
from mqtt.harness import connack, trusting

LEVELS = st.lists(st.sampled_from(["a", "b", "$s", "+"]), min_size=1, max_size=3)
FILTERS = st.builds(lambda levels, end: [*levels, "#"] if end else levels, LEVELS, st.booleans()) | st.just(
    ["#"]
)
TOPICS = st.lists(st.sampled_from(["a", "b", "$s"]), min_size=1, max_size=4)

RULES = """
# everybody's own branch
allow all       *            own/%c/#
deny  all       *            home/secret/#
allow all       user:ann     home/#
allow subscribe user:ann     users/%u/+
allow publish   anonymous    in
"""


@pytest.fixture
async def guarded(make_world, tmp_path):
    file = tmp_path / "acl"
    file.write_text(RULES)
    world = await make_world(auth={"acl_file": file}, authenticator=trusting())
    world.acl_file = file
    return world


@pytest.mark.parametrize(
    ("topic_filter", "allowed"),
    [
        ("own/c/#", True),
        ("own/c", True),
        ("own/d/#", False),
        ("own/+/x", False),
        ("home/kitchen/+", True),
        ("home/secret/a", False),
        ("home/#", False),  # it meets what is denied
        ("home/+", False),  # home/secret is of home/secret/# too
        ("#", False),
        ("users/ann/+", True),
        ("users/ann/#", False),
        ("$share/g/users/ann/x", True),
        ("$share/g/users/bob/x", False),
        ("in", False),
    ],
)
async def test_subscriptions_are_allowed_whole_or_not_at_all(guarded, topic_filter, allowed):
    for version, refused in ((p.V5, ReasonCode.NOT_AUTHORIZED), (p.V4, 0x80)):
        client = await guarded.client("c", version=version, username="ann")
        [suback, *_] = await client.subscribe(topic_filter)
        assert suback.reasons == (0 if allowed else refused,)


@pytest.mark.parametrize("version", [p.V4, p.V5])
async def test_a_denied_publish_reaches_nobody_and_is_answered(guarded, version):
    """[MQTT-3.3.5-2]"""
    watch = await guarded.subscriber("c", "own/c/#", "home/kitchen", username="ann")
    client = await guarded.client("d", version=version)
    for topic in ("own/c/x", "home/kitchen"):
        client.publish(topic)
        client.publish(topic, qos=1, packet_id=1)
        client.publish(topic, qos=1, packet_id=2)
        client.publish(topic, qos=2, packet_id=3)
        answers = await client.got()
        code = ReasonCode.NOT_AUTHORIZED if version == p.V5 else 0
        assert [(type(x), x.reason) for x in answers] == [
            (p.Puback, code),
            (p.Puback, code),
            (p.Pubrec, code),
        ]
        if version == p.V4:
            client.send(p.Pubrel(3))
            assert [type(x) for x in await client.got()] == [p.Pubcomp]
    assert await watch.got() == []
    assert guarded.broker.access.decisions["publish", "acl", "deny"] == 8


async def test_allowed_and_denied_publishes_of_one_read_keep_their_order(guarded):
    client = await guarded.subscriber("c", "own/c/#", username="ann")
    topics = [b"own/c/x", b"own/c2/x", b"own/c/x", b"home/secret/x"] * 3
    stream = [(topic, b"%d" % n) for n, topic in enumerate(topics)]
    client.send(*(p.Publish(topic=topic, payload=payload) for topic, payload in stream))
    got = [x.payload for x in await client.got()]
    assert got == [payload for topic, payload in stream if topic == b"own/c/x"]


async def test_a_will_that_is_not_allowed_keeps_the_client_out(guarded):
    client = guarded.dial()
    answer = await connack(client, client_id="d", will=p.Will(topic=b"own/c/gone", payload=b""))
    assert answer.reason == ReasonCode.NOT_AUTHORIZED
    assert client.closed


@pytest.mark.parametrize("version", [p.V4, p.V5])
async def test_a_name_that_nobody_checks_is_no_name(make_world, tmp_path, version):
    """Rules of a user, ``%u`` and ``anonymous`` see a client that is anonymous."""
    (tmp_path / "acl").write_text(RULES)
    world = await make_world(auth={"acl_file": tmp_path / "acl"})
    client = await world.client("c", version=version, username="ann", password=b"x")
    [suback, *_] = await client.subscribe("home/kitchen", "users/ann/+", "own/c/#")
    assert [reason < 0x80 for reason in suback.reasons] == [False, False, True]
    assert world.broker.sessions["c"].username is None
    [info] = world.broker.clients()
    assert info.username is None
    client.publish("in", qos=1, packet_id=1)
    assert (await client.got())[0].reason != ReasonCode.NOT_AUTHORIZED


async def test_new_rules_end_subscriptions_and_wills_of_those_who_are_there(guarded):
    will = p.Will(topic=b"home/will", payload=b"gone")
    ann = await guarded.client("a", username="ann", will=will)
    await ann.subscribe("home/kitchen", "own/a/x")
    watcher = await guarded.client("w", username="ann")
    await watcher.subscribe("home/will")
    guarded.acl_file.write_text(RULES.replace("user:ann     home/#", "user:ann     home/will"))
    await guarded.runtime.call("mqtt_files", "look")
    await guarded.settle()
    assert list(guarded.broker.sessions["a"].subscriptions) == ["own/a/x"]
    assert ann.channel.will is not None
    guarded.acl_file.write_text(
        RULES.replace("allow all       user:ann     home/#", "allow subscribe user:ann home/#")
    )
    await guarded.runtime.call("mqtt_files", "look")
    await guarded.settle()
    assert ann.channel.will is None
    await ann.drop()
    assert await watcher.got() == []


async def test_new_rules_hold_for_those_who_are_there(guarded):
    client = await guarded.client("d", version=p.V5)
    client.publish("in", qos=1, packet_id=1)
    assert (await client.got())[0].reason != ReasonCode.NOT_AUTHORIZED
    guarded.acl_file.write_text(RULES.replace("allow publish   anonymous", "deny publish anonymous"))
    await guarded.runtime.call("mqtt_files", "look")
    client.publish("in", qos=1, packet_id=2)
    assert (await client.got())[0].reason == ReasonCode.NOT_AUTHORIZED
    guarded.acl_file.write_text("allow everything")
    for _ in range(2):
        # Whoever asks hears of it as long as it is so, and not only when the file has changed.
        [refused] = await guarded.runtime.call("mqtt_files", "look")
        assert "acl:1: cannot read 'allow everything'" in refused
    client.publish("own/d/x", qos=1, packet_id=3)
    assert (await client.got())[0].reason != ReasonCode.NOT_AUTHORIZED
    guarded.acl_file.write_text(RULES)
    assert await guarded.runtime.call("mqtt_files", "look") == []


@pytest.mark.parametrize("client_id", ["+", "#", "c/d", "%u"])
async def test_a_client_cannot_name_itself_into_another_branch(guarded, client_id):
    client = await guarded.client(client_id, version=p.V5)
    [suback, *_] = await client.subscribe("own/#" if client_id == "#" else f"own/{client_id}/#")
    assert suback.reasons == (0 if client_id == "%u" else ReasonCode.NOT_AUTHORIZED,)
    client.publish("own/c/x", qos=1, packet_id=1)
    assert (await client.got())[-1].reason == ReasonCode.NOT_AUTHORIZED


@pytest.mark.parametrize(
    "line", ["allow all *", "permit all * #", "allow read * #", "allow all bob #", "allow all * a#"]
)
def test_a_line_that_is_no_rule_is_named(line):
    with pytest.raises(UsageError, match=r"acl:2: .*expected allow\|deny"):
        parse_acl(f"# rules\n{line}\n", Path("acl"))


@given(FILTERS, FILTERS, TOPICS)
def test_covering_and_meeting_mean_what_matching_says(one, other, topic):
    name = "/".join(topic)
    first, second = matches("/".join(one), name), matches("/".join(other), name)
    if _covers(one, other) and second:
        assert first
    if first and second:
        assert _meets(one, other)


async def test_without_an_acl_nothing_stands_on_the_publish_path(world):
    client = await world.client("c")
    assert client.channel.gate is None
    assert client.channel.cache_get == world.router.cache.get

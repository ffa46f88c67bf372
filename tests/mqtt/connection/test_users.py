"""A session is its user's: another one is refused, and its own gets what the rules of the day allow."""

import pytest
import structlog

from gossamer.mqtt import ReasonCode
from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.codec.properties import Properties
from mqtt.harness import trusting
from mqtt.recording import record

KEEP = Properties(session_expiry=300)
RULES = "allow all user:alice #\ndeny all * secret/#\nallow all * #\n"


@pytest.fixture
async def users(make_world, tmp_path):
    """Everybody is who they say they are; nobody but alice has secrets."""
    (tmp_path / "acl").write_text(RULES)
    return await make_world(auth={"acl_file": tmp_path / "acl"}, authenticator=trusting(), max_inflight=1)


async def alices(world, *, connected):
    """Alice's session, with a secret in flight and one that is queued; what it is."""
    alice = await world.subscriber("c", "secret/#", qos=1, version=p.V5, properties=KEEP, username="alice")
    for number in range(2):
        world.broker.publish(f"secret/{number}", b"plan", qos=1)
    assert len(await alice.got()) == 1
    if not connected:
        await alice.drop()
    return alice, world.broker.sessions["c"]


@pytest.mark.parametrize("connected", [True, False])
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("version", [p.V4, p.V5])
@pytest.mark.parametrize("user", ["bob", None])
async def test_the_session_of_another_user_is_neither_taken_nor_ended(users, version, clean, connected, user):
    alice, session = await alices(users, connected=connected)
    bob = users.dial()
    with structlog.testing.capture_logs() as lines:
        connack = await bob.connect("c", version=version, clean_start=clean, username=user)
    assert connack.reason == (ReasonCode.NOT_AUTHORIZED if version == p.V5 else 5)
    assert not bob.early
    assert bob.closed
    assert alice.closed is not connected
    assert users.broker.sessions["c"] is session
    assert (session.username, len(session.inflight), len(session.queue)) == ("alice", 1, 1)
    [line] = [line for line in lines if line["event"] == "session_refused"]
    assert (line["client_id"], line["username"], line["peer"]) == ("c", user, "192.0.2.1:5000")
    assert "gossamer clients kick" in line["hint"]
    assert users.broker.access.decisions["session", "owner", "deny"] == 1
    again = await users.client("c", version=p.V5, clean_start=False, properties=KEEP, username="alice")
    assert again.connack.session_present
    assert [m.topic for m in again.early] == [b"secret/0"]


async def test_once_it_is_removed_another_user_may_have_the_client_id(users):
    await alices(users, connected=False)
    assert users.broker.kick("c")
    bob = await users.client("c", version=p.V5, clean_start=False, username="bob")
    assert not bob.connack.session_present


async def test_who_is_anonymous_has_sessions_of_its_own(users):
    """A user is not given what somebody without a name has made for it."""
    client = await users.client("c", version=p.V5, properties=KEEP)
    assert (await users.dial().connect("c", version=p.V5, username="bob")).reason == ReasonCode.NOT_AUTHORIZED
    again = await users.client("c", version=p.V5, clean_start=False, properties=KEEP)
    assert again.connack.session_present
    assert client.closed


async def test_where_nobody_is_known_names_do_not_matter(world):
    """Whatever they were when the session began."""
    await world.client("c", version=p.V5, properties=KEEP, username="ann")
    world.broker.sessions["c"].username = "of another time"
    client = await world.client("c", version=p.V5, properties=KEEP, clean_start=False, username="bob")
    assert client.connack.session_present


async def test_what_waits_and_may_not_be_read_any_more_is_dropped(users, tmp_path):
    """Queued and in flight, also where the subscription that it came by has been ended since."""
    alice = await users.subscriber("c", "#", qos=2, version=p.V5, properties=KEEP, username="alice")
    told = record(users)
    for topic, qos in (("secret/a", 2), ("open/a", 1), ("secret/b", 1)):
        users.broker.publish(topic, b"x", qos=qos)
    assert [m.topic for m in await alice.got()] == [b"secret/a"]
    session = users.broker.sessions["c"]
    await alice.drop()
    users.broker.table.unsubscribe(session, ["#"])
    (tmp_path / "acl").write_text(RULES.replace("allow all user:alice #", ""))
    users.broker.access.acl.load()
    alice = await users.client("c", version=p.V5, clean_start=False, properties=KEEP, username="alice")
    # The client may have begun to take the message of QoS 2, and is to forget that.
    [pubrel] = alice.early
    assert isinstance(pubrel, p.Pubrel)
    alice.send(p.Pubcomp(packet_id=pubrel.packet_id))
    assert [m.topic for m in await alice.got()] == [b"open/a"]
    assert users.broker.fanout.drops["not_authorized"] == session.lost == 2
    assert [row["reason"] for row in told("dropped")] == ["not_authorized"] * 2


async def test_under_the_same_rules_what_waits_is_not_looked_at(users, monkeypatch):
    alice = await users.subscriber("c", "secret/#", qos=1, version=p.V5, properties=KEEP, username="alice")
    for number in range(2):
        users.broker.publish(f"secret/{number}", b"plan", qos=1)
    await alice.drop()
    looked_at = []
    gate = type(users.broker.access.gate("c", "alice", lambda _topic: None))
    look = gate.may_receive
    monkeypatch.setattr(gate, "may_receive", lambda self, name: looked_at.append(name) or look(self, name))
    await users.client("c", version=p.V5, clean_start=False, properties=KEEP, username="alice")
    assert looked_at == ["secret/#"]


async def test_a_session_that_resumes_keeps_only_what_its_client_may_have_now(make_world, tmp_path):
    file = tmp_path / "acl"
    file.write_text("allow all * open/#\nallow all * shut/#\n")
    world = await make_world(auth={"acl_file": file})
    keep = Properties(session_expiry=300)
    client = await world.subscriber("c", "open/#", "shut/#", qos=1, version=p.V5, properties=keep)
    await client.drop()
    world.broker.publish("shut/1", b"secret", qos=1)
    world.broker.publish("open/1", b"news", qos=1)
    file.write_text("allow all * open/#\n")
    world.broker.access.acl.load()
    client = await world.client("c", version=p.V5, properties=keep, clean_start=False)
    world.broker.publish("shut/2", b"secret", qos=1)
    world.broker.publish("open/2", b"news", qos=1)
    got = [*client.early, *await client.got()]
    assert [(m.topic, m.payload) for m in got] == [(b"open/1", b"news"), (b"open/2", b"news")]
    assert set(world.broker.sessions["c"].subscriptions) == {"open/#"}
    assert world.broker.fanout.drops["not_authorized"] == 1
    assert world.broker.access.decisions["subscribe", "acl", "deny"] == 1

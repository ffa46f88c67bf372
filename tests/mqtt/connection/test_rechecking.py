"""What waits for a client that comes back is checked by the rules of the day."""

import pytest

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
    assert users.broker.hub.drops["not_authorized"] == session.lost == 2
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

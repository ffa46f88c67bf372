"""What a node tells its clients of itself: another server to go to, and ``$SYS``."""

from gossamer.mqtt import drain
from gossamer.mqtt.codec import packets as p
from mqtt.harness import connack


async def test_a_draining_node_names_another_server(world):
    """[MQTT-4.11.0-1]"""
    new, old = await world.client("new", version=p.V5), await world.client("old")
    done = await world.runtime.run(
        drain, world.broker.connections, world.broker.sessions, references=["other:1883"], nodes=[]
    )
    assert done.clients == 2
    [goodbye] = await new.got()
    assert (goodbye.reason, goodbye.properties.server_reference) == (0x9C, "other:1883")
    assert old.closed
    assert await old.got() == []
    answer = await connack(world.dial())
    assert (answer.reason, answer.properties.server_reference) == (0x9C, "other:1883")
    world.broker.admission.references = None
    assert (await connack(world.dial())).reason == 0


async def test_sys_topics_are_published_only_to_who_asks(world):
    [pid] = [x for x in world.runtime.processes() if world.runtime.find(x).label == "mqtt_sys"]
    world.runtime.send(pid, "now")
    await world.settle()
    assert world.broker.stats()["messages_sent"] == 0
    client = await world.client("c")
    wide = await world.subscriber("w", "#")
    await client.subscribe("$SYS/broker/clients/+")
    world.runtime.send(pid, "now")
    got = {x.topic.decode(): x.payload for x in await client.got()}
    assert got == {
        "$SYS/broker/clients/connected": b"2",
        "$SYS/broker/clients/disconnected": b"0",
        "$SYS/broker/clients/total": b"2",
        "$SYS/broker/clients/maximum": b"2",
    }
    assert await wide.got() == []

"""Python clients of a real cluster, found by its ``cluster.json``, when their node is killed."""

import asyncio
from typing import Any

import pytest

from gossamer import BlockingClient, Client, RejectJob
from gossamer.queues import UnknownQueueError
from gossamer.supervisor import CallFailed
from real.harness import Cluster, run


def test_a_script_without_a_loop_does_jobs(cluster: Cluster) -> None:
    """Publish, consume one by one and in batches, settle by ``with`` and by hand."""
    api = f"http://127.0.0.1:{cluster.port(1, 'api')}"
    # The groups of replicas are founded some seconds after the nodes have come together.
    assert any(run("queues", "create", "jobs", "--api", api).returncode == 0 for _ in range(20))
    with BlockingClient(str(cluster.data_dir / "cluster.json"), timeout=60) as client:
        queue = client.queue("jobs")
        for number in range(6):
            assert queue.publish(str(number), key=f"k/{number}", headers={"n": str(number)}) == number
        with queue.consume(group="workers", in_flight=4) as consumer:
            with consumer.get(30) as job:
                assert (job.id, job.key, job.headers, job.attempt) == ("jobs:0", "k/0", {"n": "0"}, 1)
            with pytest.raises(KeyError), next(consumer):
                raise KeyError("it comes again")
            with next(consumer):
                raise RejectJob("nobody can")
            consumer.get(30).nack(delay=0)
            rest: list[tuple[bytes, int]] = []
            while len(rest) < 4:
                with consumer.batch(2, within=1) as jobs:
                    rest += [(one.payload, one.attempt) for one in jobs]
            assert sorted(rest) == [(b"1", 2), (b"3", 2), (b"4", 1), (b"5", 1)]
            with pytest.raises(TimeoutError):
                consumer.get(0.01)
        with pytest.raises(StopIteration):
            next(consumer)
        queue.publish("last")
        with queue.consume(group="workers") as other:
            other.get(30).ack()
        with pytest.raises(UnknownQueueError), client.queue("none").consume() as nobody:
            next(nobody)


async def test_clients_survive_kill_9_of_their_node(cluster: Cluster) -> None:
    """The async one and its blocking twin; who publishes is attached elsewhere and never waits in vain."""
    facts, name = cluster.data_dir / "cluster.json", cluster.nodes[0]["name"]
    cookie = (cluster.data_dir / ".cookie").read_text().strip()
    elsewhere = f"127.0.0.1:{cluster.port(2, 'distribution')}"
    killed = asyncio.Event()
    gaps: list[object] = []
    async with (
        asyncio.timeout(90),
        Client(facts, timeout=60) as client,
        Client(elsewhere, cookie=cookie, timeout=60) as speaker,
    ):
        assert client.attached_to == name
        blocking = asyncio.create_task(
            asyncio.to_thread(use, cluster, name, killed, asyncio.get_running_loop())
        )
        await speaker.publish("python/kept", b"kept", qos=1, retain=True)
        subscription = await client.subscribe("python/#", qos=1, retain_handling=1, on_gap=gaps.append)
        assert (await anext(subscription)).payload == b"kept"
        ended = await client.monitor(("gossip", name))
        for number in range(100):
            await speaker.publish("python/flow", str(number), qos=1)
        await killed.wait()
        # Published while the client has no node, or believes in the old one: all is taken, nothing hangs.
        for number in range(100, 200):
            await speaker.publish("python/flow", str(number), qos=1)
            await client.publish("python/own", str(number), qos=1)
        assert await ended == "noconnection"
        assert client.attached_to not in (name, None)
        await speaker.publish("python/flow", b"end", qos=1)
        got: list[Any] = []
        while not got or got[-1].payload != b"end":
            got.append(await anext(subscription))
        assert await blocking == ["1", "2"]
    flow = [int(m.payload) for m in got[:-1] if m.topic == "python/flow"]
    assert flow == sorted(set(flow))
    # Whatever did not come lies where the client was told of a gap, once.
    assert len(gaps) == 1
    (at,) = [index for index, message in enumerate(got) if message.gap]
    before = [int(m.payload) for m in got[:at] if m.topic == "python/flow"]
    assert set(range(max(before) + 1)) <= set(flow)
    after = [int(m.payload) for m in got[at:-1] if m.topic == "python/flow"]
    assert after == list(range(min(after, default=0), 200)) or not after


def use(cluster: Cluster, name: str, killed: asyncio.Event, loop: asyncio.AbstractEventLoop) -> list[str]:
    """What a script without an event loop does; it pulls the trigger, too."""
    with BlockingClient(str(cluster.data_dir / "cluster.json"), timeout=60) as client:
        assert client.attached_to == name
        subscription = client.subscribe("blocking/#", qos=1)
        client.publish("blocking/x", "1", qos=1)
        got = [subscription.get(30)]
        cluster.kill(1, seen_by=2)
        loop.call_soon_threadsafe(killed.set)
        try:
            client.call(("gossip", name), "anything", timeout=30)
        except CallFailed as failure:
            assert failure.reason in ("noconnection", "noproc")  # noqa: PT017 - either is right
        client.publish("blocking/x", "2", qos=1)
        got.append(subscription.get(30))
        assert got[1].gap is not None
        assert client.attached_to != name
        return [message.payload.decode() for message in got]

"""What clients notice of a node that fails: how long until they are served, and until they have what waited.

    python bench/availability.py                   kill -9, SIGSTOP and a cut, three rounds each
    python bench/availability.py --rounds 7 --away 12 --fault cut --replication off

Three real nodes, in network namespaces where that is allowed (a cut needs them). The first fails, and is back
after ``--away`` seconds. All of its clients have persistent sessions of QoS 1, copied to a quorum and not
(``mqtt.sessions.replication``: auto, off):

- *seeker* is connected there, and goes to the second node as soon as its connection is useless;
- *sleeper* is not connected, has ``--queued`` messages waiting, and comes to the second node meanwhile;
- *listener* is connected there and stays. At the third node clients publish, one message after the other: one
  to listener and sleeper, the others each to one client of the second node: to one with a transient session,
  and to one for each range of the copies (``docs/design/session-copies.md``).

What leads a range fails with the node that it is on. In a cluster that has just begun one node leads all of
them, so a round begins once the first node leads some and not all, or after half a minute.

Waits for PUBACK are those while it is away: that its process starts on the same machine is not counted. Of
each figure the median and the worst round, in seconds.
"""

import argparse
import asyncio
import itertools
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from gossamer.basekv import range_of
from gossamer.basekv.ranges import FIRST_RANGES
from gossamer.mqtt.client import ClientLostError, MqttClient, RefusedError
from gossamer.mqtt.copies.rows import prefix_of
from gossamer.network import SystemNetwork
from tests.real.history.cluster import Cluster
from tests.real.history.history import History

FAULTS = ("kill", "pause", "cut")
REPLICATIONS = ("auto", "off")
FAILS, NEAR, FAR = 1, 2, 3
PAUSE = 0.02
"""Seconds between an acknowledgement and the next message."""
WITHIN = 60.0
SPREAD = 30.0
"""Seconds for which leaders may stay where ranges began."""
FIGURES = {
    "connack": "a client that was there: CONNACK elsewhere, after",
    "present": "  session present, in rounds of all",
    "suback": "  and SUBACK, after",
    "stalled": "a publisher to sessions there: longest wait for PUBACK",
    "transient": "a publisher to a transient session elsewhere: longest wait for PUBACK",
    "others": "a publisher to a persistent one elsewhere: longest wait for PUBACK",
    "led": "  where the node that fails leads the range of its copy",
    "queued": "what waited there: all of it delivered elsewhere, after the return began",
    "lost": "  acknowledged and never delivered, messages",
}


class Publisher:
    """Publishes until it is stopped, one message after the other."""

    def __init__(self, client: MqttClient, topic: str) -> None:
        self._client, self._topic = client, topic
        self._going = True
        self.acknowledged: list[bytes] = []
        self.waits: list[tuple[float, float]] = []
        """When it published, and for how long it waited."""
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        for number in itertools.count():
            if not self._going:
                return
            begun = time.monotonic()
            payload = b"%d" % number
            await self._client.publish(self._topic, payload, qos=1)
            self.acknowledged.append(payload)
            self.waits.append((begun, time.monotonic() - begun))
            await asyncio.sleep(PAUSE)

    def longest(self, since: float, until: float) -> float:
        return max(wait for begun, wait in self.waits if begun + wait >= since and begun < until)

    async def stop(self) -> None:
        self._going = False
        await self._task


class Round:
    """One cluster, one fault."""

    def __init__(self, cluster: Cluster, fault: str) -> None:
        self._cluster, self._fault = cluster, fault
        self._network = SystemNetwork()

    async def _client(
        self, node: int, name: str, *, clean: bool = True, expiry: int = 600, timeout: float = WITHIN
    ) -> MqttClient:
        """Asks again at once, as clients do, where it is not let in."""
        address = self._cluster.addresses[node]
        async with asyncio.timeout(WITHIN):
            while True:
                try:
                    return await MqttClient.connect(
                        self._network,
                        address,
                        name,
                        clean_start=clean,
                        session_expiry=expiry,
                        timeout=WITHIN,
                    )
                except (OSError, ClientLostError, RefusedError):
                    await asyncio.sleep(0.02)

    def _fail(self) -> None:
        match self._fault:
            case "kill":
                self._cluster.kill(FAILS)
            case "pause":
                self._cluster.pause(FAILS)
            case _:
                for node in (NEAR, FAR):
                    self._cluster.cut(FAILS, node)
                    self._cluster.cut(node, FAILS)

    async def _mend(self) -> None:
        match self._fault:
            case "kill":
                await self._cluster.start(FAILS)
            case "pause":
                self._cluster.resume(FAILS)
            case _:
                self._cluster.uncut()

    async def _leaders(self) -> dict[int, bool]:
        """Return by range whether its leader will fail."""
        until = time.monotonic() + SPREAD
        while True:
            fail = {
                number: name.startswith(f"node{FAILS}@")
                for number, name in (await self._cluster.leaders()).items()
            }
            if not fail or len(set(fail.values())) > 1 or time.monotonic() > until:
                return fail
            await asyncio.sleep(0.5)

    async def _others(self) -> dict[int, tuple[MqttClient, Publisher]]:
        """Clients of the second node, and who publishes to each, by the range of its copy; -1: none."""
        found: dict[int, tuple[MqttClient, Publisher]] = {}
        for number in (-1, *range(FIRST_RANGES)):
            name = next(name for name in map("other{}".format, itertools.count()) if number in (-1, of(name)))
            client = await self._client(NEAR, name if number >= 0 else "", expiry=0 if number < 0 else 600)
            await client.subscribe(f"near/{number}", qos=1)
            publisher = Publisher(await self._client(FAR, f"to {number}"), f"near/{number}")
            found[number] = client, publisher
        return found

    async def run(self, queued: int, away: float) -> dict[str, float]:
        seeker = await self._client(FAILS, "seeker")
        await seeker.subscribe("seek", qos=1)
        sleeper = await self._client(FAILS, "sleeper")
        await sleeper.subscribe("there", qos=1)
        await sleeper.disconnect()
        listener = await self._client(FAILS, "listener")
        await listener.subscribe("there", qos=1)
        await self._leaders()
        others = await self._others()
        stalled = Publisher(await self._client(FAR, "stalled"), "there")
        while len(stalled.acknowledged) < queued:  # noqa: ASYNC110
            await asyncio.sleep(0.05)

        fail = await self._leaders()
        failed = time.monotonic()
        self._fail()
        seeker.drop()
        seeker = await self._client(NEAR, "seeker", clean=False)
        connack = time.monotonic() - failed
        await seeker.subscribe("seek", qos=1, timeout=WITHIN)
        suback = time.monotonic() - failed
        sleeper = await self._client(NEAR, "sleeper", clean=False)
        if not sleeper.session_present:
            await sleeper.subscribe("there", qos=1, timeout=WITHIN)
        await asyncio.sleep(max(0.0, failed + away - time.monotonic()))
        back = time.monotonic()
        mending = asyncio.create_task(self._mend())
        figures = {
            "connack": connack,
            "present": float(seeker.session_present),
            "suback": suback,
        }
        waited = set(stalled.acknowledged[:queued])
        async with asyncio.timeout(WITHIN):
            while not waited <= set(sleeper.payloads()):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        figures["queued"] = time.monotonic() - back
        await mending
        await asyncio.sleep(3)
        await stalled.stop()
        for _, publisher in others.values():
            await publisher.stop()
        await asyncio.sleep(3)
        figures["stalled"] = stalled.longest(failed, back)
        figures["lost"] = float(len(set(stalled.acknowledged) - set(sleeper.payloads())))
        for number, (client, publisher) in others.items():
            name = "transient" if number < 0 else "led" if fail.get(number) else "others"
            figures[name] = max(publisher.longest(failed, back), figures.get(name, 0.0))
            figures["lost"] += len(set(publisher.acknowledged) - set(client.payloads()))
        return figures


def of(client_id: str) -> int:
    """Return the range of the copy of a session."""
    return range_of(prefix_of(client_id))


async def measure(fault: str, replication: str, options: argparse.Namespace) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as directory:
        cluster = Cluster(Path(directory), History(), autoheal=15.0, replication=replication)
        try:
            await cluster.open()
            return await Round(cluster, fault).run(options.queued, options.away)
        finally:
            await cluster.close()


def table(found: dict[str, list[dict[str, float]]]) -> None:
    width = max(map(len, FIGURES.values()))
    print(" " * width, *(f"{fault:>14}" for fault in found))
    for name, words in FIGURES.items():
        cells = []
        for rounds in found.values():
            values = [one[name] for one in rounds if name in one]
            if not values:
                cells.append("-")
            elif name in ("present", "lost"):
                cells.append(
                    f"{sum(values):.0f} of {len(values)}" if name == "present" else f"{sum(values):.0f}"
                )
            else:
                cells.append(f"{statistics.median(values):.2f} ({max(values):.2f})")
        print(f"{words:{width}}", *(f"{cell:>14}" for cell in cells))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fault", choices=FAULTS, action="append")
    parser.add_argument("--replication", choices=REPLICATIONS, action="append")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--queued", type=int, default=100)
    parser.add_argument("--away", type=float, default=8.0, help="seconds until the node is mended")
    options = parser.parse_args()
    found: dict[str, list[dict[str, float]]] = defaultdict(list)
    # Taken in turns, so that a machine that is slow for a while is so for all.
    for _ in range(options.rounds):
        for fault, replication in product(options.fault or FAULTS, options.replication or REPLICATIONS):
            figures = asyncio.run(measure(fault, replication, options))
            found[f"{fault}, {replication}"].append(figures)
    table(found)


if __name__ == "__main__":
    main()

"""What copies of persistent sessions cost, and what they give: three nodes without them and with them.

    python bench/sessions.py                       all rows, three rounds, ``off`` and ``auto`` in turns
    python bench/sessions.py --rows failover --sessions 10000 --rounds 1

``off`` and ``auto`` are values of ``mqtt.sessions.replication``. A round begins once every group has three
voters, with ``off``, too. Publishers are at the first node, sessions at the second.

- *offline*, *online*, *plain*: 16 publishers of QoS 1, each with 20 messages of 256 B on the way, and one
  subscriber for each: a persistent session that is not connected; one that is; one that is not persistent.
- *connect*: new persistent sessions, 32 at a time, each by a connection of its own.
- *takeover*: a persistent session comes to the third node while the second is up; from opening the connection
  to CONNACK.
- *idle*: ``--sessions`` persistent sessions, each with one subscription, are not connected and have nothing
  waiting: by how much resident memory grows for each, at their node and, on average, at one of the others,
  which have the copies.
- *failover*: ``--sessions`` persistent sessions are not connected and have one message each, acknowledged.
  Their node is killed (SIGKILL). One client asks the third node for its session, again and again; once it is
  served, so do all others, 200 at a time. Seconds since the kill until they have CONNACK and their message;
  where no session is present, no message is waited for. *survivors' ms each* is the processor time of the two
  nodes that are left, from when all others come on, for each of these.

Medians of the rounds; of messages that were lost, came twice, or were not acknowledged the sum. *nodes' µs
each* is the processor time of all nodes for one message, which compares better on a machine that is shared.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import signal
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

import load
import uvloop

from gossamer.mqtt.client import ClientLostError, MqttClient, RefusedError
from gossamer.network import SystemNetwork

if TYPE_CHECKING:
    import api

MODES = ("off", "auto")
ROWS = ("offline", "online", "plain", "connect", "takeover", "idle", "failover")
LOADS: dict[str, dict[str, object]] = {"offline": {"away": 1}, "online": {"kept": 1}, "plain": {}}
WRONG = "lost, twice, unacknowledged"
CLOSED_LOOP: dict[str, object] = {"qos": 1, "pubs": 16, "subs": 16, "window": 20, "payload": 256, "drain": 10}
FORMATS = {
    "offline, acknowledged/s": ",.0f",
    "offline, nodes' µs each": ",.0f",
    "online, acknowledged/s": ",.0f",
    "online, delivered/s": ",.0f",
    "online, nodes' µs each": ",.0f",
    "plain, acknowledged/s": ",.0f",
    "plain, delivered/s": ",.0f",
    "plain, nodes' µs each": ",.0f",
    WRONG: ".0f",
    "connect, sessions/s": ",.0f",
    "takeover, p50 ms": ".2f",
    "idle, bytes each": ",.0f",
    "idle, bytes each elsewhere": ",.0f",
    "failover, one, s": ".2f",
    "failover, all, s": ".2f",
    "failover, sessions present": ",.0f",
    "failover, survivors' ms each": ".2f",
}
PARALLEL = 32
RETURNING = 200
RETRY_INTERVAL = 0.02
WITHIN = 60.0
SETTLE = 5.0
Figures = dict[str, float]


class Round:
    """One cluster with the one setting or the other."""

    def __init__(self, cluster: api.Cluster, options: argparse.Namespace) -> None:
        self._cluster, self._options = cluster, options
        self._network = SystemNetwork()

    async def run(self) -> Figures:
        await self._ready()
        figures: Figures = {}
        for row in ROWS:
            if row in LOADS and row in self._options.rows:
                figures |= self._load(row, figures)
            elif row in self._options.rows:
                figures |= await getattr(self, f"_{row}")()
        return figures

    async def _ready(self) -> None:
        """Wait until ranges and names have three voters each, and every node had a tick to see that."""
        async with asyncio.timeout(WITHIN):
            while not is_whole(self._cluster.get(0, "/api/v1/raft")):  # noqa: ASYNC110
                await asyncio.sleep(0.5)
        await asyncio.sleep(3)

    def _load(self, row: str, figures: Figures) -> Figures:
        first, second, _ = self._cluster.mqtt
        asked = CLOSED_LOOP | LOADS[row] | {"seconds": self._options.seconds}
        pids = ",".join(map(str, self._cluster.pids))
        told = load.run(pub_ports=first, sub_ports=second, pids=pids, **asked)
        got = {key: float(value) for key, value in told.items() if isinstance(value, int | float)}
        wrong = sum(got[key] for key in ("lost", "duplicated", "unacked", "dropped_connections"))
        rate = (got["sent"] - got["unacked"]) / got["seconds"]
        return {
            f"{row}, acknowledged/s": rate,
            f"{row}, nodes' µs each": 1e6 * got["broker_cpu"] / rate,
            f"{row}, delivered/s": got["per_second"],
            WRONG: figures.get(WRONG, 0.0) + wrong,
        }

    async def _enter(self, node: int, name: str, *, clean: bool = False) -> MqttClient:
        address = ("127.0.0.1", self._cluster.mqtt[node])
        return await MqttClient.connect(
            self._network, address, name, clean_start=clean, session_expiry=3600, timeout=30
        )

    async def _leave_session(self, name: str) -> None:
        client = await self._enter(1, name)
        await client.subscribe(f"sessions/{name}", qos=1)
        await client.disconnect()

    async def _connect(self) -> Figures:
        begun = time.perf_counter()
        until = begun + self._options.seconds

        async def enter(number: object) -> None:
            await (await self._enter(1, f"new{number}")).disconnect()

        in_time = itertools.takewhile(lambda _: time.perf_counter() < until, itertools.count())
        entered = await in_parallel(PARALLEL, enter, in_time)
        return {"connect, sessions/s": len(entered) / (time.perf_counter() - begun)}

    async def _takeover(self) -> Figures:
        took = []
        for number in range(self._options.takeovers):
            await self._leave_session(f"mover{number}")
            begun = time.perf_counter()
            client = await self._enter(2, f"mover{number}")
            took.append(time.perf_counter() - begun)
            if not client.session_present:
                raise RuntimeError("a session did not come to the third node")
            await client.disconnect()
        return {"takeover, p50 ms": 1e3 * statistics.median(took)}

    async def _idle(self) -> Figures:
        # As in main.
        from api import memory

        before = [memory(pid) for pid in self._cluster.pids]
        names = [f"idler{number}" for number in range(self._options.sessions)]
        await in_parallel(PARALLEL, self._leave_session, names)
        await asyncio.sleep(SETTLE)
        first, own, third = (
            (memory(pid) - size) / len(names) for pid, size in zip(self._cluster.pids, before, strict=True)
        )
        return {"idle, bytes each": own, "idle, bytes each elsewhere": (first + third) / 2}

    async def _failover(self) -> Figures:
        # As in main.
        from api import processor

        names = [f"sleeper{number}" for number in range(self._options.sessions)]
        await in_parallel(PARALLEL, self._leave_session, names)
        speaker = await self._enter(0, "speaker", clean=True)
        await in_parallel(
            PARALLEL, lambda name: speaker.publish(f"sessions/{name}", name.encode(), qos=1), names
        )
        with self._cluster.unwatched():
            os.kill(self._cluster.pids[1], signal.SIGKILL)
            killed = time.perf_counter()
            present = await self._come_back(names[0])
            one = time.perf_counter() - killed
            survivors = self._cluster.pids[0], self._cluster.pids[2]
            before = sum(map(processor, survivors))
            others = await in_parallel(RETURNING, self._come_back, names[1:])
            every = time.perf_counter() - killed
            spent = sum(map(processor, survivors)) - before
        speaker.drop()
        had = float(present + sum(others))
        return {
            "failover, one, s": one,
            "failover, all, s": every,
            "failover, sessions present": had,
            "failover, survivors' ms each": 1e3 * spent / len(others),
        }

    async def _come_back(self, name: str) -> bool:
        """Ask the third node until it answers; return whether it had the session, with its message."""
        async with asyncio.timeout(WITHIN):
            while True:
                try:
                    client = await self._enter(2, name)
                    break
                except (OSError, ClientLostError, RefusedError):
                    await asyncio.sleep(RETRY_INTERVAL)
            while client.session_present and name.encode() not in client.payloads():  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        client.drop()
        return client.session_present


def is_whole(groups: Any) -> bool:
    """Return whether there are groups, as ``/raft`` tells them, and each has three voters."""
    return bool(groups) and all(sum(bool(one["voter"]) for one in group["members"]) == 3 for group in groups)


async def in_parallel(number: int, call: Callable[[Any], Awaitable[Any]], items: Iterable[Any]) -> list[Any]:
    """Call with every item, with so many at a time; return the results, in no order."""
    left, results = iter(items), []

    async def work() -> None:
        for item in left:
            results.append(await call(item))  # noqa: PERF401

    await asyncio.gather(*(work() for _ in range(number)))
    return results


def table(found: dict[str, list[Figures]]) -> str:
    """One line for each figure: its median by mode, and the ratio."""
    lines = [f"{'':28}" + "".join(f"{mode:>12}" for mode in found) + f"{'ratio':>8}"]
    known = set[str]().union(*itertools.chain(*found.values()))
    for name, form in FORMATS.items():
        if name not in known:
            continue
        middle = sum if name == WRONG else statistics.median
        values = [middle([one[name] for one in rounds]) for rounds in found.values()]
        ratio = f"{values[1] / values[0]:8.2f}" if len(values) == 2 and values[0] else ""
        lines.append(f"{name:28}" + "".join(f"{value:>12{form}}" for value in values) + ratio)
    return "\n".join(lines)


def main() -> None:
    # There is a package of that name among the tests, which load this one for its rows.
    from api import Cluster

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=lambda text: text.split(","), default=ROWS, help=",".join(ROWS))
    parser.add_argument("--modes", type=lambda text: text.split(","), default=MODES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--takeovers", type=int, default=100)
    parser.add_argument("--sessions", type=int, default=200, help="of idle and failover")
    options = parser.parse_args()
    limits = {"GOSSAMER_MQTT__LIMITS__MAX_QUEUED": "1000000"}
    found: dict[str, list[Figures]] = {mode: [] for mode in options.modes}
    for _ in range(options.rounds):
        for mode, rounds in found.items():
            with Cluster(3, GOSSAMER_MQTT__SESSIONS__REPLICATION=mode, **limits) as cluster:
                rounds.append(uvloop.run(Round(cluster, options).run()))
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, medians of {options.rounds}")
    print(table(found))


if __name__ == "__main__":
    main()

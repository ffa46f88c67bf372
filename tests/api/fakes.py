"""A node that is not there: answers the API from what a test puts into it."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Literal, get_args, get_origin

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from pydantic import BaseModel

from api.fake_consensus import FakeConsensus
from api.fake_queues import FakeQueues
from gossamer.api import Alarms, Metric, PeerRequests, PeerSilentError, Runs, TopicRow, is_audit
from gossamer.api.model import cluster, node
from gossamer.api.model.node import TenantInfo
from gossamer.errors import NotFoundError, UnavailableError, UsageError, WrongValueError, mismatch
from gossamer.faults import FaultTable
from gossamer.features import FeatureBlockedError
from gossamer.node import HAPPENINGS
from gossamer.routes import matches
from gossamer.routes.topics import InvalidTopicName, parse_filter
from gossamer.supervisor import NoSuchProcess, TraceLine

ANSWERS = json.loads(Path(__file__).with_name("answers.json").read_text())


def filled(model, **given):
    """A ``model`` whose required fields are zero, empty or their first word where they are not given."""
    fields = model.model_fields.items()
    return model(**{name: _zero(field.annotation) for name, field in fields if field.is_required()} | given)


def _zero(kind):
    origin = get_origin(kind) or kind
    if type(None) in get_args(kind):
        return None
    if origin is Literal:
        return get_args(kind)[0]
    return {} if origin is Mapping else filled(kind) if issubclass(origin, BaseModel) else origin()


def said(name, kind):
    """What faked nodes say of ``name``, as ``answers.json`` has it: values of that ``kind``."""
    return [kind.model_validate(value) for value in ANSWERS[name]]


def member(number: int, status: str = "online", api_port: int = 8091):
    return cluster.MemberInfo(
        id=f"id{number}",
        name=f"node{number}@127.0.0.1",
        address="127.0.0.1",
        port=7945 + number,
        status=status,
        incarnation=number,
        pid=1000 + number,
        version="0.1.0",
        ports={"mqtt": 1882 + number, "api": api_port},
        local=number == 1,
    )


def _itself(row):
    return row


def _key(order, row, *fields):
    return order.key(tuple(getattr(row, field) for field in fields), getattr(row, order.sort or fields[0]))


class FakeTable(dict):
    """A shared table of one node."""

    def read(self, key, default=None):
        return self.get(key, default)

    def rows(self):
        return self

    def write(self, key, value):
        self[key] = value
        return len(self)

    def delete(self, key):
        del self[key]
        return len(self)


class FakeRecording:
    """Counts nothing, and can be set."""

    def __init__(self):
        self.settings = {"enabled": False, "sample": 1.0, "buffer": 100_000}

    async def status(self):
        counts = {"recorded": 7, "dropped": 2, "gaps": 1, "files": 3, "bytes": 4096}
        counts |= {"node": "node1@127.0.0.1", "dir": "/data/audit"}
        return filled(node.RecordingInfo, **counts, **self.settings)

    async def configure(self, settings):
        for key, value in settings.model_dump(exclude_none=True).items():
            name = "enabled" if key == "enable" else key
            if name in self.settings:
                self.settings[name] = value
        return await self.status()


class FakeEventLog:
    """One thing happened."""

    creation = 7
    kinds = HAPPENINGS.keys()

    def after(self, serial):
        return [SimpleNamespace(serial=1, at=990.0, kind="down", peer="node2@127.0.0.1", text="")][serial:]

    def age(self, _happening):
        return 1.5


class FakeHealing:
    """A node that healed one split, and has one row in quarantine."""

    def __init__(self):
        self.settings = {"autoheal": 15.0, "autoclean": 300.0}
        self.replayed: list[str] = []
        self.of_others = Alarms()
        self.split = False
        self.name = "node1@127.0.0.1"
        [self.row] = said("quarantine", cluster.QuarantinedRow)

    def status(self):
        return filled(
            cluster.HealStatusInfo,
            name=self.name,
            leader=self.name,
            heals=1,
            quarantined=1,
            open=(filled(cluster.PartitionInfo, peer="node2@127.0.0.1", down_at=990.0, met_at=1010.0),),
            down={"node3@127.0.0.1": 90.0},
            **self.settings,
        )

    def history(self):
        return said("episodes", cluster.HealEpisode)

    def alarms(self):
        return [*said("alarms", cluster.AlarmInfo), *self.of_others.alarms()]

    def order_alarm(self, order):
        return self.of_others.order(order, 1000.0)

    def quarantine(self):
        return [self.row]

    async def rehearse(self):
        [plan] = said("plans", cluster.HealPlanInfo)
        return plan if self.split else cluster.HealPlanInfo(id=plan.id, split=False)

    async def replay(self, id):  # noqa: A002
        if id != self.row.id:
            raise UsageError(f"{id}: no such row")
        self.replayed.append(id)
        return self.row

    async def configure(self, settings):
        self.settings |= settings.model_dump(exclude_unset=True)
        return self.status()


class FakePrograms:
    """Starts nothing, and says what it was told to start; ``end`` ends the one that "runs"."""

    def __init__(self):
        self.told = []
        self.end = self.task = None

    async def start(self, program, directory, ended, label):
        if program.body is None:
            arguments = [argument.replace("{dir}", str(directory)) for argument in program.arguments]
            self.told.append((arguments, directory, label))
            self.end = ended
            return self.stop

        async def run():
            try:
                ended("normal" if await program.body(directory) else ("exit_status", 8))
            except asyncio.CancelledError:
                ended("shutdown")

        self.task = asyncio.create_task(run())
        self.end = lambda reason: self.task.cancel()
        return self.stop

    async def stop(self):
        self.end("shutdown")
        if self.task is not None:
            await asyncio.wait({self.task})


class FakeView:
    """Node 1 of three. What it runs is kept below ``directory``, nothing without."""

    def __init__(
        self,
        *,
        name: str = "node1@127.0.0.1",
        filters: Sequence[str] = ("a/+", "b", "c/#"),
        directory: Path | None = None,
    ):
        self.name = name
        self.programs = FakePrograms()
        kept = {"now": lambda: 1_700_000_000.0, "programs": self.programs}
        drills, audits = (None, None) if directory is None else (directory / "drills", directory / "audits")
        self.drills = Runs(drills, what="drills", most=3, **kept)
        self.audits = Runs(audits, what="audit", most=3, made_at=is_audit, **kept)
        self.peers: dict[str, PeerRequests] = {}
        self.ready = True
        self.level = "info"
        self.busy = self.hangs = self.routes_wrong = False
        self.traces_over = 0
        self.trace_over = asyncio.Event()
        self.consensus = FakeConsensus()
        self.queues = FakeQueues()
        self.limits: dict[str, dict[str, int | None]] = {"acme": {"max_connections": 10}}
        self.healing = FakeHealing()
        self.event_log = FakeEventLog()
        self.recording = FakeRecording()
        self.faults: FaultTable | None = None
        self.orders: list[tuple[str, object]] = []
        self.known = [member(1), member(2), member(3, "suspect"), member(4, "left")]
        self.filters = list(filters)
        self.kept = ["a/1", "b"]
        self.hints: tuple[cluster.HintInfo, ...] = ()
        self.key_names = ["0a0a0a0a"]
        self.flags = [filled(cluster.FeatureInfo, name="colour", since="0.3.0", does="Paints.")]
        self.sessions = [row.model_copy(update={"node": name}) for row in said("sessions", node.ClientInfo)]

    def cluster(self):
        nodes = tuple(map(cluster.ClusterNode.model_validate, self.known[:3]))
        return cluster.ClusterInfo(env="Test", nodes=nodes, local="id1")

    def readiness(self):
        if self.ready:
            return cluster.Readiness(ready=True, name=self.name, members=(self.name, "node2@127.0.0.1"))
        return cluster.Readiness(ready=False, name=self.name, waiting=("table routes",))

    def status(self):
        return filled(
            cluster.NodeStatus,
            name=self.name,
            env="Test",
            uptime=62.0,
            state="running",
            ports={"mqtt": 1883, "api": 8091},
            connections=1,
            members=tuple(self.known),
            hints=self.hints,
        )

    def members(self):
        return self.known

    def nodes(self):
        return [
            cluster.NodeInfo(
                name=row.name,
                status=row.status,
                link="self" if row.local else "up",
                address=f"{row.address}:{row.port}",
                ports=row.ports,
                pid=row.pid,
                routes=3,
            )
            for row in self.known
        ]

    def topics(self, *, tenant=None):
        nodes = ("node1@127.0.0.1", "node2@127.0.0.1")
        return [TopicRow(name, nodes, tenant or "") for name in self.filters]

    def match(self, topic, tenant=""):
        if "+" in topic or "#" in topic:
            raise InvalidTopicName(topic, "no wildcards")
        return node.TopicMatch(
            topic=topic,
            matches=(node.TopicInfo(filter="a/+", nodes=("node2@127.0.0.1",)),),
            nodes=("node2@127.0.0.1",),
            subscribers=0,
        )

    async def verify_routes(self, *, repair):
        self.orders.append(("verify_routes", repair))
        wrong = {"unheard": 2, "stale_cache": 1} if self.routes_wrong else {}
        counts = {"checked": 7, "peers": 2, "wrong": sum(wrong.values()), "differences": wrong}
        return filled(node.RouteFindings, node=self.name, repaired=repair, **counts)

    def subscriptions(self, order, *, client=None, filter=None, search="", tenant=None):  # noqa: A002
        for number, name in enumerate(self.filters):
            if client in (None, "sensor-1") and filter in (None, name) and search in f"sensor-1 {name}":
                row = node.SubscriptionInfo(client="sensor-1", filter=name, node=self.name, qos=number % 3)
                yield _key(order, row, "client", "filter", "node", "tenant"), partial(_itself, row)

    def clients(self, search, order):
        for row in self.sessions:
            facts = {"connected": row.connected, "user": row.username, "address": row.address}
            facts["tenant"] = row.tenant
            wanted = search.client in (None, row.client) and search.admits(row.client, **facts)
            yield (_key(order, row, "client", "node", "tenant"), partial(_itself, row)) if wanted else None

    def pulse(self):
        return filled(
            cluster.Pulse,
            node=self.name,
            state="running",
            connections=1,
            sessions=2,
            received=10,
            sent=20,
            sees={row.name: cluster.Seen(status=row.status, link=row.link) for row in self.nodes()},
        )

    def history(self, *, seconds, step):
        return cluster.NodeHistory(
            node=self.name, step=step, at=(60.0,), received=(2.5,), sent=(5.0,), connections=(1,)
        )

    async def publish(self, topic, payload, *, qos, retain, tenant=""):
        if "+" in topic or "#" in topic:
            raise InvalidTopicName(topic, "no wildcards")
        self.orders.append(("publish", (topic, payload, qos, retain, *([tenant] if tenant else []))))
        return 3, True

    def retained(self, topic_filter, order, tenant=""):
        parse_filter(topic_filter)
        topics = [topic for topic in self.kept if not tenant and matches(topic_filter, topic)]
        rows = [
            node.RetainedInfo(topic=topic, qos=1, bytes=len(topics) - at, expires_at=at)
            for at, topic in enumerate(topics)
        ]
        return [(_key(order, row, "topic"), partial(_itself, row)) for row in rows]

    def config(self, *, changed_only=False):
        return {"node": {"cookie": "**********"}} if changed_only else {"node": {"name": self.name}}

    async def reload(self):
        self.orders.append(("reload", None))
        return ("/etc/gossamer/acl",)

    async def reload_queues(self):
        self.orders.append(("reload queues", None))
        return {"jobs": "changed"}

    async def backup(self, path):
        if path and not path.startswith("/"):
            raise mismatch(WrongValueError, "path", repr(path), "an absolute path on the node's machine")
        self.orders.append(("backup", path))
        return node.BackupInfo(node=self.name, path=path or "/data/backups/a.db", bytes=5120, seconds=0.25)

    def log_level(self, level=None):
        self.level = level or self.level
        return self.level

    async def ask_peer(self, name, ask, timeout):
        if name not in self.peers:
            raise PeerSilentError(node=name, reason=f"no answer within {timeout} s")
        return await self.peers[name].answer(ask)

    async def digests(self):
        return said("digests", node.TableDigest)

    def tables(self):
        return said("tables", node.TableInfo)

    async def processes(self, *, fold=20, root=None):
        if root not in (None, "<n.1>"):
            raise NoSuchProcess(root, self.name)
        return said("processes", node.ProcessInfo)

    async def trace(self, pid, *, seconds, limit):
        if pid not in ("gossip", "<n.3>"):
            raise NoSuchProcess(pid, self.name)
        try:
            yield TraceLine(1.0, "tracing", "", "<n.3>", "GossipServer")
            yield None
            for number in range(limit if self.busy else 0):
                yield TraceLine(2.0, "cast", "in", "", f"Join(number={number})")
                await asyncio.sleep(0)
            yield TraceLine(3.5, "call", "out", "<n.4>", "'\x1b[31m'")
            if self.hangs:
                await asyncio.sleep(seconds)
            yield TraceLine(4.0, "end", "", "", "shutdown")
        finally:
            self.traces_over += 1
            self.trace_over.set()

    async def count(self):
        """There is nothing to count."""

    def metrics(self):
        peers = CounterMetricFamily(
            "gossamer_messages_forwarded", "Messages handed to a peer.", labels=("peer",)
        )
        peers.add_metric(("node2",), 5)
        peers.add_metric(("node3",), 6)
        yield Metric("gossamer_messages_forwarded", "counter", ("peer",), peers)
        connections = GaugeMetricFamily("gossamer_connections", "Open connections.", 1)
        yield Metric("gossamer_connections", "gauge", (), connections)

    async def join(self, endpoints):
        self.orders.append(("join", tuple(endpoints)))
        if endpoints[0].port == 1:
            raise UnavailableError("nobody answers at 127.0.0.1:1; start a seed or name another endpoint")

    def features(self):
        return self.flags

    async def enable_features(self, name):
        [flag] = self.flags
        if name not in (None, flag.name):
            raise mismatch(NotFoundError, "feature", repr(name), f"one of {flag.name}")
        if flag.lacked_by:
            raise FeatureBlockedError(name=flag.name, lacking=flag.lacked_by, unknown=[])
        self.orders.append(("enable_features", name))
        self.flags = [flag.model_copy(update={"enabled": True})]

    async def keys(self, order=None):
        if order is not None:
            self.orders.append((f"keys {order.action}", order.key.get_secret_value()))
            if order.action == "install":
                self.key_names.append("0b0b0b0b")
            elif order.key.get_secret_value() not in self.key_names:
                raise UsageError(f"keys {order.action}: not installed")
        return cluster.KeysInfo(name=self.name, keys=tuple(self.key_names))

    async def leave(self):
        self.orders.append(("leave", None))

    async def drain(self):
        self.orders.append(("drain", None))
        return f"{self.name} drained"

    def tenants(self, only=None):
        for name, limits in sorted(self.limits.items()):
            if only in (None, name):
                info = TenantInfo(
                    tenant=name,
                    node=self.name,
                    banned=False,
                    limits=limits,
                    connections=1,
                    messages=2,
                    retained=3,
                )
                yield (name, self.name), partial(lambda info: info, info)

    async def change_tenant(self, name, order):
        self.orders.append(("tenant", (name, order.limits, order.banned)))
        self.limits.setdefault(name, {}).update(order.limits)

    async def kick(self, client, tenant=""):
        self.orders.append(("kick", client))
        return client != "nobody"

    async def force_leave(self, name):
        if name not in {row.name for row in self.known}:
            raise UsageError(f"unknown member {name}; expected one of gossamer nodes")
        self.orders.append(("force_leave", name))

"""The supervision tree of a node: which processes run, in which order, and what each is given.

::

    node (one_for_one)
    ├── loop_watch       how late the event loop runs, and who holds it (not in simulations)
    ├── distribution     links to peers
    ├── remote           processes of other nodes: signals, rpc, process groups
    ├── mnesia_like      tables: disc, replicator
    ├── routes           the owner of the route table and its index
    ├── mqtt_cluster     what brokers share: retained messages, wills
    ├── audit            what happened to each message, for a process that writes it (where it is switched on)
    ├── tracing          the same for a collector of OpenTelemetry (where it is switched on)
    ├── autoheal         splits seen and healed
    ├── membership       from gossip's verdicts to links
    ├── gossip           SWIM
    ├── discovery        the autocluster loop, and what its strategy needs
    ├── gateway          Python clients: hidden nodes
    ├── applications     what the user runs here
    ├── history          the last hour in a few numbers (not in simulations)
    ├── runs             drills and audits, as programs beside the node
    ├── api              HTTP
    ├── grpc             programs in any language (where it is switched on)
    ├── consensus        replicas, and names with one holder; started once the tables are there
    └── mqtt             listeners and channels; started last, stopped first

Each child is restarted on its own, because what others read of it (views, tables, routes, sessions) belongs
to the node and outlives it. Too many restarts end the root, and with it the node; a process manager starts it
again.
"""

from __future__ import annotations

import pkgutil
import time
from collections.abc import Callable, Iterable
from functools import partial

from gossamer import gateway
from gossamer.api import REQUEST, TOKENS, ApiServer, Callers, runs_spec
from gossamer.audit import WATCH
from gossamer.discovery import discovery_spec
from gossamer.distribution import remote_services
from gossamer.errors import UnavailableError, UsageError, mismatch
from gossamer.gateway import gateway_spec
from gossamer.gossip import GossipServer
from gossamer.mqtt import TENANTS, MqttCluster
from gossamer.network import Address
from gossamer.node.consensus import has_enough_replicas
from gossamer.node.healing import healing_spec
from gossamer.node.history import HISTORY, HistoryKeeper, Reading, resident_memory
from gossamer.node.membership import MEMBERSHIP, Membership
from gossamer.node.metrics import LOOP_WATCH, loop_watch
from gossamer.node.parts import NodeParts
from gossamer.node.views.members import ROUTES
from gossamer.node.views.view import View
from gossamer.routes import RouteOwner
from gossamer.supervisor import ChildSpec, LoopWatch, Pid, Supervisor

APPLICATIONS = "applications"


def children_of(node: NodeParts, *, view: View, fatal: Callable[[UnavailableError], None]) -> list[ChildSpec]:
    """Return what the root starts, in this order; ``consensus`` and ``mqtt`` are added once the tables are
    there.

    ``fatal`` ends the node.
    """
    config = node.config
    node.functions[REQUEST] = view.peer_requests.answer
    children = [
        node.distribution.child_spec(),
        remote_services(node.distribution, functions=node.functions),
        node.store.child_spec(),
        ChildSpec("routes", partial(_start_routes, node)),
        ChildSpec("mqtt_cluster", partial(_start_mqtt_cluster, node)),
        *([node.auditor.spec()] if config.audit.enable else ()),
        *([node.tracing.spec()] if node.tracing is not None else ()),
        # Before membership, so that it hears of every session from the first on.
        healing_spec(node),
        ChildSpec(
            MEMBERSHIP,
            partial(Membership.start_link, node=node, fatal=fatal, name=MEMBERSHIP, label=MEMBERSHIP),
        ),
        ChildSpec("gossip", partial(_start_gossip, node)),
        discovery_spec(
            node.strategy,
            view=node.members,
            rng=node.rng,
            retry_interval=config.cluster.discovery.retry_interval,
            standalone=node.standalone,
            progress=node.join_progress,
        ),
        gateway_spec(node.broker, node.distribution),
        _applications_spec(node),
    ]
    if node.real_time:
        watch = partial(LoopWatch.start_link, tell=node.loop_late, name=LOOP_WATCH, label=LOOP_WATCH)
        children.insert(0, ChildSpec(LOOP_WATCH, watch))
    if config.api.enable:
        if node.real_time:
            read = partial(_reading, node)
            keeper = partial(HistoryKeeper.start_link, node.history, read, name=HISTORY, label=HISTORY)
            children.append(ChildSpec(HISTORY, keeper))
        children.append(runs_spec())
        children.append(ChildSpec("api", partial(_start_api, node, view)))
    if config.grpc.enable:
        children.append(ChildSpec("grpc", partial(_start_grpc, node, view)))
    return children


def _applications_spec(node: NodeParts) -> ChildSpec:
    """The users' own children, below one supervisor. Raises UsageError.

    ``node.applications`` names functions as ``package.module:function``. Each is given the node and returns
    child specs; it may also offer functions to the other nodes (``node.functions["name"] = ...``), since what
    peers may run is decided here and never by what they send.

    Their supervisor allows more restarts than the default. When it gives up it is restarted by the node,
    whose own patience is the last bound.
    """
    specs = list(node.user_children)
    for name in node.config.node.applications:
        made = list(_load_application(name)(node))
        if strange := [spec for spec in made if not isinstance(spec, ChildSpec)]:
            raise _not_an_application(name, f"it returned a {type(strange[0]).__name__}")
        specs += made
    start = partial(
        Supervisor.start_link, specs, intensity=10, period=10.0, name=APPLICATIONS, label=APPLICATIONS
    )
    return ChildSpec(APPLICATIONS, start, type="supervisor")


def _load_application(application: str) -> Callable[[NodeParts], Iterable[ChildSpec]]:
    """The function that a name stands for. Raises UsageError."""
    try:
        found = pkgutil.resolve_name(application)
    except (ImportError, AttributeError, ValueError) as error:
        raise _not_an_application(application, str(error)) from error
    if not callable(found):
        raise _not_an_application(application, f"a {type(found).__name__}")
    return found  # type: ignore[no-any-return]


def _not_an_application(name: str, reason: str) -> UsageError:
    got = f"{name!r} ({reason})"
    expected = (
        "package.module:function, which takes the node and returns child specs, in a module that can be "
        "imported (PYTHONPATH)"
    )
    return mismatch(UsageError, "node.applications", got, expected)


def _reading(node: NodeParts) -> Reading:
    """The node now; the worst lateness of its loop is taken."""
    stats, watch = node.broker.stats(), loop_watch(node.runtime)
    return Reading(
        at=node.clock.wall(),
        monotonic=node.clock.monotonic(),
        received=stats["messages_received"],
        sent=stats["messages_sent"],
        dropped=node.broker.fanout.drops.total(),
        cpu=time.process_time(),
        connections=stats["connections"],
        memory=resident_memory(),
        loop_lag=watch.take_peak() if watch else 0.0,
    )


async def _start_routes(node: NodeParts) -> Pid:
    # The owner alone sees rows change, so it must be there before the first one can come.
    table = await node.store.create_table(ROUTES, replication="owned")
    return await RouteOwner.start_link(
        node.router, table, node.distribution, functions=node.functions, name="routes", label="routes"
    )


async def _start_mqtt_cluster(node: NodeParts) -> Pid:
    storage = "disc_copies" if node.on_disc else "ram_copies"
    table = await node.store.create_table(TENANTS, replication="shared", storage=storage)
    node.broker.tenants.attach(table)
    return await MqttCluster.start_link(
        node.broker,
        node.retained,
        node.store,
        node.distribution,
        node.members,
        node.functions,
        node.between,
        disc=node.on_disc,
        suspicion_floor=node.config.cluster.gossip.suspicion_floor,
        enough=partial(has_enough_replicas, node),
        name="mqtt_cluster",
        label="mqtt_cluster",
    )


async def _start_gossip(node: NodeParts) -> Pid:
    cluster = node.config.cluster
    return await GossipServer.start_link(
        metadata=node.metadata(),
        bind=(cluster.host or "0.0.0.0", cluster.port),  # noqa: S104 - blank means every address
        keyring=node.keyring,
        network=node.between,
        clock=node.clock,
        view=node.members,
        rng=node.rng,
        settings=cluster.gossip,
        subscribers=(MEMBERSHIP, WATCH),
        key_file=node.key_file,
        name="gossip",
        label="gossip",
    )


async def _start_api(node: NodeParts, view: View) -> Pid:
    await _attach_tokens(node)
    make = view.peer_requests.application
    pid = await ApiServer.start_link(
        make,
        config=node.config.api,
        network=node.network,
        tls=node.api_certificates and node.api_certificates.context,
        name="api",
        label="api",
    )
    address: Address = await node.runtime.call(pid, "address")
    node.api_port = address[1]
    return pid


async def _start_grpc(node: NodeParts, view: View) -> Pid:
    await _attach_tokens(node)
    pid = await gateway.GrpcServer.start_link(
        node.broker,
        config=node.config.grpc,
        callers=Callers(tokens=node.tokens, config=node.config.api, clock=node.clock),
        status=view.status,
        certificates=node.grpc_certificates,
        name="grpc",
        label="grpc",
    )
    address: Address = await node.runtime.call(pid, "address")
    node.grpc_port = address[1]
    return pid


async def _attach_tokens(node: NodeParts) -> None:
    storage = "disc_copies" if node.on_disc else "ram_copies"
    node.tokens.attach(await node.store.create_table(TOKENS, replication="shared", storage=storage))

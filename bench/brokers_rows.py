"""The rows of the table that ``brokers.py`` prints: what is measured, and what it is held against.

A bar is a figure that must be reached, as a multiple of another broker's in the same run or as itself, and
an aim beyond it. Where the other broker is not installed, ``published`` stands in for it: what was measured
of it on a machine of this kind before.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Bar:
    """``figure`` must be at least ``must`` (``low``: at most), times ``of``'s figure where one is named."""

    figure: str
    must: float
    aim: float
    of: str = ""
    aim_of: str | None = None
    """Where the aim is held against another broker than the bar."""
    low: bool = False
    published: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """One line for each broker. ``generator``: ``load``, ``hold`` or ``tls``, with ``options``;
    ``fresh``: of a broker that has done nothing before, because its memory is measured."""

    title: str
    options: dict[str, object]
    bars: tuple[Bar, ...] = ()
    nodes: int = 1
    generator: str = "load"
    fresh: bool = False
    rate: str = "per_second"
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    @property
    def reference(self) -> str:
        """Whose figures the ratios are to."""
        return "mosquitto" if self.nodes == 1 else "mosquitto x2"


def _latency(of: str, published: tuple[float, float] | None = None, must: float = 1.3) -> tuple[Bar, ...]:
    p50, p99 = published or (0, 0)
    return (
        Bar("p50_us", must, 1, of=of, low=True, published={of: p50} if p50 else {}),
        Bar("p99_us", must, 1, of=of, low=True, published={of: p99} if p99 else {}),
    )


def _pair(qos: int, **more: object) -> dict[str, object]:
    return {"pattern": "pair", "qos": qos, "pubs": 10, "subs": 10, **more}


MIXED = {"topics": 1000, "payload": 20, "most": 384}
SCATTER = {"pattern": "pair", "pubs": 1000, "subs": 1000}
TLS: dict[str, object] = {"count": 1000, "at_once": 8}
SUBSCRIBE = {"mode": "subs", "clients": 100, "filters": 2000, "wild": 20}
NATS, NATS2 = "nats", "nats x2"

ROWS: dict[str, Row] = {
    "scatter0": Row(
        "1,000 to 1,000, one message in flight each, QoS 0",
        {**SCATTER, "qos": 0, "lag": 1},
        (Bar("per_second", 1.2, 1.5, of="mosquitto"),),
    ),
    "scatter1": Row(
        "the same, QoS 1",
        {**SCATTER, "qos": 1, "window": 1},
        (Bar("per_second", 1.2, 1.5, of="mosquitto"),),
    ),
    "devices1": Row(
        "2,000 devices at 10,000 msg/s, QoS 1, to two that read all",
        {"pattern": "wildcard", "pubs": 2000, "subs": 2, "qos": 1, "window": 20, "rate": 10_000},
        (Bar("cpu_us", 1, 0.8, of="mosquitto", low=True),),
    ),
    "mixed0": Row(
        "10 to 10, a random one of 1,000 topics and 20 to 384 B each, QoS 0",
        _pair(0, lag=50, **MIXED),
        (Bar("per_second", 5, 6, of="mosquitto"),),
    ),
    "mixed1": Row(
        "the same, QoS 1, window 20",
        _pair(1, window=20, **MIXED),
        (Bar("per_second", 3.5, 5, of="mosquitto"),),
    ),
    "pair0": Row(
        "pairwise QoS 0, 10 to 10",
        _pair(0, lag=50),
        (Bar("per_second", 4, 1, of="mosquitto", aim_of=NATS),),
    ),
    "pair1": Row(
        "pairwise QoS 1, window 20", _pair(1, window=20), (Bar("per_second", 1.8, 2.5, of="mosquitto"),)
    ),
    "fanout0": Row(
        "fan-out 1 to 50, QoS 0",
        {"pattern": "fanout", "qos": 0, "pubs": 1, "subs": 50, "lag": 50},
        (Bar("per_second", 5, 2, of="mosquitto", aim_of=NATS),),
    ),
    "fanin1": Row(
        "fan-in 50 to 1, QoS 1",
        {"pattern": "fanin", "qos": 1, "pubs": 50, "subs": 1, "window": 20, "lag": 20},
        (Bar("per_second", 1, 1.5, of="mosquitto"), Bar("lost", 0, 0, low=True)),
    ),
    "wildcard0": Row(
        "wildcards 10 to 4, QoS 0",
        {"pattern": "wildcard", "qos": 0, "pubs": 10, "subs": 4, "lag": 50},
        (Bar("per_second", 3, 1, of="mosquitto", aim_of=NATS),),
        without=("tiny",),
    ),
    "latency0": Row("latency at 2,000 msg/s, QoS 0", _pair(0, rate=2000), _latency("mosquitto")),
    "latency1": Row("latency at 2,000 msg/s, QoS 1", _pair(1, rate=2000, window=1000), _latency("mosquitto")),
    "idle": Row(
        "5,000 idle connections",
        {"mode": "idle", "count": 5000},
        (Bar("per_second", 5000, 10000), Bar("bytes_each", 8000, 4000, low=True)),
        generator="hold",
        fresh=True,
    ),
    "tls": Row(
        "connections over TLS 1.3, P-256, each a full handshake",
        {**TLS, "resume": 0},
        (Bar("cpu_us", 1.25, 1, of="mosquitto", low=True),),
        generator="tls",
        only=("mosquitto", "gossamer"),
    ),
    "resumed": Row(
        "the same, with the session of the connection before",
        {**TLS, "resume": 1},
        (Bar("cpu_us", 1.25, 1, of="mosquitto", low=True),),
        generator="tls",
        only=("mosquitto", "gossamer"),
    ),
    "subscribe": Row(
        "200,000 subscriptions, 20 % wildcards",
        {**SUBSCRIBE, "pubs": 0},
        (Bar("subscribed_per_second", 100_000, 200_000), Bar("bytes_each", 800, 500, low=True)),
        generator="hold",
        fresh=True,
        rate="subscribed_per_second",
        without=("tiny",),
    ),
    "held": Row(
        "publishing while they are held",
        dict(SUBSCRIBE),
        (Bar("per_second", 3, 5, of="mosquitto"),),
        generator="hold",
        fresh=True,
        without=("tiny",),
    ),
    "cross0": Row(
        "node to node, QoS 0",
        _pair(0, lag=50),
        (Bar("per_second", 200_000, 1, aim_of=NATS2, published={NATS2: 362_000}),),
        nodes=2,
    ),
    "cross1": Row(
        "node to node, QoS 1, window 20",
        _pair(1, window=20),
        (Bar("per_second", 60_000, 100_000), Bar("p99_us", 20_000, 20_000, low=True)),
        nodes=2,
    ),
    "crosslat0": Row(
        "node to node latency, 2,000 msg/s, QoS 0",
        _pair(0, rate=2000),
        _latency(NATS2, (232, 1900), 1.5),
        nodes=2,
    ),
    "crosslat1": Row(
        "node to node latency, 2,000 msg/s, QoS 1",
        _pair(1, rate=2000, window=1000),
        _latency(NATS2, (477, 7000), 1.5),
        nodes=2,
    ),
    # Of these two as many are open at a time as the limit on open files allows (``room``).
    "many": Row(
        "50,000 idle connections",
        {"mode": "idle", "count": 50_000, "room": 0, "hold": 10},
        (Bar("bytes_each", 8000, 4000, low=True), Bar("lost", 0, 0, low=True)),
        generator="hold",
        fresh=True,
        only=("mosquitto", "gossamer"),
    ),
    "silent": Row(
        "100,000 connects without CONNECT",
        {"mode": "silent", "count": 100_000, "room": 0, "at_once": 1000, "hold": 12, "patience": 150},
        generator="hold",
        fresh=True,
        only=("gossamer",),
    ),
}
"""By name."""

SELDOM = ("many", "silent")
"""They take long, or more open files than is usual, and run only when they are named."""

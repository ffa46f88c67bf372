"""A real cluster, a real collector: one trace of one message over two nodes, and none of it in the way."""

from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from real.clients import Mqtt
from real.harness import Cluster, eventually

pytest.importorskip("opentelemetry.sdk")
from tracing.collector import Collector

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
SECOND = 10**9


def publish(client: Mqtt, topic: str, traceparent: str = "") -> None:
    properties = Properties(PacketTypes.PUBLISH)
    if traceparent:
        properties.UserProperty = [("traceparent", traceparent)]
    client.publish(topic, "hello", properties=properties)


def metric(cluster: Cluster, number: int, name: str, label: str) -> float:
    import httpx

    text = httpx.get(cluster.api(number) + "/metrics", trust_env=False, timeout=30).text
    return next(float(line.split()[-1]) for line in text.splitlines() if line.startswith(f"{name}{{{label}"))


@pytest.mark.real
def test_one_message_over_two_nodes_is_one_trace(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("GOSSAMER_TRACING__ENABLE", "true")
    monkeypatch.setenv("GOSSAMER_TRACING__SAMPLE", "0")
    monkeypatch.setenv("GOSSAMER_TRACING__HEADERS__X_TOKEN", "not-for-the-log")
    with Collector() as collector:
        monkeypatch.setenv("GOSSAMER_TRACING__ENDPOINT", collector.endpoint)
        with Cluster(tmp_path) as cluster:
            one, other = (cluster.nodes[number]["name"] for number in (0, 1))
            subscriber = Mqtt(cluster.port(2), "sub", "traced/#", version=paho.MQTTv5)
            with Mqtt(cluster.port(1), "pub", version=paho.MQTTv5) as publisher:
                publish(publisher, "traced/not")
                publish(publisher, "traced/it", TRACEPARENT)
            eventually(lambda: len(subscriber.got) == 2, says="both messages")
            subscriber.end()

            def names() -> set[str]:
                return {f"{span['name']} {span['node']}" for span in collector.spans}

            wanted = {f"publish {one}", f"forward {one}", f"receive {other}", f"deliver {other}"}
            eventually(lambda: wanted | {f"acknowledge {other}"} <= names(), says="spans of both nodes")
            exported = metric(cluster, 1, "gossamer_tracing_spans_total", 'outcome="exported"')
        logs = "".join(path.read_text() for path in cluster.data_dir.rglob("*.log"))
    assert exported >= 3
    assert "not-for-the-log" not in logs
    assert collector.headers[0]["x_token"] == "not-for-the-log"
    # Only what the publisher traces was, and the subscriber was told of the same trace.
    assert {trace.hex() for trace in collector.traces()} == {TRACE}
    assert subscriber.got[1].properties.UserProperty == [("traceparent", TRACEPARENT)]
    spans = {span["span"]: span for span in collector.spans}
    (root,) = [span for span in spans.values() if span["name"] == "publish"]
    assert root["parent"].hex() == "00f067aa0ba902b7"
    (delivery,) = [span for span in spans.values() if span["name"] == "deliver"]
    path = []
    span = delivery
    while span is not root:
        path.append(f"{span['name']} {span['node']}")
        span = spans[span["parent"]]
    assert path == [
        f"deliver {other}",
        f"route {other}",
        f"receive {other}",
        f"forward {one}",
        f"route {one}",
    ]
    assert delivery["attributes"]["messaging.client.id"] == "sub"
    # Of one machine's clock, so that times of both nodes compare.
    begin, end = (f(s[key] for s in spans.values()) for f, key in ((min, "start"), (max, "end")))
    assert 0 <= end - begin < 60 * SECOND
    assert all(span["end"] - span["start"] >= 0 for span in spans.values())
    assert root["start"] == begin
    assert all(span["start"] >= spans[span["parent"]]["start"] for span in spans.values() if span is not root)


@pytest.mark.real
def test_a_collector_that_is_not_there_harms_nobody(tmp_path: Path, monkeypatch) -> None:
    gone = Collector()
    gone._server.server_close()
    monkeypatch.setenv("GOSSAMER_TRACING__ENABLE", "true")
    monkeypatch.setenv("GOSSAMER_TRACING__SAMPLE", "1")
    monkeypatch.setenv("GOSSAMER_TRACING__TIMEOUT", "200ms")
    monkeypatch.setenv("GOSSAMER_TRACING__ENDPOINT", gone.endpoint)
    with Cluster(tmp_path, nodes=1) as cluster:
        with Mqtt(cluster.port(1), "sub", "a") as subscriber, Mqtt(cluster.port(1), "pub") as publisher:
            for _ in range(200):
                publisher.publish("a", "hello")
            eventually(lambda: len(subscriber.got) == 200, says="all messages")
        eventually(lambda: metric(cluster, 1, "gossamer_tracing_spans_total", 'outcome="failed"') > 0)
        assert cluster.get(1, "/ready")["ready"] is True
        (log,) = cluster.data_dir.rglob("node.log")
        assert log.read_text().count("tracing_fails") == 1
    assert cluster.process.returncode == 0

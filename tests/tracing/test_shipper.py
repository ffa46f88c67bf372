"""The way of spans to a collector, which may be slow, dead or refuse them: nobody else notices."""

import threading
import time
from collections import Counter
from types import SimpleNamespace

import pytest

import gossamer.audit.schema as schema
from gossamer.audit import KINDS
from gossamer.config import TracingConfig
from gossamer.tracing import SpanBuilder, TracedBuffer, shipper
from gossamer.tracing.shipper import Shipper


class Line:
    """Takes spans, or does not."""

    def __init__(self):
        self.up = True
        self.got = []
        self.tries = 0

    def __call__(self, spans):
        self.tries += 1
        if self.up:
            self.got += spans
        return self.up

    def close(self):
        self.closed = True


class World:
    def __init__(self, line=None, connect=None):
        self.now = 100.0
        self.recording = False
        self.buffer = TracedBuffer(limit=1000, wall=lambda: self.now, recording=lambda: self.recording)
        self.line = line or Line()
        self.errors = []
        self.counts = Counter()
        tracing = SimpleNamespace(
            buffer=self.buffer,
            builder=SpanBuilder("n1@h", deliveries=16),
            connect=connect or (lambda: self.line),
            share=lambda: 1.0,
            counts=self.counts,
            config=TracingConfig(endpoint="http://collector"),
        )
        self.shipper = Shipper(tracing, self.errors.append)
        self.shipper._send = self.line

    def publish(self, number, count=1):
        self.buffer.note(KINDS[schema.PUBLISHED], "n1@h", 1, number, count, "a", 0, False, count, None, "c")

    def work(self):
        self.now += 10
        self.shipper.work()


def test_what_was_noted_is_sent_once_it_is_complete():
    world = World()
    world.publish(1)
    world.shipper.work()
    assert world.line.got == []
    world.work()
    assert [span.name for span in world.line.got] == ["publish"]
    assert world.counts == {"exported": 1}


def test_a_collector_that_does_not_answer_costs_spans_and_says_so_once():
    world = World()
    world.line.up = False
    for number in range(1, 6):
        world.publish(number)
        world.work()
    assert world.counts == {"failed": 5}
    world.line.up = True
    world.publish(6)
    world.work()
    assert world.counts == {"failed": 5, "exported": 1}


def test_a_failed_batch_is_the_only_try_of_a_round(monkeypatch):
    """A dead collector takes a timeout a batch: the rest must not wait for as many of them."""
    monkeypatch.setattr(shipper, "BATCH", 10)
    world = World()
    world.line.up = False
    world.publish(1, count=50)
    world.work()
    assert world.line.tries == 1
    world.line.up = True
    world.work()
    assert world.counts == {"failed": 10, "exported": 40}


def test_spans_that_wait_are_bounded(monkeypatch):
    monkeypatch.setattr(shipper, "WAITING", 100)
    world = World()
    world.publish(1, count=150)
    world.work()
    assert world.counts["overflow"] == 50


def test_rows_that_nobody_takes_are_bounded(monkeypatch):
    monkeypatch.setattr("gossamer.tracing.traced_buffer.ROOM", 100)
    world = World()
    for number in range(150):
        world.publish(number)
    assert (len(world.buffer.rows), world.buffer.rows_lost) == (100, 50)


def test_a_recorder_besides_has_its_rows_and_no_others():
    from gossamer.mqtt import ASIDE

    world = World()
    world.publish(1)
    assert len(world.buffer) == 0
    world.recording = True
    world.publish(2)
    world.publish(3 | ASIDE)
    world.buffer.note(KINDS[schema.SUBSCRIBED], "c", "a", None, 0, False, None)
    assert [row[1] for row in world.buffer.take()] == [KINDS[schema.PUBLISHED], KINDS[schema.SUBSCRIBED]]
    assert len(world.buffer.rows) == 3


def test_the_thread_sends_what_there_is_and_ends():
    world = World()
    world.publish(1)
    world.shipper.thread.start()
    world.shipper.end()
    assert not world.shipper.thread.is_alive()
    assert [span.name for span in world.line.got] == ["publish"]
    assert world.line.closed


def test_a_thread_that_fails_tells_its_owner():
    def connect():
        raise OSError("no such thing")

    world = World(connect=connect)
    world.shipper.thread.start()
    world.shipper.thread.join(30)
    assert isinstance(world.errors[0], OSError)


def test_a_collector_that_hangs_does_not_keep_a_node_from_stopping(monkeypatch):
    monkeypatch.setattr(shipper, "FAREWELL", 0.2)
    asked, never = threading.Event(), threading.Event()

    class Hung(Line):
        def __call__(self, spans):
            asked.set()
            never.wait(60)
            return False

    world = World(Hung())
    world.publish(1)
    world.now += 10
    world.shipper.thread.start()
    assert asked.wait(30)
    begun = time.monotonic()
    world.shipper.end()
    assert time.monotonic() - begun < 30
    assert world.line.closed
    never.set()
    world.shipper.thread.join(30)


def test_spans_reach_a_collector_over_http_with_the_headers_it_wants():
    pytest.importorskip("opentelemetry.sdk")
    from gossamer.tracing.otlp import OtlpSender

    from .collector import Collector

    with Collector() as collector:
        config = TracingConfig(endpoint=collector.endpoint, headers={"authorization": "Bearer xyz"})
        world = World()
        world.shipper._send = send = OtlpSender(config, "n1@h")
        world.publish(1)
        world.work()
        send.close()
        assert world.counts == {"exported": 1}
        (span,) = collector.spans
        assert (span["name"], span["node"], span["service"]) == ("publish", "n1@h", "gossamer")
        assert collector.headers[0]["authorization"] == "Bearer xyz"
    assert "xyz" not in repr(config)


def test_nobody_at_the_endpoint_is_a_loss_of_spans():
    pytest.importorskip("opentelemetry.sdk")
    from gossamer.tracing.otlp import OtlpSender

    from .collector import Collector

    gone = Collector()
    endpoint = gone.endpoint
    gone._server.server_close()
    world = World()
    world.shipper._send = send = OtlpSender(TracingConfig(endpoint=endpoint, timeout="200ms"), "n1@h")
    world.publish(1)
    world.work()
    send.close()
    assert world.counts == {"failed": 1}

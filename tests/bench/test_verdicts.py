"""The verdicts below the table of brokers say what the figures do."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import brokers
from brokers_rows import ROWS


def told(name, **figures):
    """The verdicts on a row, by what each broker reached."""
    runs = {(name, peer): [value] for peer, value in figures.items()}
    return [brokers.verdict(name, bar, runs, shared=False) for bar in ROWS[name].bars]


def test_a_verdict_holds_a_rate_against_the_other_broker():
    [good] = told("pair1", gossamer={"per_second": 260.0}, mosquitto={"per_second": 100.0})
    assert good.count(": reached") == 2
    [fair] = told("pair1", gossamer={"per_second": 200.0}, mosquitto={"per_second": 100.0})
    assert "must >= 180 = 1.8 x mosquitto: reached; aim >= 250 = 2.5 x mosquitto: NOT reached" in fair


def test_a_verdict_without_the_other_broker_takes_what_was_published_or_says_that_it_does_not_know():
    runs = {("crosslat0", "gossamer x2"): [{"p50_us": 300.0, "p99_us": 3000.0}]}
    half, most = (brokers.verdict("crosslat0", bar, runs, shared=False) for bar in ROWS["crosslat0"].bars)
    assert "must <= 348 = 1.5 x nats x2, as published: reached" in half
    assert "must <= 2,850 = 1.5 x nats x2, as published: NOT reached" in most
    [unknown] = told("pair1", gossamer={"per_second": 200.0})
    assert unknown == "per second 200; must not known; aim not known"

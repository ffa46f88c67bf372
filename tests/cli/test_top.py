"""``gossamer top``: samples of the whole cluster."""

import json

from gossamer.cli.top import rates_of


def pulse(node="a", *, at=1.0, creation=1, received=0, sent=0, peers=None):
    return {
        "node": node,
        "at": at,
        "creation": creation,
        "received": received,
        "sent": sent,
        "dropped": 0,
        "forwarded_bytes": peers or {},
    }


def sample(*pulses):
    return {"nodes": pulses, "missing": {}}


def test_rates_are_differences_over_the_time_between():
    before = sample(pulse(received=10, sent=0, peers={"b": 100}))
    now = sample(pulse(at=3.0, received=30, sent=8, peers={"b": 500}))
    assert rates_of(before, now) == {"a": {"received": 10, "sent": 4, "dropped": 0, "forwarded": 200}}


def test_a_node_that_started_anew_or_is_new_has_no_rate_yet():
    before = sample(pulse(received=10))
    assert rates_of(before, sample(pulse(at=2.0, creation=2), pulse("b", at=2.0))) == {}
    assert rates_of(None, before) == {}


def test_it_shows_all_nodes_and_who_is_silent(served, run):
    shown = run("top", "--samples", "1", "--api", served.url)
    assert shown.code == 0
    assert "node1@127.0.0.1" in shown.out
    assert "silent" in shown.out
    assert "node3@127.0.0.1 suspect" in shown.out
    (line,) = run("top", "--samples", "1", "--json", "--api", served.url).out.splitlines()
    assert json.loads(line)["asked"] == "node1@127.0.0.1"


def test_nobody_there_is_said_as_everywhere(run):
    assert run("top", "--api", "127.0.0.1:1").code == 4

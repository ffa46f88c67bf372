"""``gossamer publish`` and ``gossamer retained``, against an API that is really there."""

import io
import sys


def test_a_message_is_published(served, run):
    done = run("publish", "a/b", "hi", "--qos", "1", "--retain", "--api", served.url)
    assert (done.code, done.out) == (0, "")
    assert "to 3 subscribers" in done.err
    assert served.view.orders == [("publish", ("a/b", b"hi", 1, True))]


def test_standard_input_may_hold_any_bytes(served, run, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\x00\xff")))
    assert run("publish", "a", "-", "--api", served.url, "--json").json["safe"] is True
    assert served.view.orders == [("publish", ("a", b"\x00\xff", 0, False))]


def test_a_filter_is_no_topic(served, run):
    refused = run("publish", "a/#", "--api", served.url)
    assert refused.code == 2
    assert "no wildcards" in refused.err


def test_retained_topics_are_listed(served, run):
    assert run("retained", "--api", served.url).out.split() == ["TOPIC", "a/1", "b"]
    assert run("retained", "b", "--json", "--api", served.url).json["items"][0]["topic"] == "b"

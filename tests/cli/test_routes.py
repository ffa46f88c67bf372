"""``gossamer routes verify``: every node holds its routes against what they come from."""

import pytest

from gossamer.cli import ExitCode


@pytest.fixture
def ask(run, served):
    # Only node 1 is really there.
    served.view.known = served.view.known[:1]
    return lambda *arguments: run(*arguments, "--api", served.url)


def test_all_is_right(ask, served):
    outcome = ask("routes", "verify")
    assert outcome.code == 0
    assert outcome.out.splitlines()[1].split() == ["node1@127.0.0.1", "7", "2", "0", "all", "right"]
    assert served.view.orders[-1] == ("verify_routes", True)


def test_what_is_wrong_is_named_and_repaired(ask, served):
    served.view.routes_wrong = True
    outcome = ask("routes", "verify")
    assert outcome.code == 0
    assert "unheard=2, stale_cache=1" in outcome.out
    assert "3 differences, repaired" in outcome.err


def test_a_check_repairs_nothing_and_ends_with_a_code(ask, served):
    served.view.routes_wrong = True
    outcome = ask("routes", "verify", "--check", "--json")
    assert outcome.code == ExitCode.UNAVAILABLE
    assert outcome.json["items"][0]["differences"] == {"unheard": 2, "stale_cache": 1}
    assert served.view.orders[-1] == ("verify_routes", False)


def test_one_node_may_be_named(ask):
    assert ask("routes", "verify", "--node", "node1@127.0.0.1", "--json").json["missing"] == {}
    assert ask("routes", "verify", "--node", "nobody").code == ExitCode.REFUSED


def test_who_does_not_answer_is_named(run, served):
    served.view.known = [served.view.known[0], served.view.known[1].model_copy(update={"status": "offline"})]
    outcome = run("routes", "verify", "--api", served.url)
    assert outcome.code == ExitCode.UNAVAILABLE
    assert "incomplete: node2@127.0.0.1 did not answer: it is offline" in outcome.err
    assert "node1@127.0.0.1" in outcome.out

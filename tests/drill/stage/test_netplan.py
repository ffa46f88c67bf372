"""What iproute2 is told for a drill in namespaces."""

from hypothesis import given
from hypothesis import strategies as st

from drill.made import cut_between
from gossamer.drill.stage.backend import LinkFault
from gossamer.drill.stage.netplan import Maker, NetPlan, cuts_of, maker_of, slow_of

PLAN = NetPlan(Maker(4711, 1234), 2, 3)
NUMBERS = {"a": 1, "b": 2, "c": 3}


def test_names_tell_who_made_them():
    """And only names of drills do."""
    assert PLAN.spaces() == [
        f"gossamer-drill-4711-1234-2-{label}" for label in ("hub", "node1", "node2", "node3")
    ]
    assert {maker_of(space) for space in PLAN.spaces()} == {Maker(4711, 1234)}
    assert maker_of("gossamer-4711-a") is None
    assert maker_of("gossamer-drill-4711-1234-2-node3.bak") is None


def test_each_node_has_an_address_of_its_own():
    hosts = [PLAN.host(node) for node in range(4)]
    assert hosts == ["10.77.0.254", "10.77.0.1", "10.77.0.2", "10.77.0.3"]


@given(st.frozensets(st.integers(1, 60)), st.frozensets(st.integers(1, 60)))
def test_only_what_differs_is_cut_and_healed(old: frozenset[int], new: frozenset[int]):
    lines = PLAN.cut_lines(old, new)
    added = {int(line.split()[3]) - 10 for line in lines if line.startswith("rule add")}
    deleted = {int(line.split()[3]) - 10 for line in lines if line.startswith("rule delete")}
    assert (added, deleted) == (new - old, old - new)


def test_a_cut_is_told_to_the_receiver():
    assert PLAN.cut_lines(frozenset(), frozenset({2})) == [
        "rule add priority 12 iif cable from 10.77.0.2 blackhole"
    ]
    assert cuts_of([LinkFault("a", "b", cut=True)], NUMBERS) == {2: frozenset({1})}
    assert cuts_of(cut_between(["a", "b"], ["c"]), NUMBERS) == {
        1: frozenset({3}),
        2: frozenset({3}),
        3: frozenset({1, 2}),
    }


def test_delay_and_loss_are_told_to_the_sender():
    fault = LinkFault("a", "c", delay=0.2, jitter=0.05, loss=0.025)
    assert slow_of([fault, LinkFault("a", "b"), LinkFault("b", "c", cut=True, delay=1.0)], NUMBERS) == {
        1: {3: fault}
    }
    assert PLAN.slow_lines({3: fault})[2:] == [
        "class add dev cable parent 1: classid 1:13 htb rate 10gbit quantum 60000",
        "qdisc add dev cable parent 1:13 handle 13: netem limit 100000 delay 225ms 25ms loss 2.5%",
        "filter add dev cable parent 1: protocol ip prio 1 u32 match ip dst 10.77.0.3/32 flowid 1:13",
    ]
    assert PLAN.slow_lines({}) == []


def test_loss_without_netem_is_told_to_the_receiver():
    """Each time all of it, in one transaction."""
    text = PLAN.loss_text({1: 0.05})
    assert 'iifname "cable" ip saddr 10.77.0.1 numgen random mod 1000000 < 50000 counter drop' in text
    assert text.splitlines()[:2] == ["table ip drill", "delete table ip drill"]

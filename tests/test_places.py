"""Places for strangers: one address leaves room for the others."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from gossamer.places import Places


def test_one_address_cannot_take_the_places_of_others():
    places = Places(total=10, each=3, evict=None)
    taken = [places.take(number, "a") for number in range(5)]
    assert taken == ["", "", "", *["3 callers of one address"] * 2]
    assert not places.take("b1", "b")


def test_all_addresses_together_are_bounded():
    places = Places(total=3, each=2, evict=None)
    assert [places.take(host, host) for host in "abcd"] == ["", "", "", "3 callers"]
    places.free("a")
    places.free("never had one")
    assert not places.take("d", "d")


def test_a_few_addresses_that_hold_all_places_keep_nobody_out():
    evicted = []
    places = Places(total=6, each=3, evict=evicted.append)
    for number in range(3):
        assert not places.take(f"a{number}", "a")
        assert not places.take(f"b{number}", "b")
    assert not places.take("c0", "c")
    assert evicted == ["a0"]
    assert not places.take("d0", "d")
    assert evicted == ["a0", "b0"]
    # Nor do they come back at the cost of others.
    assert places.take("a3", "a")
    assert {"c0", "d0"} <= set(places)


def test_one_network_of_ipv6_is_one_address():
    places = Places(total=10, each=2, evict=None)
    hosts = ["2001:db8::1", "[2001:db8::2:3]", "2001:db8::9%eth0", "2001:db8:0:1::1", "::ffff:10.0.0.1"]
    assert [bool(places.take(host, host)) for host in hosts] == [False, False, True, False, False]
    assert not places.take("mapped", "10.0.0.1")
    assert places.take("again", "10.0.0.1")


def test_a_network_of_many_addresses_that_hold_all_places_keeps_nobody_out():
    evicted = []
    places = Places(total=4, each=2, evict=evicted.append)
    for number in range(4):
        assert not places.take(f"10.0.0.{number}", f"10.0.0.{number}")
    assert places.take("one more", "10.0.0.9")
    assert not places.take("another", "10.0.1.1")
    assert evicted == ["10.0.0.0"]
    assert not places.take("6", "2001:db8:1::1")
    assert places.take("of the same", "2001:db8:1:7::1")
    assert evicted == ["10.0.0.0", "10.0.0.1"]


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from("abcd"), st.booleans())))
def test_no_bound_is_passed_and_who_is_evicted_had_more_than_who_comes(steps):
    held, evicted = {}, []
    places = Places(total=4, each=3, evict=evicted.append)
    for caller, host, come in steps:
        if not come:
            places.free(caller)
            held.pop(caller, None)
        elif caller not in held:
            count = Counter(held.values())
            evicted.clear()
            full = places.take(caller, host)
            if not full:
                held[caller] = host
            assert len(evicted) == (not full and sum(count.values()) == 4)
            for one in evicted:
                assert count[held.pop(one)] == max(count.values()) > count[host] + 1
            fair = len(set(count.values())) > 0 and max(count.values()) <= count[host] + 1
            assert bool(full) == (count[host] >= 3 or (sum(count.values()) == 4 and fair))
    assert set(places) == set(held)

"""Places for strangers: one address leaves room for the others."""

from hypothesis import given
from hypothesis import strategies as st

from gossamer.places import Places


def test_one_address_cannot_take_the_places_of_others():
    places = Places(total=10, each=3)
    taken = [places.take(number, "a") for number in range(5)]
    assert taken == ["", "", "", *["3 callers of one address"] * 2]
    assert not places.take("b1", "b")


def test_all_addresses_together_are_bounded():
    places = Places(total=3, each=2)
    assert [places.take(host, host) for host in "abcd"] == ["", "", "", "3 callers"]
    places.free("a")
    places.free("never had one")
    assert not places.take("d", "d")


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from("abc"), st.booleans())))
def test_what_is_taken_is_what_was_not_given_back(steps):
    places, held = Places(total=4, each=2), {}
    for caller, host, come in steps:
        if not come:
            places.free(caller)
            held.pop(caller, None)
        elif caller not in held:
            full = len(held) >= 4 or list(held.values()).count(host) >= 2
            assert bool(places.take(caller, host)) == full
            if not full:
                held[caller] = host
    assert len(places) == len(held)

"""Alarms that programs raise at a node: how long they stand, and how many."""

import pytest

from gossamer.api import Alarms
from gossamer.api.model.cluster import AlarmRequest
from gossamer.api.resources.healing import MOST
from gossamer.errors import UnavailableError


def test_raised_again_it_lasts_as_long_as_it_has():
    alarms = Alarms()
    alarms.order(AlarmRequest(name="a", text="one"), 10.0)
    again = alarms.order(AlarmRequest(name="a", text="two"), 20.0)
    assert (again.since, again.text) == (10.0, "two")
    over = alarms.order(AlarmRequest(name="a", active=False), 30.0)
    assert (over.since, over.until) == (10.0, 30.0)
    # Cleared twice, it has been over since the first time; raised anew, it is a new one.
    assert alarms.order(AlarmRequest(name="a", active=False), 40.0).until == 30.0
    assert alarms.order(AlarmRequest(name="a"), 50.0).since == 50.0


def test_what_is_over_the_longest_gives_its_place():
    alarms = Alarms()
    for number in range(MOST):
        alarms.order(AlarmRequest(name=f"a{number}"), 1.0)
    with pytest.raises(UnavailableError):
        alarms.order(AlarmRequest(name="more"), 2.0)
    alarms.order(AlarmRequest(name="a7", active=False), 3.0)
    alarms.order(AlarmRequest(name="more"), 4.0)
    names = {alarm.name for alarm in alarms.alarms()}
    assert "more" in names
    assert "a7" not in names

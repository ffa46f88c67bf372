"""Alarms that programs beside the cluster raise over HTTP."""

import httpx
import pytest

from api.fakes import FakeView
from gossamer.api import Alarms, make_app
from gossamer.api.model.cluster import AlarmRequest
from gossamer.api.resources.healing import MOST
from gossamer.errors import UnavailableError


@pytest.fixture
async def client():
    transport = httpx.ASGITransport(make_app(FakeView()), client=("127.0.0.1", 4))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8091/api/v1") as client:
        yield client


async def test_an_alarm_is_raised_told_of_and_cleared(client):
    answer = await client.post("/alarms", json={"name": "audit_lost", "text": "3 lost"})
    assert (answer.status_code, answer.json()["active"]) == (200, True)
    found = {alarm["name"]: alarm for alarm in (await client.get("/alarms")).json()["items"]}
    assert found["audit_lost"]["text"] == "3 lost"
    cleared = (await client.post("/alarms", json={"name": "audit_lost", "active": False})).json()
    assert (cleared["active"], cleared["until"], cleared["text"]) == (False, 1000.0, "3 lost")


async def test_a_nodes_own_alarms_and_wrong_names_are_refused(client):
    own = await client.post("/alarms", json={"name": "partition", "active": False})
    assert own.status_code == 400
    assert "raises by itself" in own.json()["detail"]
    assert (await client.post("/alarms", json={"name": "Not a name"})).status_code in (400, 422)


async def test_who_may_only_look_raises_nothing():
    """From elsewhere, without a token."""
    transport = httpx.ASGITransport(make_app(FakeView()), client=("203.0.113.9", 4))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8091/api/v1") as client:
        assert (await client.post("/alarms", json={"name": "audit_lost"})).status_code in (401, 403)


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

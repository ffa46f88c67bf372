"""Splits, heals and alarms over HTTP."""

import pytest

from api.fakes import FakeView
from api.linked import client_of
from gossamer.api import Alarms
from gossamer.api.model.cluster import AlarmRequest
from gossamer.api.resources.healing import MOST
from gossamer.errors import UnavailableError


async def test_status_history_and_alarms_answer(client):
    status = (await client.get("/api/v1/autoheal")).json()
    assert (status["autoheal"], status["down"]) == (15.0, {"node3@127.0.0.1": 90.0})
    (episode,) = (await client.get("/api/v1/autoheal/history")).json()
    assert episode["saw_down"] == {"node1@127.0.0.1": ["node2@127.0.0.1"]}
    alarms = (await client.get("/api/v1/alarms")).json()["items"]
    assert [(alarm["name"], alarm["active"]) for alarm in alarms] == [("healed", False), ("partition", True)]


async def test_settings_are_written_as_people_write_them(client, view):
    assert (
        await client.post("/api/v1/autoheal", json={"autoheal": "on", "autoclean": "2h"})
    ).status_code == 200
    assert view.healing.settings == {"autoheal": 15.0, "autoclean": 7200.0}
    # What is not named stays.
    await client.post("/api/v1/autoheal", json={"autoclean": "off"})
    assert view.healing.settings == {"autoheal": 15.0, "autoclean": None}


@pytest.mark.parametrize("body", [{"autoheal": "soon"}, {"autoclean": -1}, {"autohea": "on"}])
async def test_settings_that_make_no_sense_are_refused(client, view, body):
    answer = await client.post("/api/v1/autoheal", json=body)
    assert answer.status_code == 422
    assert next(iter(body)) in answer.json()["detail"]
    assert view.healing.settings == {"autoheal": 15.0, "autoclean": 300.0}


async def test_a_rehearsal_says_whether_there_is_anything_to_heal(client, view):
    assert (await client.get("/api/v1/autoheal/plan")).json()["split"] is False
    view.healing.split = True
    assert (await client.get("/api/v1/autoheal/plan")).json()["victims"] == ["node2@127.0.0.1"]


async def test_a_row_of_the_quarantine_is_replayed_by_its_id(client, view):
    (row,) = (await client.get("/api/v1/autoheal/quarantine")).json()["items"]
    assert (await client.post(f"/api/v1/autoheal/quarantine/{row['id']}/replay")).json() == row
    assert view.healing.replayed == [row["id"]]
    assert (await client.post("/api/v1/autoheal/quarantine/ffffffffffff/replay")).status_code == 400
    assert (await client.post("/api/v1/autoheal/quarantine/../replay")).status_code in (404, 405, 422)


async def test_an_alarm_is_raised_told_of_and_cleared(client):
    answer = await client.post("/api/v1/alarms", json={"name": "audit_lost", "text": "3 lost"})
    assert (answer.status_code, answer.json()["active"]) == (200, True)
    found = {alarm["name"]: alarm for alarm in (await client.get("/api/v1/alarms")).json()["items"]}
    assert found["audit_lost"]["text"] == "3 lost"
    cleared = (await client.post("/api/v1/alarms", json={"name": "audit_lost", "active": False})).json()
    assert (cleared["active"], cleared["until"], cleared["text"]) == (False, 1000.0, "3 lost")


async def test_a_nodes_own_alarms_and_wrong_names_are_refused(client):
    own = await client.post("/api/v1/alarms", json={"name": "partition", "active": False})
    assert own.status_code == 400
    assert "raises by itself" in own.json()["detail"]
    assert (await client.post("/api/v1/alarms", json={"name": "Not a name"})).status_code in (400, 422)


async def test_who_may_only_look_raises_nothing():
    """From elsewhere, without a token."""
    async with client_of(FakeView(), "203.0.113.9") as client:
        assert (await client.post("/api/v1/alarms", json={"name": "audit_lost"})).status_code in (401, 403)


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

"""Splits and heals over HTTP."""

import httpx
import pytest

from api.fakes import FakeView
from gossamer.api import make_app


@pytest.fixture
def view():
    return FakeView()


@pytest.fixture
async def client(view):
    transport = httpx.ASGITransport(make_app(view), client=("127.0.0.1", 4))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8091/api/v1") as client:
        yield client


async def test_status_history_and_alarms_answer(client):
    status = (await client.get("/autoheal")).json()
    assert (status["autoheal"], status["down"]) == (15.0, {"node3@127.0.0.1": 90.0})
    (episode,) = (await client.get("/autoheal/history")).json()
    assert episode["saw_down"] == {"node1@127.0.0.1": ["node2@127.0.0.1"]}
    alarms = (await client.get("/alarms")).json()["items"]
    assert [(alarm["name"], alarm["active"]) for alarm in alarms] == [("healed", False), ("partition", True)]


async def test_settings_are_written_as_people_write_them(client, view):
    assert (await client.post("/autoheal", json={"autoheal": "on", "autoclean": "2h"})).status_code == 200
    assert view.healing.settings == {"autoheal": 15.0, "autoclean": 7200.0}
    # What is not named stays.
    await client.post("/autoheal", json={"autoclean": "off"})
    assert view.healing.settings == {"autoheal": 15.0, "autoclean": None}


@pytest.mark.parametrize("body", [{"autoheal": "soon"}, {"autoclean": -1}, {"autohea": "on"}])
async def test_settings_that_make_no_sense_are_refused(client, view, body):
    answer = await client.post("/autoheal", json=body)
    assert answer.status_code == 422
    assert next(iter(body)) in answer.json()["detail"]
    assert view.healing.settings == {"autoheal": 15.0, "autoclean": 300.0}


async def test_a_rehearsal_says_whether_there_is_anything_to_heal(client, view):
    assert (await client.get("/autoheal/plan")).json()["split"] is False
    view.healing.split = True
    assert (await client.get("/autoheal/plan")).json()["victims"] == ["node2@127.0.0.1"]


async def test_a_row_of_the_quarantine_is_replayed_by_its_id(client, view):
    (row,) = (await client.get("/autoheal/quarantine")).json()["items"]
    assert (await client.post(f"/autoheal/quarantine/{row['id']}/replay")).json() == row
    assert view.healing.replayed == [row["id"]]
    assert (await client.post("/autoheal/quarantine/ffffffffffff/replay")).status_code == 400
    assert (await client.post("/autoheal/quarantine/../replay")).status_code in (404, 405, 422)

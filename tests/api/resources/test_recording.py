"""The flow recorder over HTTP."""

import pytest


async def test_what_was_recorded_and_dropped_is_told(client):
    told = (await client.get("/api/v1/audit")).json()
    assert (told["recorded"], told["dropped"], told["gaps"], told["files"], told["bytes"]) == (
        7,
        2,
        1,
        3,
        4096,
    )


async def test_only_what_is_named_is_changed(client):
    answer = await client.post("/api/v1/audit", json={"enable": True, "sample": 0.01})
    assert (answer.json()["enabled"], answer.json()["sample"], answer.json()["buffer"]) == (
        True,
        0.01,
        100_000,
    )


@pytest.mark.parametrize("body", [{"sample": 2}, {"buffer": 1}, {"keep_for": "soon"}, {"dir": "/etc"}])
async def test_what_makes_no_sense_is_refused(client, body):
    answer = await client.post("/api/v1/audit", json=body)
    assert answer.status_code == 422

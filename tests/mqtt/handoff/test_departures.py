"""For whom hints are, as clients come and go while a node is away."""

import pytest

from gossamer.mqtt.handoff.departures import Departures
from gossamer.mqtt.handoff.hint_log import HintLog
from gossamer.mqtt.handoff.hints import is_for


def departures(claims, rows):
    hint_log = HintLog(refresh=lambda records, _: (records, 0), limit=100, max_bytes=10**6)
    found = Departures(
        {"away": hint_log},
        clients=lambda _peer: rows,
        claims=lambda client_id: claims.get(client_id, {}),
        changed=lambda _peer, _client_id: None,
    )
    return hint_log, found


async def gets(hint_log, found, client_id):
    """The numbers of the hints that are for a client."""
    moved, _ = await found.not_for("away")
    return [number for number in hint_log.entries if is_for(client_id, number, moved)]


@pytest.mark.parametrize("seen", [True, False])
async def test_only_who_saw_a_node_go_knows_who_was_on_this_side_all_the_time(seen):
    """A session moves to the node that is away, its hints are kept, and it moves back. A keeper that began
    anew hears of the second move before the claims of the first are there."""
    hint_log, found = departures({}, [])
    if seen:
        found.away("away")
        hint_log.down()
    else:
        found.restored("away", [])
        hint_log.restore([], "", {})
    hint_log.add(b"kept", 1, 0.0)
    found.settled("roams", "other", resumed=True, had=[])
    assert await gets(hint_log, found, "roams") == ([] if seen else [1])


@pytest.mark.parametrize("seen", [True, False])
async def test_claims_elsewhere_tell_it_too(seen):
    hint_log, found = departures({"roams": {"away": 1, "other": 2}}, ["roams"])
    if seen:
        found.had["away"] = frozenset()
        hint_log.down()
    else:
        found.restored("away", [])
        hint_log.restore([], "", {})
    hint_log.add(b"kept", 1, 0.0)
    assert await gets(hint_log, found, "roams") == ([] if seen else [1])

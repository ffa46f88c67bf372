"""Rows that lost are kept, within bounds, and are on disc in the node's next life."""

import pytest

from gossamer.autoheal.quarantine import Kept, NotInQuarantineError, Quarantine
from gossamer.mnesia_like import Disc, DiscError
from tests.mnesia_like.hub import host


def row(number, **options):
    return Kept(
        table="config",
        key=("k", number),
        value=[{"n": number, "raw": b"\x00"}],
        version=(number << 16, "n2"),
        winner=(number + 1 << 16, "n1"),
        peer="n2",
        at=1000.0 + number,
        policy="lww",
        **options,
    )


def filled(rows, **bounds):
    quarantine = Quarantine(**bounds)
    for number in range(rows):
        quarantine.keep(row(number))
    return quarantine


async def test_what_is_kept_is_there_in_the_next_life_in_its_order(tmp_path):
    disc = Disc(tmp_path / "tables.db")
    async with host("n1", disc=disc) as node:
        quarantine = Quarantine()
        await quarantine.load(node.store)
        for number in range(5):
            quarantine.keep(row(number))
        quarantine.take(row(2).id)
        await quarantine.synced()
    async with host("n1", disc=disc) as node:
        again = Quarantine()
        await again.load(node.store)
        assert list(again) == [row(number) for number in (0, 1, 3, 4)]
        assert again.bytes == quarantine.bytes
        assert again.get(row(1).id).key == ("k", 1)
        with pytest.raises(NotInQuarantineError, match="no such row"):
            again.get(row(2).id)


async def test_a_disc_that_takes_no_writes_stops_nobody(tmp_path):
    async with host("n1", disc=Disc(tmp_path / "tables.db")) as node:
        quarantine = Quarantine()
        await quarantine.load(node.store)
        node.store.queue.failed = DiscError(
            "tables.db", problem="No space left on device", advice="make room"
        )
        quarantine.keep(row(1))
        await quarantine.synced()
        assert list(quarantine) == [row(1)]


def test_a_row_has_one_name_on_every_node():
    assert row(1).id == row(1, plan="p", before=True).id != row(2).id


def test_the_oldest_go_where_there_is_no_room():
    quarantine = filled(5, max_rows=3)
    assert list(quarantine) == [row(2), row(3), row(4)]
    assert quarantine.dropped == 2
    quarantine = filled(5, max_bytes=250)
    assert 1 <= len(quarantine) < 5
    assert quarantine.bytes <= 250

"""Rows that lost are kept, within bounds, on disc, whatever happens to the file."""

import pytest

from gossamer.autoheal.quarantine import Kept, NotInQuarantineError, Quarantine


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


@pytest.fixture
def path(tmp_path):
    return tmp_path / "quarantine.bin"


async def reread(path, **options):
    again = Quarantine(path, **options)
    await again.load()
    return again


async def test_what_is_kept_is_there_in_the_next_life(path):
    quarantine = Quarantine(path)
    for number in range(5):
        quarantine.keep(row(number))
    quarantine.take(row(2).id)
    await quarantine.flush()
    again = await reread(path)
    assert list(again) == [row(number) for number in (0, 1, 3, 4)]
    assert again.get(row(1).id).key == ("k", 1)
    with pytest.raises(NotInQuarantineError, match="no such row"):
        again.get(row(2).id)


async def test_a_row_has_one_name_on_every_node(path):
    assert row(1).id == row(1, plan="p", before=True).id != row(2).id


async def test_the_oldest_go_where_there_is_no_room(path):
    quarantine = Quarantine(path, max_rows=3)
    for number in range(5):
        quarantine.keep(row(number))
    assert list(quarantine) == [row(2), row(3), row(4)]
    assert quarantine.dropped == 2
    quarantine = Quarantine(path, max_bytes=250)
    for number in range(5):
        quarantine.keep(row(number))
    assert 1 <= len(quarantine) < 5
    assert quarantine.bytes <= 250


async def test_the_file_does_not_grow_for_ever(path):
    quarantine = Quarantine(path, max_bytes=2000)
    for number in range(500):
        quarantine.keep(row(number))
        await quarantine.flush()
        assert path.stat().st_size <= 3 * 2000
    assert list(await reread(path, max_bytes=2000)) == list(quarantine)


@pytest.mark.parametrize("damage", ["half a record", "a flipped bit"])
async def test_of_a_damaged_file_the_beginning_is_believed(path, damage):
    quarantine = Quarantine(path)
    for number in range(3):
        quarantine.keep(row(number))
    await quarantine.flush()
    content = bytearray(path.read_bytes())
    if damage == "half a record":
        del content[-5:]
    else:
        content[-5] ^= 1
    path.write_bytes(content)
    again = await reread(path)
    assert list(again) == [row(0), row(1)]
    again.keep(row(7))
    await again.flush()
    assert list(await reread(path)) == [row(0), row(1), row(7)]


async def test_a_disc_that_cannot_be_written_stops_nobody(tmp_path):
    quarantine = Quarantine(tmp_path / "missing" / "quarantine.bin")
    quarantine.keep(row(1))
    await quarantine.flush()
    assert list(quarantine) == [row(1)]

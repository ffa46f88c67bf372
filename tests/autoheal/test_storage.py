"""What a healer keeps survives, and a damaged file is refused, not believed."""

from gossamer.autoheal import DownRecord, Saved, Storage
from gossamer.autoheal.autoclean import Downtime
from gossamer.autoheal.machine import State


async def test_what_was_saved_is_read_back(tmp_path):
    saved = Saved(State(marks=(DownRecord("b", 2, 1, 7, 5.0),)), Downtime(9.0, {"c": 3.5}))
    await Storage(tmp_path / "heal.json").save(saved)
    assert await Storage(tmp_path / "heal.json").load() == saved


async def test_a_first_start_begins_with_nothing(tmp_path):
    assert await Storage(tmp_path / "heal.json").load() == Saved()


async def test_a_damaged_file_is_moved_aside(tmp_path):
    path = tmp_path / "heal.json"
    path.write_bytes(b'{"healing": {"marks": [')
    assert await Storage(path).load() == Saved()
    assert path.with_suffix(".damaged").exists()
    assert not path.exists()


async def test_a_disc_that_cannot_be_written_stops_nothing(tmp_path):
    await Storage(tmp_path / "missing" / "heal.json").save(Saved())

"""A data directory has one node at a time, and its creations never repeat."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gossamer.errors import TransportError, UnavailableError
from gossamer.node import DataDir, NewerDataError


def test_a_creation_grows_though_the_clock_goes_back(tmp_path: Path) -> None:
    creations = []
    for wall in (2000.0, 1000.0, 1000.0, 3000.0):
        directory = DataDir(tmp_path, wall=wall)
        creations.append(directory.creation)
        directory.close()
    assert creations == [2_000_000, 2_000_001, 2_000_002, 3_000_000]


def test_a_second_node_on_the_directory_is_told_who_has_it(tmp_path: Path) -> None:
    first = DataDir(tmp_path, wall=1.0)
    with pytest.raises(UnavailableError, match=rf"process {os.getpid()}; stop that node"):
        DataDir(tmp_path, wall=2.0)
    first.close()
    DataDir(tmp_path, wall=2.0).close()


def test_a_creation_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "creation").write_text("yesterday")
    with pytest.raises(TransportError, match=r"creation: cannot be read"):
        DataDir(tmp_path, wall=1.0)
    # The lock was let go of, so the mended directory can be used.
    (tmp_path / "creation").unlink()
    DataDir(tmp_path, wall=1.0).close()


def open_with(path: Path, *names: str) -> tuple[bool, list[str]]:
    """Open with a step for each name; whether the directory was fresh, and the steps that ran."""
    ran: list[str] = []

    def step(name: str) -> Callable[[Path], None]:
        return lambda directory: ran.append(f"{name} {(directory / 'format').is_file()}")

    directory = DataDir(path, wall=1.0, upgrades=[step(name) for name in names])
    directory.close()
    return directory.fresh, ran


def test_an_older_directory_is_upgraded_step_by_step_and_once(tmp_path: Path) -> None:
    assert open_with(tmp_path) == (True, [])
    # As the release before left it, which names no format.
    (tmp_path / "format").unlink()
    assert open_with(tmp_path, "one", "two") == (False, ["one False", "two True"])
    assert open_with(tmp_path, "one", "two", "three") == (False, ["three True"])
    assert open_with(tmp_path, "one", "two", "three") == (False, [])


def test_a_step_that_fails_is_tried_again_at_the_next_start(tmp_path: Path) -> None:
    open_with(tmp_path)

    def fails(_directory: Path) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(TransportError, match="No space left"):
        DataDir(tmp_path, wall=1.0, upgrades=[lambda _directory: None, fails])
    assert open_with(tmp_path, "one", "two") == (False, ["two True"])


def test_a_directory_of_a_later_release_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    open_with(tmp_path)
    (tmp_path / "format").write_text('{"format": 7, "release": "0.9.0", "later": true}')
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(NewerDataError) as refused:
        DataDir(tmp_path, wall=2.0)
    assert "got format 7, written by gossamer 0.9.0; expected at most 1" in str(refused.value)
    assert "restore the directory as it was before the upgrade" in str(refused.value)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_a_path_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TransportError, match="expected a directory"):
        DataDir(tmp_path / "file", wall=1.0)

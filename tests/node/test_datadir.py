"""A data directory has one node at a time, and its creations never repeat."""

import os
from pathlib import Path

import pytest

from gossamer.errors import TransportError, UnavailableError
from gossamer.node import DataDir


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


def test_a_path_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TransportError, match="expected a directory"):
        DataDir(tmp_path / "file", wall=1.0)

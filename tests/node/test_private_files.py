"""What a node keeps is its owner's alone, whatever the umask, and files that are named must be there."""

import os

import pytest

from gossamer.config import config_from
from gossamer.errors import ConfigError
from gossamer.mnesia_like.disc.disc import DiscFile
from gossamer.node import Node


@pytest.fixture
def open_umask():
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path):
    return path.stat().st_mode & 0o777


@pytest.mark.usefixtures("open_umask")
def test_directories_and_databases_are_for_their_owner_only(tmp_path):
    home = tmp_path / "data"
    node = Node.open(config_from({"node": {"data_dir": home}, "audit": {"dir": "audit"}}))
    node._directory.close()
    assert mode(home) == 0o700
    database = home / "tables.db"
    DiscFile(database).close()
    assert mode(database) == 0o600


@pytest.mark.usefixtures("open_umask")
def test_a_database_that_was_open_to_others_is_closed_to_them(tmp_path):
    database = tmp_path / "tables.db"
    DiscFile(database).close()
    database.chmod(0o666)
    file = DiscFile(database)
    assert {mode(one) for one in tmp_path.iterdir()} == {0o600}
    file.close()


@pytest.mark.parametrize("key", ["password_file", "acl_file", "scram_file"])
def test_a_file_that_is_not_there_is_a_mistake_of_the_configuration(tmp_path, key):
    config = config_from(
        {"node": {"data_dir": tmp_path / "data"}, "mqtt": {"auth": {key: tmp_path / "nowhere"}}}
    )
    with pytest.raises(ConfigError, match="nowhere"):
        Node.open(config)
    # Nothing of it is held: mended, it starts.
    mended = Node.open(config_from({"node": {"data_dir": tmp_path / "data"}}))
    mended._directory.close()

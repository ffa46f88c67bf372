"""What a node keeps is its owner's alone, whatever the umask, and files that are named must be there."""

import os

import pytest
import structlog

from gossamer.config import config_from
from gossamer.errors import ConfigError
from gossamer.mnesia_like.disc.disc import DiscFile
from gossamer.mqtt import set_scram_password
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


def test_files_that_are_not_there_are_mistakes_of_the_configuration_all_said_at_once(tmp_path):
    files = {key: tmp_path / f"no_{key}" for key in ("password_file", "acl_file", "scram_file")}
    config = config_from({"node": {"data_dir": tmp_path / "data"}, "mqtt": {"auth": files}})
    with pytest.raises(ConfigError) as raised:
        Node.open(config)
    assert {problem.key: problem.got for problem in raised.value.problems} == {
        f"mqtt.auth.{key}": f"{file}: No such file or directory" for key, file in files.items()
    }
    # Nothing of it is held: mended, it starts.
    mended = Node.open(config_from({"node": {"data_dir": tmp_path / "data"}}))
    mended._directory.close()


def test_salts_of_unknown_names_outlive_a_restart_and_are_those_of_the_cluster(tmp_path):
    """Or whoever asks twice learns who is there."""
    file = tmp_path / "scram"
    set_scram_password(file, "ann", "pencil")

    def salt(node, cookie):
        settings = {"node": {"name": f"{node}@127.0.0.1"}, "mqtt": {"auth": {"scram_file": file}}}
        made = Node(config_from(settings), creation=1, cookie=cookie)
        credential, known = made.broker.access.methods["SCRAM-SHA-256"].find("nobody")
        assert not known
        return credential.salt

    assert salt("a", "cookie-1") == salt("a", "cookie-1") == salt("b", "cookie-1")
    assert salt("a", "cookie-1") != salt("a", "cookie-2")


@pytest.mark.parametrize(("cookie", "warnings"), [("secret", 1), ("3f9a1c0de47b85263f9a1c0de47b8526", 0)])
def test_a_node_with_a_weak_cookie_warns_without_showing_it(tmp_path, cookie, warnings):
    with structlog.testing.capture_logs() as logs:
        node = Node.open(config_from({"node": {"data_dir": tmp_path / "data", "cookie": cookie}}))
    node._directory.close()
    assert [line["event"] for line in logs].count("cookie_weak") == warnings
    assert cookie not in str(logs)

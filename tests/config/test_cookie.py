"""The cookie file."""

import os

import pytest

from gossamer.config import COOKIE_FILE, ENOUGH_BITS, NodeConfig, cookie_bits, cookie_of
from gossamer.errors import ConfigError


def node(directory, cookie=None):
    return NodeConfig(data_dir=directory, cookie=cookie)


def test_a_given_cookie_needs_no_file(tmp_path):
    assert cookie_of(node(tmp_path, "given")).get_secret_value() == "given"
    assert list(tmp_path.iterdir()) == []


def test_the_first_start_makes_one_that_only_its_owner_reads(tmp_path):
    first = cookie_of(node(tmp_path / "data"))
    path = tmp_path / "data" / COOKIE_FILE
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == [COOKIE_FILE]
    assert len(first.get_secret_value()) >= 32
    assert cookie_of(node(tmp_path / "data")) == first


def test_a_cookie_that_others_can_read_is_refused(tmp_path):
    path = tmp_path / COOKIE_FILE
    path.write_text("secret-cookie")
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600") as caught:
        cookie_of(node(tmp_path))
    assert "secret-cookie" not in str(caught.value)


def test_a_cookie_of_another_user_is_refused(tmp_path, monkeypatch):
    path = tmp_path / COOKIE_FILE
    path.write_text("secret-cookie")
    path.chmod(0o600)
    monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)
    if os.getuid() == 0:
        # What root has made may be used by anybody who can read it.
        os.chown(path, 12345, -1)
    with pytest.raises(ConfigError, match="another user") as caught:
        cookie_of(node(tmp_path))
    assert "secret-cookie" not in str(caught.value)


def test_an_empty_cookie_file_is_refused(tmp_path):
    (tmp_path / COOKIE_FILE).touch(mode=0o600)
    with pytest.raises(ConfigError, match="an empty file"):
        cookie_of(node(tmp_path))


def test_a_data_directory_that_cannot_be_made_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"Not a directory|File exists"):
        cookie_of(node(tmp_path / "file"))


@pytest.mark.parametrize(
    ("cookie", "weak"),
    [
        ("", True),
        ("secret", True),
        ("gossamer-secret-cookie", True),
        ("x" * 100, True),
        ("3f9a1c0de47b85263f9a", True),
        ("3f9a1c0de47b85263f9a1c0de47b8526", False),
        ("kX3vQ9pLr7TzWc5nJbYh2MsDfGa", False),
    ],
)
def test_a_cookie_that_can_be_guessed_has_few_bits(cookie, weak):
    assert (cookie_bits(cookie) < ENOUGH_BITS) is weak


def test_cookies_that_are_made_are_strong(tmp_path):
    assert cookie_bits(cookie_of(node(tmp_path)).get_secret_value()) > ENOUGH_BITS

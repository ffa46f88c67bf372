"""Keys that outlive the node that changed them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gossamer.gossip import KeyFile, KeyFileError

KEYS = [bytes(range(32)), bytes(range(32, 64))]


def test_what_was_saved_is_read_back_and_only_its_owner_may(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "gossip.keys")
    assert file.load() == []
    old = os.umask(0)
    try:
        file.save(KEYS[:1])
        file.save(KEYS)
    finally:
        os.umask(old)
    assert file.load() == KEYS
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [file.path]


def test_a_draft_that_a_crash_left_behind_changes_nothing(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "gossip.keys")
    file.save(KEYS)
    (tmp_path / "gossip.keys.new").write_text("half of it")
    assert file.load() == KEYS
    file.save(KEYS[:1])
    assert file.load() == KEYS[:1]


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "gossip.keys")
    file.save(KEYS)
    file.path.chmod(0o640)
    with pytest.raises(KeyFileError, match=r"0640.*0600"):
        file.load()


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"version": 1}', '{"version": 1, "keys": []}', '{"version": 1, "keys": ["xy"]}'],
)
def test_a_damaged_file_is_refused_and_not_shown(tmp_path: Path, text: str) -> None:
    file = KeyFile(tmp_path / "gossip.keys")
    file.path.write_text(text)
    file.path.chmod(0o600)
    with pytest.raises(KeyFileError, match=r"remove it to begin with the key that belongs to node\.cookie"):
        file.load()
    file.path.write_text(json.dumps({"version": 2, "keys": [KEYS[0].hex()]}))
    with pytest.raises(KeyFileError) as caught:
        file.load()
    assert KEYS[0].hex() not in str(caught.value)


def test_a_directory_that_cannot_be_written_keeps_what_there_was(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "gossip.keys")
    file.save(KEYS)
    (tmp_path / "gossip.keys.new").mkdir()
    with pytest.raises(KeyFileError, match="are as they were"):
        file.save(KEYS[:1])
    assert file.load() == KEYS

"""A file that is replaced is never seen in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from gossamer.files import replace_file, replacing


@pytest.mark.parametrize("durable", [True, False])
def test_a_file_is_replaced_and_leaves_nothing_beside_it(tmp_path: Path, durable: bool) -> None:
    path = tmp_path / "facts.json"
    (tmp_path / "facts.json.new").write_text("a crash left this")
    for content in (b"first", b"second"):
        replace_file(path, content, durable=durable)
        assert path.read_bytes() == content
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_written_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    replace_file(path, b"first")
    with pytest.raises(ValueError, match="half"), replacing(path) as draft:
        draft.write_bytes(b"half")
        raise ValueError("half of it")
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]

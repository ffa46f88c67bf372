"""Tests by script: files of blocks, each a sentence on what it shows, then commands and what they led to.

With ``GOSSAMER_REWRITE=1`` what happens now is written down: read the difference before you keep it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest


def scripted(folder: Path) -> pytest.MarkDecorator:
    """Give a test the blocks of a folder's text files, as ``file`` and ``block``."""
    files = sorted(folder.glob("*.txt"))
    found = [(file, block) for file in files for block in file.read_text().strip().split("\n\n")]
    ids = [f"{file.stem}: {block.splitlines()[0][2:]}" for file, block in found]
    return pytest.mark.parametrize(("file", "block"), found, ids=ids)


def commands(block: str) -> Iterator[list[str]]:
    """The words of each line, without what it led to; none of a line that is a sentence."""
    for line in block.splitlines():
        yield [] if line.startswith("#") else line.partition(" =>")[0].split()


def compare(file: Path, block: str, answers: Iterable[str]) -> None:
    """Every line led to what stands behind its ``=>``."""
    lines = []
    for line, answer in zip(block.splitlines(), answers, strict=True):
        command = line.partition(" =>")[0]
        lines.append(f"{command} => {answer}" if answer else command)
    found = "\n".join(lines)
    if os.environ.get("GOSSAMER_REWRITE"):
        file.write_text(file.read_text().replace(block, found))
    assert found == block, f"now:\n{found}"

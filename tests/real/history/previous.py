"""The release before this one, as ``script/previous-release`` names it, from the repository's own history.

It runs with the dependencies of this one: what it needs and this one does not would have to be named here.
"""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[3]
_NAMED_IN = Path("script") / "previous-release"


def name() -> str:
    """The tag or commit."""
    lines = (ROOT / _NAMED_IN).read_text().splitlines()
    return next(line for line in lines if not line.startswith("#"))


def lacking() -> str:
    """Why it cannot be had here; empty: it can."""
    try:
        found = _git("cat-file", "-e", f"{name()}^{{commit}}")
    except FileNotFoundError:
        return "no git here"
    if found.returncode:
        return f"{name()} ({_NAMED_IN}) is not in this repository; fetch its history: git fetch --unshallow"
    return ""


def unpack(directory: Path) -> Path:
    """Put its sources below ``directory``; the path to import them from."""
    archive = _git("archive", "--format=tar", name(), "gossamer")
    archive.check_returncode()
    tree = directory / "previous"
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(tree, filter="data")
    return tree


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, check=False)

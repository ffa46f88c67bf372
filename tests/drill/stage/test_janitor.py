"""Whatever becomes of the drill, what it made is undone."""

import subprocess
import sys
from pathlib import Path

import pytest
from real.harness import eventually

from gossamer.drill.stage.janitor import Janitor

pytestmark = pytest.mark.real

DIES = """
import os, sys
from pathlib import Path
from gossamer.drill.stage.janitor import Janitor
janitor = Janitor()
janitor.remove(Path(sys.argv[1]))
janitor.run([sys.executable, "-c", "open(__import__('sys').argv[1], 'w').close()", sys.argv[2]])
print(janitor._process.pid, flush=True)
os.kill(os.getpid(), 9)
"""


async def test_all_is_undone_the_latest_first(tmp_path: Path) -> None:
    directory, kept, list_ = tmp_path / "gone", tmp_path / "kept", tmp_path / "list"
    janitor = Janitor()
    for made in (directory, kept):
        made.mkdir()
    janitor.remove(directory)
    for number in (1, 2):
        janitor.run(["sh", "-c", f"echo {number} $(ls {tmp_path} | tr '\\n' ' ') >> {list_}"])
    await janitor.close()
    await janitor.close()
    assert list_.read_text().splitlines() == ["2 gone kept", "1 gone kept list"]
    assert not directory.exists()
    assert kept.exists()


def test_a_killed_drill_is_cleaned_up_after(tmp_path: Path) -> None:
    directory, sign = tmp_path / "gone", tmp_path / "sign"
    directory.mkdir()
    command = [sys.executable, "-c", DIES, str(directory), str(sign)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == -9
    janitor = Path("/proc", done.stdout.strip())
    eventually(lambda: sign.exists() and not janitor.exists(), says="the janitor is done")
    assert not directory.exists()

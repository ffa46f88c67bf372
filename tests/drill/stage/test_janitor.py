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
from gossamer.drill.stage.janitor import Janitor
janitor = Janitor()
janitor.run("rm", "-r", sys.argv[1])
janitor.run("touch", sys.argv[2])
print(janitor._process.pid, flush=True)
os.kill(os.getpid(), 9)
"""


def test_all_is_undone_the_latest_first_and_again_where_it_fails(tmp_path: Path) -> None:
    directory, kept, list_ = tmp_path / "it's gone", tmp_path / "kept", tmp_path / "list"
    janitor = Janitor()
    for made in (directory, kept):
        made.mkdir()
    janitor.run("rm", "-r", str(directory))
    for number in (1, 2):
        janitor.run("sh", "-c", f"echo {number} $(ls {tmp_path} | tr '\\n' ' ') >> {list_}")
    janitor.run("sh", "-c", f"echo 3 >> {list_}; test $(wc -l < {list_}) = 2")
    janitor.close()
    janitor.close()
    assert list_.read_text().splitlines() == ["3", "3", "2 it's gone kept list", "1 it's gone kept list"]
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

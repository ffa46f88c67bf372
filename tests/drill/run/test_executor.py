"""A full disc, by a limit of the kernel, on a process of its own."""

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from gossamer.drill.run.executor import limit_files

pytestmark = pytest.mark.real

WRITER = """
import sys
with open(sys.argv[1], "ab", buffering=0) as file:
    for line in sys.stdin:
        try:
            print(file.write(line.encode()), flush=True)
        except OSError as error:
            print(error.errno, flush=True)
"""


def test_no_file_of_the_process_grows_until_it_may_again(tmp_path: Path) -> None:
    file = tmp_path / "file"
    command = [sys.executable, "-c", WRITER, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None

        def write() -> int:
            print("xyz", file=writer.stdin, flush=True)
            return int(writer.stdout.readline())

        assert write() == 4
        limit_files(writer.pid, full=True)
        assert write() == errno.EFBIG
        limit_files(writer.pid, full=False)
        assert write() == 4
        writer.stdin.close()
    assert file.read_text() == "xyz\nxyz\n"


def test_a_process_that_is_gone_is_said() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    with pytest.raises(OSError, match="No such process"):
        limit_files(process.pid, full=True)

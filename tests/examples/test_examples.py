"""Every example does what its file says: the command in its docstring, and the output below it."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name, seconds):
    """What the docstring promises, and what comes."""
    path = EXAMPLES / f"{name}.py"
    _, _, session = path.read_text().partition(f"$ python examples/{name}.py\n")
    promised = textwrap.dedent(re.split(r'\n\n|\n"""', session)[0]).strip()
    done = subprocess.run(
        [sys.executable, path],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        cwd=EXAMPLES.parent,
        env={**os.environ, "PYTHONPATH": str(EXAMPLES.parent)},
    )
    return promised, done


@pytest.mark.real
@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.py")))
def test_an_example_prints_what_it_says(name):
    if name == "thespian_port":
        pytest.importorskip("thespian")
    promised, done = run(name, 100)
    assert promised
    assert done.stdout.strip() == promised, done.stderr

"""What the standards state, and which tests keep it: two tables, and the citations of this folder's tests.

A test cites statements with :func:`keeps`; that is ``pytest.mark.statement("MQTT-3.1.0-1", version=4)`` for
each, so ``-m statement`` finds them too. Parameters of a test may cite by ``marks=cites(…)``.
"""

import importlib
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

HERE = Path(__file__).parent
NAMES = {4: "3.1.1", 5: "5.0"}


class Statement(NamedTuple):
    """``broken``: what the broker does where a statement binds only the client, and it does not comply."""

    version: int
    number: str
    binds: str
    says: str
    broken: str


def statements(version):
    """Every statement of a version, by number, in the order of the standard."""
    table = tomllib.loads((HERE / f"v{NAMES[version].replace('.', '').removesuffix('0')}.toml").read_text())
    found = {}
    for number, (binds, says, *broken) in table["statements"].items():
        assert binds in ("both", "client", "server"), number
        assert bool(broken) == (binds == "client"), number
        found[number] = Statement(version, number, binds, says, *(broken or [""]))
    return found


def cites(*, v4="", v5=""):
    """Marks for the statements: numbers as ``3.1.2-4``; ``3.1.2-4,5`` is two of one section."""
    marks = []
    for version, numbers in ((4, v4), (5, v5)):
        for group in numbers.split():
            section, _, places = group.rpartition("-")
            marks += [
                pytest.mark.statement(f"MQTT-{section}-{n}", version=version) for n in places.split(",")
            ]
    return marks


def keeps(*, v4="", v5=""):
    """Say which statements a test keeps."""

    def mark(function):
        for one in cites(v4=v4, v5=v5):
            function = one(function)
        return function

    return mark


def citations():
    """(version, number) to the names of the tests that cite it."""
    found = {}
    for file in sorted(HERE.glob("test_*.py")):
        module = importlib.import_module(f"{__package__}.{file.stem}")
        for name, value in vars(module).items():
            if not name.startswith("test_") or getattr(value, "__module__", "") != module.__name__:
                continue
            for mark in _marks(value):
                key = mark.kwargs["version"], mark.args[0].removeprefix("MQTT-")
                tests = found.setdefault(key, [])
                if f"{file.stem}::{name}" not in tests:
                    tests.append(f"{file.stem}::{name}")
    return found


def _marks(function):
    for mark in getattr(function, "pytestmark", []):
        if mark.name == "statement":
            yield mark
        elif mark.name == "parametrize":
            for case in mark.args[1]:
                yield from (one for one in getattr(case, "marks", ()) if one.name == "statement")

"""Scenarios, as the tests of the API and of the command have them: texts that are read line by line."""

import json
import re
from functools import reduce

import pytest


def scenarios(folder):
    """The scenarios of ``folder/scenarios``: each begins with ``== title``; its lines, without blank ones."""
    found = []
    for file in sorted((folder / "scenarios").glob("*.txt")):
        for text in re.split("^== ", file.read_text(), flags=re.MULTILINE)[1:]:
            title, *lines = text.splitlines()
            found.append(pytest.param([line for line in lines if line], id=f"{file.stem}: {title}"))
    return found


def squeezed(text):
    """``text`` with one space where there are any, and without the frames of boxes."""
    return " ".join(text.replace("│", " ").split())


def check_at(found, line):
    """Check ``PATH == JSON``; a key of a list is that of its items, ``*`` are names, ``.`` is the whole."""
    path, _, expected = line.partition(" == ")
    there = found if path == "." else reduce(_at, path.split("/"), found)
    assert json.loads(json.dumps(there, default=_plain)) == json.loads(expected), line


def _at(found, key):
    if key == "*":
        return list(found)
    if isinstance(found, list):
        return found[int(key)] if key.isdecimal() else [row[key] for row in found]
    return found[key]


def _plain(value):
    return value.decode() if isinstance(value, bytes) else str(value)

"""What is installed: the pins of ``constraints.txt``, each with the hashes of all files of its version.

::

    python script/pins.py dns etcd > wanted.txt     # what the project needs with these extras
    pip install --require-hashes --no-deps -r wanted.txt
    python script/pins.py --renew [OPTION…]         # write constraints.txt; options of uv pip compile

``build`` is as an extra what sets the project up and builds it. Choosing needs nothing but Python: it comes
before anything is installed. Renewing keeps the versions that are there, but those that ``--upgrade`` or
``--upgrade-package NAME`` name, and asks the index that pip is set up for.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PINNED = "constraints.txt"
HEADER = "# Every dependency of every extra, and its hashes. Renew: .venv/bin/python script/pins.py --renew\n"
TOOLS = ("editables", "uv")
"""What sets the project up where it is, beside what builds it."""


class PinsError(Exception):
    """A file is not what it should be; the text says what to do."""


class Pin:
    """A package of ``constraints.txt``: its requirement with hashes, and ``via``, who wants it."""

    def __init__(self, block: str) -> None:
        lines = block.splitlines()
        self.requirement = "\n".join(line for line in lines if "#" not in line).rstrip(" \\")
        self.name = name_of(block)
        self.via = {name_of(line.lstrip(" #").removeprefix("via ")) for line in lines if "#" in line} - {""}


def name_of(requirement: str) -> str:
    """The name in front of a requirement, as indexes write it; blank where there is none."""
    found = re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", requirement)
    return "" if found is None or requirement.strip() == "via" else re.sub(r"[-_.]+", "-", found[0]).lower()


def pins_of(text: str) -> list[Pin]:
    """The pins of a file, in its order.

    Raises:
        PinsError: one has no version or no hash.
    """
    pins = [Pin(block) for block in re.findall(r"^[^\s#].*\n(?:[ \t].*\n?)*", text, re.M)]
    for pin in pins:
        if "==" not in pin.requirement or "--hash=sha256:" not in pin.requirement:
            raise PinsError(
                f"{PINNED}: expected {pin.name}==VERSION and --hash=sha256:…, "
                f"got {pin.requirement[:80]!r}; script/pins.py --renew writes it"
            )
    return pins


def asked(project: dict[str, Any], extras: Iterable[str]) -> Iterator[str]:
    """The packages that the project itself names, with these extras.

    Raises:
        PinsError: there is no such extra.
    """
    own = project["project"]
    known = {**own["optional-dependencies"], "build": [*project["build-system"]["requires"], *TOOLS]}
    yield from map(name_of, own["dependencies"])
    for extra in extras:
        if extra not in known:
            raise PinsError(f"extra: got {extra!r}, expected one of {', '.join(sorted(known))}")
        for one in known[extra]:
            if name_of(one) != own["name"]:
                yield name_of(one)
            elif more := re.search(r"\[([^]]+)\]", one):
                yield from asked(project, re.split(r"\s*,\s*", more[1]))


def chosen(pins: Sequence[Pin], names: Iterable[str]) -> list[Pin]:
    """The pins of packages and of all that these want.

    Raises:
        PinsError: one is not pinned.
    """
    wanted = set(names)
    if missing := wanted - {pin.name for pin in pins}:
        raise PinsError(f"{PINNED}: no pin of {', '.join(sorted(missing))}; script/pins.py --renew writes it")
    while more := {pin.name for pin in pins if pin.via & wanted} - wanted:
        wanted |= more
    return [pin for pin in pins if pin.name in wanted]


def renew(project: dict[str, Any], options: Sequence[str]) -> int:
    """Write the pins; return the exit code of uv."""
    asked_index = (sys.executable, "-m", "pip", "config", "get", "global.index-url")
    found = subprocess.run(asked_index, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603
    index = os.environ.get("PIP_INDEX_URL") or found
    # Not among the arguments: others on the machine can read these, and it may name a user.
    environ = os.environ | ({"UV_DEFAULT_INDEX": index} if index else {})
    command = (sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--universal", "--generate-hashes")
    form = ("--python-version", "3.11", "--no-header", "--all-extras", "-o", PINNED, "pyproject.toml", "-")
    building = "\n".join([*project["build-system"]["requires"], *TOOLS])
    done = subprocess.run(  # noqa: S603 - the options are of whoever renews
        (*command, *options, *form), cwd=ROOT, env=environ, input=building, text=True, check=False
    )
    if not done.returncode:
        file = ROOT / PINNED
        file.write_text(HEADER + file.read_text(encoding="utf-8"), encoding="utf-8")
    return done.returncode


def main(arguments: Sequence[str]) -> int:
    """Exit codes: 0, 2 for what cannot be, and those of uv."""
    if arguments[:1] in (["-h"], ["--help"]):
        sys.stdout.write(__doc__ or "")
        return 0
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    if arguments[:1] == ["--renew"]:
        return renew(project, arguments[1:])
    try:
        pins = pins_of((ROOT / PINNED).read_text(encoding="utf-8"))
        for pin in chosen(pins, asked(project, arguments)):
            sys.stdout.write(f"{pin.requirement}\n")
    except PinsError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

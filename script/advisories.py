"""Which pinned packages have a known weakness, by records of OSV that are on this machine; asks no network.

::

    python -m script.advisories all.zip
    python -m script.advisories records/ constraints.txt

The records are those of PyPI from the database dump of OSV (https://google.github.io/osv.dev/data/), as the
archive that it is or a directory of JSON files. A line for each weakness of a pinned version. Exit code: 0
none, 1 some, 2 the files are not what they should be.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

CONSTRAINTS = Path(__file__).resolve().parents[1] / "constraints.txt"
PIN = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;#]+)")
ORDER = {"introduced": 0, "last_affected": 1, "limit": 2, "fixed": 2}
"""At one version, what begins comes before what ends."""
Record = Mapping[str, Any]


def pins_of(text: str) -> dict[str, Version]:
    """Versions of packages by name, as ``constraints.txt`` has them."""
    return {canonicalize_name(name): Version(version) for name, version in PIN.findall(text)}


def records_in(path: Path) -> Iterator[Record]:
    """The records of an archive or a directory."""
    for file in (zipfile.Path(path) if path.is_file() else path).iterdir():
        if file.name.endswith(".json"):
            yield json.loads(file.read_text(encoding="utf-8"))


def is_affected(version: Version, affected: Record) -> bool:
    """Whether an entry is about this version: it is listed, or within a range.

    A range whose versions cannot be compared counts: a person has to look.
    """
    for listed in affected.get("versions") or ():
        try:
            if Version(listed) == version:
                return True
        except InvalidVersion:
            continue
    ranges = [one for one in affected.get("ranges") or () if one["type"] in {"ECOSYSTEM", "SEMVER"}]
    try:
        return any(_within(version, one["events"]) for one in ranges)
    except InvalidVersion:
        return True


def _within(version: Version, events: Sequence[Mapping[str, str]]) -> bool:
    changes = [(Version(at), ORDER[kind], kind) for event in events for kind, at in event.items()]
    inside = False
    for at, _, kind in sorted(changes):
        if kind == "introduced":
            inside = inside or at <= version
        else:
            inside = inside and (version <= at if kind == "last_affected" else version < at)
    return inside


def fixed_in(affected: Record) -> list[str]:
    """The versions that end the weakness."""
    events = [
        event for one in affected.get("ranges") or () if one["type"] != "GIT" for event in one["events"]
    ]
    return [event["fixed"] for event in events if "fixed" in event]


def weaknesses(pins: Mapping[str, Version], record: Record) -> Iterator[str]:
    """A line for each pinned version that a record is about; one that was taken back is about none."""
    for affected in () if "withdrawn" in record else record.get("affected") or ():
        name = canonicalize_name(affected.get("package", {}).get("name", ""))
        ours = affected.get("package", {}).get("ecosystem") == "PyPI" and name in pins
        if ours and is_affected(pins[name], affected):
            names = " = ".join([record["id"], *(record.get("aliases") or ())])
            fixed = ", ".join(fixed_in(affected)) or "no version"
            yield f"{name}=={pins[name]}: {names}: {record.get('summary', '')} (fixed in {fixed})\n"


def main(arguments: Sequence[str]) -> int:
    if len(arguments) not in (1, 2):
        sys.stderr.write(__doc__ or "")
        return 2
    found: set[str] = set()
    count, newest = 0, ""
    try:
        pins = pins_of(Path(arguments[1] if arguments[1:] else CONSTRAINTS).read_text(encoding="utf-8"))
        for record in records_in(Path(arguments[0])):
            found.update(weaknesses(pins, record))
            count, newest = count + 1, max(newest, record["modified"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        sys.stderr.write(f"got {type(error).__name__}: {error}; expected pins, and records of OSV\n")
        return 2
    if not count or not pins:
        sys.stderr.write(f"got {count} records and {len(pins)} pins, expected some of both\n")
        return 2
    sys.stdout.writelines(sorted(found))
    sys.stdout.write(f"{len(pins)} pins, {count} records, the newest of {newest}: {len(found)} weaknesses\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

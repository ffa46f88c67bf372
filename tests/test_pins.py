"""What is installed has one version everywhere, and comes from where the machine says."""

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PIN = re.compile(r"([A-Za-z0-9._-]+)(?:\[[\w,-]+\])?==(\d[\w.]*)")
REGISTRIES = [
    ".".join(parts)
    for parts in (
        ("registry", "npmjs", "org"),
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("registry", "yarnpkg"),
    )
]


def name_of(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None, requirement
    return re.sub(r"[-_.]+", "-", found[0]).lower()


def test_every_dependency_has_one_version_in_the_constraints():
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    pins = [PIN.match(line) for line in lines]
    assert all(pins), lines
    pinned = {name_of(pin[1]) for pin in pins}
    assert len(pinned) == len(lines)
    groups = PROJECT["project"]["optional-dependencies"].values()
    wanted = {name_of(one) for group in (PROJECT["project"]["dependencies"], *groups) for one in group}
    assert wanted - {"gossamer"} <= pinned


def test_what_builds_the_package_has_one_version():
    assert all(PIN.fullmatch(one) for one in PROJECT["build-system"]["requires"])


def test_the_packages_of_the_console_have_one_version():
    package = json.loads((ROOT / "console" / "package.json").read_text())
    versions = [*package["dependencies"].values(), *package["devDependencies"].values()]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in versions)


def test_no_file_says_where_packages_come_from():
    """A mirror that a machine is set up for would be passed by."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a checkout")
    files = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    found = [
        (str(path.relative_to(ROOT)), registry)
        for path in files
        if path.is_file() and path.stat().st_size < 2**20
        for registry in REGISTRIES
        if registry.encode() in path.read_bytes()
    ]
    assert found == []

"""What is installed is one version everywhere, is the file that was pinned, and comes from where the machine
says."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tomllib
import zipfile
from importlib.metadata import distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from script.pins import PinsError, asked, chosen, main, name_of, pins_of

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PIN = re.compile(r"([A-Za-z0-9._-]+)(?:\[[\w,-]+\])?==(\d[\w.]*)")
EXTRAS = PROJECT["project"]["optional-dependencies"]
REGISTRIES = [
    ".".join(parts)
    for parts in (
        ("registry", "npmjs", "org"),
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("registry", "yarnpkg"),
    )
]


PINS = pins_of((ROOT / "constraints.txt").read_text())


def test_every_dependency_has_one_version_and_hashes():
    pinned = {pin.name for pin in PINS}
    assert len(pinned) == len(PINS)
    assert all(PIN.match(pin.requirement) for pin in PINS)
    assert {name for extra in EXTRAS for name in asked(PROJECT, [extra])} <= pinned


@pytest.mark.parametrize("extras", [(), ("docs",), ("dev", "build"), ("dns", "etcd", "k8s")])
def test_what_is_chosen_is_all_that_is_needed(extras):
    """By what the packages of this environment, which need not have all, say themselves."""
    here = {name_of(one.name) for one in distributions()}
    names = {pin.name for pin in chosen(PINS, asked(PROJECT, extras))}
    needed = [
        (name, name_of(one))
        for name in names & here
        for one in requires(name) or ()
        if (marker := Requirement(one).marker) is None or marker.evaluate({"extra": ""})
    ]
    assert len(needed) > 30
    assert [pair for pair in needed if pair[1] not in names] == []


def test_a_pin_without_a_hash_and_an_extra_that_is_none_are_refused(capsys):
    with pytest.raises(PinsError, match="expected rich==VERSION and --hash=sha256:…, got"):
        pins_of("rich==15.0.0\n    # via gossamer (pyproject.toml)\n")
    with pytest.raises(PinsError, match="no pin of grpcio"):
        chosen(PINS, ["rich", "grpcio-x"])
    assert main(["nope"]) == 2
    assert "got 'nope', expected one of audit, build" in capsys.readouterr().err


def wheel(folder, name, module="", body=""):
    """Write a package with one module into a folder; its hash."""
    info = f"{name}-1.0.dist-info"
    files = {
        module or f"{name}.py": body,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{one},,\n" for one in files)
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for one, text in files.items():
            archive.writestr(one, text)
    return hashlib.sha256(path.read_bytes()).hexdigest()


BACKEND = """
import pathlib, shutil
def build_editable(into, *_):
    return shutil.copy(pathlib.Path(__file__).with_name("app-1.0-py3-none-any.whl"), into).rpartition("/")[2]
"""


@pytest.mark.real
@pytest.mark.timeout(300)
def test_a_file_that_is_not_the_one_that_was_pinned_stops_the_set_up(tmp_path):
    """A small project, and an index that is a folder; its uv fails, as one that cannot reach an index."""
    root, index = tmp_path / "project", tmp_path / "index"
    (root / "gossamer" / "routes" / "csrc").mkdir(parents=True)
    index.mkdir()
    for name in ("env", "pins.py"):
        (root / "script").mkdir(exist_ok=True)
        shutil.copy(ROOT / "script" / name, root / "script")
    hashes = {name: wheel(index, name) for name in ("leaf", "editables", "backing")}
    hashes["uv"] = wheel(index, "uv", "uv/__main__.py", "raise SystemExit('no index')")
    wheel(root, "app")
    lines = [
        f"{name}==1.0 \\\n    --hash=sha256:{digest}\n    # via app (pyproject.toml)\n"
        for name, digest in hashes.items()
    ]
    (root / "constraints.txt").write_text("".join(lines))
    (root / "hatch_build.py").write_text("")
    (root / "gossamer" / "routes" / "csrc" / "kernel.c").write_text("")
    (root / "backend.py").write_text(BACKEND)
    (root / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["backing==1.0"]\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        '[project]\nname = "app"\nversion = "1.0"\ndependencies = ["leaf"]\n'
        "[project.optional-dependencies]\n"
    )
    environ = {key: value for key, value in os.environ.items() if not key.startswith("PIP_")}
    environ |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index), "PIP_CONFIG_FILE": os.devnull}

    def set_up():
        command = ("bash", "-c", "source script/env && need_environment up")
        return subprocess.run(command, cwd=root, env=environ, capture_output=True, text=True, check=False)

    def has_leaf():
        command = (root / ".venv" / "bin" / "python", "-c", "import leaf, app")
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    right = (index / "leaf-1.0-py3-none-any.whl").read_bytes()
    wheel(index, "leaf", body="print('stolen')")
    done = set_up()
    assert done.returncode == 1, done.stderr
    assert "another file than the one that was pinned: find out why" in done.stderr.splitlines()[-1]
    assert hashes["leaf"] in done.stderr
    assert not has_leaf()
    (index / "leaf-1.0-py3-none-any.whl").write_bytes(right)
    done = set_up()
    assert done.returncode == 0, done.stderr
    assert has_leaf()


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

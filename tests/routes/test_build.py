"""The build hook: with a compiler there is a kernel, without one everything installs all the same."""

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
needs_compiler = pytest.mark.skipif(
    not importlib.util.find_spec("setuptools")
    or not shutil.which("cc")
    or not Path(sysconfig.get_paths()["include"], "Python.h").exists(),
    reason="needs a C compiler and Python's headers",
)


def hook():
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def build(into: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Build in a process of its own, since setuptools changes the one it runs in."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import hatch_build; from pathlib import Path\n"
        "print(hatch_build.compile_kernel(Path(sys.argv[2])) or 'none')"
    )
    return subprocess.run(
        [sys.executable, "-c", code, str(ROOT), str(into)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


@needs_compiler
@pytest.mark.real
def test_a_compiler_makes_a_kernel_that_loads(tmp_path):
    ran = build(tmp_path, GOSSAMER_BUILD_KERNEL="require")
    assert ran.returncode == 0, ran.stderr
    kernel = Path(ran.stdout.strip().splitlines()[-1])
    code = (
        "import importlib.util, sys\n"
        "spec = importlib.util.spec_from_file_location('gossamer.routes._kernel', sys.argv[1])\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module); print(module.VERSION)"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code, str(kernel)], capture_output=True, text=True, check=True
    )
    assert loaded.stdout.strip() == "3"


def test_without_a_compiler_there_is_a_line_and_no_kernel(tmp_path):
    ran = build(tmp_path, CC="/nowhere/cc", LDSHARED="/nowhere/cc -shared")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip().splitlines()[-1] == "none"
    assert "no compiled kernel, routing runs in Python: " in ran.stderr


def test_who_requires_a_kernel_is_told_that_there_can_be_none(tmp_path):
    ran = build(tmp_path, CC="/nowhere/cc", LDSHARED="/nowhere/cc -shared", GOSSAMER_BUILD_KERNEL="require")
    assert ran.returncode != 0


def test_who_wants_none_gets_none(tmp_path):
    ran = build(tmp_path, GOSSAMER_BUILD_KERNEL="no")
    assert ran.stdout.strip() == "none"


def test_a_fresh_kernel_replaces_the_old_one_in_one_step(tmp_path, monkeypatch):
    module = hook()
    monkeypatch.setattr(module, "ROOT", tmp_path)
    (tmp_path / module.PACKAGE).mkdir(parents=True)
    for content in (b"old", b"new"):
        (tmp_path / "_kernel.so").write_bytes(content)
        assert module.install(tmp_path / "_kernel.so").read_bytes() == content
    assert [path.name for path in (tmp_path / module.PACKAGE).iterdir()] == ["_kernel.so"]

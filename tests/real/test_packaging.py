"""What is given away installs in an empty environment, and runs there without anything of the repository."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import httpx
import pytest

from gossamer import __version__
from real.clients import assert_crosses
from real.harness import Cluster

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "gossamer"
CONSTRAINTS = ("-c", str(ROOT / "constraints.txt"))
SOURCES = ("gossamer/routes/csrc/",)
"""What only building needs."""
EXTRAS = {"audit", "console", "dns", "etcd", "k8s", "otel", "spark", "thespian"}
HEAVY = ("aetcd", "dns", "duckdb", "matplotlib", "numpy", "pandas", "pyarrow", "pyspark", "thespian")

BUILDING = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
UV = (sys.executable, "-m", "uv", "--quiet")

pytestmark = pytest.mark.timeout(300)


def run(*command, cwd, **environ):
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    return done.returncode, done.stdout + done.stderr


def ordered(*command, cwd, **environ):
    code, said = run(*command, cwd=cwd, **environ)
    assert code == 0, said
    return said


class Environment:
    """A virtual environment with pip in it, and what others wrote that ``wheel`` asks for.

    All that is slow about it is shared: uv brings the packages of others, pip installs what is ours.
    """

    def __init__(self, path, wheel):
        self.path = path
        self.python = path / "bin" / "python"
        self._held = None
        ordered(*UV, "venv", "--seed", "--python", sys.executable, path, cwd=path.parent)
        required = [line for line in metadata_of(wheel).get_all("Requires-Dist") if "extra ==" not in line]
        (path / "requirements.txt").write_text("\n".join(required))
        (path / "building.txt").write_text("\n".join(BUILDING))
        where = ("--python", self.python)
        for names in ("requirements", "building"):
            ordered(*UV, "pip", "install", *where, *CONSTRAINTS, "-r", path / f"{names}.txt", cwd=path)

    def gossamer(self, *arguments):
        # Not from the repository, whose package would come before the one that is installed.
        return run(self.path / "bin" / "gossamer", *arguments, cwd=self.path)

    def install(self, given, **environ):
        """With pip, and nothing but what is there by now."""
        if self._held != (given, environ):
            plain = ("--no-index", "--no-build-isolation", "--force-reinstall", "--no-deps")
            pip = (self.python, "-m", "pip", "--quiet")
            ordered(*pip, "install", *plain, given, cwd=self.path, **environ)
            ordered(*pip, "check", cwd=self.path)
            self._held = given, environ

    @property
    def kernel(self):
        code, said = self.gossamer("--version")
        assert code == 0, said
        assert said.startswith(f"gossamer {__version__} (Python ")
        return re.search(r"^  kernel +(\w+)", said, re.M)[1]


def metadata_of(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return Parser().parsestr(archive.read(f"gossamer-{__version__}.dist-info/METADATA").decode())


class Installed(Cluster):
    """Nodes of what is installed in an environment."""

    def __init__(self, environment, directory, nodes):
        self.command = (str(environment.path / "bin" / "gossamer"),)
        self.directory = environment.path
        super().__init__(directory, nodes=nodes)


def serves(environment, directory, *, nodes=2):
    """Nodes start, show their console, pass a message on, and stop."""
    with Installed(environment, directory, nodes) as cluster:
        page = httpx.get(cluster.api(1) + "/", trust_env=False, timeout=30)
        assert page.status_code == 200
        assert page.content == (PACKAGE / "api" / "console" / "index.html").read_bytes()
        for name in re.findall(r'(?:src|href)="(/[^"]+)"', page.text):
            assert httpx.get(cluster.api(nodes) + name, trust_env=False, timeout=30).status_code == 200
        ports = (("-p", cluster.port(nodes)), ("-p", cluster.port(1)))
        assert_crosses(*ports, "a/+", "a/b", lambda: cluster.get(1, "/api/v1/topics")["items"])
        assert cluster.end() == 0, cluster.err


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """The sdist, and the wheel that is made of nothing but it."""
    built = tmp_path_factory.mktemp("dist")
    ordered(*UV, "build", "--build-constraints", CONSTRAINTS[1], "--out-dir", built, ROOT, cwd=built)
    (sdist,) = built.glob("*.tar.gz")
    (wheel,) = built.glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def environment(dist, tmp_path_factory):
    return Environment(tmp_path_factory.mktemp("empty"), dist[1])


@pytest.fixture
def from_wheel(dist, environment):
    environment.install(dist[1])
    return environment


@pytest.fixture
def without_compiler(dist, environment):
    environment.install(dist[0], CC="false")
    return environment


def data_files():
    """What the package has besides Python, as the repository holds it."""
    return {
        str(path.relative_to(ROOT))
        for path in PACKAGE.rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc", ".so")
    }


def test_both_hold_every_file_and_the_console_as_it_was_built(dist):
    sdist, wheel = dist
    with tarfile.open(sdist) as archive:
        sources = {name.partition("/")[2] for name in archive.getnames()}
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
        for name in packed:
            if name.startswith(("gossamer/api/console/", "gossamer/drill/templates/")):
                held = hashlib.sha256((ROOT / name).read_bytes()).hexdigest()
                assert hashlib.sha256(archive.read(name)).hexdigest() == held, name
    wanted = data_files()
    assert {"gossamer/py.typed", "gossamer/api/console/built-from"} <= wanted
    assert wanted <= sources
    assert {name for name in wanted if not name.startswith(SOURCES)} <= packed
    modules = {str(path.relative_to(ROOT)) for path in PACKAGE.rglob("*.py")}
    assert modules <= sources & packed
    assert "LICENSE" in sources
    assert f"gossamer-{__version__}.dist-info/licenses/LICENSE" in packed
    # The wheel brings one package, and the sdist nothing that was built.
    assert {name.partition("/")[0] for name in packed} == {"gossamer", f"gossamer-{__version__}.dist-info"}
    assert not [name for name in sources if name.endswith((".so", ".pyc"))]
    metadata = metadata_of(wheel)
    assert (metadata["Version"], metadata["License-Expression"]) == (__version__, "Apache-2.0")
    assert set(metadata.get_all("Provides-Extra")) >= EXTRAS


def test_the_kernel_is_compiled_out_of_the_sdist_where_there_is_a_compiler(from_wheel, tmp_path):
    assert from_wheel.kernel == ("compiled" if shutil.which("cc") else "python")
    serves(from_wheel, tmp_path)


def test_nothing_heavy_comes_along_and_what_is_missing_is_named(from_wheel, tmp_path):
    looked = f"import importlib.util as u; print([n for n in {HEAVY!r} if u.find_spec(n)])"
    assert ordered(from_wheel.python, "-c", looked, cwd=tmp_path).strip() == "[]"
    config = tmp_path / "node.yaml"
    for strategy, extra in (("etcd: {}", "etcd"), ("dns: {name: seeds.example}", "dns")):
        config.write_text(f"cluster: {{discovery: {{strategy: {extra}, {strategy}}}}}\n")
        code, said = from_wheel.gossamer("start", "-c", config)
        assert code != 0
        assert f"cluster.discovery.strategy: got {extra} without " in said, said
        assert f"pip install 'PATH[{extra}]'" in said, said
    recorded = tmp_path / "audit" / "day=2026-01-02" / "hour=03" / "node=a@h" / "events.parquet"
    recorded.parent.mkdir(parents=True)
    recorded.write_bytes(b"PAR1")
    code, said = from_wheel.gossamer("audit", "run", "report", "--dir", tmp_path / "audit")
    assert code != 0
    assert "pip install 'PATH[audit]'" in said
    start = "from gossamer.discovery import K8s; from gossamer.config import *; print('k8s')"
    assert ordered(from_wheel.python, "-c", start, cwd=tmp_path).strip() == "k8s"


def test_what_is_pinned_can_be_installed_with_the_oldest_python():
    """Debian 12 has 3.11.2; a pin that wants a later patch would stop ./script/test before it begins."""
    oldest = ("--python-version", "3.11.0", "--extra", "dev")
    assert "pytest==" in ordered(*UV, "pip", "compile", *oldest, *CONSTRAINTS, "pyproject.toml", cwd=ROOT)


def test_what_every_extra_brings_is_what_the_tests_ran_with(dist):
    """With all extras the wheel asks for nothing that is missing here, or is here in another version."""
    wanted = f"gossamer[{','.join(sorted(EXTRAS))}] @ {dist[1].as_uri()}"
    where = ("--dry-run", "--python", sys.executable)
    said = ordered(*UV[:-1], "pip", "install", *where, *CONSTRAINTS, wanted, cwd=dist[1].parent)
    changed = re.findall(r"^ [-+~] ([\w.-]+)", said, re.M)
    assert set(changed) == {"gossamer"}, said


def test_the_sdist_does_without_a_compiler(without_compiler, tmp_path):
    assert without_compiler.kernel == "python"
    serves(without_compiler, tmp_path, nodes=1)

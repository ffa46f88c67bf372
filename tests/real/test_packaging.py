"""What is given away installs in an empty environment, and runs there without anything of the repository."""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from dataclasses import dataclass
from email.parser import Parser
from pathlib import Path

import httpx
import pytest

from gossamer import __version__
from real.harness import Cluster, eventually

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "gossamer"
CONSTRAINTS = ("-c", str(ROOT / "constraints.txt"))
SOURCES = ("gossamer/routes/csrc/",)
"""What only building needs."""
EXTRAS = {"console", "dns", "etcd", "k8s", "spark", "thespian"}
HEAVY = ("aetcd", "dns", "matplotlib", "numpy", "pandas", "pyarrow", "pyspark", "thespian")

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


@dataclass
class Environment:
    """A virtual environment that had nothing but pip in it."""

    path: Path

    @property
    def python(self):
        return self.path / "bin" / "python"

    def gossamer(self, *arguments):
        # Not from the repository, whose package would come before the one that is installed.
        return run(self.path / "bin" / "gossamer", *arguments, cwd=self.path)

    def pip(self, *arguments, **environ):
        return ordered(self.python, "-m", "pip", "--quiet", *arguments, cwd=self.path, **environ)

    @property
    def kernel(self):
        code, said = self.gossamer("--version")
        assert code == 0, said
        assert said.startswith(f"gossamer {__version__} (Python ")
        return re.search(r"^  kernel +(\w+)", said, re.M)[1]


def empty(path):
    venv.create(path, with_pip=True)
    return Environment(path)


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
        wait = ["mosquitto_sub", "-p", cluster.port(nodes), "-t", "a/+", "-q", "1", "-C", "1", "-W", "30"]
        with subprocess.Popen(wait, stdout=subprocess.PIPE, text=True) as subscriber:
            eventually(lambda: cluster.get(1, "/api/v1/topics")["items"])
            publish = ["mosquitto_pub", "-p", cluster.port(1), "-t", "a/b", "-q", "1", "-m", "hello"]
            subprocess.run(publish, check=True, timeout=30)
            assert subscriber.communicate(timeout=40)[0] == "hello\n"
        assert cluster.end() == 0, cluster.err


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """The sdist and the wheel, as the build backend makes them."""
    built = tmp_path_factory.mktemp("dist")
    builder = empty(tmp_path_factory.mktemp("builder"))
    builder.pip("install", *CONSTRAINTS, "hatchling", "setuptools")
    for kind in ("sdist", "wheel"):
        ordered(
            builder.python,
            *("-c", f"from hatchling.build import build_{kind} as build; build({str(built)!r})"),
            cwd=ROOT,
        )
    (sdist,) = built.glob("*.tar.gz")
    (wheel,) = built.glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def from_wheel(dist, tmp_path_factory):
    environment = empty(tmp_path_factory.mktemp("wheel"))
    environment.pip("install", *CONSTRAINTS, dist[1])
    return environment


@pytest.fixture(scope="module")
def from_sdist(dist, tmp_path_factory):
    environment = empty(tmp_path_factory.mktemp("sdist"))
    if importlib.util.find_spec("uv") is None:
        environment.pip("install", *CONSTRAINTS, dist[0])
    else:
        # The same in a third of the time; the wheel was installed with pip.
        uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", environment.python]
        ordered(*uv, *CONSTRAINTS, dist[0], cwd=environment.path)
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
        metadata = Parser().parsestr(archive.read(f"gossamer-{__version__}.dist-info/METADATA").decode())
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
    assert (metadata["Version"], metadata["License-Expression"]) == (__version__, "Apache-2.0")
    assert set(metadata.get_all("Provides-Extra")) >= EXTRAS


def test_the_wheel_runs_in_an_empty_environment(from_wheel, tmp_path):
    assert from_wheel.kernel == ("compiled" if shutil.which("cc") else "python")
    serves(from_wheel, tmp_path)


def test_the_sdist_compiles_the_kernel_where_there_is_a_compiler(from_sdist, tmp_path):
    assert from_sdist.kernel == ("compiled" if shutil.which("cc") else "python")
    serves(from_sdist, tmp_path)


def test_the_sdist_does_without_a_compiler(dist, from_sdist, tmp_path):
    from_sdist.pip("wheel", "--no-deps", "--wheel-dir", tmp_path, dist[0], CC="false")
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name == f"gossamer-{__version__}-py3-none-any.whl"
    from_sdist.pip("install", "--no-deps", "--force-reinstall", wheel)
    assert from_sdist.kernel == "python"
    serves(from_sdist, tmp_path, nodes=1)


def test_nothing_heavy_comes_along_and_what_is_missing_is_named(from_wheel, tmp_path):
    looked = f"import importlib.util as u; print([n for n in {HEAVY!r} if u.find_spec(n)])"
    assert ordered(from_wheel.python, "-c", looked, cwd=tmp_path).strip() == "[]"
    config = tmp_path / "node.yaml"
    for strategy, extra in (("etcd: {}", "etcd"), ("dns: {name: seeds.example}", "dns")):
        config.write_text(f"cluster: {{discovery: {{strategy: {extra}, {strategy}}}}}\n")
        code, said = from_wheel.gossamer("start", "-c", config)
        assert code != 0
        assert f"pip install 'gossamer[{extra}]'" in said, said
    code, said = from_wheel.gossamer("audit", "run", "report", "--dir", tmp_path)
    assert code != 0
    assert "pip install 'gossamer[spark]'" in said
    start = "from gossamer.discovery import K8s; from gossamer.config import *; print('k8s')"
    assert ordered(from_wheel.python, "-c", start, cwd=tmp_path).strip() == "k8s"

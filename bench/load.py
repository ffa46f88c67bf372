"""Our load generators, built on demand: each drives a broker and returns what became of it.

``run(...)`` is ``load.c``, messages between few clients; ``hold(...)`` is ``hold.c``, many connections and
many subscriptions. By hand: ``python bench/load.py pub_ports=1883 sub_ports=1883 pattern=pair qos=1 window=20
seconds=3``, ``python bench/load.py hold mode=idle port=1883``; the keys are those of ``struct options``.
"""

import contextlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent


def build(name: str = "load") -> Path:
    """The compiled generator; compiled again when its source is newer."""
    source, program = HERE / f"{name}.c", HERE / ".build" / name
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        compiler = shutil.which("cc")
        if compiler is None:
            sys.exit("bench: the load generator needs a C compiler, cc on the path (Debian: gcc libc6-dev)")
        program.parent.mkdir(exist_ok=True)
        subprocess.run([compiler, "-O2", "-o", str(program), str(source)], check=True)
    return program


def run(*, core: int | None = None, timeout: float = 120, **options: object) -> dict[str, object]:
    """One load of messages, pinned to ``core``. Raises RuntimeError with its words when it fails."""
    return _run("load", core, timeout, options)


def hold(*, core: int | None = None, timeout: float = 180, **options: object) -> dict[str, object]:
    """The same for what is held."""
    return _run("hold", core, timeout, options)


def tls(*, core: int | None = None, timeout: float = 180, **options: object) -> dict[str, object]:
    """Connections over TLS; see ``tls_connects.py``."""
    given = [f"{key}={value}" for key, value in options.items()]
    return _outcome([sys.executable, str(HERE / "tls_connects.py"), *given], core, timeout)


@contextlib.contextmanager
def going(*, core: int | None = None, **options: object) -> Iterator[subprocess.Popen[bytes]]:
    """A load of messages that goes on until the caller has seen enough; what became of it is not told."""
    command = _command("load", core, {**options, "seconds": 86_400})
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def _command(name: str, core: int | None, options: dict[str, object]) -> list[str]:
    return _pinned([str(build(name)), *(f"{key}={value}" for key, value in options.items())], core)


def _pinned(command: list[str], core: int | None) -> list[str]:
    return command if core is None else ["taskset", "-c", str(core), *command]


def _run(name: str, core: int | None, timeout: float, options: dict[str, object]) -> dict[str, object]:
    return _outcome(_command(name, None, options), core, timeout)


def _outcome(command: list[str], core: int | None, timeout: float) -> dict[str, object]:
    command = _pinned(command, core)
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip() or f"the load generator ended with {done.returncode}")
    return json.loads(done.stdout)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    generator = hold if arguments[:1] == ["hold"] else run
    try:
        print(json.dumps(generator(**dict(a.split("=", 1) for a in arguments if "=" in a)), indent=2))
    except RuntimeError as error:
        sys.exit(str(error))

"""Our load generator, built on demand: ``run(...)`` drives a broker and returns what became of every message.

By hand: ``python bench/load.py pub_ports=1883 sub_ports=1883 pattern=pair qos=1 window=20 seconds=3``; the
keys are those of ``struct options`` in ``load.c``.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).with_name("load.c")
PROGRAM = SOURCE.parent / ".build" / "load"


def build() -> Path:
    """The compiled generator; compiled again when its source is newer."""
    if not PROGRAM.exists() or PROGRAM.stat().st_mtime < SOURCE.stat().st_mtime:
        compiler = shutil.which("cc")
        if compiler is None:
            sys.exit("bench: the load generator needs a C compiler, cc on the path (Debian: gcc libc6-dev)")
        PROGRAM.parent.mkdir(exist_ok=True)
        subprocess.run([compiler, "-O2", "-o", str(PROGRAM), str(SOURCE)], check=True)
    return PROGRAM


def run(*, core: int | None = None, timeout: float = 120, **options: object) -> dict[str, object]:
    """One load, pinned to ``core``. Raises RuntimeError with the generator's own words when it fails."""
    command = [str(build()), *(f"{key}={value}" for key, value in options.items())]
    if core is not None:
        command = ["taskset", "-c", str(core), *command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip() or f"the load generator ended with {done.returncode}")
    return json.loads(done.stdout)


if __name__ == "__main__":
    try:
        print(json.dumps(run(**dict(argument.split("=", 1) for argument in sys.argv[1:])), indent=2))
    except RuntimeError as error:
        sys.exit(str(error))

"""Build hook: compile the routing kernel where that is possible, and install without it where it is not.

``pip install .`` puts the kernel into the wheel; ``pip install -e .`` puts it beside its sources, where the
editable install finds it, as ``python hatch_build.py`` does. Without a compiler or Python's headers the wheel
is pure, and ``gossamer --version`` says which kernel runs and why.

``GOSSAMER_BUILD_KERNEL=no`` builds none, ``require`` fails where there can be none.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run by hand
    BuildHookInterface = object

ROOT = Path(__file__).parent
PACKAGE = Path("gossamer", "routes")
CHOICE = "GOSSAMER_BUILD_KERNEL"


class KernelHook(BuildHookInterface):  # type: ignore[misc,valid-type]
    """Adds the kernel to a wheel; found by hatchling by its base class."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """``version`` is "standard" or "editable"."""
        if self.target_name != "wheel":
            return
        self._built = tempfile.TemporaryDirectory()
        kernel = compile_kernel(Path(self._built.name))
        if kernel is None:
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        if version == "editable":
            install(kernel)
        else:
            build_data["force_include"][str(kernel)] = str(PACKAGE / kernel.name)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Throw away what was built on the way."""
        built = getattr(self, "_built", None)
        if built is not None:
            built.cleanup()


def compile_kernel(into: Path) -> Path | None:
    """Compile the kernel; None, and a line that says why, where that cannot be done."""
    choice = os.environ.get(CHOICE, "")
    if choice == "no":
        return None
    try:
        from setuptools import Distribution, Extension
        from setuptools.command.build_ext import build_ext

        windows = sys.platform == "win32"
        extension = Extension(
            "gossamer.routes._kernel",
            [str(PACKAGE / "csrc" / "kernel.c")],
            extra_compile_args=[] if windows else ["-O3", "-std=c11", "-fvisibility=hidden", "-g0"],
        )
        command = build_ext(Distribution({"name": "gossamer", "ext_modules": [extension]}))
        command.build_lib = str(into / "lib")
        command.build_temp = str(into / "temp")
        command.ensure_finalized()
        before = Path.cwd()
        os.chdir(ROOT)
        try:
            command.run()
        finally:
            os.chdir(before)
        return Path(command.get_ext_fullpath("gossamer.routes._kernel"))
    except (Exception, SystemExit) as error:
        # Whatever a compiler may do, the twin in Python works without.
        if choice == "require":
            raise
        print(f"gossamer: no compiled kernel, routing runs in Python: {error}", file=sys.stderr)
        return None


def install(kernel: Path) -> Path:
    """Put the kernel beside its sources, in one step: a process that runs keeps the one it has."""
    place = ROOT / PACKAGE / kernel.name
    fresh = place.with_name(f"{place.name}.{os.getpid()}")
    fresh.write_bytes(kernel.read_bytes())
    fresh.chmod(0o755)
    fresh.replace(place)
    return place


def main() -> None:
    """Build the kernel in place."""
    with tempfile.TemporaryDirectory() as into:
        kernel = compile_kernel(Path(into))
        if kernel is None:
            sys.exit(1)
        print(install(kernel).relative_to(ROOT))


if __name__ == "__main__":
    main()

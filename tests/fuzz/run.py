"""Fuzz one target, guided by coverage: ``python -m tests.fuzz.run TARGET [libFuzzer options and corpora]``.

Begun by ``script/fuzz``. Ends with an error at the first input that is a finding, which is written next to
where it runs.
"""

import sys

import atheris

with atheris.instrument_imports(include=["gossamer", "websockets"]):
    from tests.fuzz.targets import TARGETS


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in TARGETS:
        sys.exit(f"error: expected a target, one of {' '.join(TARGETS)}; got {name!r}")
    atheris.Setup([sys.argv[0], *sys.argv[2:]], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()

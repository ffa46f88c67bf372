"""``python -m script.references [--check] [DIRECTORY]``: renew the pages, or tell the stale."""

from __future__ import annotations

import sys
from pathlib import Path

from script.references import stale, write

DIRECTORY = Path("docs/reference")


def main(arguments: list[str]) -> int:
    check = "--check" in arguments
    given = [argument for argument in arguments if argument != "--check"]
    if len(given) > 1 or any(argument.startswith("-") for argument in given):
        sys.stderr.write(f"got {' '.join(arguments)!r}, expected [--check] [DIRECTORY]\n")
        return 2
    directory = Path(given[0]) if given else DIRECTORY
    if not directory.is_dir():
        sys.stderr.write(f"{directory}: expected a directory that exists; run this from the root\n")
        return 2
    changed = stale(directory) if check else write(directory)
    for name in changed:
        sys.stdout.write(f"{directory / name} {'is stale' if check else 'renewed'}\n")
    return 1 if check and changed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

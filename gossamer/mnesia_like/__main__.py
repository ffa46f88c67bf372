"""Disc copy check without a node: ``python -m gossamer.mnesia_like check|set-aside data/tables.db``.

``check`` opens and verifies the file and prints its contents, or what is wrong with it. ``set-aside`` renames
a damaged file, so that the node can start: its shared tables and the schema load from the peers; its sessions
and local tables start empty. Exit codes: 0 sound (or set aside), 1 damaged, 2 cannot be used now.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from gossamer.mnesia_like.disc.disc import Disc
from gossamer.mnesia_like.errors import CorruptTablesError, DiscError


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    assert __doc__ is not None  # noqa: S101
    parser = argparse.ArgumentParser(prog="python -m gossamer.mnesia_like", description=__doc__)
    parser.add_argument("command", choices=("check", "set-aside"))
    parser.add_argument("path", type=Path)
    options = parser.parse_args(arguments)
    disc = Disc(options.path)
    if not options.path.is_file():
        return _say(2, f"{options.path}: no such file; give the tables.db of a node's data directory")
    try:
        file = disc.open()
    except CorruptTablesError as error:
        if options.command == "check":
            return _say(1, str(error))
        return _say(0, f"{error.problem}; moved to {disc.move_aside()}; start the node now")
    except DiscError as error:
        return _say(2, str(error))
    try:
        for name, (shape, _) in file.catalogue().items():
            _say(0, f"{name:24} {shape:12} {file.rows(name):>10,} rows")
    finally:
        file.close()
    if options.command == "set-aside":
        return _say(2, f"{options.path} is sound and stays where it is")
    return 0


def _say(code: int, text: str) -> int:
    print(text, file=sys.stderr if code else sys.stdout)
    return code


if __name__ == "__main__":
    # ``… check tables.db | head``: the reader has enough.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main())

"""``python -m gossamer.drill DIR``: see :mod:`gossamer.drill.run.unattended`."""

import sys
from pathlib import Path

from gossamer.drill.run.unattended import carry_out

if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m gossamer.drill DIR (a directory with plan.json)")
    sys.exit(carry_out(Path(sys.argv[1])))

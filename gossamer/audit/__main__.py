"""``python -m gossamer.audit``: the writer's process; see ``writer``."""

import sys

from gossamer.audit.writer import main

main(sys.argv[1:])

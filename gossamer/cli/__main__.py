"""``python -m gossamer.cli``."""

from gossamer.cli import main

main()

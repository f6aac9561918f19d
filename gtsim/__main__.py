"""`python -m gtsim` is the command `gtsim`."""

from .cli import main

main()

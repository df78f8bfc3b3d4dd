"""``python -m warploom`` is the command ``warploom``."""

from warploom.cli import main

main(prog_name="warploom")

"""The start of `tms`: prints the version without loading the commands."""

import sys

from tms import __version__


def main() -> None:
    """Run the command that the process was started with."""
    if sys.argv[1:] == ["--version"] and sys.stdout is not None:
        print(__version__)
        return
    from tms.cli.main import main as run  # noqa: PLC0415  0.1 s

    run()

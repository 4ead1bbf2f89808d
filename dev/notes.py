"""Prints the notes of a version: its part of CHANGELOG.md.

    python dev/notes.py 0.2.0

Fails if the changelog has no such version.
"""

import re
import sys
from pathlib import Path

_CHANGELOG = Path(__file__).parents[1] / "CHANGELOG.md"


def main(version: str) -> None:
    """Print the notes."""
    parts = re.split(r"^## +", _CHANGELOG.read_text(encoding="utf-8"), flags=re.MULTILINE)
    matching = [part for part in parts if re.match(rf"{re.escape(version)}(\s|$)", part)]
    if len(matching) != 1:
        sys.exit(f"CHANGELOG.md has no version {version}")
    heading, _, notes = matching[0].partition("\n")
    print(f"# TMS {heading}\n\n{notes.strip()}")


if __name__ == "__main__":
    main(sys.argv[1])

"""Prints the part of requirements.lock that pins the packages in a report of pip.

    python dev/locked.py REPORT.json

Fails if a package is not in the lock, or has another version there.
"""

import json
import re
import sys
from pathlib import Path

_LOCK = Path(__file__).parents[1] / "requirements.lock"
_OWN = "tms-messaging"


def main(report: Path) -> None:
    """Print the pins, each with its hashes."""
    blocks = re.findall(r"^\S+==(?:.*\\\n)*.*$", _LOCK.read_text(encoding="utf-8"), re.MULTILINE)
    by_name = {_canonical(re.split("==", block)[0]): block for block in blocks}
    for item in json.loads(report.read_text(encoding="utf-8"))["install"]:
        name, version = item["metadata"]["name"], item["metadata"]["version"]
        if _canonical(name) == _OWN:
            continue
        block = by_name.get(_canonical(name), "")
        if not re.match(rf"\S+=={re.escape(version)}[ ;\\]", block):
            sys.exit(f"requirements.lock has not {name} {version}: renew it")
        print(block)


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

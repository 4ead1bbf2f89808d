"""Data folders as earlier versions left them."""

import json
from pathlib import Path

from tables.leveldb_binding import plyvel

Recorded = dict[str, object]


def make_folder(path: Path, recorded: Recorded) -> None:
    """Make an empty store whose recorded format is `recorded`."""
    path.mkdir(exist_ok=True)
    (path / "format.json").write_text(json.dumps(recorded))
    plyvel.DB(str(path / "leveldb"), create_if_missing=True).close()


def recorded_of(path: Path) -> object:
    """Return the format recorded in a folder."""
    return json.loads((path / "format.json").read_bytes())

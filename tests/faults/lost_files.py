"""Files that are lost or cut between two runs, and which of these losses must be detected.

`docs/promises.md` names the losses that may go unnoticed.
"""

from pathlib import Path
from random import Random

from tables.leveldb_files import read_manifest


def is_told(folder: Path, changed: Path, *, is_cut: bool) -> bool:
    """Whether the loss or cut of `changed`, a path in `folder`, must be detected."""
    oldest_log = read_manifest(folder / "leveldb").oldest_log
    if changed.suffix != ".log" or int(changed.stem) < oldest_log:
        return True
    return not is_cut and int(changed.stem) == oldest_log


def lose_a_file(folder: Path, chance: Random) -> str:
    """Remove or cut a file at random; return its name, and how much remains."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    while True:
        path, is_cut = chance.choice(files), chance.random() < 0.5
        if is_told(folder, path, is_cut=is_cut):
            break
    size = path.stat().st_size
    left = chance.randrange(size) if is_cut and size else 0
    if is_cut:
        path.write_bytes(path.read_bytes()[:left])
    else:
        path.unlink()
    return f"{path.name}, {left} of {size} bytes of which are left"

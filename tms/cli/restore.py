"""`tms restore`: a backup as a data folder. If it is stopped, the next run continues."""

import time
from pathlib import Path
from typing import Annotated

import typer

from tms.cli.backup import size_text
from tms.cli.configured import answering
from tms.cli.progress import drawing
from tms.cli.target import JsonOption
from tms.core.values.backups import IN_THE_STORE

EXAMPLES = """\b
Examples:
  tms restore /backups/tms/monday /var/lib/tms
  tms restore s3://bucket/tms/monday /var/lib/tms

No server is needed. The folder must have no store; the backup is only read. The files are compared
with the digests in the backup, and the store is opened once.

Exit codes: 0 restored; 1 damaged backup or a store in the folder; 3 no backup there."""

BackupArgument = Annotated[
    str, typer.Argument(metavar="BACKUP", help="The backup: its folder, or its URL.")
]
FolderArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="The data folder; it is created.")
]


def restore(
    context: typer.Context,
    backup: BackupArgument,
    folder: FolderArgument,
    as_json: JsonOption = False,  # noqa: FBT002  typer's way to say what a flag is
) -> None:
    """Restore a backup as a data folder, in which a server can start."""
    from tms.server.jobs import restore_backup  # noqa: PLC0415  the whole server

    began = time.monotonic()
    with drawing("restoring", "bytes", None) as draw:
        manifest = restore_backup(
            backup, folder, lambda done, size: draw(completed=done, total=size)
        )
    metadata = manifest["metadata"]
    facts = {
        "folder": str(folder),
        "backup": manifest["name"],
        "created_ms": manifest["created_ms"],
        "bytes": sum(each["bytes"] for each in manifest["shards"][0]["files"].values()),
        "metadata": metadata,
        "seconds": round(time.monotonic() - began, 3),
    }
    lines = [
        f"Restored {size_text(facts['bytes'])} in {folder}, after {facts['seconds']:.1f} s.",
        f"Start a server there: tms serve --store leveldb:{folder}",
    ]
    if metadata != IN_THE_STORE:
        lines.append(
            f"Namespaces, rules and tokens are not in the backup; they were in {metadata}."
        )
    answering(context, as_json=as_json).answer("\n".join(lines), facts)

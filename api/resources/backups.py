"""Backups of the server's store over REST: taken, listed, verified and deleted."""

from functools import partial

from api.http.exchange import JSON_TYPE, OK, Exchange
from api.http.operation import Json, Operation
from api.http.query_parameters import values_of, wait_of
from api.openapi.parts import TIMESTAMP, json_content, query_wait
from api.openapi.structs import answer_of
from api.resources.paths import BACKUPS
from api.resources.superusers import check_superuser
from tms.core.errors import BackupRefused
from tms.core.values.backups import Backups, BackupsState, BackupWork, Work
from tms.security.resources import Action
from tms.wire.json_values import encode

_BACKUP = f"{BACKUPS}/{{backup}}"
_WAIT = query_wait("How many seconds to wait for the end.")
_OF_WORK = {
    "BackupWork.done_bytes": "The bytes of files that are done.",
    "BackupWork.all_bytes": "The bytes of all files; 0 until they are counted.",
    "BackupWork.rows": "The rows that were read to verify the backup.",
    "BackupWork.failure": "Why it failed; null if it did not.",
}
_STATE = answer_of(
    BackupsState,
    {
        "BackupsState.backups": "The oldest first. A backup whose manifest cannot be read has only "
        "a name.",
        "BackupsState.last": "The work in progress, or the last since the server started.",
        "Backup.created_ms": "In milliseconds since 1970.",
        "Backup.new_bytes": "The bytes of files that no earlier backup has.",
        "Backup.paused_ms": "For how many milliseconds publishers had to wait.",
        "Backup.metadata": "Where namespaces, rules and tokens were: `in the store`, and so in "
        "the backup, or the URL of a metadata store, which this backup does not contain.",
        "Backup.version": "The version of TMS that took it.",
        **_OF_WORK,
    },
)
_WORK = answer_of(BackupWork, _OF_WORK)
_DONE: Json = {
    "name": "monday",
    "work": "backup",
    "stage": "done",
    "seconds": 0.4,
    "done_bytes": 1200,
    "all_bytes": 1200,
    "rows": None,
    "failure": None,
}
_EXAMPLE: Json = {
    "folder": "/backups/tms",
    "backups": [
        {
            "name": "monday",
            "created_ms": TIMESTAMP,
            "bytes": 1200,
            "new_bytes": 1200,
            "paused_ms": 0.8,
            "metadata": "in the store",
            "version": "0.1.0",
        }
    ],
    "last": _DONE,
}


def _backups_of(exchange: Exchange) -> Backups:
    """Return the server's backups for a superuser. Raises `NotPermitted`, `BackupRefused`."""
    check_superuser(exchange)
    backups = exchange.context.backups
    if backups is None:
        raise BackupRefused("backup_unsupported")
    return backups


async def show(exchange: Exchange) -> None:
    """Answer with the list of backups."""
    state = await _backups_of(exchange).state()
    await exchange.answer(OK, encode(state), JSON_TYPE)


async def _start(work: Work, exchange: Exchange) -> None:
    backups = _backups_of(exchange)
    wait_s = wait_of(values_of(exchange.query), exchange.context.limits.poll_wait_s_max)
    exchange.waited = wait_s > 0
    started = await backups.start(work, exchange.names["backup"], wait_s)
    await exchange.answer(OK, encode(started), JSON_TYPE)


async def delete(exchange: Exchange) -> None:
    """Delete a backup."""
    await _backups_of(exchange).delete(exchange.names["backup"])
    await exchange.answer(OK)


_REFUSALS = ("backup_off", "backup_unsupported", "backups_unreachable")
_OF_ONE = ("invalid_backup_name", "backup_running", *_REFUSALS)
_FOR_SUPERUSERS = "With authentication, only superusers may do this."

_row = partial(Operation, action=Action.OPERATE, tag="Server", is_always_audited=True)
OPERATIONS = (
    _row(
        name="listBackups",
        method="GET",
        path=BACKUPS,
        handler=show,
        summary="List the backups of the server's store",
        description=_FOR_SUPERUSERS,
        success="The backups.",
        answer=json_content(_STATE, backups=_EXAMPLE),
        errors=_REFUSALS,
    ),
    _row(
        name="takeBackup",
        method="PUT",
        path=_BACKUP,
        handler=partial(_start, Work.BACKUP),
        summary="Back up the store while the server serves",
        description="The backup has everything that was acknowledged before the request. It is "
        f"taken in the server's `backup_folder`, a folder or a URL. {_FOR_SUPERUSERS}",
        query=(_WAIT,),
        success="The backup is complete if `stage` is `done`; the server goes on with a running "
        "one.",
        answer=json_content(_WORK, work=_DONE),
        errors=("invalid_wait", "backup_exists", *_OF_ONE),
    ),
    _row(
        name="verifyBackup",
        method="POST",
        path=f"{_BACKUP}/verify",
        handler=partial(_start, Work.VERIFY),
        summary="Compare a backup with its digests, open it, and read all its rows",
        description=_FOR_SUPERUSERS,
        query=(_WAIT,),
        success="The backup is intact if `stage` is `done`.",
        answer=json_content(_WORK, work={**_DONE, "work": "verify", "rows": 12}),
        errors=("invalid_wait", "backup_not_found", *_OF_ONE),
    ),
    _row(
        name="deleteBackup",
        method="DELETE",
        path=_BACKUP,
        handler=delete,
        summary="Delete a backup",
        description=_FOR_SUPERUSERS,
        success="The backup is deleted.",
        errors=("backup_not_found", *_OF_ONE),
    ),
)

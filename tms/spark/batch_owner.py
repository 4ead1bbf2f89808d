"""The owner and sequence that identify a batch of rows to the server, so it is written once.

Guarantees that the same work has the same owner in every Spark process; that topics never share an
owner, so the rows of one never count as those of another; and that only the last batch counts as a
duplicate: an earlier number means that a stream's checkpoint was reset, so its rows may be new.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

from tms.core.errors import CheckpointBehind, TransactionDuplicate
from tms.core.limits import NAME_CHARS_MAX
from tms.spark.option_types import WriteOptions
from tms.spark.server import SparkServer

BATCH_ORIGIN = "spark batch"
"""The origin of commits by `df.write`: any run that repeats one does the same work."""
_ROWS_SAY = "*"
"""Stands for the topic if each row names its own; it is not a valid topic name."""


@dataclass(frozen=True)
class BatchOwner:
    """The owner of a batch's work, as in transactions."""

    owner: str
    sequence: int
    origin: str
    former: str | None = None
    """The owner of the same work in earlier versions, which ignored its topic."""


def named_owner(options: WriteOptions, sequence: int, origin: str) -> BatchOwner:
    """Return the owner of a batch with a `txnAppId`."""
    app = options.owner
    assert app is not None
    owner = f"{app}/{options.connection.namespace}:{options.topic or _ROWS_SAY}"
    if len(owner) > NAME_CHARS_MAX:
        owner = f"sha256:{hashlib.sha256(owner.encode()).hexdigest()}"
    return BatchOwner(owner, sequence, origin, app)


def start(server: SparkServer, options: WriteOptions, work: BatchOwner | None) -> int:
    """Return the id of the work's transaction. Raises `TransactionDuplicate`, `OwnerElsewhere`."""
    if work is None:
        return server.start(options.timeout_s, home=options.topic)
    if work.former is not None:
        # After an upgrade, a job may repeat a batch that it committed under the former name.
        server.check_not_done(work.former, work.sequence, work.origin, home=options.topic)
    return server.start(
        options.timeout_s, work.owner, work.sequence, work.origin, home=options.topic
    )


def check_is_last(duplicate: TransactionDuplicate, **where: Any) -> None:
    """Raise `CheckpointBehind` unless a committed batch of a stream is its last one.

    The error has `where`, its origin, and both batches.
    """
    facts = duplicate.detail
    if facts["committed_sequence"] > facts["sequence"]:
        batches = {"batch": facts["sequence"], "last_batch": facts["committed_sequence"]}
        raise CheckpointBehind(**where, owner=facts["owner"], **batches) from None

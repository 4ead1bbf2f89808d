"""By which owner and sequence the server knows a batch of rows, so that it is written once.

Guarantees that the same work has the same owner in each process of Spark's; that two topics never
share an owner, so that none takes the other's rows as done; and that a duplicate is one only if it
is the last batch: an earlier number means that a stream's checkpoint has gone back, and then its
rows may be new.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

from tms.core.errors import CheckpointBehind, TransactionDuplicate
from tms.core.limits import NAME_CHARS_MAX
from tms.spark.option_types import WriteOptions
from tms.spark.server import SparkServer

BATCH_ORIGIN = "spark batch"
"""The origin of what `df.write` commits: repeated by whichever run, it is the same work."""
_ROWS_SAY = "*"
"""Stands for the topic if each row names its own; no topic has this name."""


@dataclass(frozen=True)
class BatchOwner:
    """The owner of a batch's work, as transactions name it."""

    owner: str
    sequence: int
    origin: str
    former: str | None = None
    """The owner that earlier versions gave the same work, whatever its topic."""


def named_owner(options: WriteOptions, sequence: int, origin: str) -> BatchOwner:
    """Return whose work a batch of a `txnAppId` is."""
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
        # A job that was upgraded may repeat a batch that it committed under the former name.
        server.check_not_done(work.former, work.sequence, work.origin, home=options.topic)
    return server.start(
        options.timeout_s, work.owner, work.sequence, work.origin, home=options.topic
    )


def check_is_last(done: TransactionDuplicate, **where: Any) -> None:
    """Raise `CheckpointBehind` unless a stream's batch that is done is the last that was.

    The error has `where` it came from, and both batches.
    """
    facts = done.detail
    if facts["committed_sequence"] > facts["sequence"]:
        batches = {"batch": facts["sequence"], "last_batch": facts["committed_sequence"]}
        raise CheckpointBehind(**where, owner=facts["owner"], **batches) from None

"""Errors of requests that the present state forbids."""

from tms.core.errors.catalogue import at
from tms.core.errors.requests import RequestError


class Conflict(RequestError):
    """Raised when a valid request is forbidden by the present state."""

    code = "topic_exists"


class TopicExists(Conflict):
    problems = at(409, topic_exists="A topic with this name exists already.")


class TopicMoved(Conflict):
    """Raised by a publish with `if_last` if the topic has an entry after that id.

    `detail` has the id of the last entry as `last_id`, None if the topic has no entry.
    """

    problems = at(
        409,
        topic_moved="The topic has entries after the id in if_last; read them, and decide again.",
    )


class TransactionExpired(Conflict):
    problems = at(
        409,
        transaction_expired="The transaction is older than the longest lifetime of a transaction.",
    )


class TransactionNotInProgress(Conflict):
    """Raised when a transaction has ended; `detail` has its status."""

    problems = at(409, transaction_not_in_progress="The transaction has ended.")


class TransactionConflict(Conflict):
    problems = at(
        409,
        transaction_conflict=(
            "Another transaction changed the same and committed; run this one again."
        ),
    )


class TransactionDuplicate(Conflict):
    """Raised when the owner's sequence was committed before: the work is done."""

    problems = at(409, transaction_duplicate="This sequence of the owner was committed before.")


class OwnerBusy(Conflict):
    problems = at(
        409, owner_busy="An older transaction of this owner is still open; fence it or join it."
    )


class OwnerElsewhere(Conflict):
    """Raised when an owner's sequence was committed by another origin; `detail` names both."""

    problems = at(
        409,
        owner_elsewhere=(
            "Another run of this owner committed this sequence or a later one; use another owner."
        ),
    )


class CheckpointBehind(Conflict):
    """Raised when a stream has written a later batch than its checkpoint has; `detail` has both."""

    problems = at(
        409,
        checkpoint_behind=(
            "The stream has already written a later batch: its checkpoint was set back, so new "
            "rows would count as written. Restore the newest checkpoint, or start with a new "
            "checkpoint and without this txnAppId."
        ),
    )


class PublicationRefused(Conflict):
    problems = at(
        409,
        publication_refused=(
            "A commit publishes only messages stored under its transaction's write pointers, each "
            "once."
        ),
    )


class InvalidTrimTime(Conflict):
    problems = at(409, invalid_trim_time="The time to trim before must be in the past.")


class TopicIsCompact(Conflict):
    problems = at(
        409,
        topic_is_compact=(
            "Messages cannot be stored for a compact topic: publish them in the transaction."
        ),
    )


class InvalidTruncateTime(Conflict):
    problems = at(
        409,
        invalid_truncate_time="A transaction that started before that time is still in progress.",
    )


class ClockMoved(Conflict):
    problems = at(
        409,
        clock_moved=(
            "The clock has no doubtful step of that size; look at it again before you accept."
        ),
    )


class BackupRefused(Conflict):
    """Raised when a server cannot take or delete a backup now."""

    code = "backup_off"
    problems = at(
        409,
        backup_off=(
            "The server has no place for backups: give it the setting backup_folder, and restart."
        ),
        backup_unsupported=(
            "A server backs up only a store in a folder. For HBase take a snapshot of each table "
            "with HBase's own tools; docs/backup.md has the steps."
        ),
        backup_exists="There is a backup with this name already.",
        backup_running="The server is at work on another backup; try again when that is done.",
    )


class TransactionsElsewhere(Conflict):
    problems = at(
        409,
        transactions_elsewhere=(
            "This server takes the write pointers of another transaction manager."
        ),
    )


class SubscriptionExists(Conflict):
    problems = at(409, subscription_exists="The topic already has a subscription with this name.")


class SubscriptionMoved(Conflict):
    """Raised when a position has another version than expected; `detail` gives both."""

    problems = at(
        409, subscription_moved="The subscription was moved: it does not have the expected version."
    )


class SubscriptionIsShared(Conflict):
    problems = at(
        409,
        subscription_is_shared=(
            "The subscription is a group, which has no position: take its messages and settle "
            "them. A group is changed and deleted as one."
        ),
    )


class SubscriptionIsSingle(Conflict):
    problems = at(
        409,
        subscription_is_single=(
            "The subscription is the position of one reader: poll from it, and move it, instead of"
            " taking."
        ),
    )


class AckRefused(Conflict):
    """Raised when a commit acknowledges messages and some are refused; then nothing was done.

    `detail` lists them in `refused`, each with `delivery`, `id` and `reason`.
    """

    problems = at(
        409,
        ack_refused=(
            "A message cannot be acknowledged, so nothing was done; `detail` names those that were"
            " refused, and why."
        ),
    )


class LeaseLost(Conflict):
    """Raised by a client when its member no longer holds a message that it acknowledges.

    `detail` has `id`, `delivery` and `reason`, as `tms.core.values.groups.Refusal` names them.
    """

    problems = at(
        409,
        lease_lost=(
            "The message is not acknowledged, because its lease has ended and another member may "
            "have it; `detail` says why."
        ),
    )


class OtherShard(Conflict):
    """Raised when a transaction, or one request, uses topics of several shards.

    `detail` has the `topic` and its `topic_shard`, and the `transaction_id` if there is one with
    its `transaction_shard`.
    """

    problems = at(
        409,
        other_shard=(
            "The topic is in another shard than the transaction, or than another topic of the "
            "request; use one namespace, or name the topic when the transaction starts."
        ),
    )


class StoreFormatOld(Conflict):
    problems = at(
        409,
        store_format_old=(
            "Servers of the cluster are registered that do not know this feature of the store; "
            "update them, or stop them, and try again."
        ),
    )


class BadVersion(Conflict):
    problems = at(409, bad_version="The value at this path does not have the expected version.")


class PathExists(Conflict):
    problems = at(409, path_exists="There is already a value at this path.")


class PathHasChildren(Conflict):
    problems = at(409, path_has_children="There are other paths below this path.")


class LockBusy(Conflict):
    problems = at(409, lock_busy="Somebody else holds this lock.")


class AuthenticationOff(Conflict):
    problems = at(
        409,
        authentication_off=(
            "Everybody may do everything; to use rules, start the server with --auth."
        ),
    )


class NoMetadataStore(Conflict):
    problems = at(
        409, no_metadata_store="The server has no metadata store: start it with --metadata."
    )


class RollbackRefused(Conflict):
    """Raised when a range to roll back holds entries of other writers, or of an earlier leader."""

    code = "rollback_refused"
    problems = at(
        409,
        rollback_refused="The range contains only entries of other writers.",
        rollback_of_earlier_leader="An earlier leader published this; invalidate the transaction.",
    )

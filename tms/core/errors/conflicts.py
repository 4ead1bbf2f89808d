"""The exceptions of requests that the present state forbids: 409."""

from tms.core.errors.classes import RequestError


class Conflict(RequestError):
    """Raised when a well formed request is forbidden by the present state."""

    code = "topic_exists"


class TopicExists(Conflict):
    """Raised when a topic with that name exists already."""


class TopicMoved(Conflict):
    """Raised by a publish with `if_last` if the topic has an entry after that id.

    `detail` has the id of the last entry as `last_id`, None if the topic has no entry.
    """

    code = "topic_moved"


class TransactionExpired(Conflict):
    """Raised when a write pointer is older than the longest lifetime of a transaction."""

    code = "transaction_expired"


class TransactionNotInProgress(Conflict):
    """Raised when a transaction has ended; `detail` has its status."""

    code = "transaction_not_in_progress"


class TransactionConflict(Conflict):
    """Raised when a transaction that committed meanwhile changed the same; run it again."""

    code = "transaction_conflict"


class TransactionDuplicate(Conflict):
    """Raised when the owner's sequence was committed before: the work is done."""

    code = "transaction_duplicate"


class OwnerBusy(Conflict):
    """Raised when an older transaction of the same owner is still open."""

    code = "owner_busy"


class OwnerElsewhere(Conflict):
    """Raised when an owner's sequence was committed by another origin; `detail` names both."""

    code = "owner_elsewhere"


class CheckpointBehind(Conflict):
    """Raised when a stream has written a later batch than its checkpoint has; `detail` has both."""

    code = "checkpoint_behind"


class PublicationRefused(Conflict):
    """Raised when a commit publishes messages that its transaction has not stored."""

    code = "publication_refused"


class InvalidTrimTime(Conflict):
    """Raised when the time to trim a topic before is in the future."""

    code = "invalid_trim_time"


class TopicIsCompact(Conflict):
    """Raised when messages are stored for a compact topic."""

    code = "topic_is_compact"


class InvalidTruncateTime(Conflict):
    """Raised when a transaction from before that time is still in progress."""

    code = "invalid_truncate_time"


class ClockMoved(Conflict):
    """Raised when the accepted step of the clock has changed in the meantime, or is over."""

    code = "clock_moved"


class TransactionsElsewhere(Conflict):
    """Raised when this server takes the write pointers of another transaction manager."""

    code = "transactions_elsewhere"


class SubscriptionExists(Conflict):
    """Raised when a subscription with that name exists already."""

    code = "subscription_exists"


class SubscriptionMoved(Conflict):
    """Raised when a position has another version than expected; `detail` gives both."""

    code = "subscription_moved"


class SubscriptionIsShared(Conflict):
    """Raised when the position of a group is asked for, or moved: it has none."""

    code = "subscription_is_shared"


class SubscriptionIsSingle(Conflict):
    """Raised when a subscription with one reader is used as a group."""

    code = "subscription_is_single"


class AckRefused(Conflict):
    """Raised when a commit acknowledges messages and some are refused: then nothing was done.

    `detail` has them as `refused`: a list of `delivery`, `id` and `reason`.
    """

    code = "ack_refused"


class LeaseLost(Conflict):
    """Raised by a client when a message cannot be acknowledged: its member does not have it now.

    `detail` has `id`, `delivery` and `reason`, as `tms.core.groups.Refusal` names them.
    """

    code = "lease_lost"


class OtherShard(Conflict):
    """Raised when a transaction, or one request, uses topics of several shards.

    `detail` has the `topic` and its `topic_shard`, and the `transaction_id` if there is one with
    its `transaction_shard`.
    """

    code = "other_shard"


class StoreFormatOld(Conflict):
    """Raised when a feature of the store is used first that a registered server does not know."""

    code = "store_format_old"


class BadVersion(Conflict):
    """Raised when a path does not have the expected version, or exists, or does not exist."""

    code = "bad_version"


class PathExists(Conflict):
    """Raised when a path of the metadata store exists already."""

    code = "path_exists"


class PathHasChildren(Conflict):
    """Raised when a path cannot be deleted because it has others below it."""

    code = "path_has_children"


class LockBusy(Conflict):
    """Raised when somebody else holds a lock."""

    code = "lock_busy"


class AuthenticationOff(Conflict):
    """Raised when rules are used at a server without authentication."""

    code = "authentication_off"


class NoMetadataStore(Conflict):
    """Raised when a request needs a metadata store and the server has none."""

    code = "no_metadata_store"


class RollbackRefused(Conflict):
    """Raised when a range to roll back holds entries of other writers, or of an earlier leader."""

    code = "rollback_refused"

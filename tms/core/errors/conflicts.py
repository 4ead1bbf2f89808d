"""The exceptions of requests that the present state forbids: 409."""

from tms.core.errors.classes import RequestError


class Conflict(RequestError):
    """Raised when a well formed request is forbidden by the present state."""

    code = "topic_exists"


class TopicExists(Conflict):
    """Raised when a topic is created that exists already."""


class TopicMoved(Conflict):
    """Raised by a publish with `if_last` if the topic has an entry behind that id.

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
    """Raised when a commit is to publish what is not under a write pointer of its transaction."""

    code = "publication_refused"


class InvalidTrimTime(Conflict):
    """Raised when a topic is to be trimmed before a time that has not come."""

    code = "invalid_trim_time"


class TopicIsCompact(Conflict):
    """Raised when messages are to be stored for a compact topic."""

    code = "topic_is_compact"


class InvalidTruncateTime(Conflict):
    """Raised when a transaction from before that time is still in progress."""

    code = "invalid_truncate_time"


class ClockMoved(Conflict):
    """Raised when a step of the clock is accepted that is another one by now, or is over."""

    code = "clock_moved"


class TransactionsElsewhere(Conflict):
    """Raised when this server takes the write pointers of another transaction manager."""

    code = "transactions_elsewhere"


class SubscriptionExists(Conflict):
    """Raised when a subscription is created that exists already."""

    code = "subscription_exists"


class SubscriptionMoved(Conflict):
    """Raised when a position has another version than expected; `detail` gives both."""

    code = "subscription_moved"


class BadVersion(Conflict):
    """Raised when a path has another version than expected, or is there, or is not."""

    code = "bad_version"


class PathExists(Conflict):
    """Raised when a path of the metadata store is created that exists already."""

    code = "path_exists"


class PathHasChildren(Conflict):
    """Raised when a path is deleted that has others below it."""

    code = "path_has_children"


class LockBusy(Conflict):
    """Raised when somebody else holds a lock, or has come to hold it."""

    code = "lock_busy"


class AuthenticationOff(Conflict):
    """Raised when rules are asked of a server that asks nobody who they are."""

    code = "authentication_off"


class NoMetadataStore(Conflict):
    """Raised when a server that has no metadata store is to keep something in it."""

    code = "no_metadata_store"


class RollbackRefused(Conflict):
    """Raised when a range to roll back holds entries of other writers, or of an earlier leader."""

    code = "rollback_refused"

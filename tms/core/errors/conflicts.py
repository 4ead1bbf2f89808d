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


class TransactionExpired(Conflict):
    """Raised when a write pointer is older than the longest lifetime of a transaction."""


class TransactionNotInProgress(Conflict):
    """Raised when a transaction has ended; `detail` has its status."""


class TransactionConflict(Conflict):
    """Raised when a transaction that committed meanwhile changed the same; run it again."""


class TransactionDuplicate(Conflict):
    """Raised when the owner's sequence was committed before: the work is done."""


class OwnerBusy(Conflict):
    """Raised when an older transaction of the same owner is still open."""


class OwnerElsewhere(Conflict):
    """Raised when an owner's sequence was committed by another origin; `detail` names both."""


class CheckpointBehind(Conflict):
    """Raised when a stream has written a later batch than its checkpoint has; `detail` has both."""


class PublicationRefused(Conflict):
    """Raised when a commit publishes messages that its transaction has not stored."""


class InvalidTrimTime(Conflict):
    """Raised when the time to trim a topic before is in the future."""


class TopicIsCompact(Conflict):
    """Raised when messages are stored for a compact topic."""


class InvalidTruncateTime(Conflict):
    """Raised when a transaction from before that time is still in progress."""


class ClockMoved(Conflict):
    """Raised when the accepted step of the clock has changed in the meantime, or is over."""


class TransactionsElsewhere(Conflict):
    """Raised when this server takes the write pointers of another transaction manager."""


class SubscriptionExists(Conflict):
    """Raised when a subscription with that name exists already."""


class SubscriptionMoved(Conflict):
    """Raised when a position has another version than expected; `detail` gives both."""


class SubscriptionIsShared(Conflict):
    """Raised when the position of a group is asked for, or moved: it has none."""


class SubscriptionIsSingle(Conflict):
    """Raised when a subscription with one reader is used as a group."""


class AckRefused(Conflict):
    """Raised when a commit acknowledges messages and some are refused: then nothing was done.

    `detail` has them as `refused`: a list of `delivery`, `id` and `reason`.
    """


class LeaseLost(Conflict):
    """Raised by a client when a message cannot be acknowledged: its member does not have it now.

    `detail` has `id`, `delivery` and `reason`, as `tms.core.groups.Refusal` names them.
    """


class OtherShard(Conflict):
    """Raised when a transaction, or one request, uses topics of several shards.

    `detail` has the `topic` and its `topic_shard`, and the `transaction_id` if there is one with
    its `transaction_shard`.
    """


class StoreFormatOld(Conflict):
    """Raised when a feature of the store is used first that a registered server does not know."""


class BadVersion(Conflict):
    """Raised when a path does not have the expected version, or exists, or does not exist."""


class PathExists(Conflict):
    """Raised when a path of the metadata store exists already."""


class PathHasChildren(Conflict):
    """Raised when a path cannot be deleted because it has others below it."""


class LockBusy(Conflict):
    """Raised when somebody else holds a lock."""


class AuthenticationOff(Conflict):
    """Raised when rules are used at a server without authentication."""


class NoMetadataStore(Conflict):
    """Raised when a request needs a metadata store and the server has none."""


class RollbackRefused(Conflict):
    """Raised when a range to roll back holds entries of other writers, or of an earlier leader."""

    code = "rollback_refused"

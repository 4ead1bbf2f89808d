"""The rows of the catalogue for 409, by class: the present state forbids what is asked.

Codes are part of the REST interface: never change or reuse one.
"""

from collections.abc import Mapping

CONFLICT_PROBLEMS: Mapping[str, Mapping[str, str]] = {
    "TopicExists": {"topic_exists": "A topic with this name exists already."},
    "TopicMoved": {
        "topic_moved": (
            "The topic has entries after the id in if_last; read them, and decide again."
        ),
    },
    "TransactionExpired": {
        "transaction_expired": (
            "The transaction is older than the longest lifetime of a transaction."
        ),
    },
    "TransactionNotInProgress": {"transaction_not_in_progress": "The transaction has ended."},
    "TransactionConflict": {
        "transaction_conflict": (
            "Another transaction changed the same and committed; run this one again."
        ),
    },
    "TransactionDuplicate": {
        "transaction_duplicate": "This sequence of the owner was committed before.",
    },
    "OwnerBusy": {
        "owner_busy": "An older transaction of this owner is still open; fence it or join it.",
    },
    "OwnerElsewhere": {
        "owner_elsewhere": (
            "Another run of this owner committed this sequence or a later one; use another owner."
        ),
    },
    "CheckpointBehind": {
        "checkpoint_behind": (
            "The stream has already written a later batch: its checkpoint was set back, so new "
            "rows would count as written. Restore the newest checkpoint, or start with a new "
            "checkpoint and without this txnAppId."
        ),
    },
    "PublicationRefused": {
        "publication_refused": (
            "A commit publishes only messages stored under its transaction's write pointers, "
            "each once."
        ),
    },
    "InvalidTrimTime": {
        "invalid_trim_time": "The time to trim before must be in the past.",
    },
    "TopicIsCompact": {
        "topic_is_compact": (
            "Messages cannot be stored for a compact topic: publish them in the transaction."
        ),
    },
    "InvalidTruncateTime": {
        "invalid_truncate_time": (
            "A transaction that started before that time is still in progress."
        ),
    },
    "ClockMoved": {
        "clock_moved": (
            "The clock has no doubtful step of that size; look at it again before you accept."
        ),
    },
    "TransactionsElsewhere": {
        "transactions_elsewhere": (
            "This server takes the write pointers of another transaction manager."
        ),
    },
    "SubscriptionExists": {
        "subscription_exists": "The topic already has a subscription with this name.",
    },
    "SubscriptionMoved": {
        "subscription_moved": (
            "The subscription was moved: it does not have the expected version."
        ),
    },
    "SubscriptionIsShared": {
        "subscription_is_shared": (
            "The subscription is a group, which has no position: take its messages and settle "
            "them. A group is changed and deleted as one."
        ),
    },
    "SubscriptionIsSingle": {
        "subscription_is_single": (
            "The subscription is the position of one reader: poll from it, and move it, "
            "instead of taking."
        ),
    },
    "AckRefused": {
        "ack_refused": (
            "A message cannot be acknowledged, so nothing was done; `detail` names those that "
            "were refused, and why."
        ),
    },
    "LeaseLost": {
        "lease_lost": (
            "The message is not acknowledged, because its lease has ended and another member may "
            "have it; `detail` says why."
        ),
    },
    "OtherShard": {
        "other_shard": (
            "The topic is in another shard than the transaction, or than another topic of the "
            "request; use one namespace, or name the topic when the transaction starts."
        ),
    },
    "StoreFormatOld": {
        "store_format_old": (
            "Servers of the cluster are registered that do not know this feature of the store; "
            "update them, or stop them, and try again."
        ),
    },
    "BadVersion": {
        "bad_version": "The value at this path does not have the expected version.",
    },
    "PathExists": {"path_exists": "There is already a value at this path."},
    "PathHasChildren": {"path_has_children": "There are other paths below this path."},
    "LockBusy": {"lock_busy": "Somebody else holds this lock."},
    "AuthenticationOff": {
        "authentication_off": (
            "Everybody may do everything; to use rules, start the server with --auth."
        ),
    },
    "NoMetadataStore": {
        "no_metadata_store": "The server has no metadata store: start it with --metadata.",
    },
    "RollbackRefused": {
        "rollback_refused": "The range contains only entries of other writers.",
        "rollback_of_earlier_leader": (
            "An earlier leader published this; invalidate the transaction."
        ),
    },
    "CopyRefused": {"copy_refused": "The stores cannot be copied now; `detail` says why."},
}

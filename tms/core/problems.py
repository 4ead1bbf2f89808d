"""The catalogue of what can go wrong: each code once, with its status and its text.

REST bodies, the OpenAPI document and the client's exceptions are all made from it; which exception
a code is raised as is told by name, for `tms.core.errors` has them.
"""

from tms.core.problem import Problem
from tms.core.request_problems import REQUEST_PROBLEMS


def _catalogue(*problems: Problem) -> dict[str, Problem]:
    by_code = {problem.code: problem for problem in problems}
    if len(by_code) != len(problems):
        raise AssertionError("a code stands twice in the catalogue")
    return by_code


# Codes are part of the REST interface: never change or reuse one.
CATALOGUE = _catalogue(
    *REQUEST_PROBLEMS,
    Problem("topic_exists", 409, "A topic of this name exists already.", "TopicExists"),
    Problem(
        "transaction_expired",
        409,
        "The transaction is older than the longest lifetime of a transaction.",
        "TransactionExpired",
    ),
    Problem(
        "transaction_not_in_progress",
        409,
        "The transaction has ended.",
        "TransactionNotInProgress",
    ),
    Problem(
        "transaction_conflict",
        409,
        "A transaction that committed meanwhile changed the same; run this one again.",
        "TransactionConflict",
    ),
    Problem(
        "transaction_duplicate",
        409,
        "The owner's sequence was committed before.",
        "TransactionDuplicate",
    ),
    Problem(
        "owner_busy",
        409,
        "An older transaction of this owner is open; fence it or join it.",
        "OwnerBusy",
    ),
    Problem(
        "owner_elsewhere",
        409,
        "The owner committed this sequence, or a later one, in another run; take another owner.",
        "OwnerElsewhere",
    ),
    Problem(
        "publication_refused",
        409,
        "A commit publishes what was stored under its transaction's write pointers, each once.",
        "PublicationRefused",
    ),
    Problem(
        "invalid_truncate_time",
        409,
        "A transaction from before that time is in progress.",
        "InvalidTruncateTime",
    ),
    Problem(
        "transactions_elsewhere",
        409,
        "This server takes the write pointers of another transaction manager.",
        "TransactionsElsewhere",
    ),
    Problem(
        "subscription_exists",
        409,
        "The topic has a subscription of this name already.",
        "SubscriptionExists",
    ),
    Problem(
        "subscription_moved",
        409,
        "The subscription has moved on from the version that was expected.",
        "SubscriptionMoved",
    ),
    Problem(
        "bad_version",
        409,
        "The value at this path has another version than was expected.",
        "BadVersion",
    ),
    Problem("path_exists", 409, "There is a value at this path already.", "PathExists"),
    Problem("path_has_children", 409, "There are paths below this one.", "PathHasChildren"),
    Problem("lock_busy", 409, "Somebody else holds this lock.", "LockBusy"),
    Problem(
        "no_metadata_store",
        409,
        "The server has nothing to keep this in: start it with --metadata.",
        "NoMetadataStore",
    ),
    Problem(
        "rollback_refused",
        409,
        "The range holds only entries of other writers.",
        "RollbackRefused",
    ),
    Problem(
        "data_lost",
        410,
        "Messages that were to be read are gone, or may be; failOnDataLoss=false goes on all the "
        "same.",
        "DataLost",
    ),
    Problem(
        "head_too_large",
        431,
        "The headers of the request are over the cap; send fewer, or shorter ones.",
        "TooLarge",
    ),
    Problem(
        "request_too_compressed",
        413,
        "The body is far longer than what was sent of it; send it in parts, or less compressed.",
        "TooLarge",
    ),
    Problem("request_too_large", 413, "The body is over the cap for a request.", "TooLarge"),
    Problem("message_too_large", 413, "A message is over the cap for a message.", "TooLarge"),
    Problem(
        "message_over_namespace_limit",
        413,
        "A message is over the limit of its namespace; publish a smaller one, or raise the limit "
        "with `tms namespace set`.",
        "TooLarge",
    ),
    Problem(
        "request_over_namespace_limit",
        413,
        "The messages are together over the limit of their namespace; publish fewer at a time, or "
        "raise the limit with `tms namespace set`.",
        "TooLarge",
    ),
    Problem("too_many_messages", 413, "The request has more messages than one may.", "TooLarge"),
    Problem("too_many_topics", 413, "The request names more topics than one may.", "TooLarge"),
    Problem(
        "too_many_topics_at_once",
        413,
        "The request is about more topics than are kept in memory; name fewer, or raise the "
        "server's setting topics_in_memory_max.",
        "TooLarge",
    ),
    Problem("too_many_changes", 413, "The transaction has more changes than one may.", "TooLarge"),
    Problem(
        "too_many_subscriptions",
        413,
        "The topic has as many subscriptions as one may.",
        "TooLarge",
    ),
    Problem(
        "topic_limit_reached",
        413,
        "There are as many topics as there may be; delete one, or raise `--topics-max`.",
        "TooLarge",
    ),
    Problem(
        "namespace_limit_reached",
        413,
        "As many namespaces have settings as may; delete those of one, or raise "
        "`--namespaces-max`.",
        "TooLarge",
    ),
    Problem(
        "topic_properties_too_large",
        413,
        "A topic's properties are together over the cap; keep less with it, or raise "
        "`--topic-properties-bytes-max`.",
        "TooLarge",
    ),
    Problem("value_too_large", 413, "The value is over the cap for a value.", "TooLarge"),
    Problem(
        "too_many_checkpoints",
        413,
        "The transaction has more checkpoints than one may.",
        "TooLarge",
    ),
    Problem(
        "unsupported_content_type",
        415,
        "Send Content-Type: application/json or avro/binary; messages also as Arrow's "
        "application/vnd.apache.arrow.stream.",
        "InvalidRequest",
    ),
    Problem(
        "unsupported_content_encoding",
        415,
        "The only Content-Encoding taken is gzip.",
        "InvalidRequest",
    ),
    Problem(
        "publish_rate_exceeded",
        429,
        "The namespace's publish rate is used up; publish again after Retry-After seconds, or "
        "raise the rate with `tms namespace set`.",
        "RateExceeded",
    ),
    Problem("internal", 500, "The server failed; its log says why.", "InternalError"),
    Problem("queue_full", 503, "Too much is waiting to be written; try again.", "QueueFull"),
    Problem(
        "too_many_connections",
        503,
        "The server has as many connections at work as it may have; try again.",
        "TooManyConnections",
    ),
    Problem(
        "too_many_transactions",
        503,
        "As many transactions are in progress as may be; end some, or try again when some have "
        "ended.",
        "TooManyTransactions",
    ),
    Problem(
        "too_many_changes_kept",
        503,
        "Too many changes are kept for those in progress; end the oldest, or try again.",
        "TooManyTransactions",
    ),
    Problem(
        "store_unavailable",
        503,
        "The store cannot be used now; try again.",
        "StoreUnavailable",
    ),
    Problem("stopping", 503, "The service is stopping; try again.", "Stopping"),
    Problem(
        "metadata_unavailable",
        503,
        "The metadata store was not reached; try again.",
        "MetadataUnavailable",
    ),
    Problem(
        "debug_busy",
        503,
        "The server makes one debug report at a time; try again when that one is done.",
        "DebugBusy",
    ),
    Problem("no_leader", 503, "No server of the cluster leads now; try again.", "NoLeader"),
    Problem("metadata_closed", 503, "The metadata store is closed.", "MetadataClosed"),
    Problem("server_unreachable", 503, "No connection to the server.", "ServerUnreachable"),
    Problem(
        "outcome_unknown",
        504,
        "Nobody knows yet whether the request was carried out; find out before you send it again.",
        "OutcomeUnknown",
    ),
    Problem(
        "server_silent",
        504,
        "The server takes connections and answers nothing; check that the address is that of TMS, "
        "and that it does not hang.",
        "ServerSilent",
    ),
    Problem(
        "not_tms",
        502,
        "What answers at this address is not TMS; check the address.",
        "NotTms",
    ),
    Problem("store_locked", 500, "The data folder is open already.", "StoreLocked"),
    Problem(
        "folder_unusable",
        500,
        "The data folder cannot be used: name another, or change what stands in its way.",
        "FolderUnusable",
    ),
    Problem("copy_refused", 409, "The copy cannot be made as things are.", "CopyRefused"),
    Problem("store_corrupt", 500, "Stored bytes are damaged.", "StoreCorrupt"),
    Problem(
        "value_unreadable",
        500,
        "The value at this path is none of what is expected there.",
        "ValueUnreadable",
    ),
    Problem(
        "store_format_unknown",
        500,
        "The data folder has a format that this version does not know.",
        "StoreFormatUnknown",
    ),
)

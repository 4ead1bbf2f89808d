"""The catalogue of what can go wrong: each code once, with its status and its text.

REST bodies, the OpenAPI document and the client's exceptions are all made from it; which exception
a code is raised as is told by name, for `tms.core.errors` has them.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """A row of the catalogue: one thing that can go wrong."""

    code: str
    status: int
    message: str
    error: str
    """The name of its class in `tms.core.errors`."""


def _catalogue(*problems: Problem) -> dict[str, Problem]:
    by_code = {problem.code: problem for problem in problems}
    if len(by_code) != len(problems):
        raise AssertionError("a code stands twice in the catalogue")
    return by_code


# Codes are part of the REST interface: never change or reuse one.
CATALOGUE = _catalogue(
    Problem(
        "invalid_topic_name",
        400,
        "A topic's name has 1 to 255 letters, digits, _ or -.",
        "InvalidRequest",
    ),
    Problem(
        "invalid_namespace_name",
        400,
        "A namespace's name has 1 to 255 letters, digits or _.",
        "InvalidRequest",
    ),
    Problem(
        "invalid_properties",
        400,
        "Topic properties are a JSON object whose values are strings or numbers.",
        "InvalidRequest",
    ),
    Problem(
        "invalid_ttl",
        400,
        "A topic's ttl is a whole number of seconds from 1 to 2147483647.",
        "InvalidRequest",
    ),
    Problem("invalid_body", 400, "The body is not what this endpoint takes.", "InvalidRequest"),
    Problem(
        "invalid_compression",
        400,
        "The body is not valid gzip, as Content-Encoding says it is.",
        "InvalidRequest",
    ),
    Problem(
        "invalid_message_id",
        400,
        "A message id is 20 bytes, written as 40 hexadecimal digits.",
        "InvalidRequest",
    ),
    Problem(
        "invalid_start_time",
        400,
        "A start time is in milliseconds since 1970, zero or more.",
        "InvalidRequest",
    ),
    Problem(
        "invalid_range",
        400,
        "A range does not end before it starts, and its parts or bounds are whole numbers from 1.",
        "InvalidRequest",
    ),
    Problem("invalid_limit", 400, "A limit is a whole number, 1 or more.", "InvalidRequest"),
    Problem("invalid_wait", 400, "A wait is a number of seconds, zero or more.", "InvalidRequest"),
    Problem(
        "invalid_query",
        400,
        "A parameter of the query is none of what it can be, or contradicts another.",
        "InvalidRequest",
    ),
    Problem(
        "invalid_transaction",
        400,
        "The transaction is not a Tephra TransactionCodec encoding.",
        "InvalidRequest",
    ),
    Problem(
        "invalid_write_pointer",
        400,
        "A transaction write pointer is a positive 64-bit number: milliseconds x 1000000.",
        "InvalidRequest",
    ),
    Problem(
        "invalid_rollback_range",
        400,
        "A rollback takes the very body that the publish answered.",
        "InvalidRequest",
    ),
    Problem(
        "empty_publish",
        400,
        "Publishing no messages is for a transaction whose messages were stored before.",
        "InvalidRequest",
    ),
    Problem(
        "invalid_store",
        400,
        "Storing takes a transaction write pointer and at least one message.",
        "InvalidRequest",
    ),
    Problem(
        "invalid_transaction_id",
        400,
        "A transaction id is a positive 64-bit number.",
        "InvalidRequest",
    ),
    Problem(
        "invalid_timeout",
        400,
        "A timeout is a whole number of seconds, from 1 to the server's largest.",
        "InvalidRequest",
    ),
    Problem(
        "invalid_owner",
        400,
        "An owner and an origin have 1 to 255 characters; a sequence is 0 or more; both it and an "
        "origin need an owner.",
        "InvalidRequest",
    ),
    Problem(
        "invalid_time",
        400,
        "A time is in milliseconds since 1970, zero or more.",
        "InvalidRequest",
    ),
    Problem(
        "invalid_subscription_name",
        400,
        "A subscription's name has 1 to 255 letters, digits, _, - or dots.",
        "InvalidRequest",
    ),
    Problem(
        "invalid_path",
        400,
        "A path starts with / and does not end with it; no part is empty or only dots.",
        "InvalidRequest",
    ),
    Problem(
        "invalid_namespace_settings",
        400,
        "A namespace's settings are a JSON object of positive whole numbers; the default ttl and "
        "the largest message must not be over the longest ttl and the largest request.",
        "InvalidRequest",
    ),
    Problem(
        "ttl_over_namespace_limit",
        400,
        "The ttl is over the longest of the topic's namespace; give a shorter one, or raise that "
        "with `tms namespace set`.",
        "InvalidRequest",
    ),
    Problem(
        "invalid_option",
        400,
        "An option of the data source is none of what it can be, or contradicts another.",
        "InvalidRequest",
    ),
    Problem(
        "invalid_row",
        400,
        "A row is a message if it has a payload, bytes or text, and a topic.",
        "InvalidRequest",
    ),
    Problem("not_found", 404, "There is nothing at this path.", "InvalidRequest"),
    Problem("topic_not_found", 404, "The topic does not exist.", "TopicNotFound"),
    Problem(
        "transaction_unknown",
        404,
        "The transaction was never started here, or ended too long ago.",
        "TransactionUnknown",
    ),
    Problem(
        "subscription_not_found",
        404,
        "The topic has no subscription of this name.",
        "SubscriptionNotFound",
    ),
    Problem("path_not_found", 404, "There is no value at this path.", "PathNotFound"),
    Problem(
        "namespace_not_declared",
        404,
        "The namespace has no settings of its own.",
        "NamespaceNotDeclared",
    ),
    Problem("method_not_allowed", 405, "This path does not take this method.", "InvalidRequest"),
    Problem(
        "not_acceptable",
        406,
        "The server cannot answer in the format that Accept names; it needs what `detail` says.",
        "InvalidRequest",
    ),
    Problem("body_too_slow", 408, "The body did not arrive in time.", "InvalidRequest"),
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
    Problem("too_many_changes", 413, "The transaction has more changes than one may.", "TooLarge"),
    Problem(
        "too_many_subscriptions",
        413,
        "The topic has as many subscriptions as one may.",
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
        "Send Content-Type: application/json or avro/binary.",
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
        "too_many_transactions",
        503,
        "Too many transactions are in progress; try again.",
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
    Problem("metadata_closed", 503, "The metadata store is closed.", "MetadataClosed"),
    Problem("server_unreachable", 503, "No connection to the server.", "ServerUnreachable"),
    Problem(
        "outcome_unknown",
        504,
        "The connection broke before the answer; the request may have been carried out.",
        "OutcomeUnknown",
    ),
    Problem("store_locked", 500, "Another process holds the data folder.", "StoreLocked"),
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

"""Rows of the catalogue: requests that cannot be understood, and what they name that is not there.

Statuses from 400 to 421; what the state of things does not allow is in `tms.core.problems`.
"""

from tms.core.problem import Problem

# Codes are part of the REST interface: never change or reuse one.
REQUEST_PROBLEMS = (
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
        "start_time_in_seconds",
        400,
        "A start time is in milliseconds since 1970, and this one is in seconds: multiply it by "
        "1000.",
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
        "unknown_query_parameter",
        400,
        "The query of the URL has a parameter that this operation does not take; `detail` names it "
        "and those that it takes.",
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
    Problem("malformed_request", 400, "This is no HTTP/1.1 request.", "InvalidRequest"),
    Problem(
        "cross_site",
        403,
        "A web page of another site sent this; only pages of this server may.",
        "InvalidRequest",
    ),
    Problem(
        "topic_of_the_service",
        403,
        "Topics `_…` of the namespace `system` are the service's own, and only it changes them.",
        "NotPermitted",
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
    Problem(
        "expectation_failed",
        417,
        "The only expectation that can be met is 100-continue.",
        "InvalidRequest",
    ),
    Problem(
        "host_not_allowed",
        421,
        "Host is no name of this server; name it in the setting `allowed_hosts` if it is.",
        "InvalidRequest",
    ),
)

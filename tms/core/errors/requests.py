"""Errors of requests that the caller must change; nothing was done."""

from tms.core.errors.catalogue import TmsError, at


class RequestError(TmsError):
    """Raised when the caller must change the request; nothing was done."""

    code = "invalid_body"


class InvalidRequest(RequestError):
    """Raised when a name, property, body, id, limit or header cannot be understood."""

    problems = (
        *at(
            400,
            invalid_topic_name="A topic's name has 1 to 255 letters, digits, _ or -.",
            invalid_namespace_name="A namespace's name has 1 to 255 letters, digits or _.",
            invalid_properties=(
                "Topic properties are a JSON object of strings and numbers; the server checks the "
                "values of some names."
            ),
            invalid_ttl="A topic's ttl is a whole number of seconds from 1 to 2147483647.",
            invalid_body="The body is not valid for this endpoint.",
            invalid_compression="The body is not valid gzip, although Content-Encoding says gzip.",
            invalid_message_id="A message id is 20 bytes, written as 40 hexadecimal digits.",
            invalid_start_time="A start time is a number of milliseconds since 1970, zero or more.",
            start_time_in_seconds=(
                "A start time is in milliseconds since 1970, this one in seconds: multiply it by "
                "1000."
            ),
            invalid_range=(
                "A range must not end before its start; parts and bounds are whole numbers from 1."
            ),
            invalid_limit="A limit is a whole number, 1 or more.",
            invalid_backup_name=(
                "The name of a backup has letters, digits, `.`, `_` and `-`, and begins with a "
                "letter or a digit; at most 100 characters."
            ),
            invalid_step=(
                "A step of the clock is a whole number of seconds, as the server showed it."
            ),
            invalid_wait="A wait is a number of seconds, zero or more.",
            invalid_query=(
                "A query parameter has a value that is not allowed, or two contradict each other."
            ),
            shard_required=(
                "The store has several shards; say which one, by `?shard=` and its number, or by "
                "the option --shard."
            ),
            invalid_wish=(
                "A wish names a shard or a server that is not there, or no shards are shared."
            ),
            invalid_message_header=(
                "A message's header, or an event's attribute, cannot be read from the request's "
                "header."
            ),
            idempotency_key_refused=(
                "The server does not support Idempotency-Key. To publish once, use `if_last`, or "
                "an `owner` with a `sequence` in a publish to several topics."
            ),
            unknown_query_parameter=(
                "The operation does not take this query parameter; `detail` lists the valid ones."
            ),
            invalid_transaction="The transaction is not a Tephra TransactionCodec encoding.",
            invalid_write_pointer=(
                "A transaction write pointer is a positive 64-bit number, milliseconds x 1000000; "
                "in JSON it is text with decimal digits."
            ),
            invalid_rollback_range="The body of a rollback is the unchanged answer of the publish.",
            empty_publish=(
                "A publish may be empty only if messages were stored for its transaction."
            ),
            key_required=(
                "Each message of a compact topic needs a key; add one to the message that `detail`"
                " names."
            ),
            payload_required=(
                "A message without a payload says that its key is gone: add a key, or a payload, "
                "which may be empty."
            ),
            invalid_store="Storing needs a transaction write pointer and at least one message.",
            invalid_transaction_id=(
                "A transaction id is a positive 64-bit number; in JSON it is text with decimal "
                "digits."
            ),
            id_as_number=(
                "In JSON an id is text, because many programs round numbers above 2^53. Put the id"
                " in quotes, as in the server's answer."
            ),
            invalid_timeout="A timeout is a whole number of seconds, from 1 to the server's limit.",
            invalid_owner=(
                "An owner and an origin have 1 to 255 characters; a sequence is a whole number "
                "from 0 to 9007199254740991 (2^53 - 1); a sequence or an origin needs an owner."
            ),
            invalid_delivery_time=(
                "A delivery time is a number of milliseconds since 1970, or a delay of zero or "
                "more seconds, and not both; it is at most `scheduled_s_max` ahead."
            ),
            invalid_time="A time is a number of milliseconds since 1970, zero or more.",
            invalid_subscription_name=(
                "A subscription's name has 1 to 255 letters, digits, _, - or dots."
            ),
            invalid_group=(
                "A setting or a field of a group has a value that is not allowed; `detail` says "
                "which."
            ),
            invalid_member=(
                "A member of a group has a name of 1 to 128 letters, digits, _, -, : or dots."
            ),
            invalid_filter=(
                "A filter tests `key` and `header.NAME` by exists, =, != and ^=, joined by and, or "
                "and not; `detail` says at which character what is expected."
            ),
            invalid_path=(
                "A path starts with / and does not end with it; no part of it is empty or consists"
                " of dots only."
            ),
            invalid_namespace_settings=(
                "A namespace's settings are a JSON object of positive whole numbers; the default "
                "ttl must not be over the longest ttl, and the largest message not over the "
                "largest request."
            ),
            ttl_over_namespace_limit=(
                "The ttl is over the longest ttl of the topic's namespace; give a shorter one, or "
                "raise that limit with `tms namespace set`."
            ),
            invalid_option=(
                "An option has a value that is not allowed, or two contradict each other."
            ),
            invalid_row="A row cannot be written as a message; `detail` says where and why.",
            malformed_request="This is not a valid HTTP/1.1 request.",
            invalid_rule=(
                "A rule has a name, allow or deny, actions and a resource; `detail` says what is "
                "wrong."
            ),
            invalid_token=(
                "A token needs a principal of 1 to 255 characters, may have groups, and ends in "
                "the future or never."
            ),
            plaintext_credentials=(
                "Credentials would travel unencrypted to another machine: use https://, or allow "
                "it explicitly."
            ),
        ),
        *at(
            403,
            cross_site="A page of another site sent this; only pages of this server may do that.",
        ),
        *at(404, not_found="There is nothing at this path."),
        *at(405, method_not_allowed="This path does not take this method."),
        *at(
            406,
            not_acceptable=(
                "The server cannot answer in a format that Accept allows; allow another one."
            ),
        ),
        *at(408, body_too_slow="The body did not arrive in time."),
        *at(
            415,
            unsupported_content_type=(
                "Send Content-Type: application/json; messages also as avro/binary or as Arrow's "
                "application/vnd.apache.arrow.stream. A POST to …/messages takes any type."
            ),
            unsupported_content_encoding="The server only takes gzip as Content-Encoding.",
        ),
        *at(417, expectation_failed="The server can only meet the expectation 100-continue."),
        *at(
            421,
            host_not_allowed=(
                "The Host header does not name this server; if it should, add it to "
                "`allowed_hosts`."
            ),
        ),
    )


class TooLarge(RequestError):
    """Raised when a request or message exceeds a configured limit, which `detail` names."""

    code = "request_too_large"
    problems = (
        *at(
            413,
            request_too_compressed=(
                "The body is far larger after decompression; send it in parts, or compress it less."
            ),
            request_too_large="The body is over the cap for a request.",
            message_too_large="A message is over the cap for a message.",
            frame_too_large=(
                "The key and headers of a message are over the cap; move data into the payload, or"
                " raise frame_bytes_max."
            ),
            too_many_headers=(
                "A message has too many headers; send fewer, or raise message_headers_max."
            ),
            message_over_namespace_limit=(
                "A message is over the limit of its namespace; publish a smaller one, or raise the"
                " limit with `tms namespace set`."
            ),
            request_over_namespace_limit=(
                "The messages together are over the limit of their namespace; publish fewer at a "
                "time, or raise the limit with `tms namespace set`."
            ),
            too_many_messages="The request has too many messages; send them in several requests.",
            too_many_topics="The request names too many topics; send several requests.",
            too_many_topics_at_once=(
                "The request names more topics than the server keeps in memory; name fewer, or "
                "raise topics_in_memory_max."
            ),
            too_many_changes="The transaction has too many changes; use a smaller transaction.",
            too_many_subscriptions=(
                "The topic has reached its limit of subscriptions; delete one that is not needed."
            ),
            too_many_scheduled=(
                "The topic has reached its limit of scheduled messages; wait until some are "
                "published, or cancel some."
            ),
            too_many_open=(
                "The group, or all groups of the server, have reached the limit of open messages "
                "that `detail` names; settle some, or raise it."
            ),
            topic_limit_reached=(
                "The limit of topics is reached; delete one, or raise `--topics-max`."
            ),
            namespace_limit_reached=(
                "The limit of namespaces with settings is reached; delete the settings of one."
            ),
            topic_properties_too_large=(
                "A topic's properties together are over the cap; store less in them."
            ),
            value_too_large="The value is over the cap for a value.",
            too_many_rules="The limit of rules is reached; revoke some.",
            too_many_tokens="The limit of tokens is reached; revoke some.",
            too_many_checkpoints=(
                "The transaction has reached its limit of checkpoints; use a smaller transaction."
            ),
        ),
        *at(
            429,
            too_many_owners=(
                "The limit of remembered owners is reached; use known ones, forget some (`tms tx "
                "owners forget`), or raise `transaction_owners_max`."
            ),
        ),
        *at(
            431,
            head_too_large=(
                "The headers of the request are over the cap; send fewer, or shorter ones."
            ),
        ),
    )


class NotAuthenticated(RequestError):
    """Raised when credentials are missing or wrong, or have expired."""

    code = "credentials_required"
    problems = at(
        401,
        credentials_required=(
            "This server requires credentials: send Authorization or a client certificate."
        ),
        credentials_invalid="The credentials are not valid.",
    )


class NotPermitted(RequestError):
    """Raised when the caller may not do this; `detail` has the action and the resource."""

    code = "not_permitted"
    problems = at(
        403,
        not_permitted="You may not do this. Ask somebody who can grant it (`tms auth grant`).",
        transaction_of_another=(
            "Only the principal that owns the transaction can end it or publish in it."
        ),
        topic_of_the_service=(
            "Only the service itself changes topics `_…` of the namespace `system`."
        ),
    )


class SchemaRefused(RequestError):
    """Raised when the schema registry refuses; `detail` has its `error_code`."""

    problems = at(422, schema_refused="The schema registry refuses this; `detail` says why.")


class PayloadRefused(RequestError):
    """Raised when a payload or value does not fit its topic's schemas; `detail` says which."""

    code = "payload_unfit"
    problems = at(
        422,
        payload_without_schema=(
            "Messages of this topic need a schema of its subject; `detail` names one without it."
        ),
        payload_unfit="The payload does not match its schema.",
        value_unfit="A value does not match its schema.",
        schema_unusable="This schema cannot encode or decode values.",
    )


class TopicNotFound(RequestError):
    problems = at(404, topic_not_found="The topic does not exist.")


class TransactionUnknown(RequestError):
    problems = at(
        404, transaction_unknown="The transaction was never started here, or it ended too long ago."
    )


class SubscriptionNotFound(RequestError):
    problems = at(404, subscription_not_found="The topic has no subscription with this name.")


class ScheduledNotFound(RequestError):
    problems = at(
        404,
        scheduled_not_found=(
            "No message with this id is scheduled: it was published or cancelled, or never was."
        ),
    )


class OwnerNotFound(RequestError):
    problems = at(
        404, owner_not_found="The server does not remember an owner of transactions with this name."
    )


class BackupNotFound(RequestError):
    problems = at(404, backup_not_found="There is no backup with this name.")


class PathNotFound(RequestError):
    problems = at(404, path_not_found="There is no value at this path.")


class NamespaceNotDeclared(RequestError):
    """Raised when a caller deletes the settings of a namespace that has none."""

    problems = at(404, namespace_not_declared="The namespace has no settings of its own.")


class GrantNotFound(RequestError):
    """Raised when a rule or a token does not exist."""

    code = "rule_not_found"
    problems = at(
        404,
        rule_not_found="There is no rule with this id.",
        token_not_found="There is no token with this id.",
    )


class DataLost(RequestError):
    """Raised by a reader when messages expired before it read them, or their topic is gone."""

    problems = at(
        410,
        data_lost=(
            "Messages to read are gone, or may be; failOnDataLoss=false continues without them."
        ),
    )


class NotTms(RequestError):
    """Raised by the client when the answer is not from TMS; `detail` has the answer."""

    problems = at(502, not_tms="The server at this address is not TMS; check the address.")

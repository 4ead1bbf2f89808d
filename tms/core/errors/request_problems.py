"""What callers must change, by status and then by class: the catalogue's rows below 500.

Codes are part of the REST interface: never change or reuse one.
"""

from collections.abc import Mapping

REQUEST_PROBLEMS: Mapping[int, Mapping[str, Mapping[str, str]]] = {
    400: {
        "InvalidRequest": {
            "invalid_topic_name": "A topic's name has 1 to 255 letters, digits, _ or -.",
            "invalid_namespace_name": "A namespace's name has 1 to 255 letters, digits or _.",
            "invalid_properties": (
                "Topic properties are a JSON object of strings and numbers; names that mean "
                "something to the server take certain values."
            ),
            "invalid_ttl": "A topic's ttl is a whole number of seconds from 1 to 2147483647.",
            "invalid_body": "The body is not what this endpoint takes.",
            "invalid_compression": "The body is not valid gzip, as Content-Encoding says it is.",
            "invalid_message_id": "A message id is 20 bytes, written as 40 hexadecimal digits.",
            "invalid_start_time": "A start time is in milliseconds since 1970, zero or more.",
            "start_time_in_seconds": (
                "A start time is in milliseconds since 1970, and this one is in seconds: multiply "
                "it by 1000."
            ),
            "invalid_range": (
                "A range does not end before it starts, and its parts or bounds are whole numbers "
                "from 1."
            ),
            "invalid_limit": "A limit is a whole number, 1 or more.",
            "invalid_step": "A step of the clock is a whole number of seconds, as it was told.",
            "invalid_wait": "A wait is a number of seconds, zero or more.",
            "invalid_query": (
                "A parameter of the query is none of what it can be, or contradicts another."
            ),
            "unknown_query_parameter": (
                "The query of the URL has a parameter that this operation does not take; `detail` "
                "names it and those that it takes."
            ),
            "invalid_transaction": "The transaction is not a Tephra TransactionCodec encoding.",
            "invalid_write_pointer": (
                "A transaction write pointer is a positive 64-bit number, milliseconds x 1000000; "
                "in JSON its decimal digits, as text."
            ),
            "invalid_rollback_range": "A rollback takes the very body that the publish answered.",
            "empty_publish": (
                "Publishing no messages is for a transaction whose messages were stored before."
            ),
            "key_required": (
                "Each message of a compact topic needs a key: the newest of each key stays. Give "
                "the message that `detail` names one."
            ),
            "payload_required": (
                "A message without a payload needs a key: it says that the key is gone. Give the "
                "message that `detail` names a payload, which may be empty, or a key."
            ),
            "invalid_store": "Storing takes a transaction write pointer and at least one message.",
            "invalid_transaction_id": (
                "A transaction id is a positive 64-bit number; in JSON its decimal digits, as text."
            ),
            "id_as_number": (
                "In JSON an id is text: many programs round numbers above 2^53, to the id of "
                "another transaction. Put the id in quotes, as the server has answered it."
            ),
            "invalid_timeout": (
                "A timeout is a whole number of seconds, from 1 to the server's largest."
            ),
            "invalid_owner": (
                "An owner and an origin have 1 to 255 characters; a sequence is a whole number "
                "from 0 to 9007199254740991 (2^53 - 1); both it and an origin need an owner."
            ),
            "invalid_time": "A time is in milliseconds since 1970, zero or more.",
            "invalid_subscription_name": (
                "A subscription's name has 1 to 255 letters, digits, _, - or dots."
            ),
            "invalid_path": (
                "A path starts with / and does not end with it; no part is empty or only dots."
            ),
            "invalid_namespace_settings": (
                "A namespace's settings are a JSON object of positive whole numbers; the default "
                "ttl and the largest message must not be over the longest ttl and the largest "
                "request."
            ),
            "ttl_over_namespace_limit": (
                "The ttl is over the longest of the topic's namespace; give a shorter one, or "
                "raise that with `tms namespace set`."
            ),
            "invalid_option": (
                "An option of the data source is none of what it can be, or contradicts another."
            ),
            "invalid_row": (
                "A row cannot be written as a message; `detail` says which column or row it is, "
                "and what is expected."
            ),
            "malformed_request": "This is no HTTP/1.1 request.",
            "invalid_rule": (
                "A rule says who, allow or deny, which actions, and on what; `detail` says what is "
                "wrong in it."
            ),
            "invalid_token": (
                "A token is for a principal of 1 to 255 characters, perhaps with groups, and ends "
                "at a time that is to come, or never."
            ),
            "plaintext_credentials": (
                "Credentials would travel unencrypted to another machine: use https://, or allow "
                "it on purpose."
            ),
        },
    },
    401: {
        "NotAuthenticated": {
            "credentials_required": (
                "This server answers only those who say who they are: send Authorization, or a "
                "client certificate."
            ),
            "credentials_invalid": "The credentials are not valid; `detail` says why.",
        },
    },
    403: {
        "InvalidRequest": {
            "cross_site": "A web page of another site sent this; only pages of this server may.",
        },
        "NotPermitted": {
            "not_permitted": (
                "Who asks may not do this; somebody who may grant it has to (`tms auth grant`)."
            ),
            "transaction_of_another": (
                "The transaction belongs to another principal, and only that one ends it or "
                "publishes in it."
            ),
            "topic_of_the_service": (
                "Topics `_…` of the namespace `system` are the service's own, and only it changes "
                "them."
            ),
        },
    },
    404: {
        "InvalidRequest": {"not_found": "There is nothing at this path."},
        "TopicNotFound": {"topic_not_found": "The topic does not exist."},
        "TransactionUnknown": {
            "transaction_unknown": "The transaction was never started here, or ended too long ago.",
        },
        "SubscriptionNotFound": {
            "subscription_not_found": "The topic has no subscription of this name.",
        },
        "OwnerNotFound": {
            "owner_not_found": "No owner of transactions of this name is remembered.",
        },
        "PathNotFound": {"path_not_found": "There is no value at this path."},
        "NamespaceNotDeclared": {
            "namespace_not_declared": "The namespace has no settings of its own.",
        },
        "GrantNotFound": {
            "rule_not_found": "There is no rule of this id.",
            "token_not_found": "There is no token of this id.",
        },
    },
    405: {
        "InvalidRequest": {"method_not_allowed": "This path does not take this method."},
    },
    406: {
        "InvalidRequest": {
            "not_acceptable": (
                "The server cannot answer in the format that Accept names; it needs what `detail` "
                "says."
            ),
        },
    },
    408: {
        "InvalidRequest": {"body_too_slow": "The body did not arrive in time."},
    },
    409: {
        "TopicExists": {"topic_exists": "A topic of this name exists already."},
        "TopicMoved": {
            "topic_moved": (
                "The topic has an entry behind the id of if_last; read on from there, and decide "
                "anew."
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
                "A transaction that committed meanwhile changed the same; run this one again."
            ),
        },
        "TransactionDuplicate": {
            "transaction_duplicate": "The owner's sequence was committed before.",
        },
        "OwnerBusy": {
            "owner_busy": "An older transaction of this owner is open; fence it or join it.",
        },
        "OwnerElsewhere": {
            "owner_elsewhere": (
                "The owner committed this sequence, or a later one, in another run; take another "
                "owner."
            ),
        },
        "CheckpointBehind": {
            "checkpoint_behind": (
                "A later batch of this stream is written already: its checkpoint has gone back, "
                "and new rows would be taken as done. Put the newest checkpoint back, or begin "
                "with a new one, without this txnAppId."
            ),
        },
        "PublicationRefused": {
            "publication_refused": (
                "A commit publishes what was stored under its transaction's write pointers, each "
                "once."
            ),
        },
        "InvalidTrimTime": {
            "invalid_trim_time": "A topic is trimmed before a time that has come; this has not.",
        },
        "TopicIsCompact": {
            "topic_is_compact": (
                "No messages are stored for a compact topic: publish them in the transaction."
            ),
        },
        "InvalidTruncateTime": {
            "invalid_truncate_time": "A transaction from before that time is in progress.",
        },
        "ClockMoved": {
            "clock_moved": (
                "The clock is not ahead by that, in doubt; look at it again before you accept it."
            ),
        },
        "TransactionsElsewhere": {
            "transactions_elsewhere": (
                "This server takes the write pointers of another transaction manager."
            ),
        },
        "SubscriptionExists": {
            "subscription_exists": "The topic has a subscription of this name already.",
        },
        "SubscriptionMoved": {
            "subscription_moved": (
                "The subscription has moved on from the version that was expected."
            ),
        },
        "BadVersion": {
            "bad_version": "The value at this path has another version than was expected.",
        },
        "PathExists": {"path_exists": "There is a value at this path already."},
        "PathHasChildren": {"path_has_children": "There are paths below this one."},
        "LockBusy": {"lock_busy": "Somebody else holds this lock."},
        "AuthenticationOff": {
            "authentication_off": (
                "Everybody may do everything at this server; to have rules, start it with --auth."
            ),
        },
        "NoMetadataStore": {
            "no_metadata_store": (
                "The server has nothing to keep this in: start it with --metadata."
            ),
        },
        "RollbackRefused": {
            "rollback_refused": "The range holds only entries of other writers.",
            "rollback_of_earlier_leader": (
                "An earlier leader of the cluster published this; make the transaction invalid."
            ),
        },
        "CopyRefused": {"copy_refused": "The copy cannot be made as things are."},
    },
    410: {
        "DataLost": {
            "data_lost": (
                "Messages that were to be read are gone, or may be; failOnDataLoss=false goes on "
                "all the same."
            ),
        },
    },
    413: {
        "TooLarge": {
            "request_too_compressed": (
                "The body is far longer than what was sent of it; send it in parts, or less "
                "compressed."
            ),
            "request_too_large": "The body is over the cap for a request.",
            "message_too_large": "A message is over the cap for a message.",
            "frame_too_large": (
                "A message's key and headers are together over the cap; move what is large into "
                "the payload, or raise the server's setting frame_bytes_max."
            ),
            "too_many_headers": (
                "A message has more headers than one may; send fewer, or raise the server's "
                "setting message_headers_max."
            ),
            "message_over_namespace_limit": (
                "A message is over the limit of its namespace; publish a smaller one, or raise the "
                "limit with `tms namespace set`."
            ),
            "request_over_namespace_limit": (
                "The messages are together over the limit of their namespace; publish fewer at a "
                "time, or raise the limit with `tms namespace set`."
            ),
            "too_many_messages": "The request has more messages than one may.",
            "too_many_topics": "The request names more topics than one may.",
            "too_many_topics_at_once": (
                "The request is about more topics than are kept in memory; name fewer, or raise "
                "the server's setting topics_in_memory_max."
            ),
            "too_many_changes": "The transaction has more changes than one may.",
            "too_many_subscriptions": "The topic has as many subscriptions as one may.",
            "topic_limit_reached": (
                "There are as many topics as there may be; delete one, or raise `--topics-max`."
            ),
            "namespace_limit_reached": (
                "As many namespaces have settings as may; delete those of one, or raise "
                "`--namespaces-max`."
            ),
            "topic_properties_too_large": (
                "A topic's properties are together over the cap; keep less with it, or raise "
                "`--topic-properties-bytes-max`."
            ),
            "value_too_large": "The value is over the cap for a value.",
            "too_many_rules": "There are as many rules as there may be; revoke some.",
            "too_many_tokens": "There are as many tokens as there may be; revoke some.",
            "too_many_checkpoints": "The transaction has more checkpoints than one may.",
        },
    },
    415: {
        "InvalidRequest": {
            "unsupported_content_type": (
                "Send Content-Type: application/json; messages also as avro/binary or as Arrow's "
                "application/vnd.apache.arrow.stream."
            ),
            "unsupported_content_encoding": "The only Content-Encoding taken is gzip.",
        },
    },
    417: {
        "InvalidRequest": {
            "expectation_failed": "The only expectation that can be met is 100-continue.",
        },
    },
    421: {
        "InvalidRequest": {
            "host_not_allowed": (
                "Host is no name of this server; name it in the setting `allowed_hosts` if it is."
            ),
        },
    },
    422: {
        "SchemaRefused": {"schema_refused": "The schema registry refuses this."},
        "PayloadRefused": {
            "payload_without_schema": (
                "The topic takes payloads that name a schema of its subject, and the message that "
                "`detail` names does not."
            ),
            "payload_unfit": "A payload is no value of the schema that it names.",
            "value_unfit": "A value does not fit its schema.",
            "schema_unusable": "Values cannot be encoded or decoded by this schema.",
        },
        "PayloadUndecodable": {
            "payload_undecodable": (
                "A message is no value of a schema; read on behind its id, or ask for its bytes."
            ),
        },
    },
    429: {
        "RateExceeded": {
            "publish_rate_exceeded": (
                "The namespace's publish rate is used up; publish again after Retry-After seconds, "
                "or raise the rate with `tms namespace set`."
            ),
            "principal_rate_exceeded": (
                "Who asks has used up what one principal may; `detail` names the setting. Ask "
                "again after Retry-After seconds."
            ),
        },
        "TooLarge": {
            "too_many_owners": (
                "As many owners of transactions are remembered as may be, or as one principal may "
                "have; use owners that are known, forget some with `tms tx owners forget`, or "
                "raise `transaction_owners_max`."
            ),
        },
    },
    431: {
        "TooLarge": {
            "head_too_large": (
                "The headers of the request are over the cap; send fewer, or shorter ones."
            ),
        },
    },
}

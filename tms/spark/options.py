"""Parses and checks the options of `format("tms")`. It does not use Spark.

Guarantees that an unknown option is refused by name, with a suggestion if one is similar; that an
invalid value is refused; and that an error about options that contradict each other, or their use,
names all of them. Names and defaults are those of Spark's Kafka source if it has the same option;
names are case-insensitive, as always in Spark. docs/spark.md has a table of them, which a test
compares with `OPTIONS`.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from tms.core.errors import InvalidRequest
from tms.core.services.schemas import LATEST
from tms.core.services.transactions import check_owner
from tms.core.values.filters import filter_of
from tms.core.values.reading import Isolation
from tms.core.values.topic import TopicId, check_namespace
from tms.spark.offsets import (
    Edge,
    RangeBounds,
    at_time,
    parse_offset,
)
from tms.spark.option_types import (
    STRATEGY,
    TRIGGER_DELAY_S,
    ReadOptions,
    ServerOptions,
    Strategy,
    WriteOptions,
)
from tms.spark.option_values import (
    GivenOptions,
    closest,
    delay,
    flag,
    offsets_by_topic,
    refuse,
    seconds,
    time_ms,
    times_by_topic,
    whole_number,
)

_CONNECTION = (
    *("url", "namespace", "tms.timeout", "tms.retryFor", "tms.compress"),
    *("tms.tokenFile", "tms.token", "tms.ca"),
)
_STARTING = ("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp")
_ENDING = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
_PER_TRIGGER = (
    *("maxOffsetsPerTrigger", "maxBytesPerTrigger"),
    *("minOffsetsPerTrigger", "maxTriggerDelay"),
)
_READ = (
    *("subscribe", "subscribePattern", *_STARTING, STRATEGY, *_ENDING, *_PER_TRIGGER),
    *("isolation", "filter", "failOnDataLoss", "minPartitions", "pushdown"),
    *("schema", "message", "damaged"),
)
_WRITE = (
    *("topic", "schema", "message"),
    *("txnAppId", "txnVersion", "transactional", "transactionTimeout"),
)
OPTIONS = (*_CONNECTION, *_READ, *_WRITE)
"""All options, as written in the documentation."""

_CHECKPOINT = "checkpointlocation"
_OF_SPARK = frozenset({_CHECKPOINT, "queryname"})
"""Options that Spark passes to sources and sinks for its own use."""

_OF_TABLES = (
    "Spark does not give the options of a table to its readers and writers: make a view instead, "
    "CREATE "
    "TEMPORARY VIEW … USING tms OPTIONS (…), or name them in each query, … FROM a_table WITH "
    "(url = '…', …)"
)

TIMEOUT_S = 60.0
RETRY_FOR_S = 60.0
RAISE, GIVE = "raise", "give"
TRANSACTION_TIMEOUT_S = 3600


def batch_read(options: Mapping[str, str]) -> ReadOptions:
    """Parse the options of `spark.read`. Raises `InvalidRequest`."""
    values = _checked(options, _READ, "reading")
    for option in _PER_TRIGGER:
        if values.has(option):
            refuse(option, "it is for streams: use readStream")
    starting = _bounds(values, _STARTING, Edge.EARLIEST)
    ending = _bounds(values, _ENDING, Edge.LATEST)
    _refuse_edge(
        starting, Edge.LATEST, "startingOffsets", "a batch that begins at the end is empty"
    )
    _refuse_edge(ending, Edge.EARLIEST, "endingOffsets", "a batch that ends at the start is empty")
    return _read(values, starting, ending)


def stream_read(options: Mapping[str, str]) -> ReadOptions:
    """Parse the options of `spark.readStream`. Raises `InvalidRequest`."""
    values = _checked(options, _READ, "reading")
    for option in _ENDING:
        if values.has(option):
            refuse(option, "it is for batches: a stream has no end")
    if values.text("pushdown") == "true":
        refuse("pushdown", "Spark pushes filters down for batches only: use spark.read")
    return _read(values, _bounds(values, _STARTING, Edge.LATEST), RangeBounds(Edge.LATEST, {}))


def batch_write(options: Mapping[str, str]) -> WriteOptions:
    """Parse the options of `df.write`. Raises `InvalidRequest`."""
    return _written(_checked(options, _WRITE, "writing"))


def stream_write(options: Mapping[str, str]) -> WriteOptions:
    """Parse the options of `df.writeStream`. Raises `InvalidRequest`."""
    values = _checked(options, _WRITE, "writing")
    if values.has("txnVersion"):
        refuse("txnVersion", "it is for batches: a stream uses the number of its batch")
    return _written(values)


def any_read(options: Mapping[str, str]) -> ReadOptions:
    """Parse the options that batches and streams share.

    For Spark's calls before it says which of the two it is. Raises `InvalidRequest`.
    """
    values = _checked(options, _READ, "reading")
    bounds = _bounds(values, _STARTING, Edge.EARLIEST), _bounds(values, _ENDING, Edge.LATEST)
    return _read(values, *bounds)


def _checked(options: Mapping[str, str], names: Iterable[str], use: str) -> GivenOptions:
    values = GivenOptions(options)
    if any(name == "owner" or name.startswith("option.") for name in values.names()):
        refuse("CREATE TABLE", _OF_TABLES)  # Spark uses this name for a table's properties.
    allowed = (*_CONNECTION, *names)
    spellings = {option.lower(): option for option in OPTIONS}
    for name in sorted(values.names() - _OF_SPARK - {option.lower() for option in allowed}):
        if name in spellings:
            refuse(spellings[name], f"it is not for {use}")
        meant = closest(name, allowed)
        hint = f"did you mean {meant}?" if meant else f"there are {', '.join(allowed)}"
        refuse(name, f"there is no such option; {hint}")
    return values


def connection_to(options: Mapping[str, str], *, retry_for_s: float) -> ServerOptions:
    """Parse the options of a connection. Raises `InvalidRequest`."""
    values = _checked(options, (), "a connection")
    return replace(_connection(values), retry_for_s=retry_for_s)


def of_connection(options: Mapping[str, str]) -> dict[str, str]:
    """Return the names of the options of the server and its credentials."""
    names = {option.lower() for option in _CONNECTION}
    return {name: text for name, text in options.items() if name.lower() in names}


def _connection(options: GivenOptions) -> ServerOptions:
    url = options.text("url")
    if url is None:
        refuse("url", f"it is required: the server's URL, http://HOST:PORT. {_OF_TABLES}")
    if options.has("tms.token") and options.has("tms.tokenFile"):
        refuse("tms.token and tms.tokenFile", "they mean the same: give one")
    if not url.startswith(("http://", "https://")):
        refuse("url", "Spark's processes need a server, http://HOST:PORT", url)
    return ServerOptions(
        url,
        check_namespace(options.text("namespace") or "default"),
        options.value("tms.timeout", seconds, TIMEOUT_S),
        options.value("tms.retryFor", seconds, RETRY_FOR_S),
        options.value("tms.compress", flag, otherwise=False),
        token=options.text("tms.token") or "",
        token_file=options.text("tms.tokenFile") or "",
        ca=options.text("tms.ca") or "",
    )


def chosen_schema(option: str, text: str) -> str | int:
    """Return LATEST, an id, or Avro's text. Raises `InvalidRequest`."""
    if text == LATEST or text[:1] in ("{", "[", '"'):
        return text
    if not (text.isascii() and text.isdigit()):
        expected = "latest, the id of a schema, or the text of an Avro schema, is expected"
        refuse(option, expected, text)
    return whole_number(option, text)


def chosen_damaged(option: str, text: str) -> bool:
    """Return whether damaged rows are returned. Raises `InvalidRequest`."""
    if text not in (RAISE, GIVE):
        refuse(option, f"{RAISE} or {GIVE} is expected", text)
    return text == GIVE


def _read(options: GivenOptions, starting: RangeBounds, ending: RangeBounds) -> ReadOptions:
    connection = _connection(options)
    if options.one_of("subscribe", "subscribePattern") is None:
        refuse("subscribe", "it or subscribePattern is required: the topics to read")
    topics = options.value("subscribe", _topics, None)
    if topics is not None:
        for topic in {**starting.of_topic, **ending.of_topic}:
            if topic not in topics:
                refuse("subscribe", "a topic that is not read has an offset", topic)
    if options.has("damaged") and not options.has("schema"):
        refuse("damaged", "it needs schema: without one payloads are not decoded")
    if options.has(STRATEGY) and not any(options.has(option) for option in _STARTING[1:]):
        refuse(STRATEGY, f"it needs {_STARTING[1]} or {_STARTING[2]}")
    rows_max = options.value("maxOffsetsPerTrigger", whole_number, None)
    rows_min = options.value("minOffsetsPerTrigger", whole_number, None)
    if rows_min is None and options.has("maxTriggerDelay"):
        refuse("maxTriggerDelay", "it needs minOffsetsPerTrigger")
    if rows_min is not None and rows_max is not None and rows_min > rows_max:
        refuse("minOffsetsPerTrigger", "it is over maxOffsetsPerTrigger", str(rows_min))
    schema, message = options.value("schema", chosen_schema, None), options.text("message") or ""
    check_message(message, schema)
    return ReadOptions(
        connection,
        topics,
        options.value("subscribePattern", _pattern, None),
        starting,
        ending,
        rows_max,
        options.value("maxBytesPerTrigger", whole_number, None),
        options.value("isolation", _isolation, Isolation.COMMITTED),
        options.value("failOnDataLoss", flag, otherwise=True),
        options.value("minPartitions", whole_number, None),
        options.value("pushdown", flag, otherwise=False),
        schema,
        message,
        options.value("damaged", chosen_damaged, otherwise=False),
        filter=options.value("filter", _filter, None),
        rows_min=rows_min,
        delay_s=options.value("maxTriggerDelay", delay, TRIGGER_DELAY_S),
        strategy=options.value(STRATEGY, _strategy, Strategy.WAIT),
    )


def _written(options: GivenOptions) -> WriteOptions:
    connection = _connection(options)
    topic = options.text("topic")
    if topic is not None:
        TopicId(connection.namespace, topic)
    transactional = options.value("transactional", flag, otherwise=True)
    owner = options.text("txnAppId")
    sequence = options.value("txnVersion", _version, None)
    if sequence is not None and owner is None:
        refuse("txnVersion", "it needs txnAppId")
    if not transactional:
        for option in ("txnAppId", "txnVersion", "transactionTimeout"):
            if options.has(option):
                refuse(f"{option} and transactional", "it has no meaning without a transaction")
    check_owner(owner, sequence)
    timeout_s = options.value("transactionTimeout", whole_number, TRANSACTION_TIMEOUT_S)
    schema, message = options.value("schema", chosen_schema, None), options.text("message") or ""
    check_message(message, schema)
    return WriteOptions(
        *(connection, topic, owner, sequence, transactional, timeout_s, schema),
        message=message,
        checkpoint=options.text(_CHECKPOINT),
    )


def check_message(message: str, schema: str | int | None) -> None:
    """Raise `InvalidRequest` if a message is named without a schema that may have several."""
    if not message:
        return
    if schema is None:
        refuse("message", "it needs schema: it names one of the messages of a Protobuf file")
    if isinstance(schema, str) and schema != LATEST:
        refuse(
            "message",
            "schema is the text of an Avro schema: only a Protobuf file has several messages",
        )


def _bounds(
    user_options: GivenOptions, options: tuple[str, str, str], otherwise: Edge
) -> RangeBounds:
    offsets, timestamp, by_timestamp = options
    option = user_options.one_of(*options)
    if option == offsets:
        text = (user_options.text(offsets) or "").strip()
        if text.startswith("{"):
            return RangeBounds(otherwise, offsets_by_topic(offsets, text))
        try:
            return RangeBounds(parse_offset(text), {})
        except InvalidRequest:
            expected = "earliest, latest, or a JSON object of message ids by topic is expected"
            refuse(offsets, expected, text)
    if option == timestamp:
        return RangeBounds(at_time(user_options.value(timestamp, time_ms, 0)), {})
    return RangeBounds(otherwise, user_options.value(by_timestamp, times_by_topic, {}))


def _refuse_edge(bounds: RangeBounds, edge: Edge, option: str, reason: str) -> None:
    if edge in (bounds.otherwise, *bounds.of_topic.values()):
        refuse(option, reason, edge)


def _topics(option: str, text: str) -> tuple[str, ...]:
    topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not topics:
        refuse(option, "at least one topic is expected", text)
    for topic in topics:
        TopicId("default", topic)
    return topics


def _pattern(option: str, text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        refuse(option, f"it is not a valid regular expression: {error}", text)
    return text


def _filter(option: str, text: str) -> str:
    try:
        return filter_of(text).text
    except InvalidRequest as error:
        refuse(option, str(error), text)


def _isolation(option: str, text: str) -> Isolation:
    try:
        return Isolation(text)
    except ValueError:
        refuse(option, "committed or all is expected", text)


def _strategy(option: str, text: str) -> Strategy:
    try:
        return Strategy(text)
    except ValueError:
        refuse(option, "error, latest or wait is expected", text)


def _version(option: str, text: str) -> int:
    return whole_number(option, text, least=0)

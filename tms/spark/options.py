"""The options of `format("tms")`, understood and checked. No Spark in here.

Guarantees that an option nobody knows is refused by name, with the one that was meant as far as it
can be guessed; that a value which cannot be understood is refused; and that of options which
contradict each other, or the way they are used, all are named. Names and defaults are those of
Spark's Kafka source wherever there is the same thing; upper and lower case are the same, as always
in Spark. docs/spark.md has the table of them, and a test holds it to `OPTIONS`.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tms.client.access import Access, access_of
from tms.core.errors import InvalidRequest
from tms.core.reading import Isolation
from tms.core.schemas import LATEST
from tms.core.topic import TopicId, check_namespace
from tms.core.transactions import check_owner
from tms.spark.offsets import Edge, RangeBounds, at_time, parse_offset
from tms.spark.option_values import (
    GivenOptions,
    closest,
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
_PER_TRIGGER = ("maxOffsetsPerTrigger", "maxBytesPerTrigger")
_READ = (
    *("subscribe", "subscribePattern", *_STARTING, *_ENDING, *_PER_TRIGGER),
    *("isolation", "failOnDataLoss", "minPartitions", "pushdown"),
    *("schema", "message", "damaged"),
)
_WRITE = (
    *("topic", "schema", "message"),
    *("txnAppId", "txnVersion", "transactional", "transactionTimeout"),
)
OPTIONS = (*_CONNECTION, *_READ, *_WRITE)
"""All there are, as they are written in the documentation."""

_CHECKPOINT = "checkpointlocation"
_OF_SPARK = frozenset({_CHECKPOINT, "queryname"})
"""Options that Spark gives to sources and sinks for its own use."""

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


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Which server, and how it is talked to."""

    url: str
    namespace: str
    timeout_s: float
    retry_for_s: float
    compress: bool
    token: str = field(default="", repr=False)
    token_file: str = ""
    """Where each of Spark's processes finds the token."""
    ca: str = ""
    """Where each finds the certificates to trust the server by."""

    def access(self) -> Access:
        """Return the credentials of a Spark process for the server.

        Raises `InvalidRequest` (plaintext_credentials), and `ValueError` for files that cannot be
        used there.
        """
        auth: str | Path | None = Path(self.token_file) if self.token_file else self.token or None
        return access_of(self.url, auth=auth, ca=self.ca or None)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of a reader."""

    connection: ServerOptions
    topics: tuple[str, ...] | None
    """Those named, None where there is a pattern."""
    pattern: str | None
    starting: RangeBounds
    ending: RangeBounds
    rows_per_trigger: int | None
    bytes_per_trigger: int | None
    isolation: Isolation
    fail_on_data_loss: bool
    partitions_min: int | None
    pushdown: bool
    schema: str | int | None = None
    """The reader's: LATEST, an id, or Avro's text; None for rows as they are."""
    message: str = ""
    """For a Protobuf file: the full name of the message to read; by default the first."""
    gives_damaged: bool = False
    """Whether a payload that cannot be decoded is a row with an error, and not one itself."""

    def __str__(self) -> str:
        """Return which topics are read, for people."""
        return self.pattern if self.pattern is not None else ", ".join(self.topics or ())

    def chosen(self, topics: Iterable[str]) -> list[str]:
        """Return which of all `topics` of the namespace the pattern takes, or those named."""
        if self.pattern is None:
            return list(self.topics or ())
        takes = re.compile(self.pattern).fullmatch
        return sorted(topic for topic in topics if takes(topic))


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of a writer."""

    connection: ServerOptions
    topic: str | None
    """Where all rows go; None where each says so itself, in the column `topic`."""
    owner: str | None
    """`txnAppId`."""
    sequence: int | None
    """`txnVersion`."""
    transactional: bool
    timeout_s: int
    """After how long a transaction is given up that nobody ends."""
    schema: str | int | None = None
    """As a reader's; a text is registered under the topic's subject."""
    message: str = ""
    """As a reader's."""
    checkpoint: str | None = None
    """Where a stream has its checkpoint, if an option says so."""


def batch_read(options: Mapping[str, str]) -> ReadOptions:
    """Return what the options of `spark.read` say. Raises `InvalidRequest`."""
    given = _checked(options, _READ, "reading")
    for option in _PER_TRIGGER:
        if given.has(option):
            refuse(option, "it is for streams: use readStream")
    starting = _bounds(given, _STARTING, Edge.EARLIEST)
    ending = _bounds(given, _ENDING, Edge.LATEST)
    _refuse_edge(
        starting, Edge.LATEST, "startingOffsets", "a batch that begins at the end is empty"
    )
    _refuse_edge(ending, Edge.EARLIEST, "endingOffsets", "a batch that ends at the start is empty")
    return _read(given, starting, ending)


def stream_read(options: Mapping[str, str]) -> ReadOptions:
    """Return what the options of `spark.readStream` say. Raises `InvalidRequest`."""
    given = _checked(options, _READ, "reading")
    for option in _ENDING:
        if given.has(option):
            refuse(option, "it is for batches: a stream has no end")
    if given.text("pushdown") == "true":
        refuse("pushdown", "Spark pushes filters down for batches only: use spark.read")
    return _read(given, _bounds(given, _STARTING, Edge.LATEST), RangeBounds(Edge.LATEST, {}))


def batch_write(options: Mapping[str, str]) -> WriteOptions:
    """Return what the options of `df.write` say. Raises `InvalidRequest`."""
    return _written(_checked(options, _WRITE, "writing"))


def stream_write(options: Mapping[str, str]) -> WriteOptions:
    """Return what the options of `df.writeStream` say. Raises `InvalidRequest`."""
    given = _checked(options, _WRITE, "writing")
    if given.has("txnVersion"):
        refuse("txnVersion", "it is for batches: a stream uses the number of its batch")
    return _written(given)


def any_read(options: Mapping[str, str]) -> ReadOptions:
    """Return what the options of a batch or a stream say that is common to both.

    For what Spark asks before it says which one it is. Raises `InvalidRequest`.
    """
    given = _checked(options, _READ, "reading")
    bounds = _bounds(given, _STARTING, Edge.EARLIEST), _bounds(given, _ENDING, Edge.LATEST)
    return _read(given, *bounds)


def _checked(options: Mapping[str, str], wanted: Iterable[str], use: str) -> GivenOptions:
    given = GivenOptions(options)
    if any(name == "owner" or name.startswith("option.") for name in given.names()):
        refuse("CREATE TABLE", _OF_TABLES)  # so Spark names a table's properties
    allowed = (*_CONNECTION, *wanted)
    known = {option.lower(): option for option in OPTIONS}
    for name in sorted(given.names() - _OF_SPARK - {option.lower() for option in allowed}):
        if name in known:
            refuse(known[name], f"it is not for {use}")
        meant = closest(name, allowed)
        hint = f"did you mean {meant}?" if meant else f"there are {', '.join(allowed)}"
        refuse(name, f"there is no such option; {hint}")
    return given


def connection_to(options: Mapping[str, str], *, retry_for_s: float) -> ServerOptions:
    """Return the connection that options of a connection say. Raises `InvalidRequest`."""
    given = _checked(options, (), "a connection")
    return replace(_connection(given), retry_for_s=retry_for_s)


def of_connection(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of the server and its credentials."""
    wanted = {option.lower() for option in _CONNECTION}
    return {name: text for name, text in options.items() if name.lower() in wanted}


def _connection(given: GivenOptions) -> ServerOptions:
    url = given.text("url")
    if url is None:
        refuse("url", f"it is required: the server's URL, http://HOST:PORT. {_OF_TABLES}")
    if given.has("tms.token") and given.has("tms.tokenFile"):
        refuse("tms.token and tms.tokenFile", "they mean the same: give one")
    if not url.startswith(("http://", "https://")):
        refuse("url", "Spark's processes need a server, http://HOST:PORT", url)
    return ServerOptions(
        url,
        check_namespace(given.text("namespace") or "default"),
        given.value("tms.timeout", seconds, TIMEOUT_S),
        given.value("tms.retryFor", seconds, RETRY_FOR_S),
        given.value("tms.compress", flag, otherwise=False),
        token=given.text("tms.token") or "",
        token_file=given.text("tms.tokenFile") or "",
        ca=given.text("tms.ca") or "",
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
    """Return whether damaged rows are given. Raises `InvalidRequest`."""
    if text not in (RAISE, GIVE):
        refuse(option, f"{RAISE} or {GIVE} is expected", text)
    return text == GIVE


def _read(given: GivenOptions, starting: RangeBounds, ending: RangeBounds) -> ReadOptions:
    connection = _connection(given)
    if given.one_of("subscribe", "subscribePattern") is None:
        refuse("subscribe", "it or subscribePattern is required: the topics to read")
    topics = given.value("subscribe", _topics, None)
    if topics is not None:
        for topic in {**starting.of_topic, **ending.of_topic}:
            if topic not in topics:
                refuse("subscribe", "a topic that is not read has an offset", topic)
    if given.has("damaged") and not given.has("schema"):
        refuse("damaged", "it needs schema: without one payloads are not decoded")
    schema, message = given.value("schema", chosen_schema, None), given.text("message") or ""
    check_message(message, schema)
    return ReadOptions(
        connection,
        topics,
        given.value("subscribePattern", _pattern, None),
        starting,
        ending,
        given.value("maxOffsetsPerTrigger", whole_number, None),
        given.value("maxBytesPerTrigger", whole_number, None),
        given.value("isolation", _isolation, Isolation.COMMITTED),
        given.value("failOnDataLoss", flag, otherwise=True),
        given.value("minPartitions", whole_number, None),
        given.value("pushdown", flag, otherwise=False),
        schema,
        message,
        given.value("damaged", chosen_damaged, otherwise=False),
    )


def _written(given: GivenOptions) -> WriteOptions:
    connection = _connection(given)
    topic = given.text("topic")
    if topic is not None:
        TopicId(connection.namespace, topic)
    transactional = given.value("transactional", flag, otherwise=True)
    owner = given.text("txnAppId")
    sequence = given.value("txnVersion", _version, None)
    if sequence is not None and owner is None:
        refuse("txnVersion", "it needs txnAppId")
    if not transactional:
        for option in ("txnAppId", "txnVersion", "transactionTimeout"):
            if given.has(option):
                refuse(f"{option} and transactional", "it has no meaning without a transaction")
    check_owner(owner, sequence)
    timeout_s = given.value("transactionTimeout", whole_number, TRANSACTION_TIMEOUT_S)
    schema, message = given.value("schema", chosen_schema, None), given.text("message") or ""
    check_message(message, schema)
    return WriteOptions(
        *(connection, topic, owner, sequence, transactional, timeout_s, schema),
        message=message,
        checkpoint=given.text(_CHECKPOINT),
    )


def check_message(message: str, schema: str | int | None) -> None:
    """Raise `InvalidRequest` if a message is named without a schema that can have several."""
    if not message:
        return
    if schema is None:
        refuse("message", "it needs schema: it names one of the messages of a Protobuf file")
    if isinstance(schema, str) and schema != LATEST:
        refuse(
            "message",
            "schema is the text of an Avro schema: only a Protobuf file has several messages",
        )


def _bounds(given: GivenOptions, options: tuple[str, str, str], otherwise: Edge) -> RangeBounds:
    offsets, timestamp, by_timestamp = options
    option = given.one_of(*options)
    if option == offsets:
        text = (given.text(offsets) or "").strip()
        if text.startswith("{"):
            return RangeBounds(otherwise, offsets_by_topic(offsets, text))
        try:
            return RangeBounds(parse_offset(text), {})
        except InvalidRequest:
            expected = "earliest, latest, or a JSON object of message ids by topic is expected"
            refuse(offsets, expected, text)
    if option == timestamp:
        return RangeBounds(at_time(given.value(timestamp, time_ms, 0)), {})
    return RangeBounds(otherwise, given.value(by_timestamp, times_by_topic, {}))


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


def _isolation(option: str, text: str) -> Isolation:
    try:
        return Isolation(text)
    except ValueError:
        refuse(option, "committed or all is expected", text)


def _version(option: str, text: str) -> int:
    return whole_number(option, text, least=0)

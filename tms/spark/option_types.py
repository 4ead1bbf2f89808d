"""The options of `format("tms")` as parsed values. It does not use Spark."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from tms.client.remote.access import Access, access_of
from tms.core.values.reading import Isolation
from tms.spark.offsets import Edge, Offset, RangeBounds, Since, Standing, start_of
from tms.spark.option_values import refuse

STRATEGY = "startingOffsetsByTimestampStrategy"
TRIGGER_DELAY_S = 900.0


class Strategy(StrEnum):
    """Where to start if a topic has no messages at or after the starting time."""

    WAIT = "wait"
    """At the starting time, which may be in the future."""
    ERROR = "error"
    """Nowhere: an error is raised."""
    LATEST = "latest"
    """At the end."""


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """The server, and how to connect to it."""

    url: str
    namespace: str
    timeout_s: float
    retry_for_s: float
    compress: bool
    token: str = field(default="", repr=False)
    token_file: str = ""
    """The path of the token's file on each machine with Spark processes."""
    ca: str = ""
    """The path of the trusted certificates on each such machine."""

    def access(self) -> Access:
        """Return the credentials of a Spark process for the server.

        Raises `InvalidRequest` (plaintext_credentials), and `ValueError` for unusable files.
        """
        auth: str | Path | None = Path(self.token_file) if self.token_file else self.token or None
        return access_of(self.url, auth=auth, ca=self.ca or None)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of a reader."""

    connection: ServerOptions
    topics: tuple[str, ...] | None
    """The named topics, None with a pattern."""
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
    """The reader's: LATEST, an id, or Avro's text; None for untyped rows."""
    message: str = ""
    """For a Protobuf file, the full name of the message to read; by default the first."""
    gives_damaged: bool = False
    """Whether a payload that cannot be decoded becomes a row with an error."""

    filter: str | None = None
    """The text of a filter that the server applies."""
    rows_min: int | None = None
    """How many messages a batch of a stream waits for."""
    delay_s: float = TRIGGER_DELAY_S
    """How long it waits for them at most."""
    strategy: Strategy = Strategy.WAIT
    """For a topic that has no messages at or after the starting time."""

    def start_in(self, topic: str, standing: Standing) -> Offset:
        """Return where reading a topic starts. Raises `InvalidRequest` (invalid_option)."""
        bound = self.starting.of(topic)
        if isinstance(bound, Since) and bound.position >= standing.end:
            if self.strategy is Strategy.ERROR:
                refuse(STRATEGY, f"{topic} has no message from the starting time on")
            bound = Edge.LATEST if self.strategy is Strategy.LATEST else bound
        return start_of(bound, standing)

    def __str__(self) -> str:
        """Return for people which topics are read."""
        return self.pattern if self.pattern is not None else ", ".join(self.topics or ())

    def chosen(self, topics: Iterable[str]) -> list[str]:
        """Return the named topics, or those of `topics` that match the pattern."""
        if self.pattern is None:
            return list(self.topics or ())
        takes = re.compile(self.pattern).fullmatch
        return sorted(topic for topic in topics if takes(topic))


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of a writer."""

    connection: ServerOptions
    topic: str | None
    """The topic of all rows; None if each row names its own in the column `topic`."""
    owner: str | None
    """`txnAppId`."""
    sequence: int | None
    """`txnVersion`."""
    transactional: bool
    timeout_s: int
    """After how long an abandoned transaction times out."""
    schema: str | int | None = None
    """As for a reader; a text is registered under the topic's subject."""
    message: str = ""
    """As for a reader."""
    checkpoint: str | None = None
    """The location of a stream's checkpoint, if an option has it."""

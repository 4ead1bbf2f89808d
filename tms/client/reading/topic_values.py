"""A topic's messages as values, for asyncio: encoded by schemas, published, and decoded.

`tms.serdes`, which encodes and decodes, needs the extra `schemas`, so it is loaded on first use.
"""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import Any, Literal, TypeVar

from tms.client.reading.poll import Blocks, Runs
from tms.core.errors import PayloadRefused
from tms.core.runtime import extras
from tms.core.services.records import Decoding, Encoding, Record, TopicRecords
from tms.core.services.server_services import Services
from tms.core.values.frame import framed_of
from tms.core.values.message import Message, framed_message
from tms.core.values.topic import TopicId

Decode = Decoding | Literal[True]
Sent = TypeVar("Sent")


class ClientRecords:
    """The encoders and decoders for all topics of a client, created on first use."""

    def __init__(self, services: Services) -> None:
        """Create nothing yet."""
        self._services = services
        self._made: TopicRecords | None = None

    def get(self) -> TopicRecords:
        """Return them. Raises `ModuleNotFoundError`, which says what to install."""
        if self._made is None:
            try:
                from tms.serdes.records import Records  # noqa: PLC0415  an extra
            except ModuleNotFoundError as error:
                raise extras.missing("values with schemas need more", error, "schemas") from error
            self._made = Records(self._services)
        return self._made


class TopicValues:
    """The values of one topic."""

    def __init__(self, topic_id: TopicId, records: ClientRecords) -> None:
        """Send nothing yet."""
        self._id = topic_id
        self._records = records

    async def send(
        self, send: Callable[[list[bytes]], Awaitable[Sent]], given: Any, how: Encoding
    ) -> Sent:
        """Send values; once more if the server refuses them by what may be out of date here."""
        records = self._records.get()
        values = records.values_of(given)
        try:
            return await send(await records.bodies(self._id, values, how))
        except PayloadRefused as refused:
            if refused.problem.code != "payload_without_schema":
                raise
        records.forget()
        return await send(await records.bodies(self._id, values, how))

    async def encode(self, value: Any, how: Encoding) -> list[Message]:
        """Encode values as messages."""
        records = self._records.get()
        encoded = await records.bodies(self._id, records.values_of(value), how)
        framed = frozenset(framed_of(encoded))
        return [
            framed_message(b"", body) if index in framed else Message(body)
            for index, body in enumerate(encoded)
        ]

    async def decode(self, messages: Iterable[Message], how: Decoding) -> list[Record]:
        """Decode messages to records. Raises `PayloadUndecodable`."""
        decoder = await self._records.get().decoder(self._id, how)
        records, error = await decoder.records(messages)
        if error is not None:
            raise error
        return records

    def decoded(self, blocks: Blocks, *, how: Decoding | bool) -> Runs:
        """Yield runs of records for runs of messages; unchanged ones if `how` is False.

        Raises `PayloadUndecodable` when it reaches such a message.
        """
        if how is True:
            how = Decoding()
        return self._decoded(blocks, how) if how else blocks

    async def _decoded(self, blocks: Blocks, how: Decoding) -> Runs:
        async with aclosing(blocks):
            decoder = await self._records.get().decoder(self._id, how)
            async for block in blocks:
                records, error = await decoder.records(block)
                if records:
                    yield records
                if error is not None:
                    raise error

"""Messages as values: JSON that is encoded and decoded by the schemas of a topic.

A poll that accepts `application/json;decode=true` is answered in JSON with `value` instead of
`payload`. Each part of the answer is decoded outside the event loop.
"""

from collections.abc import Sequence

from api.http.exchange import Exchange
from tms.core.errors import SchemasUnavailable
from tms.core.services.messaging import Page
from tms.core.services.payload_values import PayloadValues, no_registry
from tms.core.values.caller import Caller
from tms.core.values.frame import bodies_of, framed_of
from tms.core.values.message import Message
from tms.core.values.topic_schemas import TopicSchemas, schemas_of
from tms.wire.bodies import PublishRequest
from tms.wire.json_decoded_values import encode_decoded

_MESSAGES_A_STEP = 1000
TYPE = b"application/json"


def _values_of(exchange: Exchange) -> PayloadValues:
    values = exchange.context.services.messaging.values
    if values is None:
        raise SchemasUnavailable(reason=no_registry())
    return values


async def _schemas_of(exchange: Exchange) -> TopicSchemas:
    topic_id = exchange.topic_id
    topic = await exchange.context.services.messaging.topic(topic_id)
    return schemas_of(topic_id, topic.properties)


async def encoded(exchange: Exchange, request: PublishRequest) -> PublishRequest:
    """Return a request with its values encoded as the bodies of messages.

    Raises `PayloadRefused`, `SchemasUnavailable`, `TopicNotFound`, `NotPermitted`.
    """
    values = _values_of(exchange)
    schemas = await _schemas_of(exchange)
    made = await values.encoded(schemas, request.values, caller=exchange.caller)
    framed = frozenset(framed_of(request.payloads))
    bodies = [(body, index in framed) for index, body in enumerate(request.payloads)]
    for index, body in made.items():
        bodies[index] = body
    return PublishRequest(request.write_pointer, bodies_of(bodies))


class DecodedAnswer:
    """The answer to one poll, in parts."""

    content_type = TYPE

    def __init__(self, values: PayloadValues, schemas: TopicSchemas, caller: Caller) -> None:
        self._values = values
        self._caller = caller
        self._schemas = schemas
        self._is_first = True

    @classmethod
    async def to(cls, exchange: Exchange) -> "DecodedAnswer":
        """Return the answer to a request. Raises `SchemasUnavailable`, `TopicNotFound`."""
        return cls(_values_of(exchange), await _schemas_of(exchange), exchange.caller)

    async def part(self, page: Page) -> Sequence[bytes]:
        """Return the next bytes of the answer; none for a page without messages."""
        messages = [message for block in page.blocks for message in block]
        rows = [
            await self._rows(messages[start : start + _MESSAGES_A_STEP])
            for start in range(0, len(messages), _MESSAGES_A_STEP)
        ]
        if not rows:
            return ()
        start = b"[" if self._is_first else b","
        self._is_first = False
        return (start, b",".join(rows))

    async def _rows(self, messages: Sequence[Message]) -> bytes:
        decoded = await self._values.decoded(self._schemas, messages, caller=self._caller)
        return encode_decoded(messages, decoded)

    def end(self) -> bytes:
        """Return the last bytes of the answer."""
        return b"[]" if self._is_first else b"]"

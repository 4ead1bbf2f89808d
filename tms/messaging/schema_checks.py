"""Checks payloads for their topic: keys if it is compact, schemas if its properties say so."""

from collections.abc import Mapping, Sequence

from tms.core.errors import InvalidRequest, SchemasUnavailable, TopicIsCompact
from tms.core.services.payload_values import PayloadValues, no_registry
from tms.core.values.caller import Caller
from tms.core.values.topic import TopicMetadata
from tms.core.values.topic_properties import SCHEMA_CHECK
from tms.core.values.topic_schemas import SchemaCheck, schemas_of
from tms.messaging.admission import check_keys
from tms.messaging.loaded_topics import TopicState


class SchemaChecks:
    """The checks of a service."""

    def __init__(self, values: PayloadValues | None) -> None:
        """Check schemas with `values`, None if no registry is installed."""
        self.values = values

    def check_properties(self, properties: Mapping[str, object] | None) -> None:
        """Raise `InvalidRequest` if payloads are to be checked, and there is no registry."""
        if self.values is not None or not isinstance(properties, Mapping):
            return
        check = properties.get(SCHEMA_CHECK, SchemaCheck.OFF)
        if check != SchemaCheck.OFF:
            raise InvalidRequest(
                "invalid_properties", property=SCHEMA_CHECK, value=check, reason=no_registry()
            )

    async def admit(
        self,
        state: TopicState,
        payloads: Sequence[bytes],
        caller: Caller,
        *,
        are_stored: bool = False,
    ) -> TopicMetadata:
        """Return the topic with the properties that payloads were checked against.

        They are checked again if the properties change in the meantime. The state is held. Raises
        `InvalidRequest` (key_required), `TopicIsCompact` for what is stored, and as
        `PayloadValues.check`.
        """
        while True:
            topic = state.topic
            if are_stored:
                check_not_compact(topic)
            if topic.is_compact:
                check_keys(payloads)
            if SCHEMA_CHECK not in topic.properties:
                return topic
            await self._check(topic, payloads, caller)
            if state.topic.properties == topic.properties:
                return topic

    async def _check(self, topic: TopicMetadata, payloads: Sequence[bytes], caller: Caller) -> None:
        """Raise as `PayloadValues.check` unless the topic accepts the payloads."""
        schemas = schemas_of(topic.id, topic.properties)
        if schemas.check is SchemaCheck.OFF or not payloads:
            return
        if self.values is None:
            raise SchemasUnavailable(reason=no_registry())
        await self.values.check(schemas, payloads, caller=caller)


def check_not_compact(topic: TopicMetadata) -> None:
    """Raise `TopicIsCompact` if a topic does not accept stored messages."""
    if topic.is_compact:
        raise TopicIsCompact(topic=str(topic.id))

"""Whether payloads fit the schemas of their topic, if that says to check them."""

from collections.abc import Mapping, Sequence

from tms.core.errors import InvalidRequest, SchemasUnavailable
from tms.core.payload_values import PayloadValues, no_registry
from tms.core.topic import TopicMetadata
from tms.core.topic_properties import SCHEMA_CHECK
from tms.core.topic_schemas import SchemaCheck, schemas_of


class SchemaChecks:
    """The checks of a service."""

    def __init__(self) -> None:
        self.values: PayloadValues | None = None
        """What knows of schemas; None: no registry is installed."""

    def check_properties(self, properties: Mapping[str, object] | None) -> None:
        """Raise `InvalidRequest` if payloads are to be checked, and there is no registry."""
        if self.values is not None or not isinstance(properties, Mapping):
            return
        check = properties.get(SCHEMA_CHECK, SchemaCheck.OFF)
        if check != SchemaCheck.OFF:
            raise InvalidRequest(
                "invalid_properties", property=SCHEMA_CHECK, value=check, reason=no_registry()
            )

    async def check(self, topic: TopicMetadata, payloads: Sequence[bytes]) -> None:
        """Raise `PayloadRefused`, `SchemasUnavailable` unless the topic takes payloads."""
        schemas = schemas_of(topic.id, topic.properties)
        if schemas.check is SchemaCheck.OFF or not payloads:
            return
        if self.values is None:
            raise SchemasUnavailable(reason=no_registry())
        await self.values.check(schemas, payloads)

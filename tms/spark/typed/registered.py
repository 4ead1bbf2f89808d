"""The registry for Spark's driver and tasks, through a server's connections.

Callers cache the results for a query, because an id always means the same schema.
"""

from typing import NamedTuple

from tms.client.remote.calls import Calls
from tms.client.remote.remote_messaging import RemoteMessaging
from tms.client.remote.remote_schemas import RemoteSchemas
from tms.client.threads.bridge import Bridge
from tms.core.errors import PayloadRefused
from tms.core.services.schemas import SchemaVersion
from tms.core.values.topic import TopicId
from tms.core.values.topic_schemas import TopicSchemas, schemas_of
from tms.serdes.compiling import compiled
from tms.serdes.serde import SchemaSource, UnusableSchema
from tms.serdes.serdes import Serdes


class KnownSchema(NamedTuple):
    """A schema with its id."""

    id: int
    source: SchemaSource


class RegisteredSchemas:
    """The registry of one server. Each method may raise `SchemaRefused` and `Unavailable`."""

    def __init__(self, calls: Calls, bridge: Bridge, namespace: str) -> None:
        """Use `calls`, for topics of a namespace."""
        self._messaging = RemoteMessaging(calls)
        self._schemas = RemoteSchemas(calls)
        self._sources = Serdes(lambda: self._schemas)
        self._bridge = bridge
        self._namespace = namespace

    def topic(self, topic: str) -> TopicSchemas:
        """Return a topic's properties about schemas. Raises `TopicNotFound`."""
        topic_id = TopicId(self._namespace, topic)
        metadata = self._bridge.call(lambda: self._messaging.topic(topic_id))
        return schemas_of(topic_id, metadata.properties)

    def latest(self, subject: str) -> KnownSchema:
        """Return the latest version of a subject."""
        return self._known(self._bridge.call(lambda: self._schemas.version(subject)), subject)

    def of_id(self, schema_id: int, subject: str) -> KnownSchema:
        """Return the schema of an id, in the context of a subject."""
        schema = self._bridge.call(lambda: self._schemas.schema(schema_id, subject))
        return self._known(schema, subject)

    def register(self, topic: TopicSchemas, source: SchemaSource) -> KnownSchema:
        """Register a schema under a topic's subject, and return it. Raises `PayloadRefused`."""
        try:
            subject = subject_of(topic, compiled(source).record_name)
        except UnusableSchema as error:
            where = str(topic.topic_id)
            raise PayloadRefused("schema_unusable", topic=where, reason=str(error)) from None
        text, kind = source.text, source.kind
        version = self._bridge.call(lambda: self._schemas.register(subject, text, kind))
        return self._known(version, subject)

    def _known(self, version: SchemaVersion, subject: str) -> KnownSchema:
        source = self._bridge.call(lambda: self._sources.source_of(version, subject))
        return KnownSchema(version.id, source)


def subject_of(topic: TopicSchemas, record_name: str = "") -> str:
    """Return the subject of a topic's payloads. Raises `UnusableSchema` without a single one."""
    try:
        return topic.value_subject(record_name)
    except ValueError as error:
        raise UnusableSchema(f"{error}; give a schema's id, or the topic a subject") from None


def context_of(subject: str) -> str:
    """Return the context of a subject; empty for the default one."""
    return subject[1:].partition(":")[0] if subject.startswith(":.") else ""

"""Which registry subjects have the schemas of a topic's payloads and keys.

The names are those of Confluent's strategies, so its serializers find the same subjects:

    topic          orders-value, orders-key
    record         com.example.Order: the full name of the record
    topic_record   orders-com.example.Order

For topics outside the namespace `default` it comes first, as in `sales:orders-value`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tms.core.values.topic import TopicId
from tms.core.values.topic_properties import KEY_SUBJECT, SCHEMA_CHECK, SUBJECT, SUBJECT_STRATEGY

_DEFAULT_NAMESPACE = "default"


class SubjectStrategy(StrEnum):
    """How the subject is named if the topic does not name one."""

    TOPIC = "topic"
    RECORD = "record"
    TOPIC_RECORD = "topic_record"


class SchemaCheck(StrEnum):
    """How payloads are checked when they are published."""

    OFF = "off"
    ID = "id"
    """A payload names a schema of the topic's subject."""
    FULL = "full"
    """It also fits that schema."""


@dataclass(frozen=True, slots=True)
class TopicSchemas:
    """A topic's properties about schemas."""

    topic_id: TopicId
    subject: str | None = None
    key_subject: str | None = None
    strategy: SubjectStrategy = SubjectStrategy.TOPIC
    check: SchemaCheck = SchemaCheck.OFF

    @property
    def is_by_record(self) -> bool:
        """Whether the subject of a payload depends on its record."""
        return self.subject is None and self.strategy is not SubjectStrategy.TOPIC

    def value_subject(self, record_name: str) -> str:
        """Return the subject of payloads of a record. Raises `ValueError` if there is none."""
        return self.subject or self._named(record_name, "value")

    def subject_of_key(self, record_name: str) -> str:
        """Return the subject of keys of a record. Raises `ValueError` if there is none."""
        return self.key_subject or self._named(record_name, "key")

    def _named(self, record_name: str, part: str) -> str:
        topic_id = self.topic_id
        is_default = topic_id.namespace == _DEFAULT_NAMESPACE
        topic = topic_id.name if is_default else str(topic_id)
        if self.strategy is SubjectStrategy.TOPIC:
            return f"{topic}-{part}"
        if not record_name:
            raise ValueError(f"subject_strategy {self.strategy} needs a schema with a name")
        return record_name if self.strategy is SubjectStrategy.RECORD else f"{topic}-{record_name}"


def schemas_of(topic_id: TopicId, properties: Mapping[str, str]) -> TopicSchemas:
    """Return a topic's properties about schemas; unreadable ones count as not set."""
    strategies, checks = set(SubjectStrategy), set(SchemaCheck)
    strategy = properties.get(SUBJECT_STRATEGY, SubjectStrategy.TOPIC)
    check = properties.get(SCHEMA_CHECK, SchemaCheck.OFF)
    return TopicSchemas(
        topic_id,
        properties.get(SUBJECT) or None,
        properties.get(KEY_SUBJECT) or None,
        SubjectStrategy(strategy) if strategy in strategies else SubjectStrategy.TOPIC,
        SchemaCheck(check) if check in checks else SchemaCheck.OFF,
    )

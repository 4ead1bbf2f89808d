"""The schema of a query of typed rows: the driver finds it and sends it to tasks.

So all tasks of a query agree, whatever is registered or deleted in the meantime.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from tms.core.errors import PayloadRefused
from tms.core.services.schemas import LATEST
from tms.core.values.schema_types import AVRO, type_of
from tms.serdes.compiling import compiled
from tms.serdes.serde import SchemaSource, UnusableSchema
from tms.spark.option_values import refuse
from tms.spark.typed.forms import form_of
from tms.spark.typed.names import DEFAULT_OWN, OF_DAMAGED, OWN_TYPES
from tms.spark.typed.registered import KnownSchema, RegisteredSchemas, context_of, subject_of

_OPTION = "schema"


@dataclass(frozen=True, slots=True)
class ReaderSchema:
    """The schema that reads payloads, and what to do with damaged ones."""

    source: SchemaSource
    gives_damaged: bool

    def columns(self) -> dict[str, pa.DataType]:
        """Return all columns with their types. Raises `InvalidRequest`."""
        hidden = () if self.gives_damaged else OF_DAMAGED
        try:
            fields = form_of(self.source).types
        except UnusableSchema as error:
            refuse(_OPTION, str(error))
        return {**fields, **{name: OWN_TYPES[name] for name in OWN_TYPES if name not in hidden}}

    def default_columns(self) -> dict[str, pa.DataType]:
        """Return the columns of a reader without a schema: the fields, then the message's."""
        names = {*DEFAULT_OWN, *OF_DAMAGED}
        return {
            name: column
            for name, column in self.columns().items()
            if name not in OWN_TYPES or name in names
        }


def reader_schema(
    schemas: RegisteredSchemas,
    topics: Sequence[str],
    choice: str | int,
    *,
    gives_damaged: bool,
    message: str = "",
) -> ReaderSchema:
    """Return the one schema that reads all these topics. Raises `InvalidRequest`."""
    source = _reader_source(schemas, topics, choice)
    return ReaderSchema(_of_message(source, message), gives_damaged)


def _reader_source(
    schemas: RegisteredSchemas, topics: Sequence[str], choice: str | int
) -> SchemaSource:
    if isinstance(choice, str) and choice != LATEST:
        return SchemaSource(AVRO, choice)
    if not topics:
        refuse(_OPTION, "there is no topic yet whose schema could be read: give Avro's text")
    topics_found = [schemas.topic(topic) for topic in topics]
    try:
        if isinstance(choice, int):
            contexts = {context_of(each.subject or ""): each.subject or "" for each in topics_found}
            _refuse_several("contexts", contexts)
            known = schemas.of_id(choice, topics_found[0].subject or "")
        else:
            subjects = dict.fromkeys(map(subject_of, topics_found))
            _refuse_several("subjects", subjects)
            known = schemas.latest(next(iter(subjects)))
    except UnusableSchema as error:
        refuse(_OPTION, str(error))
    return known.source


def _of_message(source: SchemaSource, message: str) -> SchemaSource:
    """Return the source of one message of a file. Raises `InvalidRequest` if it is missing."""
    if not message:
        return source
    if not type_of(source.kind).has_messages:
        refuse("message", f"the schema is {source.kind}: only Protobuf's have several", message)
    chosen = replace(source, message=message)
    try:
        compiled(chosen)
    except UnusableSchema as error:
        refuse("message", str(error), message)
    return chosen


def _refuse_several(kind: str, topics: Mapping[str, object]) -> None:
    if len(topics) > 1:
        names = ", ".join(sorted(topics))
        refuse(
            _OPTION,
            f"the topics have several {kind} ({names}), but only one schema can be read: give "
            + ("its id, or its text" if kind == "subjects" else "Avro's text"),
        )


def written_schema(
    schemas: RegisteredSchemas, topic: str, choice: str | int, message: str = ""
) -> KnownSchema:
    """Return the schema that encodes rows for a topic, after registering a text.

    Raises `InvalidRequest` if the message does not exist, `PayloadRefused`, `TopicNotFound`.
    """
    schema = _known_schema(schemas, topic, choice)
    return schema._replace(source=_of_message(schema.source, message))


def _known_schema(schemas: RegisteredSchemas, topic: str, choice: str | int) -> KnownSchema:
    subjects = schemas.topic(topic)
    try:
        if isinstance(choice, int):
            return schemas.of_id(choice, subjects.subject or "")
        if choice == LATEST:
            return schemas.latest(subject_of(subjects))
        return schemas.register(subjects, SchemaSource(AVRO, choice))
    except UnusableSchema as error:
        where = str(subjects.topic_id)
        raise PayloadRefused("schema_unusable", topic=where, reason=str(error)) from None

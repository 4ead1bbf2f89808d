"""The types of schemas, each with its rules, and the answers to questions about them.

Who checks loads this module, and with it the libraries of the types (`tms.registry.checker`).
"""

import functools
import os
import resource
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tms.core.schemas import AVRO, JSON, PROTOBUF
from tms.registry import avro_schemas, json_schemas, proto_schemas
from tms.registry.json_text import check_characters
from tms.registry.kept_parses import KeptParses
from tms.registry.questions import (
    Answer,
    Compared,
    Comparison,
    Decodes,
    FromJson,
    Incompatibility,
    InForm,
    InJson,
    InvalidSchema,
    NoSchema,
    Parsed,
    Question,
    RecordName,
    Source,
    Tagged,
    TagsFound,
    TextInForm,
    WhichTags,
)
from tms.registry.value_answers import answer_about_values
from tms.serdes.serde import SchemaSource, Serde, UnusableSchema, compiled

_NICE = 10
"""How much a worker stands back behind the server, which has one core if all are at work."""
MEMORY_BYTES_MAX = 1024 * 1024 * 1024
"""The most memory of a worker: a text that needs more is refused."""
_PARSED_KEPT = 256
_KEPT = KeptParses()


class _Kind(NamedTuple):
    """The rules of one type of schemas."""

    parse: Callable[[str, Sequence[tuple[str, str]]], Any]
    """From a text and what it refers to; raises `InvalidSchema`."""
    incompatibilities: Callable[[Any, Any], list[Incompatibility]]
    """Why the first, a reader, cannot read what the second has written."""


def _parse_avro(text: str, references: Sequence[tuple[str, str]]) -> avro_schemas.AvroSchema:
    return avro_schemas.parse(text, [text for _, text in references])


_KINDS: Mapping[str, _Kind] = {
    AVRO: _Kind(_parse_avro, avro_schemas.incompatibilities),
    JSON: _Kind(json_schemas.parse, json_schemas.incompatibilities),
    PROTOBUF: _Kind(proto_schemas.parse, proto_schemas.incompatibilities),
}
_FORMS: Mapping[str, Callable[[Any], str]] = {
    "resolved": lambda schema: schema.resolved,
    "resolved_normalized": lambda schema: schema.resolved_normalized,
    "resolved_ordered": lambda schema: schema.resolved_ordered,
    "serialized": lambda schema: schema.serialized,
    "ignore_extensions": lambda schema: schema.without_extensions,
}
"""By the name of a form, which `lookup.FORMS` gives to types, or by which `sources` compares."""


@functools.cache
def _prepare_process() -> None:
    """Bound what this process may have, and leave Ctrl-C and the processor to the server; once."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICE)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    soft = MEMORY_BYTES_MAX if hard == resource.RLIM_INFINITY else min(MEMORY_BYTES_MAX, hard)
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@functools.lru_cache(_PARSED_KEPT)
def _parsed(source: Source) -> Any:
    parse = _KINDS[source.kind].parse
    if source.kind != PROTOBUF:
        check_characters(source.text)
    return _KEPT.parsed(source, lambda: parse(source.text, source.references))


@functools.lru_cache(_PARSED_KEPT)
def _serde(source: Source) -> Serde:
    """Return what encodes and decodes by a schema. Raises `UnusableSchema`, `InvalidSchema`."""
    if source.kind == AVRO:
        return compiled(SchemaSource(AVRO, _parsed(source).resolved))
    if source.kind == JSON:
        return compiled(SchemaSource(JSON, source.text, source.references))
    references = [
        (name, _parsed(Source(PROTOBUF, text, source.references[:number])).serialized)
        for number, (name, text) in enumerate(source.references)
    ]
    return compiled(SchemaSource(PROTOBUF, _parsed(source).serialized, tuple(references)))


def _answer(question: Question, *, is_alone: bool = False) -> Answer:
    """Return an answer; if memory is short, after whatever is kept was given up for it."""
    try:
        return _found(question)
    except (InvalidSchema, UnusableSchema) as error:
        return NoSchema(str(error))
    except MemoryError:
        if not is_alone:
            _parsed.cache_clear()
            _serde.cache_clear()
            return _answer(question, is_alone=True)
        return NoSchema("the schema needs too much memory")
    except RecursionError:
        return NoSchema("the schema is nested too deeply")


def _found(question: Question) -> Answer:
    match question:
        case Comparison(reader, writer):
            find = _KINDS[reader.kind].incompatibilities
            return Compared(tuple(find(_parsed(reader), _parsed(writer))))
        case InForm(source, form):
            return TextInForm(_FORMS[form](_parsed(source)))
        case WhichTags(source):
            return TagsFound(_parsed(source).tags)
        case Tagged():
            return TextInForm(_parsed(question.source).tagged(question))
        case Decodes() | InJson() | FromJson() | RecordName():
            return answer_about_values(question, _serde(question.source))
    parsed = _parsed(question)
    return Parsed(parsed.text, parsed.normalized, parsed.fields)


def answers_in_worker(questions: Sequence[Question], folder: str | None) -> list[Answer]:
    """Return the answers to questions, in a process that does nothing else.

    What takes long to parse is kept in `folder`, if there is one.
    """
    _prepare_process()
    _KEPT.folder = folder
    return answers_to(questions)


def answers_to(questions: Sequence[Question]) -> list[Answer]:
    """Return the answers to questions, in their order."""
    return [_answer(question) for question in questions]

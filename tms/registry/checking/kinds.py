"""The types of schemas, each with its rules, and the answers to questions about them.

Who checks loads this module, and with it the libraries of the types
(`tms.registry.checking.checker`).
"""

import functools
import os
import resource
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from tms.core.values.schema_types import AVRO, JSON, PROTOBUF, type_of
from tms.registry.avro import avro_schemas
from tms.registry.checking.kept_parses import KeptParses
from tms.registry.json import json_schemas
from tms.registry.protobuf import proto_schemas
from tms.registry.questions.questions import (
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
    Tags,
    TagsFound,
    TextInForm,
    WhichTags,
)
from tms.registry.questions.value_answers import answer_about_values
from tms.serdes.compiling import compiled
from tms.serdes.serde import SchemaSource, Serde, UnusableSchema

_NICE = 10
"""How much a worker stands back behind the server, which has one core if all are at work."""
MEMORY_BYTES_MAX = 1024 * 1024 * 1024
"""The most memory of a worker: a text that needs more is refused."""
_PARSED_KEPT = 256
_KEPT = KeptParses()


class ParsedSchema(Protocol):
    """A text that is a schema. Its type's file says all that the registry asks of it."""

    @property
    def text(self) -> str:
        """As it is kept."""
        ...

    @property
    def normalized(self) -> str:
        """As it is kept if schemas are to be normalized."""
        ...

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields at its top."""
        ...

    @property
    def problem_if_normalized(self) -> str:
        """Why it may not be registered as normalized; "" if it may."""
        ...

    @property
    def tags(self) -> Tags:
        """The tags that are written in it."""
        ...

    def tagged(self, wanted: Tagged) -> str:
        """Return its text with other tags. Raises `InvalidSchema` if an entity is not there."""
        ...

    def in_form(self, form: str) -> str:
        """Return its text in a form that its type has (`tms.core.values.schema_types`)."""
        ...

    def incompatibilities(self, writer: Any) -> list[Incompatibility]:
        """Return why it cannot read what `writer`, of its type, has written; nothing if it can."""
        ...


Parse = Callable[[str, Sequence[tuple[str, str]]], ParsedSchema]
"""Makes a schema of a text and the names and texts it refers to. Raises `InvalidSchema`."""
_PARSES: Mapping[str, Parse] = {
    AVRO: avro_schemas.parse,
    JSON: json_schemas.parse,
    PROTOBUF: proto_schemas.parse,
}


@functools.cache
def _prepare_process() -> None:
    """Bound what this process may have, and leave Ctrl-C and the processor to the server; once."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICE)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    soft = MEMORY_BYTES_MAX if hard == resource.RLIM_INFINITY else min(MEMORY_BYTES_MAX, hard)
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@functools.lru_cache(_PARSED_KEPT)
def _parsed(source: Source) -> ParsedSchema:
    parsed: ParsedSchema = _KEPT.parsed(
        source, lambda: _PARSES[source.kind](source.text, source.references)
    )
    return parsed


@functools.lru_cache(_PARSED_KEPT)
def _serde(source: Source) -> Serde:
    """Return what encodes and decodes by a schema. Raises `UnusableSchema`, `InvalidSchema`."""
    kind = type_of(source.kind)
    references = [
        (name, _text_for_values(Source(source.kind, text, source.references[:number])))
        for number, (name, text) in enumerate(() if kind.is_form_whole else source.references)
    ]
    return compiled(SchemaSource(source.kind, _text_for_values(source), tuple(references)))


def _text_for_values(source: Source) -> str:
    form = type_of(source.kind).value_form
    return _parsed(source).in_form(form) if form else source.text


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
            return Compared(tuple(_parsed(reader).incompatibilities(_parsed(writer))))
        case InForm(source, form):
            return TextInForm(_parsed(source).in_form(form))
        case WhichTags(source):
            return TagsFound(_parsed(source).tags)
        case Tagged():
            return TextInForm(_parsed(question.source).tagged(question))
        case Decodes() | InJson() | FromJson() | RecordName():
            return answer_about_values(question, _serde(question.source))
    parsed = _parsed(question)
    return Parsed(parsed.text, parsed.normalized, parsed.fields, parsed.problem_if_normalized)


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

"""The types of schemas with their rules, and the answers to questions about schemas.

Only checkers load this module, and with it the libraries of the types
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
"""The niceness of a worker, so that busy workers leave a core to the server."""
MEMORY_BYTES_MAX = 1024 * 1024 * 1024
"""The most memory of a worker; a text that needs more is refused."""
_PARSED_KEPT = 256
_KEPT = KeptParses()


class ParsedSchema(Protocol):
    """A text that is a schema. The file of its type implements everything the registry needs."""

    @property
    def text(self) -> str:
        """The stored text."""
        ...

    @property
    def normalized(self) -> str:
        """The stored text if schemas are normalized."""
        ...

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of its top-level fields."""
        ...

    @property
    def problem_if_normalized(self) -> str:
        """Why it cannot be registered as normalized, or ""."""
        ...

    @property
    def tags(self) -> Tags:
        """The tags in the schema."""
        ...

    def tagged(self, change: Tagged) -> str:
        """Return its text with other tags. Raises `InvalidSchema` if an entity is missing."""
        ...

    def in_form(self, form: str) -> str:
        """Return its text in a form of its type (`tms.core.values.schema_types`)."""
        ...

    def incompatibilities(self, writer: Any) -> list[Incompatibility]:
        """Return why it cannot read the data of `writer`, of its type; empty if it can."""
        ...


Parse = Callable[[str, Sequence[tuple[str, str]]], ParsedSchema]
"""Parses a text, given the names and texts it refers to. Raises `InvalidSchema`."""
_PARSES: Mapping[str, Parse] = {
    AVRO: avro_schemas.parse,
    JSON: json_schemas.parse,
    PROTOBUF: proto_schemas.parse,
}


@functools.cache
def _prepare_process() -> None:
    """Limit this process's memory, and leave Ctrl-C and the processor to the server; once."""
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
    """Return the serde of a schema. Raises `UnusableSchema`, `InvalidSchema`."""
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
    """Return an answer; if memory is short, drop the caches and try again."""
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
    """Return the answers to questions, in a process for this purpose.

    Slow parses are stored in `folder`, if there is one.
    """
    _prepare_process()
    _KEPT.folder = folder
    return answers_to(questions)


def answers_to(questions: Sequence[Question]) -> list[Answer]:
    """Return the answers to questions, in their order."""
    return [_answer(question) for question in questions]

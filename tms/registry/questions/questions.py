"""The questions about schemas' texts, and the answers. Plain data, sent to workers.

Answers take time, and hostile texts take long, so separate processes compute them
(`tms.registry.checking.checker`). The decision on a request gets the answers so far (`Findings`),
and raises `Unanswered` with the missing ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar


class Source(NamedTuple):
    """The question whether a text is a schema, with the texts that it refers to."""

    kind: str
    text: str
    references: tuple[tuple[str, str], ...] = ()
    """Names and texts; each text may refer to those before it."""


class Comparison(NamedTuple):
    """The question whether `reader` can read the data of `writer`."""

    reader: Source
    writer: Source


class InvalidSchema(Exception):
    """Raised when a text is not a valid schema; it says why."""


class InForm(NamedTuple):
    """The question what a schema is in a form other than the stored one."""

    source: Source
    form: str


@dataclass(frozen=True, slots=True)
class TextInForm:
    """A schema in another form."""

    text: str


class Entity(NamedTuple):
    """A record or a field within a schema."""

    path: str
    is_field: bool


Tags = tuple[tuple[Entity, tuple[str, ...]], ...]
"""The tags of entities, as in a schema's text."""


class WhichTags(NamedTuple):
    """The question which tags a schema has."""

    source: Source


@dataclass(frozen=True, slots=True)
class TagsFound:
    """The tags of a schema."""

    tags: Tags


class Tagged(NamedTuple):
    """The question what a schema's text is with some tags added and removed."""

    source: Source
    added: Tags
    removed: Tags
    if_there: Tags = ()
    """Also added, but skipped where the entity does not exist."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A text is a schema."""

    text: str
    """The stored text."""
    normalized: str
    """The stored text if schemas are normalized."""
    fields: tuple[str, ...] = ()
    """The names of the top-level fields."""
    problem_if_normalized: str = ""
    """Why it cannot be registered as normalized, or ""."""


@dataclass(frozen=True, slots=True)
class NoSchema:
    """A text that is not a valid schema."""

    reason: str


@dataclass(frozen=True, slots=True)
class Incompatibility:
    """Why one schema cannot read the data of another."""

    kind: str
    """The name in Avro's Java library."""
    path: str
    """Where it is in the reader's schema."""
    message: str


@dataclass(frozen=True, slots=True)
class Compared:
    """The result of a comparison."""

    incompatibilities: tuple[Incompatibility, ...]


class Decodes(NamedTuple):
    """The question whether payloads, without their ids, fit a schema."""

    source: Source
    payloads: tuple[bytes, ...]


class InJson(NamedTuple):
    """The question what payloads, without their ids, are as JSON."""

    source: Source
    payloads: tuple[bytes, ...]


class FromJson(NamedTuple):
    """The question what JSON values are as payloads, without their ids."""

    source: Source
    texts: tuple[bytes, ...]


class RecordName(NamedTuple):
    """The question what a schema's record is called."""

    source: Source


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why one of several payloads or texts does not fit its schema."""

    index: int
    reason: str
    field: str = ""


@dataclass(frozen=True, slots=True)
class Converted:
    """The results for each payload or text; empty if they were only checked."""

    parts: tuple[bytes | Misfit, ...] = ()


@dataclass(frozen=True, slots=True)
class Named:
    """The name of a record; empty without one."""

    name: str


Question = (
    Source | Comparison | InForm | WhichTags | Tagged | Decodes | InJson | FromJson | RecordName
)
Answer = Parsed | NoSchema | Compared | TextInForm | TagsFound | Misfit | Converted | Named


Q = TypeVar("Q", bound=Question)
A = TypeVar("A", Parsed, Compared, TextInForm, TagsFound)


class Unanswered(Exception):
    """Raised by a decision, with the questions that must be answered first."""

    def __init__(self, questions: list[Question]) -> None:
        """Name the questions."""
        super().__init__(f"{len(questions)} questions")
        self.questions = questions


@dataclass(slots=True)
class Findings:
    """The answers for one request so far."""

    answers: dict[Question, Answer] = field(default_factory=dict)

    def answers_to(self, questions: Sequence[Q], expected: type[A]) -> Mapping[Q, A | NoSchema]:
        """Return the answers to questions, of the type `expected`, or that a text is not a schema.

        Raises `Unanswered` with all that are missing.
        """
        missing: list[Question] = [
            question for question in questions if question not in self.answers
        ]
        if missing:
            raise Unanswered(missing)
        answers = {}
        for question in questions:
            answer = self.answers[question]
            assert isinstance(answer, expected | NoSchema)
            answers[question] = answer
        return answers

    def answer_to(self, question: Question, expected: type[A]) -> A | NoSchema:
        """Return the answer to a question, as `answers_to`. Raises `Unanswered`."""
        return self.answers_to([question], expected)[question]

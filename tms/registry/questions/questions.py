"""The questions about schemas' texts, and the answers. Plain data: it goes to a worker.

Finding out takes time, and a hostile text takes long, so it is done in processes of its own
(`tms.registry.checking.checker`). The decision on a request gets the answers that are known so far
(`Findings`), and names missing ones by `Unanswered`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar


class Source(NamedTuple):
    """A text that is to be a schema, with the texts that it refers to: the question is if it is."""

    kind: str
    text: str
    references: tuple[tuple[str, str], ...] = ()
    """Names and texts; each text may refer to those before it."""


class Comparison(NamedTuple):
    """The question whether `reader` can read what `writer` has written."""

    reader: Source
    writer: Source


class InvalidSchema(Exception):
    """Raised when a text is not a valid schema; it says why."""


class InForm(NamedTuple):
    """The question how a schema is in another form than it is kept in."""

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
"""The tags of entities, as they are written in a schema's text."""


class WhichTags(NamedTuple):
    """The question which tags are written in a schema."""

    source: Source


@dataclass(frozen=True, slots=True)
class TagsFound:
    """The tags of a schema."""

    tags: Tags


class Tagged(NamedTuple):
    """The question how a schema's text is with some tags more and some less."""

    source: Source
    added: Tags
    removed: Tags
    if_there: Tags = ()
    """Added too, but where there is no such entity passed over."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A text is a schema."""

    text: str
    """As it is kept."""
    normalized: str
    """As it is kept if schemas are to be normalized."""
    fields: tuple[str, ...] = ()
    """The names of the fields at its top."""
    problem_if_normalized: str = ""
    """Why it may not be registered as normalized; "" if it may."""


@dataclass(frozen=True, slots=True)
class NoSchema:
    """A text that is not a valid schema."""

    reason: str


@dataclass(frozen=True, slots=True)
class Incompatibility:
    """Why one schema cannot read what another has written."""

    kind: str
    """As Avro's Java library names it."""
    path: str
    """Where in the reader."""
    message: str


@dataclass(frozen=True, slots=True)
class Compared:
    """The result of a comparison."""

    incompatibilities: tuple[Incompatibility, ...]


class Decodes(NamedTuple):
    """The question whether payloads, without their ids, are values of a schema."""

    source: Source
    payloads: tuple[bytes, ...]


class InJson(NamedTuple):
    """The question what payloads, without their ids, are in JSON."""

    source: Source
    payloads: tuple[bytes, ...]


class FromJson(NamedTuple):
    """The question what the payloads are, without their ids, that JSON says."""

    source: Source
    texts: tuple[bytes, ...]


class RecordName(NamedTuple):
    """The question what the record of a schema is called."""

    source: Source


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why one of several payloads or texts does not fit its schema."""

    index: int
    reason: str
    field: str = ""


@dataclass(frozen=True, slots=True)
class Converted:
    """The results for each payload or text; empty for those that were only checked."""

    parts: tuple[bytes | Misfit, ...] = ()


@dataclass(frozen=True, slots=True)
class Named:
    """The name of a record; empty if it has none."""

    name: str


Question = (
    Source | Comparison | InForm | WhichTags | Tagged | Decodes | InJson | FromJson | RecordName
)
Answer = Parsed | NoSchema | Compared | TextInForm | TagsFound | Misfit | Converted | Named


Q = TypeVar("Q", bound=Question)
A = TypeVar("A", Parsed, Compared, TextInForm, TagsFound)


class Unanswered(Exception):
    """Raised by who decides, with the questions that must be answered first."""

    def __init__(self, questions: list[Question]) -> None:
        """Name the questions."""
        super().__init__(f"{len(questions)} questions")
        self.questions = questions


@dataclass(slots=True)
class Findings:
    """The answers that one request has had so far."""

    answers: dict[Question, Answer] = field(default_factory=dict)

    def answers_to(self, questions: Sequence[Q], wanted: type[A]) -> Mapping[Q, A | NoSchema]:
        """Return the answers to questions, which are `wanted`, or say that a text is no schema.

        Raises `Unanswered` with all that are missing.
        """
        missing: list[Question] = [each for each in questions if each not in self.answers]
        if missing:
            raise Unanswered(missing)
        found = {}
        for each in questions:
            answer = self.answers[each]
            assert isinstance(answer, wanted | NoSchema)
            found[each] = answer
        return found

    def answer_to(self, question: Question, wanted: type[A]) -> A | NoSchema:
        """Return the answer to a question, as `answers_to`. Raises `Unanswered`."""
        return self.answers_to([question], wanted)[question]

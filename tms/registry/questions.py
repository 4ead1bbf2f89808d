"""What has to be found out about schemas' texts, and the answers. Plain data: it goes to a worker.

Finding out takes time, and a hostile text takes long, so it is done in processes of its own
(`tms.registry.checker`). Who decides on a request is given the answers that are known so far
(`Findings`), and names what it misses by `Unanswered`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


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
    """Raised when a text is no schema; it says why."""


class Serialized(NamedTuple):
    """The question how a schema is for programs: a Protobuf file as a descriptor, in base64."""

    source: Source


@dataclass(frozen=True, slots=True)
class SerializedText:
    """A schema as it is for programs."""

    text: str


@dataclass(frozen=True, slots=True)
class Parsed:
    """A text is a schema."""

    text: str
    """As it is kept."""
    normalized: str
    """As it is kept if schemas are to be normalized."""


@dataclass(frozen=True, slots=True)
class NoSchema:
    """A text is no schema."""

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
    """What a comparison has found."""

    incompatibilities: tuple[Incompatibility, ...]


Question = Source | Comparison | Serialized
Answer = Parsed | NoSchema | Compared | SerializedText


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

    def parsed(self, source: Source) -> Parsed | NoSchema:
        """Return what a text is. Raises `Unanswered`."""
        answer = self.answers.get(source)
        if answer is None:
            raise Unanswered([source])
        assert isinstance(answer, Parsed | NoSchema)
        return answer

    def serialized(self, source: Source) -> SerializedText | NoSchema:
        """Return what a schema is for programs. Raises `Unanswered`."""
        answer = self.answers.get(Serialized(source))
        if answer is None:
            raise Unanswered([Serialized(source)])
        assert isinstance(answer, SerializedText | NoSchema)
        return answer

    def compared(self, comparisons: list[Comparison]) -> Mapping[Comparison, Compared | NoSchema]:
        """Return what comparisons have found. Raises `Unanswered` with all that are missing."""
        missing: list[Question] = [each for each in comparisons if each not in self.answers]
        if missing:
            raise Unanswered(missing)
        found = {each: self.answers[each] for each in comparisons}
        return {
            each: answer
            for each, answer in found.items()
            if isinstance(answer, Compared | NoSchema)
        }

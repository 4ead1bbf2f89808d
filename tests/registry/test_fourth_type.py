"""Adding a type of schemas takes one row in each table; no other code knows of the type."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

import tms
from tms.core.errors import SchemaRefused
from tms.core.values import schema_types
from tms.core.values.schema_types import SchemaType
from tms.registry.checking import kinds
from tms.registry.questions.questions import Incompatibility, InvalidSchema, Tagged, Tags
from tms.serdes import compiling
from tms.serdes.serde import SchemaSource, Serde, Undecodable, Unencodable

WORDS = "WORDS"


@dataclass(frozen=True)
class WordsSchema:
    """The words that a value may be, one per line. A reader needs all that the writer had."""

    text: str
    words: frozenset[str]

    @property
    def normalized(self) -> str:
        return "\n".join(sorted(self.words))

    @property
    def problem_if_normalized(self) -> str:
        return ""

    @property
    def fields(self) -> tuple[str, ...]:
        return ()

    @property
    def tags(self) -> Tags:
        return ()

    def tagged(self, _: Tagged) -> str:
        return self.text

    def in_form(self, form: str) -> str:
        assert form == "counted"
        return f"{len(self.words)}\n{self.text}"

    def incompatibilities(self, writer: "WordsSchema") -> list[Incompatibility]:
        return [Incompatibility("GONE", "/", word) for word in sorted(writer.words - self.words)]


def parse(text: str, _: Sequence[tuple[str, str]]) -> WordsSchema:
    if "" in text.split("\n"):
        raise InvalidSchema("a line has no word")
    return WordsSchema(text, frozenset(text.split("\n")))


class WordsSerde(Serde):
    """Values are words; a payload has the number of a word."""

    kind = WORDS
    record_name = ""

    def __init__(self, source: SchemaSource) -> None:
        count, *self._words = source.text.split("\n")
        assert int(count) == len(self._words), "it is compiled by the form for values"

    def encode(self, value: Any) -> bytes:
        if value not in self._words:
            raise Unencodable("it is not one of the words")
        return bytes([self._words.index(value)])

    def decode(self, data: bytes, at: int) -> Any:
        if data[at:] not in [bytes([number]) for number in range(len(self._words))]:
            raise Undecodable("it is not the number of a word")
        return self._words[data[at]]


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Any:
    rows: list[tuple[Mapping[str, Any], Any]] = [
        (schema_types.SCHEMA_TYPES, SchemaType(WORDS, ".words", ("counted",), "counted")),
        (kinds._PARSES, parse),
        (compiling._SERDES, WordsSerde),
    ]
    for table, row in rows:
        monkeypatch.setitem(table, WORDS, row)
    with tms.connect("memory:") as opened:
        yield opened


def test_it_is_registered_compared_and_shown(client: tms.Client) -> None:
    first = client.registry.register("s", "yes\nno", WORDS)

    assert (first.version, first.schema_type, first.schema) == (1, WORDS, "yes\nno")
    assert client.registry.find("s", "yes\nno", WORDS).id == first.id
    assert client.registry.schema(first.id, form="counted").schema == "2\nyes\nno"
    assert client.registry.register("n", "yes\nno", WORDS, normalize=True).schema == "no\nyes"
    assert "GONE" in client.registry.why_unfit("s", "yes", WORDS)[0]
    with pytest.raises(SchemaRefused, match="a line has no word"):
        client.registry.register("s", "yes\n\nno", WORDS)
    with pytest.raises(SchemaRefused) as refused:
        client.registry.register("s", "yes", WORDS)
    assert refused.value.detail["error_code"] == 409
    assert client.registry.register("s", "yes\nno\nmaybe", WORDS).version == 2


def test_its_values_are_published_and_polled(client: tms.Client) -> None:
    topic = client.topic("votes")
    topic.create()
    topic.publish(["no", "yes"], schema=tms.SchemaText("yes\nno", WORDS))

    assert [each.value for each in topic.poll(decode=True)] == ["no", "yes"]
    assert [each.payload[5:] for each in topic.poll()] == [b"\1", b"\0"]
    with pytest.raises(tms.PayloadRefused, match="not one of the words"):
        topic.publish(["perhaps"], schema=tms.SchemaText("yes\nno", WORDS))

"""Schemas are stored with the text that Confluent's registry stores."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.serdes.random_avro import SCHEMAS
from tms.registry.avro import avro_text as printing
from tms.serdes.avro_tree import tree_of

OBSERVED = json.loads((Path(__file__).parent / "avro_texts.json").read_text(encoding="utf-8"))


def avro_text(schema: Any, known: Sequence[str] = (), *, normalized: bool = False) -> str:
    types = {name: {"type": "fixed", "name": name, "size": 1} for name in known}
    return printing.avro_text(tree_of(schema, types), types, normalized=normalized)


@pytest.mark.parametrize("observed", OBSERVED, ids=lambda each: each["input"][:40])
def test_texts_are_confluents(observed: dict[str, str]) -> None:
    schema = json.loads(observed["input"])
    assert avro_text(schema) == observed["stored"]
    assert avro_text(schema, normalized=True) == observed["normalized"]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        ("1", "1"),
        ("1.0", "1.0"),
        ("1e2", "100.0"),
        ("1e7", "1.0E7"),
        ("0.001", "0.001"),
        ("0.00012", "1.2E-4"),
        ("-2.5", "-2.5"),
        ("-0.0", "-0.0"),
        ("123456789012345678901", "123456789012345678901"),
    ],
)
def test_numbers_are_written_as_java_does(number: str, text: str) -> None:
    field = f'{{"name":"a","type":"double","default":{number}}}'
    schema = json.loads(f'{{"type":"record","name":"R","fields":[{field}]}}')
    assert avro_text(schema) == f'{{"type":"record","name":"R","fields":[{field}]}}'.replace(
        f":{number}}}", f":{text}}}"
    )


def test_a_whole_default_of_a_double_is_normalized() -> None:
    schema = {
        "type": "error",
        "name": "R",
        "doc": "",
        "fields": [{"name": "a", "type": "double", "default": 1}],
    }
    assert avro_text(schema, normalized=True) == (
        '{"type":"record","name":"R","fields":[{"name":"a","type":"double","default":1.0}]}'
    )


@pytest.mark.parametrize(
    ("reference", "known", "text"),
    [
        ("n.Other", ["n.Other"], "Other"),
        ("Other", ["n.Other"], "Other"),
        ("Other", ["Other"], "Other"),
        ("m.Other", ["Other"], "Other"),
        ("m.Other", ["m.Other"], "m.Other"),
        (".Other", ["Other", "n.Other"], ".Other"),
        ("n.string", ["n.string"], "n.string"),
        ("n.R", (), "R"),
    ],
)
def test_names_are_written_beside_their_namespace(
    reference: str, known: Sequence[str], text: str
) -> None:
    field = {"name": "a", "type": ["null", reference]}
    schema = {"type": "record", "name": "n.R", "fields": [field]}
    assert f'"type":["null","{text}"]' in avro_text(schema, known)


def shuffled(value: Any, chance: random.Random) -> Any:
    """Return the same JSON with the attributes of schemas in another order."""
    if isinstance(value, list):
        return [shuffled(each, chance) for each in value]
    if not isinstance(value, dict):
        return value
    items = [(name, shuffled(each, chance)) for name, each in value.items()]
    chance.shuffle(items)
    return dict(items)


@given(schema=SCHEMAS, chance=st.randoms())
def test_the_text_of_a_text_is_the_same(schema: Any, chance: random.Random) -> None:
    text, normalized = avro_text(schema), avro_text(schema, normalized=True)
    assert avro_text(json.loads(text)) == text
    assert avro_text(json.loads(normalized), normalized=True) == normalized
    assert avro_text(shuffled(schema, chance), normalized=True) == normalized

"""Schemas of structs: what a field says of its values, structs in structs, base64."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any

import jsonschema_rs
import msgspec
import pytest

from api.openapi.structs import answer_of, one_field_of, schemas_of
from tms.wire.json_fields import MESSAGE_ID, MessageBytes, MessageIdText, described_by, reference


class Colour(Enum):
    """A docstring for developers."""

    RED = "red"


class Inner(msgspec.Struct):
    """A part."""

    id: MessageIdText


class Outer(msgspec.Struct, forbid_unknown_fields=True):
    """A whole."""

    parts: list[Inner]
    messages: list[MessageBytes] = []
    number: Annotated[
        Annotated[int, msgspec.Meta(ge=-5), described_by({"type": "integer", "minimum": 1})] | None,
        msgspec.Meta(description="How many."),
    ] = None
    is_so: bool = False
    colour: Annotated[Colour, msgspec.Meta(description="Which.")] = Colour.RED
    left_out: int | msgspec.UnsetType = msgspec.UNSET


def outer(*, answered: bool = False) -> dict[str, Any]:
    schema: dict[str, Any] = schemas_of({"Whole": Outer}, answered=answered)["Whole"]
    return schema


def test_a_struct_is_reported_with_all_that_is_in_it() -> None:
    assert outer() == {
        "description": "A whole.",
        "type": "object",
        "required": ["parts"],
        "additionalProperties": False,
        "properties": {
            "parts": {
                "type": "array",
                "items": {
                    "description": "A part.",
                    "type": "object",
                    "required": ["id"],
                    "properties": {"id": MESSAGE_ID},
                },
            },
            "messages": {"type": "array", "items": reference("Bytes")},
            "number": {
                "description": "How many.",
                "oneOf": [{"type": "integer", "minimum": 1}, {"type": "null"}],
            },
            "is_so": {"type": "boolean", "default": False},
            "colour": {"description": "Which.", "enum": ["red"], "default": "red"},
            "left_out": {"type": "integer"},
        },
    }


def test_an_answer_has_no_other_fields_at_any_depth() -> None:
    parts = outer(answered=True)["properties"]["parts"]

    assert parts["items"]["additionalProperties"] is False


class Either(msgspec.Struct):
    """One of two."""

    a: int | None = None
    b: str | None = None


@pytest.mark.parametrize(
    ("body", "is_valid"),
    [({"a": 1}, True), ({"b": "x"}, True), ({}, False), ({"a": 1, "b": "x"}, False)],
)
def test_one_field_of_several(body: object, *, is_valid: bool) -> None:
    schema = one_field_of(schemas_of({"Either": Either}, answered=False)["Either"])

    assert jsonschema_rs.is_valid(schema, body) is is_valid


@dataclass(frozen=True)
class Part:
    """The docstring of a report."""

    rows: int = 0


@dataclass(frozen=True)
class Report:
    """A report."""

    parts: Sequence[Part]
    last: Part | None = None
    next: str | None = None


def test_an_answer_that_is_a_dataclass_has_all_of_its_fields_and_no_negative_number() -> None:
    schema = answer_of(Report, {"Part.rows": "How many.", "Report.next": "Where to go on."})

    part = {"rows": 1}
    assert schema["properties"]["next"] == {
        "oneOf": [{"type": "string", "description": "Where to go on."}, {"type": "null"}]
    }
    assert jsonschema_rs.is_valid(schema, {"parts": [part], "last": part, "next": None})
    assert not jsonschema_rs.is_valid(schema, {"parts": [{}], "last": None, "next": None})
    assert not jsonschema_rs.is_valid(schema, {"parts": [{"rows": -1}], "last": None, "next": None})
    assert not jsonschema_rs.is_valid(schema, {"parts": []})


def test_a_description_of_no_field_is_an_error() -> None:
    with pytest.raises(KeyError):
        answer_of(Report, {"Report.gone": "…"})

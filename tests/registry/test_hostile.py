"""Schemas that are meant to do harm: each ends in an answer or an error, in time."""

import json
from contextlib import suppress

import pytest

from tests.scale import scaled
from tests.waiting import WAIT_S_MAX
from tms.core.errors import SchemasUnavailable
from tms.core.values.schema_types import AVRO, JSON, PROTOBUF
from tms.registry.checking.checker import ProcessChecker
from tms.registry.questions.questions import Comparison, NoSchema, Question, Source

pytestmark = pytest.mark.anyio

SECONDS_MAX = scaled(3)
NO_SCHEMAS = ("deep", "itself", "circle")
"""Parts of the names of texts that are not schemas, though it may take long to find out."""


def doubling(steps: int) -> str:
    """Return a schema whose meaning doubles with each step."""
    defined = {"d0": {"type": "string"}} | {
        f"d{step}": {
            "anyOf": [
                {"$ref": f"#/definitions/d{step - 1}"},
                {"properties": {"x": {"$ref": f"#/definitions/d{step - 1}"}}},
            ]
        }
        for step in range(1, steps)
    }
    return json.dumps({"definitions": defined, "$ref": f"#/definitions/d{steps - 1}"})


def union(width: int, depth: int, leaf: str) -> dict[str, object]:
    """Return a union of objects that have unions."""
    if depth == 0:
        return {"type": leaf}
    return {
        "anyOf": [
            {"type": "object", "properties": {f"p{n}": union(width, depth - 1, leaf)}}
            for n in range(width)
        ]
    }


def unions(leaf: str) -> Source:
    return Source(JSON, json.dumps(union(6, 5, leaf)))


SLOW_PATTERN = {
    "type": "object",
    "patternProperties": {"(?i)^(a+)+$": {}},
    "additionalProperties": False,
}
RECURSIVE = 'syntax = "proto3"; message M { M m = 1; repeated N n = 2; } message N { M m = 1; }'
HOSTILE: dict[str, Question] = {
    "JSON, nested deeply": Source(JSON, '{"not":' * 20_000 + "{}" + "}" * 20_000),
    "JSON, doubling": Comparison(Source(JSON, doubling(40)), Source(JSON, doubling(39))),
    "JSON, unions of unions": Comparison(unions("string"), unions("integer")),
    "JSON, a pattern that tries all": Comparison(
        Source(JSON, json.dumps(SLOW_PATTERN)),
        Source(JSON, json.dumps({**SLOW_PATTERN, "properties": {"a" * 40 + "!": {}}})),
    ),
    "JSON, a huge pattern": Source(JSON, json.dumps({"pattern": "(a{1000}){1000}" * 2000})),
    "JSON, itself": Source(JSON, '{"$ref":"#"}'),
    "JSON, a circle": Source(
        JSON, '{"definitions":{"a":{"$ref":"#/definitions/b"},"b":{"$ref":"#/definitions/a"}}}'
    ),
    "Protobuf, nested deeply": Source(PROTOBUF, "message M { " * 5_000 + "}" * 5_000),
    "Protobuf, a deep option": Source(
        PROTOBUF, "option (a) = " + "{a:" * 3_000 + "1" + "}" * 3_000 + ";"
    ),
    "Protobuf, many fields": Source(
        PROTOBUF,
        f"message M {{ {''.join(f'optional int32 a{n} = {n};' for n in range(1, 15_000))} }}",
    ),
    "Protobuf, recursion": Comparison(Source(PROTOBUF, RECURSIVE), Source(PROTOBUF, RECURSIVE)),
    "Avro, nested deeply": Source(
        AVRO, '{"type":"array","items":' * 20_000 + '"int"' + "}" * 20_000
    ),
    "Avro, recursion": Comparison(
        *[
            Source(
                AVRO,
                json.dumps(
                    {
                        "type": "record",
                        "name": "R",
                        "fields": [
                            {"name": f"f{n}", "type": ["null", {"type": "array", "items": "R"}]}
                            for n in range(200)
                        ],
                    }
                ),
            )
        ]
        * 2
    ),
}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_schema_is_answered(name: str) -> None:
    """If it cannot be checked, the caller learns that in time."""
    patient = ProcessChecker(WAIT_S_MAX)
    if any(each in name for each in NO_SCHEMAS):
        [told] = await patient.answers([HOSTILE[name]])
        assert isinstance(told, NoSchema)
        assert len(told.reason) < 200
    else:
        with suppress(SchemasUnavailable):
            await ProcessChecker(SECONDS_MAX).answers([HOSTILE[name]])
    fine = Source(AVRO, '"long"')
    assert not isinstance((await patient.answers([fine]))[0], NoSchema)

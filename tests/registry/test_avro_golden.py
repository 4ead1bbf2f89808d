"""The one walk over Avro schemas finds what six separate ones found before it.

`avro_golden.json` has random schemas, and the results of those six. It has digests of the
parts into which Spark takes a schema.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tms.registry.avro.avro_schemas import parse
from tms.serdes.avro_shape import AvroShape
from tms.serdes.avro_tree import loaded, record_name, tree_of
from tms.spark.typed.avro_types import AvroTypes

GOLDEN = json.loads((Path(__file__).parent / "avro_golden.json").read_text(encoding="utf-8"))


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]


@pytest.mark.parametrize("golden", GOLDEN["schemas"], ids=range(len(GOLDEN["schemas"])))
def test_a_schema_is_taken_as_before(golden: dict[str, Any]) -> None:
    given = {"references": [], **golden}
    references = [json.dumps(each) for each in given["references"]]
    found = parse(json.dumps(given["schema"]), [("", each) for each in references])
    resolved = found.in_form("resolved")
    tree = tree_of(loaded(resolved))
    shape, types = AvroShape(tree), AvroTypes(resolved)
    assert golden == {
        "schema": golden["schema"],
        **({"references": given["references"]} if references else {}),
        "text": found.text,
        "normalized": found.normalized,
        "resolved": resolved,
        "fields": list(found.fields),
        "tags": [[entity.path, entity.is_field, list(tags)] for entity, tags in found.tags],
        "recursive": shape.is_recursive,
        "empty_items": shape.has_empty_items,
        "record_name": record_name(tree.top),
        "types": digest({"top": types.top, "types": types._types}),
        "raw": digest(types.raw_text(types.top)),
    }


@pytest.mark.parametrize("golden", GOLDEN["comparisons"], ids=range(len(GOLDEN["comparisons"])))
def test_schemas_fit_as_before(golden: list[Any]) -> None:
    reader, writer, expected = golden
    texts = [
        json.dumps(GOLDEN["schemas"][each]["schema"] if isinstance(each, int) else each)
        for each in (reader, writer)
    ]
    found = parse(texts[0]).incompatibilities(parse(texts[1]))
    assert [[each.kind, each.path, each.message] for each in found] == expected

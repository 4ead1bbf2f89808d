"""Avro as its library reads and writes it: the reference for our own codecs."""

from io import BytesIO
from typing import Any

import fastavro


def written(schema: Any, value: Any) -> bytes:
    """Return the raw Avro binary of `value`."""
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def read(schema: Any, body: bytes) -> Any:
    """Return what all of `body` decodes to."""
    source = BytesIO(body)
    found = fastavro.schemaless_reader(source, fastavro.parse_schema(schema), None)
    assert source.tell() == len(body)
    return found

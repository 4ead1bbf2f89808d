"""Schemas of records in Avro, for tests of pages."""

import json

FIELD = {"name": "a", "type": "int"}


def avro(*fields: object, name: str = "R") -> str:
    """Return a schema."""
    return json.dumps({"type": "record", "name": name, "fields": fields})


FIRST = avro(FIELD)
SECOND = avro(FIELD, {"name": "b", "type": "int", "default": 1})

"""Avro's values of one writer's schema, many at once.

fastavro takes as long to be called as to read a small record. So a run of values is read as one
array. Behind each value there is a mark of random bytes. As many marks are read as there are
values, each behind one: that holds only if every value ends where its payload does. If it does not,
nothing is given, and each payload is to be decoded by itself.
"""

import json
import os
from collections.abc import Sequence
from typing import Any

from tms.core.avro_lengths import avro_length
from tms.core.schemas import AVRO
from tms.serdes.avro_serde import AvroSerde
from tms.serdes.avro_shape import AvroShape
from tms.serdes.serde import SchemaSource, Undecodable

_MARK_BYTES = 16
_VALUE, _MARK = "value", "mark"


class AvroRun:
    """What decodes values that one schema wrote, as another has them."""

    def __init__(self, writer: str, reader: str) -> None:
        """Take the text of both. Raises `UnusableSchema`."""
        self._one = _serde(writer, reader)
        # The depth of what contains itself is bounded by the stack, for each value alone.
        is_nested = any(AvroShape(json.loads(text)).is_recursive for text in (writer, reader))
        self._run = None if is_nested else _serde(_marked(writer), _marked(reader))

    def value(self, data: bytes) -> Any:
        """Return one value. Raises `Undecodable`."""
        return self._one.decode(data, 0)

    def values(self, datas: Sequence[bytes]) -> list[Any]:
        """Return all values. Raises `Undecodable` if one is damaged; which is not said."""
        if self._run is None:
            return [self._one.decode(data, 0) for data in datas]
        mark = os.urandom(_MARK_BYTES)
        whole = b"".join((avro_length(len(datas)), mark.join(datas), mark, b"\0"))
        rows = self._run.decode(whole, 0)
        if any(row[_MARK] != mark for row in rows):
            raise Undecodable("a value does not end with its payload")
        return [row[_VALUE] for row in rows]


def _serde(writer: str, reader: str) -> AvroSerde:
    serde = AvroSerde(SchemaSource(AVRO, writer))
    return serde if writer == reader else serde.read_as(AvroSerde(SchemaSource(AVRO, reader)))


def _marked(text: str) -> str:
    """Return the schema of an array of values, each with a mark behind it."""
    mark = {"type": "fixed", "name": "tms_spark_mark", "size": _MARK_BYTES}
    fields = [{"name": _VALUE, "type": json.loads(text)}, {"name": _MARK, "type": mark}]
    row = {"type": "record", "name": "tms_spark_row", "fields": fields}
    return json.dumps({"type": "array", "items": row})

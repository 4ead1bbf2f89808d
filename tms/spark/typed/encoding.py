"""Encodes columns as payloads, in the tasks of a writer.

Guarantees that a payload, decoded by the same schema, has the row's values, and that a row that
does not fit raises `Unencodable`, naming its field: nothing is left out silently.
"""

from collections.abc import Mapping

import pyarrow as pa

from tms.serdes.compiling import compiled
from tms.serdes.wire_format import start_of
from tms.spark.typed.forms import columns_of, form_of
from tms.spark.typed.registered import KnownSchema


class RowEncoder:
    """Encodes rows by one schema."""

    def __init__(self, schema: KnownSchema) -> None:
        """Encode by a registered schema. Raises `UnusableSchema`."""
        source = schema.source
        self._form = form_of(source)
        self._serde = compiled(columns_of(source).written(source))
        self._start = start_of(schema.id)

    def payloads(self, columns: Mapping[str, pa.Array], count: int) -> list[bytes]:
        """Return the payloads of `count` rows. Raises `Unencodable`."""
        start, encode = self._start, self._serde.encode
        return [start + encode(value) for value in self._form.values(columns, count)]

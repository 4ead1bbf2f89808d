"""Decodes payloads to columns, in the tasks of a reader.

Guarantees that each row is returned, with its values by the reader's schema whatever version wrote
it, or with an error that says why not. For any bytes, decoding ends soon and takes at most a few
times their memory. A damaged row does not affect others.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from cachetools import LRUCache

from tms.serdes.serde import SchemaSource, Undecodable, UnusableSchema
from tms.serdes.wire_format import START_BYTES, schema_id_of
from tms.spark.typed.forms import ValueForm, columns_of, form_of
from tms.spark.typed.names import field_of

_KEPT_MAX = 1000
_RUN_ROWS = 64
FindSource = Callable[[int], SchemaSource]
"""Returns the schema of an id. Raises `Undecodable` if it does not exist."""


@dataclass(slots=True)
class Decoded:
    """The decoded payloads, row by row."""

    columns: dict[str, pa.Array]
    schema_ids: list[int | None]
    errors: list[str | None]


class PayloadDecoder:
    """Decodes payloads by one reader's schema."""

    def __init__(
        self, source: SchemaSource, find: FindSource, columns: Sequence[str] | None
    ) -> None:
        """Decode to `columns`, or to all by default. Raises `UnusableSchema`."""
        self._source = source
        self._find = find
        self._form: ValueForm = form_of(source)
        self._wanted = frozenset(self._form.types if columns is None else columns)
        self._readers: LRUCache[int, Callable[[bytes], Any] | str] = LRUCache(_KEPT_MAX)
        """By the writer's schema id; a text says why it cannot be read."""
        fields = [field_of(column) for column in self._wanted]
        names = frozenset(name for name in fields if name is not None)
        self._reader_of = columns_of(source).reading(source, names)

    def decode(self, payloads: Sequence[bytes | None]) -> Decoded:
        """Return the values of payloads; nulls for None."""
        values: list[Any] = [None] * len(payloads)
        errors: list[str | None] = [None] * len(payloads)
        ids: list[int | None] = [None] * len(payloads)
        by_start: dict[bytes, list[int]] = {}
        for row, payload in enumerate(payloads):
            if payload is not None:
                by_start.setdefault(payload[:START_BYTES], []).append(row)
        for start, rows in by_start.items():
            try:
                schema_id = schema_id_of(start)
                for row in rows:
                    ids[row] = schema_id
                value_of = self._reader(schema_id)
            except Undecodable as error:
                for row in rows:
                    errors[row] = str(error)
                continue
            for row in rows:
                try:
                    values[row] = value_of(payloads[row] or b"")
                except Undecodable as error:
                    errors[row] = str(error)
        return Decoded(self._columns(values, errors, 0, len(values)), ids, errors)

    def _columns(
        self, values: Sequence[Any], errors: list[str | None], start: int, end: int
    ) -> dict[str, pa.Array]:
        """Return the columns of some values; one that does not fit has its error instead.

        Such values are found in short runs, and then by halving, at little cost for the others.
        """
        try:
            return self._form.columns(values[start:end], self._wanted)
        except Undecodable as error:
            if end - start == 1:
                errors[start] = str(error)
                return self._form.columns([None], self._wanted)
        size = _RUN_ROWS if end - start > _RUN_ROWS else (end - start + 1) // 2
        parts = [
            self._columns(values, errors, at, min(at + size, end)) for at in range(start, end, size)
        ]
        return {name: pa.concat_arrays([part[name] for part in parts]) for name in parts[0]}

    def _reader(self, schema_id: int) -> Callable[[bytes], Any]:
        cached = self._readers.get(schema_id)
        if cached is None:
            try:
                cached = self._made(schema_id)
            except (Undecodable, UnusableSchema) as error:
                cached = str(error)
            self._readers[schema_id] = cached
        if isinstance(cached, str):
            raise Undecodable(cached)
        return cached

    def _made(self, schema_id: int) -> Callable[[bytes], Any]:
        writer = self._find(schema_id)
        if writer.kind != self._source.kind:
            raise Undecodable(
                f"schema {schema_id} is {writer.kind}, but it is read by one that is "
                f"{self._source.kind}"
            )
        return self._reader_of(writer)

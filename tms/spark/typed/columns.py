"""Converts values of one type to an Arrow column, and back.

Guarantees that a column returns the values it was made from, and that one that does not fit raises
`Undecodable` or `Unencodable`, naming its field. SQL's NULL is None. A whole batch is converted at
once, field by field, because rows as mappings are slow.
"""

import decimal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from tms.core.text.credentials import shortened
from tms.serdes.serde import Undecodable, Unencodable

_UNFIT = (
    *(ValueError, TypeError, OverflowError, KeyError, AttributeError, RecursionError),
    pa.ArrowException,
)
"""Errors of Python and Arrow for a value of a wrong type."""
_EXACT = decimal.Context(prec=100)
_DECIMAL_BYTES = 16
_REASON_CHARS = 500
_FINER = "has microseconds, and the schema counts milliseconds: use date_trunc('millisecond', …)"
_FAMILIES: Sequence[tuple[str, Callable[[Any], bool]]] = (
    ("number", kinds.is_integer),
    ("floating", kinds.is_floating),
    ("decimal", kinds.is_decimal),
    ("text", lambda each: kinds.is_string(each) or kinds.is_large_string(each)),
    ("bytes", lambda each: kinds.is_binary(each) or kinds.is_large_binary(each)),
    ("truth", kinds.is_boolean),
    ("date", kinds.is_date),
    ("time", kinds.is_timestamp),
)
_TAKES = {"floating": ("number", "floating"), "decimal": ("number", "decimal")}


class ColumnForm(Protocol):
    """How a type is represented in a column."""

    arrow: pa.DataType

    def column(self, values: Sequence[Any]) -> pa.Array:
        """Return a column of values. Raises `Undecodable`, and Arrow's errors."""
        ...

    def values(self, column: pa.Array) -> list[Any]:
        """Return the values of a column. Raises `Unencodable`, and Arrow's errors."""
        ...


def _family(kind: pa.DataType) -> str:
    return next((name for name, belongs in _FAMILIES if belongs(kind)), str(kind))


def as_type(column: pa.Array, target: pa.DataType) -> pa.Array:
    """Return a column as another type of the same kind. Raises `Unencodable`."""
    families, family = _family(column.type), _family(target)
    zones = [getattr(each, "tz", None) is None for each in (column.type, target)]
    is_same = families in _TAKES.get(family, (family,)) and zones[0] == zones[1]
    if not is_same and not kinds.is_null(column.type):
        raise Unencodable(f"it is {column.type}, and {target} is expected")
    made = column.cast(target)
    if families == family == "floating":  # the only cast of Arrow that changes the value
        infinite = pc.and_(pc.is_inf(made), pc.is_finite(column))
        refuse_first(column, infinite, f"is too large for {target}")
    return made


def refuse_first(column: pa.Array, is_unfit: pa.Array, reason: str) -> None:
    """Raise `Unencodable` for the first marked value, if there is one."""
    row = pc.index(is_unfit, pa.scalar(value=True)).as_py()
    if row >= 0:
        raise Unencodable(f"{column[row]} {reason}")


class PlainColumn:
    """Values of Arrow's own types."""

    def __init__(self, arrow: pa.DataType) -> None:
        """Use a column of this type."""
        self.arrow = arrow

    def column(self, values: Sequence[Any]) -> pa.Array:
        """Return a column of values."""
        return pa.array(values, self.arrow)

    def values(self, column: pa.Array) -> list[Any]:
        """Return the values of a column."""
        found: list[Any] = as_type(column, self.arrow).to_pylist()
        return found


class NumberedColumn:
    """Dates and times, whose values are numbers with a unit."""

    def __init__(self, arrow: pa.DataType, times: int = 1) -> None:
        """Use a column of `arrow`, whose unit is 1/`times` of a value's."""
        self.arrow = arrow
        self._number = pa.int32() if kinds.is_date32(arrow) else pa.int64()
        self._times = times

    def column(self, values: Sequence[Any]) -> pa.Array:
        """Return a column of values."""
        numbers = pa.array(values, self._number)
        if self._times > 1:
            numbers = pc.multiply_checked(numbers, pa.scalar(self._times, self._number))
        return numbers.cast(self.arrow)

    def values(self, column: pa.Array) -> list[Any]:
        """Return the values of a column. Raises `Unencodable` for one finer than their unit."""
        numbers = as_type(column, self.arrow).cast(self._number)
        if self._times > 1:
            units = pc.divide(numbers, pa.scalar(self._times, self._number))
            is_finer = pc.not_equal(pc.multiply(units, self._times), numbers)
            refuse_first(column, is_finer, _FINER)
            numbers = units
        found: list[Any] = numbers.to_pylist()
        return found


class DecimalColumn:
    """Decimals, whose values are the bytes of an integer."""

    def __init__(self, precision: int, scale: int, size: int | None) -> None:
        """Use values of `size` bytes, or, with None, of as many as needed."""
        self.arrow = pa.decimal128(precision, scale)
        self._end = 10**precision
        self._scale = scale
        self._size = size

    def column(self, values: Sequence[Any]) -> pa.Array:
        """Return a column of values."""
        numbers = [
            None if value is None else int.from_bytes(value, "big", signed=True) for value in values
        ]
        if not all(number is None or abs(number) < self._end for number in numbers):
            raise Undecodable(f"it has more digits than {self.arrow}")
        raw = b"".join((number or 0).to_bytes(_DECIMAL_BYTES, "little", signed=True)
                       for number in numbers)  # fmt: skip
        there = pa.array([number is not None for number in numbers], pa.bool_())
        buffers = [there.buffers()[1], pa.py_buffer(raw)]
        return pa.Array.from_buffers(self.arrow, len(numbers), buffers)

    def values(self, column: pa.Array) -> list[Any]:
        """Return the values of a column."""
        return [
            None if each is None else self._bytes(int(each.scaleb(self._scale, _EXACT)))
            for each in as_type(column, self.arrow).to_pylist()
        ]

    def _bytes(self, number: int) -> bytes:
        size = self._size or (number.bit_length() + 8) // 8
        return number.to_bytes(size, "big", signed=True)


class JsonColumn:
    """A value without a type in Spark, as JSON text."""

    arrow = pa.string()

    def __init__(self, to_json: Callable[[Any], bytes], from_json: Callable[[bytes], Any]) -> None:
        """Write and read values by these functions, which may raise the errors of serdes."""
        self._to_json = to_json
        self._from_json = from_json

    def column(self, values: Sequence[Any]) -> pa.Array:
        """Return a column of values."""
        texts = (None if value is None else self._to_json(value).decode() for value in values)
        return pa.array(list(texts), self.arrow)

    def values(self, column: pa.Array) -> list[Any]:
        """Return the values of a column."""
        texts = as_type(column, self.arrow).to_pylist()
        return [None if text is None else self._from_json(text.encode()) for text in texts]


def _ends(values: Sequence[Any]) -> pa.Array:
    """Return where the items of each value begin, and the last end; null for None."""
    starts: list[int | None] = []
    at = 0
    for value in values:
        starts.append(None if value is None else at)
        at += 0 if value is None else len(value)
    return pa.array([*starts, at], pa.int32())


class ListColumn:
    """Lists."""

    def __init__(self, item: ColumnForm) -> None:
        """Use items of one form."""
        self._item = item
        self.arrow = pa.list_(pa.field("element", item.arrow))

    def column(self, values: Sequence[Any]) -> pa.Array:
        """Return a column of values."""
        if any(isinstance(value, str | Mapping) for value in values):
            raise Undecodable("a list is expected")
        items = self._item.column(list(chain.from_iterable(filter(None, values))))
        return pa.ListArray.from_arrays(_ends(values), items, type=self.arrow)

    def values(self, column: pa.Array) -> list[Any]:
        """Return the values of a column."""
        if kinds.is_null(column.type):
            return [None] * len(column)
        if not (kinds.is_list(column.type) or kinds.is_large_list(column.type)):
            raise Unencodable(f"it is {column.type}, and a list is expected")
        items = iter(self._item.values(column.flatten()))
        return [
            None if size is None else [next(items) for _ in range(size)]
            for size in pc.list_value_length(column).to_pylist()
        ]


class MapColumn:
    """Mappings of text to values."""

    def __init__(self, item: ColumnForm, key: ColumnForm | None = None) -> None:
        """Use values of one form; keys are text unless another form is given."""
        self._key = key or PlainColumn(pa.string())
        self._item = item
        self.arrow = pa.map_(self._key.arrow, item.arrow)

    def column(self, values: Sequence[Any]) -> pa.Array:
        """Return a column of values."""
        there = [value for value in values if value]
        keys = self._key.column(list(chain.from_iterable(there)))
        items = self._item.column(list(chain.from_iterable(each.values() for each in there)))
        return pa.MapArray.from_arrays(_ends(values), keys, items)

    def values(self, column: pa.Array) -> list[Any]:
        """Return the values of a column."""
        if kinds.is_null(column.type):
            return [None] * len(column)
        if not kinds.is_map(column.type):
            raise Unencodable(f"it is {column.type}, and a map is expected")
        flat = column.cast(pa.list_(pa.struct([("key", column.type.key_type),
                                               ("value", column.type.item_type)])))  # fmt: skip
        parts = flat.flatten().flatten()
        keys, items = iter(self._key.values(parts[0])), iter(self._item.values(parts[1]))
        return [
            None if size is None else {next(keys): next(items) for _ in range(size)}
            for size in pc.list_value_length(flat).to_pylist()
        ]


class StructColumn:
    """Records: mappings with fixed keys."""

    def __init__(self, fields: Mapping[str, ColumnForm]) -> None:
        """Use fields by name, at least one if there is to be a column."""
        self.fields = dict(fields)
        self._types = [pa.field(name, form.arrow) for name, form in self.fields.items()]
        self.arrow = pa.struct(self._types)

    def of_field(self, values: Sequence[Any], name: str) -> list[Any]:
        """Return the values of a field."""
        try:
            return [value[name] for value in values]
        except (KeyError, TypeError):  # A value is None, or lacks the field.
            return [None if value is None else value.get(name) for value in values]

    def columns(self, values: Sequence[Any]) -> list[pa.Array]:
        """Return the columns of all fields. Raises `Undecodable`, which names the field."""
        made = []
        for name, form in self.fields.items():
            with named_unfit(name, Undecodable):
                made.append(form.column(self.of_field(values, name)))
        return made

    def column(self, values: Sequence[Any]) -> pa.Array:
        """Return a column of values."""
        nulls = pa.array([value is None for value in values], pa.bool_())
        return pa.StructArray.from_arrays(self.columns(values), fields=self._types, mask=nulls)

    def values_of(self, columns: Mapping[str, pa.Array], count: int) -> list[Any]:
        """Return `count` values from columns by field; a field without one is left out.

        Raises `Unencodable`, which names the field.
        """
        made = []
        for name, column in columns.items():
            with named_unfit(name, Unencodable):
                form = self.fields.get(name)
                if form is None:
                    raise Unencodable("the schema has no such field")
                made.append(form.values(column))
        names = tuple(columns)
        if not made:
            return [{} for _ in range(count)]
        return [dict(zip(names, row, strict=True)) for row in zip(*made, strict=True)]

    def values(self, column: pa.Array) -> list[Any]:
        """Return the values of a column."""
        if kinds.is_null(column.type):
            return [None] * len(column)
        if not kinds.is_struct(column.type):
            raise Unencodable(f"it is {column.type}, and a struct is expected")
        there = column.is_valid().to_pylist()
        # Only of non-null values: the fields of null ones are null even if they must not be.
        found = column.filter(column.is_valid())
        names = [field.name for field in column.type]
        parts = dict(zip(names, found.flatten(), strict=True))
        values = iter(self.values_of(parts, len(found)))
        return [next(values) if is_there else None for is_there in there]


class NullableColumn:
    """Values of another form, or null, in one column."""

    def __init__(self, form: ColumnForm) -> None:
        """Use the values of `form`, whose column can have nulls."""
        self.arrow, self.column, self.values = form.arrow, form.column, form.values


@contextmanager
def named_unfit(field: str, kind: type[Undecodable] | type[Unencodable]) -> Iterator[None]:
    """Add the field's name to errors of values that do not fit."""
    try:
        yield
    except (Undecodable, Unencodable) as error:
        inner = f"{field}.{error.field}" if error.field else field
        raise kind(error.reason, inner) from None
    except _UNFIT as error:
        raise kind(shortened(str(error), _REASON_CHARS), field) from None

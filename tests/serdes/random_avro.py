"""Random valid Avro schemas, with types in namespaces that are referred to again later."""

import itertools
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from tms.serdes.avro_tree import full_name, split

_AGAIN = "again"
"""Stands for the type that was defined last."""
_NAMES = st.sampled_from(["A", "n.A", "n.m.C", ".D", "com.my-own.1.E"])
_LEAVES = st.sampled_from(["null", "int", "string", "double", _AGAIN, {"type": _AGAIN}])
_PROPS = st.dictionaries(
    st.sampled_from(["x", "logicalType", "é\n"]), st.integers(0, 3), max_size=2
)


def _record(name: str, inner: list[Any], props: dict[str, int]) -> dict[str, Any]:
    fields = [{"name": f"f{n}", "type": each} for n, each in enumerate(inner)]
    return {"type": "record", "name": name, "fields": fields, **props}


_SHAPES = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.builds(_record, _NAMES, st.lists(inner, max_size=3), _PROPS),
        inner.map(lambda each: {"type": "array", "items": each}),
        st.builds(lambda each, props: {"type": "map", "values": each, **props}, inner, _PROPS),
        st.lists(inner.filter(lambda each: not isinstance(each, list)), max_size=2),
    ),
    max_leaves=8,
)


class _Naming:
    """Gives each type a unique name, and returns an earlier name for a reference."""

    def __init__(self) -> None:
        self._numbers: Iterator[int] = itertools.count()
        self._last = "int"

    def named(self, shape: Any, namespace: str = "") -> Any:
        if isinstance(shape, list):
            return [self.named(each, namespace) for each in shape]
        if shape == _AGAIN:
            return self._last if "." in self._last or self._last == "int" else f".{self._last}"
        if not isinstance(shape, dict):
            return shape
        if shape["type"] != "record":
            return {name: self.named(each, namespace) for name, each in shape.items()}
        name = f"{shape['name']}{next(self._numbers)}"
        self._last = full_name(name, namespace)
        own = split(self._last)[0]
        fields = [{**each, "type": self.named(each["type"], own)} for each in shape["fields"]]
        return {**shape, "name": name, "fields": fields}


SCHEMAS = _SHAPES.map(lambda shape: _Naming().named(shape))

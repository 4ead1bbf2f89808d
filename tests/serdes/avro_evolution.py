"""Strategies: random Avro schemas, later versions of them, and values of the first version."""

from typing import Any

from hypothesis import strategies as st

from tests.serdes.avro_samples import schemas_with_value
from tests.serdes.compiling import record

WIDER = {"int": ["long", "float", "double"], "long": ["float", "double"], "float": ["double"]}
DEFAULTS: list[tuple[Any, Any]] = [
    ("int", 3),
    ("double", 1.5),
    ("string", "x"),
    ("boolean", True),
    ("bytes", "a"),
    (["null", "int"], None),
    (["int", "null"], 3),
    ({"type": "array", "items": "int"}, [1, 2]),
    ({"type": "map", "values": "bytes"}, {"a": "b"}),
    ({"type": "enum", "name": "New", "symbols": ["A", "B"]}, "B"),
    (record("New", a="int", b=("int", 7)), {"a": 1}),
]


@st.composite
def evolved(draw: st.DrawFn) -> tuple[Any, Any, Any]:
    """Generate a writer's schema, a reader's schema, and a value of the writer's."""
    count = draw(st.integers(0, 4))
    fields = [draw(schemas_with_value(logical=False, prefix=f"F{n}N")) for n in range(count)]
    written = [{"name": f"f{n}", "type": kind} for n, (kind, _) in enumerate(fields)]
    value = {f"f{n}": each for n, (_, each) in enumerate(fields)}
    read = [_changed(draw, each) for each in written if draw(st.integers(0, 3))]
    if draw(st.booleans()):
        kind, default = draw(st.sampled_from(DEFAULTS))
        read.append({"name": "new", "type": kind, "default": default})
    read = draw(st.permutations(read))
    writer, reader = [{"type": "record", "name": "R", "fields": each} for each in (written, read)]
    return writer, reader, value


def _is_flat(union: list[Any]) -> bool:
    return all(isinstance(each, str) for each in union)


def _changed(draw: st.DrawFn, field: dict[str, Any]) -> dict[str, Any]:
    kind = field["type"]
    if isinstance(kind, str) and kind in WIDER and draw(st.booleans()):
        kind = draw(st.sampled_from(WIDER[kind]))
    if isinstance(kind, list):
        kind = draw(st.permutations([*{*kind} - {"null"}, "null"] if _is_flat(kind) else kind))
    elif isinstance(kind, str) and kind != "null" and draw(st.booleans()):
        kind = draw(st.permutations([kind, "null"]))
    return {**field, "type": kind}

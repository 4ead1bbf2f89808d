"""A program of payloads and schemas that are meant to do harm: a crash ends only this program.

It prints the name of each case before the case begins, and then its seconds of processor time.
"""

import json
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.serdes.avro_samples import TREE
from tests.serdes.compiling import avro, json_schema, proto, record
from tms.core.values.avro_lengths import avro_length
from tms.core.values.schema_types import AVRO, JSON
from tms.core.values.varints import varint
from tms.serdes.compiling import compiled
from tms.serdes.serde import SchemaSource, Undecodable, Unencodable, UnusableSchema

NEXT = record("N", next=["null", "N"], n="long")
DEPTHS = (1, 100, 200, 500, 1000, 10_000, 1_000_000)
MARKED = {
    "__fastavro_parsed": True,
    "__named_schemas": {"N": NEXT, "R": NEXT},
    **record("T", y=record("R", x="int"), x="R"),
}
"""As fastavro marks a schema that it has parsed: then it does not look at it again."""


def deep_avro(depth: int) -> Any:
    """Decode records within records, complete and cut off halfway."""
    serde = avro(NEXT)
    for data in (b"\x02" * depth + b"\x00" * (depth + 2), b"\x02" * depth):
        _decoded(serde, data)
    _decoded(avro(TREE), b"\x02" * depth)
    return _decoded(avro(["null", {"type": "array", "items": TREE}]), b"\x02" * depth)


def deep_json(depth: int) -> Any:
    """Decode nested objects and arrays, by schemas that refer to themselves."""
    itself = json_schema({"properties": {"a": {"$ref": "#"}}, "items": {"$ref": "#"}})
    for serde in (json_schema({}), itself):
        for opening, closing in ((b'{"a":', b"}"), (b"[", b"]")):
            _decoded(serde, opening * depth + b"1" + closing * depth)
            _decoded(serde, opening * depth)
    return _read(
        avro(NEXT), b'{"next":{"N":' * depth + b'{"next":null,"n":1}' + b',"n":1}}' * depth
    )


def deep_proto(depth: int) -> Any:
    """Decode nested messages, and unknown groups."""
    serde = proto('syntax = "proto3"; message M { M m = 1; string s = 2; }')
    _decoded(serde, b"\x00" + b"\x1b" * depth + b"\x1c" * depth)
    _decoded(serde, b"\x00" + b"\x1b" * depth)
    _read(serde, b'{"m":' * depth + b"{}" + b"}" * depth)
    levels = min(depth, 1000)  # each one is copied into the next
    data = b""
    for _ in range(levels):
        data = b"\x0a" + varint(len(data)) + data
    return _decoded(serde, b"\x00" + data)


def deep_schema(depth: int) -> Any:
    """Compile nested schemas, and use those that compile."""
    texts = (
        (AVRO, '{"type":"array","items":' * depth + '"int"' + "}" * depth),
        (AVRO, '{"type":"map","values":["null",' * depth + '"int"' + "]}" * depth),
        (JSON, '{"not":' * depth + "{}" + "}" * depth),
        (JSON, '{"items":' * depth + "{}" + "}" * depth),
    )
    told = []
    for kind, text in texts:
        try:
            serde = compiled(SchemaSource(kind, text))
        except UnusableSchema as error:
            told.append(str(error))
            continue
        told.append(_decoded(serde, b"\x02" * depth + b"\x00" * depth))
        told.append(_decoded(serde, b"[" * depth + b"]" * depth))
    return told


def _decoded(serde: Any, data: bytes) -> str:
    try:
        value = serde.decode(data, 0)
        serde.to_json(value)
    except Undecodable as error:
        return str(error)
    return "a value"


def _read(serde: Any, text: bytes) -> str:
    try:
        serde.encode(serde.from_json(text))
    except Unencodable as error:
        return str(error)
    return "a value"


def _marked() -> str:
    return _decoded(avro(MARKED), b"\x02" * 1_000_000)


def _array(items: Any) -> Any:
    return {"type": "array", "items": items}


HUGE = b"\xfe" + b"\xff" * 8 + b"\x01"
LEAST = b"\xff" * 9 + b"\x01"
ENDLESS = b"\xff" * 1_000_000
PATTERNS = (r"^(a+)+$", r"^(?=(a+)+$)a", r"^(a+)+\1$", r"^(?:a|aa)+(?<=b)$", r"^(a?){99}a{99}(?=b)")
"""Patterns that a backtracking matcher tries for ever."""
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
DEEP = {"Avro": deep_avro, "JSON": deep_json, "Protobuf": deep_proto, "a schema": deep_schema}
CASES: dict[str, Callable[[], Any]] = {
    **{
        f"{name}, {depth} deep": partial(nest, depth)
        for name, nest in DEEP.items()
        for depth in DEPTHS
    },
    "a schema marked as parsed": _marked,
    "huge counts": lambda: _decoded(avro(_array("long")), HUGE + b"\x00" * 1_000_000),
    "the least count": lambda: _decoded(avro(_array("long")), LEAST * 100_000),
    "huge counts of maps": lambda: _decoded(
        avro({"type": "map", "values": "null"}), HUGE + b"\x00" * 1_000_000
    ),
    "huge lengths": lambda: [
        _decoded(avro(each), length + b"abc")
        for each in ("bytes", "string", {"type": "fixed", "name": "F", "size": 1 << 70})
        for length in (HUGE, LEAST, b"\xfe\xff\xff\xff\x0f")
    ],
    "endless numbers": lambda: [
        _decoded(avro(each), ENDLESS) for each in ({"type": "long"}, NEXT, TREE, _array("long"))
    ],
    "long decimals": lambda: _decoded(avro(DECIMAL), avro_length(1_000_000) + b"\x7f" * 1_000_000),
    "long fixed decimals": lambda: _decoded(
        avro(DECIMAL | {"type": "fixed", "name": "F", "size": 1_000_000}), b"\x7f" * 1_000_000
    ),
    "patterns": lambda: [
        _decoded(
            json_schema({"items": {"pattern": each}}), json.dumps(["a" * 1000 + "!"] * 10).encode()
        )
        for each in PATTERNS
    ],
    "a long number": lambda: _decoded(json_schema({"type": "integer"}), b"1" * 1_000_000),
}


def run() -> None:
    """Run all cases."""
    for name, case in CASES.items():
        sys.stdout.write(f"{name}\t")
        sys.stdout.flush()
        began = time.thread_time()
        case()
        sys.stdout.write(f"{time.thread_time() - began}\n")


if __name__ == "__main__":
    # In a thread, as in a client.
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()

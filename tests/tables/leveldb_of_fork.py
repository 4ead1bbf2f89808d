"""Puts a row with the LevelDB of plyvel's fork, compacts, prints all rows: KEY VALUE in hex.

    python leveldb_of_fork.py WHEEL FOLDER KEY VALUE

WHEEL is an unpacked wheel. If it is for another Python, LevelDB is used through its C interface.
"""

import sys
from collections.abc import Iterator
from ctypes import CDLL, byref, c_char_p, c_size_t, c_ubyte, c_void_p, string_at
from importlib import import_module
from pathlib import Path
from typing import Any

Rows = Iterator[tuple[bytes, bytes]]


def by_binding(plyvel: Any, folder: str, key: bytes, value: bytes) -> Rows:
    with plyvel.DB(folder, paranoid_checks=True, block_size=16 * 1024) as handle:
        handle.put(key, value, sync=True)
        handle.compact_range()
        with handle.iterator(verify_checksums=True) as rows:
            yield from rows


def by_library(library: CDLL, folder: str, key: bytes, value: bytes) -> Rows:
    error, length, none = c_char_p(), c_size_t(), c_size_t(0)

    def call(name: str, *arguments: object, gives: Any = c_void_p) -> Any:
        function = getattr(library, f"leveldb_{name}")
        function.restype = gives
        result = function(*arguments)
        assert error.value is None, error.value
        return c_void_p(result) if gives is c_void_p else result

    def found(part: str) -> bytes:
        return string_at(call(f"iter_{part}", rows, byref(length)), length.value)

    handle = call("open", call("options_create"), folder.encode(), byref(error))
    row = (key, c_size_t(len(key)), value, c_size_t(len(value)))
    call("put", handle, call("writeoptions_create"), *row, byref(error), gives=None)
    call("compact_range", handle, None, none, None, none, gives=None)
    rows = call("create_iterator", handle, call("readoptions_create"))
    call("iter_seek_to_first", rows, gives=None)
    while call("iter_valid", rows, gives=c_ubyte):
        yield found("key"), found("value")
        call("iter_next", rows, gives=None)
    call("iter_get_error", rows, byref(error), gives=None)
    call("iter_destroy", rows, gives=None)
    call("close", handle, gives=None)


def main(wheel: str, folder: str, key: str, value: str) -> None:
    sys.path.insert(0, wheel)
    row = (bytes.fromhex(key), bytes.fromhex(value))
    try:
        binding = import_module("plyvel_next")
    except ImportError:
        (library,) = Path(wheel).rglob("libleveldb-*")
        rows = by_library(CDLL(str(library)), folder, *row)
    else:
        rows = by_binding(binding, folder, *row)
    sys.stdout.writelines(f"{key.hex()} {value.hex()}\n" for key, value in rows)


if __name__ == "__main__":
    main(*sys.argv[1:])

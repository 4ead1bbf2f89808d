"""A store on HBase for `write_store.py`: its rows in memory, and in a file between two parts."""

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import happybase  # noqa: F401  older versions need it imported first
from sortedcontainers import SortedDict

from tables.hbase.store import HBaseStore
from tests.simulation.gateway import PLACE, Rows, SimulatedGateway


def opening(file: Path) -> tuple[Callable[..., Any], Callable[[], None]]:
    """Return what opens the tables of a server that is alone, and what saves the rows."""
    rows = Rows()
    if file.exists():
        load(rows, file)

    def open_tables(*_: Any, **__: Any) -> Any:
        store = HBaseStore(PLACE, SimulatedGateway(rows, lambda: None))
        store.take_over(lambda _: None)
        if hasattr(store, "raise_format"):  # a server that is alone does so
            store.raise_format()
        try:
            sealing = import_module("tables.sealing.store")
            tables = import_module("tables.sealing.tables")
        except ModuleNotFoundError:
            sealing = tables = import_module("tables.sealed_store")  # the name of both before
        return tables.SealedTables(sealing.SealedStore(store, None))

    def save() -> None:
        tables = {
            name.decode(): {key.hex(): cell.value.hex() for key, cell in cells.items()}
            for name, cells in rows.tables.items()
        }
        file.write_text(json.dumps(tables, indent=0) + "\n", encoding="utf-8")

    return open_tables, save


def load(rows: Rows, file: Path) -> None:
    """Put the rows of a file in the place of those that there are."""
    for name, cells in json.loads(file.read_text(encoding="utf-8")).items():
        rows.tables.setdefault(name.encode(), SortedDict()).clear()
        for key, value in cells.items():
            rows._put(name.encode(), bytes.fromhex(key), bytes.fromhex(value))

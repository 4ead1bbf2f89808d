"""Kinds of store: the URLs that name them, and how to add another kind."""

import re
from pathlib import Path

import pytest

from tables.memory import MemoryStore
from tables.store_tables import StoreTables
from tests.cli.conftest import run_command
from tms.core.text import store_url
from tms.core.text.store_url import HBASE, LEVELDB, MEMORY, StoreKind, folder_of, kind_of, written
from tms.server import stores
from tms.settings import Settings


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("memory:", MEMORY),
        ("memory:x", None),
        ("leveldb:a/b", LEVELDB),
        ("leveldb:", None),
        ("hbase://h:9090/p?buckets=4", HBASE),
        ("hbase://h/p", None),
        ("hbase:", None),
        ("postgres://x", None),
        ("", None),
    ],
)
def test_a_url_names_a_kind_if_it_is_whole(url: str, kind: StoreKind | None) -> None:
    assert kind_of(url) == kind
    assert folder_of(url) == (Path("a/b") if kind == LEVELDB else None)


def test_errors_say_how_urls_are_written() -> None:
    assert written() == "leveldb:DIR, memory: or hbase://HOST:PORT/PREFIX"
    assert written(durable=True) == "leveldb:DIR or hbase://HOST:PORT/PREFIX"
    assert written(shared=False) == "leveldb:DIR or memory:"
    assert written(shared=True) == "hbase://HOST:PORT/PREFIX"


def test_each_kind_can_be_opened() -> None:
    assert set(stores.WAYS) == set(store_url.KINDS.values())


def test_a_further_kind_is_two_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = StoreKind("shelf", "shelf:NAME", re.compile("shelf:[a-z]+"))
    opened: list[str] = []

    def open_shelf(asked: stores.StoreRequest) -> StoreTables:
        opened.append(asked.store)
        return StoreTables(MemoryStore())

    monkeypatch.setitem(store_url.KINDS, kind.scheme, kind)
    monkeypatch.setitem(stores.WAYS, kind, open_shelf)

    stores.open_tables("shelf:books", Settings.model_construct()).close()
    assert opened == ["shelf:books"]
    assert Settings(store="shelf:books").store == "shelf:books"
    with pytest.raises(ValueError, match="shelf:NAME"):
        Settings(store="shelf:1")
    assert run_command("init", "--store", "shelf:books")[2].startswith(
        "shelf:books needs no tables"
    )

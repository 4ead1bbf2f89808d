"""The kinds of store, and how their URLs are written. `tms.server.stores` opens them.

A new kind is its package, a row here, and a row of `tms.server.stores.WAYS`.
"""

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class StoreKind:
    """The properties of all stores of one kind."""

    scheme: str
    written: str
    """How a URL is written, for people."""
    pattern: re.Pattern[str]
    is_shared: bool = False
    """Whether several processes may have it open; else it is one process's."""
    is_folder: bool = False
    """Whether it is a folder of this machine."""
    is_kept: bool = True
    """Whether it outlasts the process."""

    @property
    def prefix(self) -> str:
        """The prefix of its URLs."""
        return f"{self.scheme}:"


LEVELDB = StoreKind("leveldb", "leveldb:DIR", re.compile("leveldb:.+"), is_folder=True)
HBASE = StoreKind(
    "hbase", "hbase://HOST:PORT/PREFIX", re.compile(r"hbase://\S+:\d+/\S+"), is_shared=True
)
MEMORY = StoreKind("memory", "memory:", re.compile("memory:"), is_kept=False)
KINDS = {kind.scheme: kind for kind in (LEVELDB, MEMORY, HBASE)}


def kind_of(url: str) -> StoreKind | None:
    """Return the kind of the store at `url`, None if it is not the URL of a store."""
    kind = KINDS.get(url.partition(":")[0])
    return kind if kind is not None and kind.pattern.fullmatch(url) else None


def has_scheme(url: str, kind: StoreKind) -> bool:
    """Whether a URL begins as those of `kind` do, complete or not."""
    return url.startswith(kind.prefix)


def is_in_process(url: str) -> bool:
    """Whether a URL begins as those of stores that are one process's, complete or not."""
    kind = KINDS.get(url.partition(":")[0])
    return kind is not None and not kind.is_shared


def folder_of(url: str) -> Path | None:
    """Return the folder that a store is in, None if it is in none."""
    kind = kind_of(url)
    return Path(url.removeprefix(kind.prefix)) if kind is not None and kind.is_folder else None


def url_of_shard(url: str, shard: int) -> str:
    """Return the URL of one shard of the store on HBase at `url`."""
    before, query, options = url.partition("?")
    return f"{before}.{shard}{query}{options}"


def written(*, kept: bool = False, shared: bool | None = None) -> str:
    """Return how URLs are written, for people; of `kept` ones, and of `shared` ones or not."""
    names = [
        kind.written
        for kind in KINDS.values()
        if (kind.is_kept or not kept) and shared in (None, kind.is_shared)
    ]
    return " or ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else names[0]

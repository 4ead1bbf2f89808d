"""The kinds of store, and the form of their URLs. `tms.server.stores` opens them.

A new kind needs a package, a row here, and a row in `tms.server.stores.WAYS`.
"""

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class StoreKind:
    """The properties shared by all stores of one kind."""

    scheme: str
    written: str
    """The form of its URLs, for people."""
    pattern: re.Pattern[str]
    is_shared: bool = False
    """Whether several processes may open it at once."""
    is_folder: bool = False
    """Whether it is a folder on this machine."""
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
    """Return the kind of the store at `url`, None if it is not a store's URL."""
    kind = KINDS.get(url.partition(":")[0])
    return kind if kind is not None and kind.pattern.fullmatch(url) else None


def has_scheme(url: str, kind: StoreKind) -> bool:
    """Whether a URL, complete or not, begins like those of `kind`."""
    return url.startswith(kind.prefix)


def is_in_process(url: str) -> bool:
    """Whether a URL, complete or not, begins like those of stores for one process."""
    kind = KINDS.get(url.partition(":")[0])
    return kind is not None and not kind.is_shared


def folder_of(url: str) -> Path | None:
    """Return the folder of a store, None if it is not in one."""
    kind = kind_of(url)
    return Path(url.removeprefix(kind.prefix)) if kind is not None and kind.is_folder else None


def url_of_shard(url: str, shard: int) -> str:
    """Return the URL of one shard of the store on HBase at `url`."""
    before, query, options = url.partition("?")
    return f"{before}.{shard}{query}{options}"


def written(*, durable: bool = False, shared: bool | None = None) -> str:
    """Return the forms of URLs, for people; only of durable or of `shared` kinds if given."""
    names = [
        kind.written
        for kind in KINDS.values()
        if (kind.is_kept or not durable) and shared in (None, kind.is_shared)
    ]
    return " or ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else names[0]

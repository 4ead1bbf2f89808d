"""The kinds of metadata store that are separate servers, and the URLs of all kinds.

A new kind needs a package with a `MetadataServer`, a row here, and one in `tms.metadata.opening`.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerKind:
    """A kind of metadata store that is a separate server."""

    scheme: str
    base: str
    """The name, for people, of the path that contains all its values."""
    port: int
    """The default port."""
    needs: str
    """The package that it needs, for people who lack it."""
    extra: str
    """The extra that installs it."""

    @property
    def written(self) -> str:
        """The form of a URL, for people."""
        return f"{self.scheme}://HOST:PORT/{self.base}"


ZOOKEEPER = ServerKind("zk", "CHROOT", 2181, "ZooKeeper needs kazoo", "zookeeper")
ETCD = ServerKind("etcd", "PREFIX", 2379, "etcd needs aetcd", "etcd")
SERVERS = {kind.scheme: kind for kind in (ZOOKEEPER, ETCD)}
SERVERS_WRITTEN = " or ".join(kind.written for kind in SERVERS.values())
KEPT_WRITTEN = f"leveldb:DIR, {SERVERS_WRITTEN}"
"""The forms of URLs of stores that outlast the process, for people."""
METADATA_URL = re.compile(rf"|leveldb:.+|(memory|{'|'.join(SERVERS)})://.*")


def is_shared_metadata(url: str) -> bool:
    """Whether a URL names a store that several servers can share."""
    scheme, mark, _ = url.partition("://")
    return bool(mark) and scheme in SERVERS

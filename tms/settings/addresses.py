"""How addresses and metadata stores are written in settings."""

import re

METADATA = re.compile(r"|leveldb:.+|(memory|zk|etcd)://.*")
METADATA_STORES = "leveldb:DIR, zk://HOST:PORT/CHROOT or etcd://HOST:PORT/PREFIX"
SHARED_METADATA = re.compile(r"(zk|etcd)://")
ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\s:\[\]/]+):(?P<port>\d{1,5})", re.ASCII)
URL = re.compile(r"https?://[^\s/]+:\d{1,5}", re.ASCII)
PORT_MAX = 65_535

"""The settings of the service, but for its limits: each is described once, here."""

import re
from typing import Literal
from urllib.parse import urlsplit

from pydantic import ValidationInfo, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from tms.core.durations import seconds_of
from tms.core.store_url import HBASE, has_scheme, kind_of, written
from tms.settings.addresses import (
    ADDRESS,
    METADATA,
    METADATA_STORES,
    PORT_MAX,
    SHARED_METADATA,
    URL,
)
from tms.settings.fields import seldom, setting

ENVIRONMENT_PREFIX = "TMS_"

_IN_SECONDS = re.compile(r"_s(_|$)")


def is_duration(name: str) -> bool:
    """Whether a setting says how long something lasts: its name has the unit, seconds."""
    return bool(_IN_SECONDS.search(name))


class ServiceSettings(BaseSettings, hide_input_in_errors=True):
    """What is told of the service. Values are checked when it is made."""

    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX, env_ignore_empty=True, extra="forbid", frozen=True
    )

    store: str = setting(
        "leveldb:./tms-data",
        "Where all is kept: leveldb:, memory:, hbase://. memory: keeps nothing when "
        "the server ends. HBase is named as hbase://HOST:PORT/PREFIX, by its Thrift gateway; `tms "
        "init` creates the tables.",
    )
    listen: str = setting(
        "127.0.0.1:11015", "The address; port 0 is any free one. IPv6 is written as [::1]:PORT."
    )
    metadata: str = setting(
        "",
        "The URL of a metadata store for namespaces. A cluster has it too. The URL is "
        "as for `tms metadata`. By default it is in the data folder, in memory with memory:, and "
        "nowhere with hbase:.",
    )
    advertise: str = setting(
        "",
        "The URL by which other servers of a cluster reach this. With it, the servers "
        "that share a store on HBase and a metadata store are a cluster: one leads, the others "
        "forward to it, and take over.",
    )
    allowed_hosts: str = setting(
        "",
        "More names that requests may have in Host. They are separated by commas. The "
        "loopback names, IP addresses, the machine's name, and what --listen and --advertise "
        "name, are allowed in any case.",
    )
    lease_s: float = setting(
        10.0,
        "How long a leader leads without renewing. Others take over a tenth later at the earliest.",
        ge=0.5,
    )
    topic_info: Literal["seed", "flat"] = setting(
        "seed",
        "A topic's form in REST: nested, or CDAP's. seed nests the properties beside the name.",
    )
    transactions: Literal["own", "foreign"] = setting(
        "own",
        "Whose: this server's, or another manager's. own: this server manages "
        "transactions, and refuses write pointers that it did not give out. foreign: it takes "
        "any, because their manager is elsewhere.",
    )
    cleanup_invalid: bool = setting(
        True,
        "Take transactions off the invalid list in time. It is safe once "
        "nothing is left of them that a reader could see.",
    )
    cleanup_workers: int = setting(
        2, "Regions of HBase cleaned up at a time. 0 leaves that to `tms prune`.", ge=0
    )
    stop_grace_s: float = seldom(
        10.0, "How long requests under way may take when the server is told to stop.", ge=0
    )
    log_level: Literal["debug", "info", "warning", "error"] = setting(
        "info", "The least level that is logged."
    )
    sync: bool = setting(
        True,
        "Sync to disk before acknowledging. Without it, a crash of the machine (not "
        "of the server alone) loses what was acknowledged in the seconds before.",
    )
    leveldb_write_buffer_bytes: int = seldom(
        16 * 1024 * 1024,
        "LevelDB gathers this much in memory before it writes a table file.",
        ge=64 * 1024,
        le=1024 * 1024 * 1024,
    )
    leveldb_block_cache_bytes: int = seldom(
        32 * 1024 * 1024, "LevelDB keeps this much of its files in memory.", gt=0
    )
    hbase_connections: int = setting(8, "The most connections to HBase's Thrift gateway.", gt=0)
    hbase_timeout_s: float = setting(
        30.0,
        "How long to wait for an answer of the gateway. Let the gateway's own "
        "hbase.client.operation.timeout be shorter: then a call that is repeated has ended there.",
        gt=0,
    )
    hbase_retry_s: float = seldom(
        15.0, "How long calls to HBase are repeated that fail; then publishers get 503.", ge=0
    )
    hbase_gateway_idle_s: float = setting(
        60.0,
        "When the gateway closes an idle connection. That is no more than its "
        "hbase.thrift.server.socket.read.timeout. An older connection is not used again.",
        gt=0,
    )
    hbase_transport: Literal["buffered", "framed"] = seldom(
        "buffered", "The gateway's Thrift transport."
    )
    hbase_protocol: Literal["binary", "compact"] = seldom(
        "binary", "The gateway's Thrift protocol."
    )
    hbase_tls: bool = setting(False, "Talk TLS to the gateway. Its certificate must be its host's.")
    hbase_tls_ca: str = setting(
        "",
        "A file of the certificates to trust the gateway by. Without it, the "
        "machine's own are trusted.",
    )
    hbase_tls_certificate: str = setting(
        "", "A file with this server's certificate and key. It is for a gateway that asks for one."
    )

    @field_validator("*", mode="before")
    @classmethod
    def _read_duration(cls, value: object, info: ValidationInfo) -> object:
        if not isinstance(value, str) or not is_duration(str(info.field_name)):
            return value
        return seconds_of(value)

    @field_validator("store")
    @classmethod
    def _check_store(cls, store: str) -> str:
        if kind_of(store) is None:
            raise ValueError(f"{written()} is wanted")
        return store

    @field_validator("metadata")
    @classmethod
    def _check_metadata(cls, metadata: str) -> str:
        if not METADATA.fullmatch(metadata):
            raise ValueError(f"{METADATA_STORES} is wanted")
        return metadata

    @field_validator("listen")
    @classmethod
    def _check_listen(cls, listen: str) -> str:
        address = ADDRESS.fullmatch(listen)
        if not address or int(address["port"]) > PORT_MAX:
            raise ValueError(f"HOST:PORT is wanted, the port from 0 to {PORT_MAX}")
        return listen

    @field_validator("advertise")
    @classmethod
    def _check_advertise(cls, advertise: str) -> str:
        if advertise and not URL.fullmatch(advertise):
            raise ValueError("http://HOST:PORT is wanted")
        return advertise

    @model_validator(mode="after")
    def _check_cluster(self) -> "ServiceSettings":
        is_shared = has_scheme(self.store, HBASE) and SHARED_METADATA.match(self.metadata)
        if self.advertise and not is_shared:
            raise ValueError(
                "advertise is for servers that share a store, hbase://…, and have metadata in "
                "zk://… or etcd://…"
            )
        return self

    @property
    def host(self) -> str:
        """The host of `listen`, an IPv6 address without its brackets."""
        return self.listen.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        """The port of `listen`; 0 is any free one."""
        return int(self.listen.rpartition(":")[2])

    @property
    def store_shared(self) -> str:
        """What all servers on one store on HBase have in common, whatever their gateways."""
        return self.store.split("/", 3)[3].partition("?")[0]

    @property
    def own_hosts(self) -> list[str]:
        """The names by which clients may call this server, besides those that always may."""
        named = [name.strip() for name in self.allowed_hosts.split(",")]
        advertised = urlsplit(self.advertise).hostname or ""
        return [name for name in (self.host, advertised, *named) if name]

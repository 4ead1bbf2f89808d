"""What a server can be told of the service: each setting described once, here.

The limits have their defaults and relations from `tms.core.limits`.
"""

import re
from dataclasses import fields
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, ValidationInfo, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from tms.core.durations import seconds_of
from tms.core.limits import Limits
from tms.core.store_url import HBASE, has_scheme, kind_of, written
from tms.settings.addresses import (
    ADDRESS,
    METADATA,
    METADATA_STORES,
    PORT_MAX,
    SHARED_METADATA,
    URL,
)

ENVIRONMENT_PREFIX = "TMS_"

_IN_SECONDS = re.compile(r"_s(_|$)")
_LIMITS = Limits()


def _limit(name: str, description: str) -> Any:
    """Return the field of a limit. `Limits` has its default."""
    default = getattr(_LIMITS, name)
    if name == "cache_bytes_max":
        return Field(default=default, ge=0, description=description)
    return Field(default=default, gt=0, description=description)


def is_duration(name: str) -> bool:
    """Whether a setting says how long something lasts: its name has the unit, seconds."""
    return bool(_IN_SECONDS.search(name))


class ServiceSettings(BaseSettings, hide_input_in_errors=True):
    """What is told of the service. Values are checked when it is made."""

    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX, env_ignore_empty=True, extra="forbid", frozen=True
    )

    store: str = Field(
        default="leveldb:./tms-data",
        description="Where all is kept: leveldb:, memory:, hbase://. memory: keeps nothing when "
        "the server ends. HBase is named as hbase://HOST:PORT/PREFIX, by its Thrift gateway; `tms "
        "init` creates the tables.",
    )
    listen: str = Field(
        default="127.0.0.1:11015",
        description="The address; port 0 is any free one. IPv6 is written as [::1]:PORT.",
    )
    metadata: str = Field(
        default="",
        description="The URL of a metadata store for namespaces. A cluster has it too. The URL is "
        "as for `tms metadata`. By default it is in the data folder, in memory with memory:, and "
        "nowhere with hbase:.",
    )
    advertise: str = Field(
        default="",
        description="The URL by which other servers of a cluster reach this. With it, the servers "
        "that share a store on HBase and a metadata store are a cluster: one leads, the others "
        "forward to it, and take over.",
    )
    allowed_hosts: str = Field(
        default="",
        description="More names that requests may have in Host. They are separated by commas. The "
        "loopback names, IP addresses, the machine's name, and what --listen and --advertise "
        "name, are allowed in any case.",
    )
    lease_s: float = Field(
        default=10.0,
        ge=0.5,
        description="How long a leader leads without renewing. Others take over a tenth later at "
        "the earliest.",
    )
    topic_info: Literal["seed", "flat"] = Field(
        default="seed",
        description="A topic's form in REST: nested, or CDAP's. seed nests the properties beside "
        "the name.",
    )
    transactions: Literal["own", "foreign"] = Field(
        default="own",
        description="Whose: this server's, or another manager's. own: this server manages "
        "transactions, and refuses write pointers that it did not give out. foreign: it takes "
        "any, because their manager is elsewhere.",
    )
    cleanup_invalid: bool = Field(
        default=True,
        description="Take transactions off the invalid list in time. It is safe once "
        "nothing is left of them that a reader could see.",
    )
    cleanup_workers: int = Field(
        default=2,
        ge=0,
        description="Regions of HBase cleaned up at a time. 0 leaves that to `tms prune`.",
    )
    stop_grace_s: float = Field(
        default=10.0,
        ge=0,
        description="How long requests under way may take when the server is told to stop.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The least level that is logged."
    )
    sync: bool = Field(
        default=True,
        description="Sync to disk before acknowledging. Without it, a crash of the machine (not "
        "of the server alone) loses what was acknowledged in the seconds before.",
    )
    leveldb_write_buffer_bytes: int = Field(
        default=16 * 1024 * 1024,
        ge=64 * 1024,
        le=1024 * 1024 * 1024,
        description="LevelDB gathers this much in memory before it writes a table file.",
    )
    leveldb_block_cache_bytes: int = Field(
        default=32 * 1024 * 1024,
        gt=0,
        description="LevelDB keeps this much of its files in memory.",
    )
    hbase_connections: int = Field(
        default=8, gt=0, description="The most connections to HBase's Thrift gateway."
    )
    hbase_timeout_s: float = Field(
        default=30.0,
        gt=0,
        description="How long to wait for an answer of the gateway. Let the gateway's own "
        "hbase.client.operation.timeout be shorter: then a call that is repeated has ended there.",
    )
    hbase_retry_s: float = Field(
        default=15.0,
        ge=0,
        description="How long calls to HBase are repeated that fail; then publishers get 503.",
    )
    hbase_gateway_idle_s: float = Field(
        default=60.0,
        gt=0,
        description="When the gateway closes an idle connection. That is no more than its "
        "hbase.thrift.server.socket.read.timeout. An older connection is not used again.",
    )
    fence_s: float = Field(
        default=0.0,
        ge=0,
        description="How long whoever takes over in a cluster waits before it begins. Nothing "
        "needs that: what the last leader sends late is hidden.",
    )
    hbase_transport: Literal["buffered", "framed"] = Field(
        default="buffered", description="The gateway's Thrift transport."
    )
    hbase_protocol: Literal["binary", "compact"] = Field(
        default="binary", description="The gateway's Thrift protocol."
    )
    hbase_tls: bool = Field(
        default=False,
        description="Talk TLS to the gateway. Its certificate must be its host's.",
    )
    hbase_tls_ca: str = Field(
        default="",
        description="A file of the certificates to trust the gateway by. Without it, the "
        "machine's own are trusted.",
    )
    hbase_tls_certificate: str = Field(
        default="",
        description="A file with this server's certificate and key. It is for a gateway that asks "
        "for one.",
    )

    ttl_s_default: int = _limit("ttl_s_default", "How long messages live by default.")
    transaction_lifetime_s_max: int = _limit(
        "transaction_lifetime_s_max",
        "Writing under a write pointer older than this is refused.",
    )
    transaction_timeout_s_default: int = _limit(
        "transaction_timeout_s_default",
        "A short transaction's timeout by default. Then it becomes invalid.",
    )
    transaction_timeout_s_max: int = _limit(
        "transaction_timeout_s_max", "The longest timeout of a short transaction."
    )
    transaction_long_timeout_s: int = _limit(
        "transaction_long_timeout_s", "When a long transaction becomes invalid."
    )
    transactions_in_progress_max: int = _limit(
        "transactions_in_progress_max",
        "The most transactions in progress. Starting another one gets 503.",
    )
    transaction_changes_max: int = _limit(
        "transaction_changes_max", "The most changes that a transaction may announce."
    )
    transaction_changes_bytes_max: int = _limit(
        "transaction_changes_bytes_max", "The most bytes of changes that one may announce."
    )
    transaction_changes_kept_bytes_max: int = _limit(
        "transaction_changes_kept_bytes_max",
        "About the bytes that the changes of all transactions may take while one may conflict.",
    )
    transaction_checkpoints_max: int = _limit(
        "transaction_checkpoints_max", "The most checkpoints in one transaction."
    )
    transaction_outcomes_max: int = _limit(
        "transaction_outcomes_max",
        "How many ended transactions are remembered, for clients that lost the answer.",
    )
    transaction_owners_max: int = _limit(
        "transaction_owners_max", "The most owners that are remembered, of 400 bytes each."
    )
    transaction_owner_retention_s: int = _limit(
        "transaction_owner_retention_s",
        "How long the last sequence of an owner is remembered that does nothing.",
    )
    transaction_snapshot_s: int = _limit(
        "transaction_snapshot_s", "How often the state of transactions is written as a whole."
    )
    transaction_snapshot_edits: int = _limit(
        "transaction_snapshot_edits",
        "Written as a whole too after so many edits: a start after a crash replays no more.",
    )
    transaction_snapshots_kept: int = _limit(
        "transaction_snapshots_kept", "How many of these snapshots are kept, with their edits."
    )
    cleanup_period_s: float = _limit(
        "cleanup_period_s",
        "How often to clean up what is dead. That is what has expired, was deleted or is invalid.",
    )
    cleanup_slice_rows: int = _limit(
        "cleanup_slice_rows", "The most rows that cleanup reads or deletes at a time."
    )
    cleanup_slice_ms: int = _limit(
        "cleanup_slice_ms", "About how long cleanup works before it pauses."
    )
    cleanup_pause_ms: int = _limit(
        "cleanup_pause_ms", "How long it pauses then while the server has requests."
    )
    cleanup_keys_max: int = _limit(
        "cleanup_keys_max", "Keys that compaction remembers at a time; 110 bytes each, about."
    )
    cleanup_grace_s: int = _limit(
        "cleanup_grace_s",
        "How much longer than it must an invalid transaction stays on the list, and the name of a "
        "deleted topic in the table.",
    )
    request_bytes_max: int = _limit("request_bytes_max", "The largest body, after decompression.")
    request_messages_max: int = _limit(
        "request_messages_max", "The most messages in one publish or store."
    )
    request_gzip_ratio_max: int = _limit(
        "request_gzip_ratio_max",
        "A gzip body over 1 MiB is at most so many times as long as what was sent of it.",
    )
    message_bytes_max: int = _limit("message_bytes_max", "The largest message.")
    frame_bytes_max: int = _limit("frame_bytes_max", "The largest key and headers of a message.")
    message_headers_max: int = _limit("message_headers_max", "The most headers of a message.")
    request_body_s_max: float = _limit(
        "request_body_s_max", "How long the body of a request may take to arrive."
    )
    request_head_bytes_max: int = _limit(
        "request_head_bytes_max", "The largest head of a request: its line and its headers."
    )
    request_head_s_max: float = _limit(
        "request_head_s_max",
        "How long a connection is kept on which no whole head of a request arrives.",
    )
    connections_max: int = _limit(
        "connections_max",
        "The most connections at a time. If the process may have too few open files for them, "
        "there are fewer, so that the store can open its own.",
    )
    queue_bytes_max: int = _limit(
        "queue_bytes_max",
        "The most payload that waits to be written. Publishers get 503 beyond it.",
    )
    queue_requests_max: int = _limit(
        "queue_requests_max", "The most publishes waiting to be written; then they get 503."
    )
    flush_bytes_max: int = _limit("flush_bytes_max", "The most payload in one write to the store.")
    cache_bytes_max: int = _limit("cache_bytes_max", "Memory for the latest messages; 0 for none.")
    topics_in_memory_max: int = _limit(
        "topics_in_memory_max",
        "The most topics in memory that nobody uses. One request may name as many.",
    )
    topics_max: int = _limit(
        "topics_max", "The most topics of all namespaces. Creating another one is refused."
    )
    topic_properties_bytes_max: int = _limit(
        "topic_properties_bytes_max",
        "The most bytes of a topic's properties, their names and values together.",
    )
    topic_properties_max: int = _limit(
        "topic_properties_max", "The most properties that a topic may have."
    )
    namespaces_max: int = _limit(
        "namespaces_max", "The most namespaces that have settings of their own."
    )
    topic_subscriptions_max: int = _limit(
        "topic_subscriptions_max", "The most subscriptions of one topic."
    )
    metric_series_max: int = _limit(
        "metric_series_max",
        "The most topics, namespaces and subscriptions, of each kind, that have metrics of their "
        "own; the rest is counted together.",
    )
    poll_messages_default: int = _limit(
        "poll_messages_default", "Messages of a poll that has no limit."
    )
    poll_messages_max: int = _limit(
        "poll_messages_max", "The most messages that one poll gives. A greater limit is cut to it."
    )
    poll_block_bytes: int = _limit(
        "poll_block_bytes", "A poll's answer is sent in parts of about this size."
    )
    poll_wait_s_max: float = _limit(
        "poll_wait_s_max", "The longest that a poll waits for messages. A longer wait is cut to it."
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

    @model_validator(mode="after")
    def _check_limits(self) -> "ServiceSettings":
        self.limits()
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

    def limits(self) -> Limits:
        """Return the limits. Raises `ValueError` where they contradict each other."""
        return Limits(**{field.name: getattr(self, field.name) for field in fields(Limits)})

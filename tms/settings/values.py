"""The settings of the service and its limits.

A setting is described only here; that of a limit is derived from its field in `tms.core.limits`,
which has its description, its default, its least value, and whether it is advanced. Advanced
settings are in `[advanced]` of a settings file, and left out of `tms serve --help`, so that the
others fit one screen. Their flags and environment variables work like those of the others.
"""

import re
from dataclasses import Field as LimitField
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import Field, ValidationInfo, create_model, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from tms.core.limits import SETTING, Limits, LimitSetting, PrincipalLimits, SchemaLimits
from tms.core.text.durations import seconds_of
from tms.core.text.metadata_url import KEPT_WRITTEN, METADATA_URL, SERVERS, is_shared_metadata
from tms.core.text.store_url import HBASE, has_scheme, kind_of, written

ENVIRONMENT_PREFIX = "TMS_"
SECTION = "advanced"

ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\s:\[\]/]+):(?P<port>\d{1,5})", re.ASCII)
URL = re.compile(r"https?://[^\s/]+:\d{1,5}", re.ASCII)
ORIGIN = re.compile(r"https?://[^\s/*]+", re.ASCII)
PORT_MAX = 65_535

L = TypeVar("L", Limits, PrincipalLimits, SchemaLimits)
_IN_SECONDS = re.compile(r"_s(_|$)")


def setting(default: object, description: str, **bounds: Any) -> Any:
    """Return the field of a setting, with pydantic's `bounds`: `ge`, `gt`, `le`."""
    return Field(default=default, description=description, **bounds)


def seldom(default: object, description: str, **bounds: Any) -> Any:
    """Return the field of a setting that operators seldom need."""
    return setting(default, description, json_schema_extra={SECTION: True}, **bounds)


def is_duration(name: str) -> bool:
    """Whether a setting is a duration: its name ends with the unit, seconds."""
    return bool(_IN_SECONDS.search(name))


class ServiceSettings(BaseSettings, hide_input_in_errors=True):
    """The settings of the service. Values are checked on construction."""

    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX, env_ignore_empty=True, extra="forbid", frozen=True
    )

    store: str = setting(
        "leveldb:./tms-data",
        "The URL of the store. It is leveldb:, memory: or hbase://. memory: is lost when the "
        "server ends. For HBase, give its Thrift gateway, hbase://HOST:PORT/PREFIX; `tms init` "
        "creates the tables.",
    )
    listen: str = setting(
        "127.0.0.1:11015",
        "The address to listen on; port 0 is any free one. IPv6 is written as [::1]:PORT.",
    )
    metadata: str = setting(
        "",
        "The URL of a metadata store for namespaces. A cluster needs it too. `tms metadata` "
        "explains the URLs. By default it is in the data folder, and in memory with memory:; with "
        "hbase: there is none.",
    )
    backup_folder: str = seldom(
        "",
        "The folder of backups that `tms backup` asks for, best on another disk than the store, or "
        "a URL of fsspec, such as s3://BUCKET/PATH (extra backup). The server writes backups "
        "nowhere else; without it there are none.",
    )
    advertise: str = setting(
        "",
        "The URL at which other servers of a cluster reach it. With it, the servers that share a "
        "store on HBase and a metadata store are a cluster: one leads, the others forward to it, "
        "and take over.",
    )
    allowed_hosts: str = setting(
        "",
        "More names that requests may have in Host. They are separated by commas. The loopback "
        "names, IP addresses, the machine's name, and the names in --listen and --advertise, are "
        "always allowed.",
    )
    allowed_origins: str = seldom(
        "",
        "Web pages that may send requests and read the answers, such as https://app.example; "
        "several are separated by commas. Each request needs its own credentials.",
    )
    lease_s: float = setting(
        10.0,
        "How long a lease lasts after each renewal. Others take over a tenth later at the "
        "earliest.",
        ge=0.5,
    )
    move_delay_s: float = seldom(
        10.0,
        "How long another server must be the better leader of a shard before the shard moves.",
        ge=0,
    )
    hold_s: float = seldom(
        5.0,
        "How long a request waits if its shard has no leader.",
        ge=0,
        le=60,
    )
    topic_info: Literal["seed", "flat"] = setting(
        "seed",
        "The form of a topic in REST: nested, or CDAP's. seed nests the properties beside the "
        "name.",
    )
    console: Literal["on", "read-only", "off"] = setting(
        "on",
        "The pages below /console. Without `auth` they answer the machine of the server alone.",
    )
    transactions: Literal["own", "foreign"] = setting(
        "own",
        "The manager of transactions. own: this server manages them, and "
        "refuses write pointers that it did not give out. foreign: it accepts all, because another "
        "system manages them.",
    )
    cleanup_invalid: bool = setting(
        True,
        "Remove old transactions from the invalid list. The server only does it when no reader "
        "could see their messages.",
    )
    cleanup_workers: int = setting(
        2, "How many regions of HBase to clean up at a time. 0 leaves that to `tms prune`.", ge=0
    )
    stop_grace_s: float = seldom(
        10.0, "How long running requests may take when the server stops.", ge=0
    )
    log_level: Literal["debug", "info", "warning", "error"] = setting(
        "info", "The lowest level of the log."
    )
    log_format: Literal["text", "json"] = seldom(
        "text", "The form of the log: lines for people, or JSON, one object a line."
    )
    access_log: bool = seldom(
        False, "Log each request with its caller, status, sizes, time and id, by tms.access."
    )
    otel: bool = seldom(
        False,
        "Send a span of each request by OpenTelemetry (OTLP over HTTP). Its own variables, such as "
        "OTEL_EXPORTER_OTLP_ENDPOINT, configure it.",
    )
    sync: bool = setting(
        True,
        "Sync to disk before acknowledging. Without it, a crash of the machine (not of the server "
        "alone) loses the acknowledged messages of the last seconds.",
    )
    leveldb_write_buffer_bytes: int = seldom(
        16 * 1024 * 1024,
        "How much LevelDB collects in memory before it writes a table file.",
        ge=64 * 1024,
        le=1024 * 1024 * 1024,
    )
    leveldb_block_cache_bytes: int = seldom(
        32 * 1024 * 1024, "How much of its files LevelDB keeps in memory.", gt=0
    )
    disk_reserve_bytes: int = seldom(
        64 * 1024 * 1024,
        "The size of the file `reserve` in the data folder. Delete it when the disk is full, so "
        "that messages can be deleted; the next start makes it again. 0 makes none.",
        ge=0,
    )
    hbase_connections: int = setting(8, "The most connections to HBase's Thrift gateway.", gt=0)
    hbase_timeout_s: float = setting(
        30.0,
        "How long to wait for an answer from the gateway. Set the gateway's own "
        "hbase.client.operation.timeout to less, so that a call has ended there before it is "
        "repeated.",
        gt=0,
    )
    hbase_retry_s: float = seldom(
        15.0, "How long to repeat failed calls to HBase; then publishers get 503.", ge=0
    )
    hbase_gateway_idle_s: float = setting(
        60.0,
        "How long a connection to it may be idle. Set it to at most the gateway's "
        "hbase.thrift.server.socket.read.timeout. An older connection is not used again.",
        gt=0,
    )
    hbase_transport: Literal["buffered", "framed"] = seldom(
        "buffered", "The gateway's Thrift transport."
    )
    hbase_protocol: Literal["binary", "compact"] = seldom(
        "binary", "The gateway's Thrift protocol."
    )
    hbase_tls: bool = setting(False, "Use TLS to the gateway. Its certificate must name its host.")
    hbase_tls_ca: str = setting(
        "",
        "A file of certificates to check the gateway with. Without it, those of the machine are "
        "used.",
    )
    hbase_tls_certificate: str = setting(
        "", "A file with this server's certificate and key. It is for a gateway that requires one."
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
            raise ValueError(f"give {written()}")
        return store

    @field_validator("metadata")
    @classmethod
    def _check_metadata(cls, metadata: str) -> str:
        if not METADATA_URL.fullmatch(metadata):
            raise ValueError(f"give {KEPT_WRITTEN}")
        return metadata

    @field_validator("listen")
    @classmethod
    def _check_listen(cls, listen: str) -> str:
        address = ADDRESS.fullmatch(listen)
        if not address or int(address["port"]) > PORT_MAX:
            raise ValueError(f"give HOST:PORT, with a port from 0 to {PORT_MAX}")
        return listen

    @field_validator("advertise")
    @classmethod
    def _check_advertise(cls, advertise: str) -> str:
        if advertise and not URL.fullmatch(advertise):
            raise ValueError("give http://HOST:PORT")
        return advertise

    @field_validator("allowed_origins")
    @classmethod
    def _check_origins(cls, origins: str) -> str:
        if not all(ORIGIN.fullmatch(each.strip()) for each in origins.split(",") if each.strip()):
            raise ValueError("give origins such as https://app.example, without a path")
        return origins

    @model_validator(mode="after")
    def _check_cluster(self) -> "ServiceSettings":
        is_shared = has_scheme(self.store, HBASE) and is_shared_metadata(self.metadata)
        if self.advertise and not is_shared:
            schemes = " or ".join(f"{scheme}://…" for scheme in SERVERS)
            raise ValueError(
                "advertise is for servers that share a store, hbase://…, and have metadata in "
                f"{schemes}"
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
        """The part of the store's URL that all servers of one store on HBase share."""
        return self.store.split("/", 3)[3].partition("?")[0]

    @property
    def origins(self) -> list[str]:
        """The origins of `allowed_origins`."""
        return [name for each in self.allowed_origins.split(",") if (name := each.strip())]

    @property
    def own_hosts(self) -> list[str]:
        """The names by which clients may call this server, in addition to those always allowed."""
        named = [name.strip() for name in self.allowed_hosts.split(",")]
        advertised = urlsplit(self.advertise).hostname or ""
        return [name for name in (self.host, advertised, *named) if name]


_PREFIXES: dict[type[Any], str] = {
    Limits: "",
    PrincipalLimits: "principal_",
    SchemaLimits: "registry_",
}
"""The limits, with the prefix of their settings' names."""


def _settings_of(kind: type[Any]) -> dict[str, LimitField[Any]]:
    """Return the fields of one kind of limits that users may set, by the setting's name."""
    return {
        _PREFIXES[kind] + field.name: field for field in fields(kind) if SETTING in field.metadata
    }


def _made(limit: LimitField[Any]) -> tuple[Any, Any]:
    """Return the type and the pydantic field of a limit's setting."""
    option: LimitSetting = limit.metadata[SETTING]
    make, bound = seldom if option.is_advanced else setting, "ge" if option.may_be_zero else "gt"
    return limit.type, make(limit.default, option.description, **{bound: 0})


if TYPE_CHECKING:
    _Settings = ServiceSettings
else:
    _Settings = create_model(
        "_Settings",
        __base__=ServiceSettings,
        **{name: _made(each) for kind in _PREFIXES for name, each in _settings_of(kind).items()},
    )


class LimitSettings(_Settings):
    """The settings of the service with its limits. Values are checked on construction."""

    @model_validator(mode="after")
    def _check_limits(self) -> "LimitSettings":
        self.limits()
        return self

    def limits(self) -> Limits:
        """Return the limits. Raises `ValueError` if they contradict each other."""
        return self._limits(Limits)

    def principal_limits(self) -> PrincipalLimits:
        """Return the limits of one principal."""
        return self._limits(PrincipalLimits)

    def schema_limits(self) -> SchemaLimits:
        """Return the limits of the schema registry."""
        return self._limits(SchemaLimits)

    def _limits(self, kind: type[L]) -> L:
        settings = _settings_of(kind).items()
        return kind(**{each.name: getattr(self, name) for name, each in settings})

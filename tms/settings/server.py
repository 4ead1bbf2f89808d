"""The settings of the schema registry; together with those of the service and security, all."""

import re
from typing import Literal
from urllib.parse import urlsplit

from pydantic import field_validator, model_validator

from tms.core.errors import TmsError
from tms.core.text.metadata_url import is_shared_metadata
from tms.core.values.caller import REGISTRY, SYSTEM, Caller, check_may_change
from tms.core.values.topic import TopicId
from tms.settings.security import SecuritySettings
from tms.settings.values import ADDRESS, PORT_MAX, URL, seldom, setting

_NOT_WITH_LOG = ("store", "advertise", "metadata")
"""Settings that a server must not have if its registry uses another server's topics."""
_PATH = re.compile(r"(/[A-Za-z0-9._-]+)+")
_ANY_HOST = ("", "0.0.0.0", "::")  # noqa: S104


class Settings(SecuritySettings):
    """All settings of a server. Values are checked on construction."""

    registry_topic: str = seldom(
        f"{SYSTEM}:_schemas", "The topic that keeps the schemas, NAMESPACE:TOPIC."
    )
    registry_listen: str = setting(
        "",
        "A separate address for the schema registry. There its paths begin at the root, as "
        "Confluent's clients expect; the usual port is 8081.",
    )
    registry_log: str = setting(
        "",
        "Serve only the registry, with the TMS at this URL. Such a server has no store: it serves "
        "the registry, /health and /metrics.",
    )
    registry_token_file: str = seldom(
        "", "A file with this server's token for the TMS of registry_log."
    )
    registry_check_s_max: float = seldom(
        10.0, "How long checking one request's schemas may take.", gt=0
    )

    registry_mode: Literal["active", "master"] = setting(
        "active", "Whether every server writes schemas, or only a master. The master is elected."
    )
    registry_master_eligible: bool = seldom(
        True, "Whether this server may become the master of the registry."
    )
    registry_advertise: str = seldom(
        "",
        "The URL at which others reach this server's registry if it is the master. By default it "
        "comes from registry_listen, or listen.",
    )
    registry_namespace: str = seldom(
        "/schema_registry", "The path in the metadata store for the registry's master and its ids."
    )
    registry_session_s: float = seldom(
        5.0,
        "Without a metadata store: how long a master may be silent before another one is elected.",
        gt=0,
    )

    @field_validator("registry_topic")
    @classmethod
    def _check_registry_topic(cls, topic: str) -> str:
        namespace, _, name = topic.partition(":")
        try:
            check_may_change(Caller(part=REGISTRY), TopicId(namespace, name))
        except TmsError:
            problem = "give NAMESPACE:TOPIC, but not another topic of the service"
            raise ValueError(problem) from None
        return topic

    @field_validator("registry_listen")
    @classmethod
    def _check_registry_listen(cls, listen: str) -> str:
        address = ADDRESS.fullmatch(listen)
        if listen and (not address or int(address["port"]) > PORT_MAX):
            raise ValueError(f"give HOST:PORT, with a port from 0 to {PORT_MAX}")
        return listen

    @field_validator("registry_log")
    @classmethod
    def _check_registry_log(cls, url: str) -> str:
        if any(not URL.fullmatch(each) for each in url.split(",") if url):
            raise ValueError("give http://HOST:PORT, or several of them with commas")
        return url

    @field_validator("registry_advertise")
    @classmethod
    def _check_registry_advertise(cls, url: str) -> str:
        if url and not URL.match(url):
            raise ValueError("give http://HOST:PORT, if needed with a path")
        return url.rstrip("/")

    @field_validator("registry_namespace")
    @classmethod
    def _check_registry_namespace(cls, path: str) -> str:
        if not _PATH.fullmatch(path):
            raise ValueError("give a path such as /schema_registry")
        return path

    @model_validator(mode="after")
    def _check_reached(self) -> "Settings":
        if self.registry_mode == "master" and self.registry_url is None:
            raise ValueError(
                "registry_mode=master needs registry_advertise, because the others cannot reach "
                "this server at the address that it listens at"
            )
        return self

    @property
    def registry_url(self) -> str | None:
        """The URL at which others reach the registry; None if it cannot be known."""
        if self.registry_advertise:
            return self.registry_advertise
        below = ""
        host, port = self.registry_address or (self.host, self.port)
        if self.registry_address is None:
            if self.advertise:
                return f"{self.advertise}/v1/registry"
            below = "/v1/registry"
        if not port or host in _ANY_HOST:
            return None
        shown = f"[{host}]" if ":" in host else host
        return f"{self.scheme}://{shown}:{port}{below}"

    @property
    def listened_hosts(self) -> list[str]:
        """The hosts at which this server listens."""
        return [self.host, *([self.registry_address[0]] if self.registry_address else [])]

    @property
    def own_hosts(self) -> list[str]:
        """The names by which clients and forwarders may call this server."""
        listened = "" if self.registry_address is None else self.registry_address[0]
        advertised = urlsplit(self.registry_advertise).hostname or ""
        return [*super().own_hosts, *(name for name in (listened, advertised) if name)]

    @property
    def reaches_others(self) -> bool:
        """Whether this server calls other servers."""
        return bool(self.advertise or self.registry_log or self.registry_mode == "master")

    @property
    def has_shared_metadata(self) -> bool:
        """Whether several servers share the metadata store."""
        return is_shared_metadata(self.metadata)

    @property
    def elects_by_metadata(self) -> bool:
        """Whether the registry's master is elected by a metadata store."""
        return self.registry_mode == "master" and self.has_shared_metadata

    @model_validator(mode="after")
    def _check_alone(self) -> "Settings":
        refused = [
            each for each in _NOT_WITH_LOG if not (each == "metadata" and self._uses_metadata)
        ]
        wrong = [name for name in refused if getattr(self, name) and self._is_set(name)]
        if self.registry_log and wrong:
            raise ValueError(
                f"registry_log is for a server without a store: leave out {' and '.join(wrong)}"
            )
        return self

    @property
    def _uses_metadata(self) -> bool:
        """Whether a server without a store needs a metadata store."""
        return self.elects_by_metadata or (self.auth != "off" and self.has_shared_metadata)

    def _is_set(self, name: str) -> bool:
        return name in self.model_fields_set

    @property
    def registry_address(self) -> tuple[str, int] | None:
        """The host and port of `registry_listen`; None if it is not set."""
        if not self.registry_listen:
            return None
        host, _, port = self.registry_listen.rpartition(":")
        return host.strip("[]"), int(port)

    @property
    def registry_topic_id(self) -> TopicId:
        """The topic that keeps the schemas."""
        namespace, _, name = self.registry_topic.partition(":")
        return TopicId(namespace, name)


ADVANCED = frozenset(
    name for name, field in Settings.model_fields.items() if field.json_schema_extra
)
"""The settings that operators seldom need."""

"""The actions and the resources of access control: topics, subjects and the server.

resource        actions
a topic         publish, consume, subscribe, take, manage, describe
a namespace     manage, describe: its settings, and topics that may come
the server      transact, transact-any, operate, grant
a subject       read, write, compatibility, delete
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The kind of a resource."""

    TOPIC = "topic"
    SERVER = "server"
    SUBJECT = "subject"


class Action(StrEnum):
    """An action that rules may allow or deny."""

    PUBLISH = "publish"
    """Publish, store, and roll back own publishes."""
    CONSUME = "consume"
    """Poll, and request positions and parts."""
    SUBSCRIBE = "subscribe"
    """Create, move and delete subscriptions."""
    TAKE = "take"
    """Take and settle messages of groups, which returns their payloads."""
    MANAGE = "manage"
    """Create, delete and trim topics, and set properties and settings."""
    DESCRIBE = "describe"
    """See that it exists, and its properties."""
    TRANSACT = "transact"
    """Start transactions, and end own ones."""
    TRANSACT_ANY = "transact-any"
    """End transactions of others, too."""
    OPERATE = "operate"
    """Operate the server: cleanup, debug, metrics, the cluster."""
    GRANT = "grant"
    """Change rules and tokens."""
    READ = "read"
    WRITE = "write"
    COMPATIBILITY = "compatibility"
    """Change the settings of a subject."""
    DELETE = "delete"


ACTIONS_OF: Mapping[Kind, frozenset[Action]] = {
    Kind.TOPIC: frozenset(
        (
            Action.PUBLISH,
            Action.CONSUME,
            Action.SUBSCRIBE,
            Action.TAKE,
            Action.MANAGE,
            Action.DESCRIBE,
        )
    ),
    Kind.SERVER: frozenset((Action.TRANSACT, Action.TRANSACT_ANY, Action.OPERATE, Action.GRANT)),
    Kind.SUBJECT: frozenset((Action.READ, Action.WRITE, Action.COMPATIBILITY, Action.DELETE)),
}


@dataclass(frozen=True, slots=True)
class Resource:
    """The object of an action."""

    kind: Kind
    namespace: str = ""
    """The namespace of a topic; empty for other kinds."""
    name: str | None = ""
    """The name of a topic or subject. None for all of them (in the namespace), future ones too."""

    def __str__(self) -> str:
        """Return its printed form."""
        if self.kind is Kind.SERVER:
            return "the server"
        if self.kind is Kind.SUBJECT:
            return "all subjects" if self.name is None else f"subject {self.name}"
        return (
            f"namespace {self.namespace}" if self.name is None else f"{self.namespace}:{self.name}"
        )


SERVER = Resource(Kind.SERVER)


def topic_resource(namespace: str, name: str | None) -> Resource:
    """Return a topic, or all of a namespace without a name."""
    return Resource(Kind.TOPIC, namespace, name)


def subject_resource(name: str | None) -> Resource:
    """Return a subject of the schema registry, or all of them without a name."""
    return Resource(Kind.SUBJECT, name=name)

"""The bodies of the registry's REST interface, as Confluent's clients send and read them.

What is not known in a request is passed over, as it is there; so requests have no forbidden fields.
In answers, what says nothing is left out.
"""

import msgspec
from msgspec import UNSET, UnsetType

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
"""What bodies are by custom; plain `application/json` is taken and given too."""


class ReferenceBody(msgspec.Struct, frozen=True):
    """What a schema means by a name: a version of a subject."""

    name: str
    subject: str
    version: int


class SchemaRequest(msgspec.Struct, frozen=True):
    """A schema that is sent: to register, to look up, or to compare."""

    schema: str | None = None
    schemaType: str | None = None  # noqa: N815  Confluent's name, as all of these
    references: list[ReferenceBody] | None = None
    id: int | None = None
    version: int | None = None


class RegisteredBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of a registration."""

    id: int
    version: int
    guid: str
    schemaType: str  # noqa: N815
    schema: str
    references: list[ReferenceBody] = []


class VersionBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """A version of a subject. A lookup's answer has no `ts` and no `deleted`."""

    subject: str
    version: int
    id: int
    guid: str
    schemaType: str  # noqa: N815
    schema: str
    references: list[ReferenceBody] = []
    ts: int | UnsetType = UNSET
    deleted: bool | UnsetType = UNSET


class SchemaBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """The schema of an id or a guid."""

    schema: str
    schemaType: str  # noqa: N815
    guid: str
    references: list[ReferenceBody] = []
    subject: str | UnsetType = UNSET
    version: int | UnsetType = UNSET
    ts: int | UnsetType = UNSET
    deleted: bool | UnsetType = UNSET
    maxId: int | UnsetType = UNSET  # noqa: N815


class SubjectVersionBody(msgspec.Struct, frozen=True):
    """A version of a subject, by name and number."""

    subject: str
    version: int


class ContextIdBody(msgspec.Struct, frozen=True):
    """An id within its context."""

    context: str
    id: int


class CompatibilityBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whether a schema fits, and if that was asked for why it does not."""

    is_compatible: bool
    messages: list[str] | UnsetType = UNSET


class ConfigRequest(msgspec.Struct, frozen=True):
    """Settings to change. What is absent stays; null takes a setting away."""

    compatibility: str | UnsetType | None = UNSET
    compatibilityLevel: str | UnsetType | None = UNSET  # noqa: N815
    normalize: bool | UnsetType | None = UNSET
    alias: str | UnsetType | None = UNSET


class ConfigSetBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """The settings of a scope once they were changed."""

    compatibility: str | None = None
    normalize: bool | None = None
    alias: str | None = None


class ConfigBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """The settings of a scope."""

    compatibilityLevel: str  # noqa: N815
    normalize: bool | None = None
    alias: str | None = None


class ModeBody(msgspec.Struct, frozen=True):
    """A mode, to be set or as it is."""

    mode: str


class RefusalBody(msgspec.Struct, frozen=True):
    """Why a request was refused."""

    error_code: int
    message: str

"""The bodies of the registry's REST interface, as Confluent's clients send and read them.

Unknown fields of a request are ignored, as there, so requests do not forbid any. Answers leave out
empty fields.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from tms.core.services.schemas import NUMBER_MAX, SchemaReference
from tms.core.values.schema_contracts import SchemaMetadata, SchemaRuleSet

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
"""The usual type of bodies; plain `application/json` is accepted and returned, too."""


Number = Annotated[int, msgspec.Meta(ge=-1, le=NUMBER_MAX)]
"""An id or a version; -1 is the next one, or the latest."""


class EntityBody(msgspec.Struct, frozen=True, rename="camel"):
    """A record or a field within a schema, by its path."""

    entity_path: str
    entity_type: Literal["sr_record", "sr_field", "SR_RECORD", "SR_FIELD"]


class TagsBody(msgspec.Struct, frozen=True, rename="camel"):
    """The tags of a record or field."""

    schema_entity: EntityBody
    tags: list[str]


class SchemaRequest(msgspec.Struct, frozen=True):
    """A schema to register, to look up, or to compare."""

    schema: str | None = None
    schemaType: str | None = None  # noqa: N815  Confluent's name, as all of these
    references: tuple[SchemaReference, ...] | None = None
    id: Number | None = None
    version: Number | None = None
    metadata: SchemaMetadata | None = None
    ruleSet: SchemaRuleSet | None = None  # noqa: N815
    schemaTagsToAdd: list[TagsBody] | None = None  # noqa: N815
    schemaTagsToRemove: list[TagsBody] | None = None  # noqa: N815
    propagateSchemaTags: bool | None = None  # noqa: N815


class TagsRequest(msgspec.Struct, frozen=True, rename="camel"):
    """Tags to write into a version's schema, and other parts of its next version."""

    new_version: Number | None = None
    tags_to_add: list[TagsBody] | None = None
    tags_to_remove: list[TagsBody] | None = None
    metadata: SchemaMetadata | None = None
    rule_set: SchemaRuleSet | None = None
    rules_to_merge: SchemaRuleSet | None = None
    rules_to_remove: list[str] | None = None


class RegisteredBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to a registration. A caller that may not read gets only the numbers."""

    id: int
    version: int
    guid: str | UnsetType = UNSET
    schemaType: str | UnsetType = UNSET  # noqa: N815
    schema: str | UnsetType = UNSET
    references: tuple[SchemaReference, ...] = ()
    metadata: SchemaMetadata | None = None
    ruleSet: SchemaRuleSet | None = None  # noqa: N815


class VersionBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """A version of a subject. A lookup's answer has no `ts` and no `deleted`."""

    subject: str
    version: int
    id: int
    guid: str
    schemaType: str  # noqa: N815
    schema: str
    references: tuple[SchemaReference, ...] = ()
    metadata: SchemaMetadata | None = None
    ruleSet: SchemaRuleSet | None = None  # noqa: N815
    schemaTags: list[TagsBody] | UnsetType = UNSET  # noqa: N815
    ts: int | UnsetType = UNSET
    deleted: bool | UnsetType = UNSET
    aliases: list[str] = []


class SchemaBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """The schema of an id or a guid."""

    schema: str
    schemaType: str  # noqa: N815
    guid: str
    references: tuple[SchemaReference, ...] = ()
    metadata: SchemaMetadata | None = None
    ruleSet: SchemaRuleSet | None = None  # noqa: N815
    schemaTags: list[TagsBody] | UnsetType = UNSET  # noqa: N815
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
    """Whether a schema is compatible, and if requested the reasons why not."""

    is_compatible: bool
    messages: list[str] | UnsetType = UNSET


class ConfigRequest(msgspec.Struct, frozen=True, rename="camel"):
    """Settings to change. An absent setting stays; null removes a setting."""

    compatibility: str | UnsetType | None = UNSET
    compatibility_level: str | UnsetType | None = UNSET
    normalize: bool | UnsetType | None = UNSET
    alias: str | UnsetType | None = UNSET
    compatibility_group: str | UnsetType | None = UNSET
    validate_fields: bool | UnsetType | None = UNSET
    default_metadata: SchemaMetadata | UnsetType | None = UNSET
    override_metadata: SchemaMetadata | UnsetType | None = UNSET
    default_rule_set: SchemaRuleSet | UnsetType | None = UNSET
    override_rule_set: SchemaRuleSet | UnsetType | None = UNSET


class _ConfigParts(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", kw_only=True):
    normalize: bool | None = None
    alias: str | None = None
    compatibility_group: str | None = None
    validate_fields: bool | None = None
    default_metadata: SchemaMetadata | None = None
    override_metadata: SchemaMetadata | None = None
    default_rule_set: SchemaRuleSet | None = None
    override_rule_set: SchemaRuleSet | None = None


class ConfigSetBody(_ConfigParts, frozen=True, omit_defaults=True, kw_only=True):
    """The settings of a scope after the change."""

    compatibility: str | None = None


class ConfigBody(_ConfigParts, frozen=True, omit_defaults=True, rename="camel", kw_only=True):
    """The settings of a scope."""

    compatibility_level: str


class ModeBody(msgspec.Struct, frozen=True):
    """A mode, to set or as it is."""

    mode: str


class StatusBody(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A server's role in the registry, and how far it has read."""

    mode: Literal["active", "master"]
    role: Literal["master", "follower"] | None = None
    is_eligible: bool | UnsetType = UNSET
    address: str | UnsetType = UNSET
    master: str | None = None
    """The URL of the master's registry; absent if unknown."""
    begun: int | UnsetType = UNSET
    """How often this server became the master."""
    epoch: int
    sequence: int
    """The sequence of the last record read."""
    readings: int
    versions: int
    subjects: int


class RefusalBody(msgspec.Struct, frozen=True):
    """Why a request was refused."""

    error_code: int
    message: str

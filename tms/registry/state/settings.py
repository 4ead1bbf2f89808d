"""The settings of a subject, a context or everything: compatibility, normalization, mode."""

from enum import StrEnum

import msgspec

from tms.core.values.schema_contracts import SchemaMetadata, SchemaRuleSet
from tms.registry.state.refusal import INVALID_LEVEL, INVALID_MODE, RegistryError


class Level(StrEnum):
    """Which earlier versions a new one must fit, and which of the two must read the other."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_transitive(self) -> bool:
        """Whether all earlier versions count, not only the latest."""
        return self.value.endswith("_TRANSITIVE")

    @property
    def new_reads_old(self) -> bool:
        """Whether the new schema must read data of an earlier one."""
        return self.value.startswith(("BACKWARD", "FULL"))

    @property
    def old_reads_new(self) -> bool:
        """Whether an earlier schema must read data of the new one."""
        return self.value.startswith(("FORWARD", "FULL"))


class Mode(StrEnum):
    """The allowed changes."""

    READWRITE = "READWRITE"
    READONLY = "READONLY"
    READONLY_OVERRIDE = "READONLY_OVERRIDE"
    IMPORT = "IMPORT"

    @property
    def is_read_only(self) -> bool:
        """Whether nothing may be registered or deleted."""
        return self in (Mode.READONLY, Mode.READONLY_OVERRIDE)


LEVEL_DEFAULT = Level.BACKWARD
MODE_DEFAULT = Mode.READWRITE


class Config(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The settings of one scope. None for the wider scope's."""

    compatibility: Level | None = None
    normalize: bool | None = None
    alias: str | None = None
    """The subject that replaces this one in reads."""
    compatibility_group: str | None = None
    """A metadata property: only versions with the same value must fit each other."""
    validate_fields: bool | None = None
    """Whether fields that metadata reserves are refused."""
    default_metadata: SchemaMetadata | None = None
    """Defaults for each new schema."""
    override_metadata: SchemaMetadata | None = None
    """Overrides for each new schema."""
    default_rule_set: SchemaRuleSet | None = None
    override_rule_set: SchemaRuleSet | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no setting is set."""
        return self == Config()


def within(narrower: Config, wider: Config) -> Config:
    """Return settings filled in from a wider scope. An alias is not inherited."""
    set_there = msgspec.structs.asdict(wider)
    own = msgspec.structs.asdict(narrower)
    missing = {name: value for name, value in set_there.items() if own[name] is None}
    missing["alias"] = narrower.alias
    return msgspec.structs.replace(narrower, **missing)


def parse_level(text: str) -> Level:
    """Return the level of a name, case-insensitively. Raises `RegistryError` (42203)."""
    try:
        return Level(text.upper())
    except ValueError:
        raise RegistryError(INVALID_LEVEL) from None


def parse_mode(text: str) -> Mode:
    """Return the mode of a name, case-insensitively. Raises `RegistryError` (42204)."""
    try:
        return Mode(text.upper())
    except ValueError:
        raise RegistryError(INVALID_MODE) from None

"""The schema registry, as a program uses it; servers offer this interface over REST.

Subjects and versions mean what they mean in Confluent's registry (`docs/registry.md`). An
implementation inherits `AsyncSchemas` and gets a submitted schema as one value.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Protocol

import msgspec

from tms.core.values.schema_contracts import SchemaMetadata, SchemaRuleSet
from tms.core.values.schema_types import AVRO

LATEST = "latest"
ALL_SUBJECTS = ":*:"
NUMBER_MAX = 2**31 - 1
"""The greatest id, and the greatest version number; the least is 1."""


@dataclass(frozen=True, slots=True)
class SchemaReference:
    """A reference of a schema: a name that stands for a version of a subject."""

    name: str
    subject: str
    version: Annotated[int, msgspec.Meta(ge=-1, le=NUMBER_MAX)]
    """-1 for the latest."""


@dataclass(frozen=True, slots=True)
class SubmittedSchema:
    """A schema sent to the registry: to register, to look up, or to compare."""

    text: str
    kind: str = AVRO
    references: tuple[SchemaReference, ...] = ()
    normalize: bool = False
    metadata: SchemaMetadata | None = None
    """None if the request does not give any."""
    rule_set: SchemaRuleSet | None = None


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """A schema that is a version of a subject."""

    subject: str
    version: int
    id: int
    schema: str
    """Its text."""
    schema_type: str = AVRO
    references: tuple[SchemaReference, ...] = ()
    guid: str = ""
    is_deleted: bool = False
    """Whether it was soft-deleted."""
    metadata: SchemaMetadata | None = None
    rule_set: SchemaRuleSet | None = None


@dataclass(frozen=True, slots=True)
class RegistryStatus:
    """A server's role in the registry, and how far it has read."""

    mode: str
    """`active`: each server writes; `master`: one elected server writes."""
    sequence: int
    """The sequence of the last record read."""
    versions: int
    subjects: int
    role: str = ""
    """`master` or `follower`, if one is elected."""
    master: str | None = None
    """The URL of the master's registry; None if it is unknown, or if each server writes."""
    epoch: int = 0
    """The epoch of the newest master; 0 if there was none."""


class AsyncSchemas(Protocol):
    """Schemas under subjects. Each method may also raise `SchemaRefused` and `Unavailable`.

    `detail` of `SchemaRefused` has Confluent's `error_code`, such as 40401 if the subject does not
    exist.
    """

    async def subjects(self, prefix: str = ALL_SUBJECTS, *, deleted: bool = False) -> list[str]:
        """Return the subjects with a prefix; with `deleted`, soft-deleted ones too."""
        ...

    async def versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        """Return the numbers of a subject's versions, in order."""
        ...

    async def version(
        self, subject: str, version: int | str = LATEST, *, deleted: bool = False, form: str = ""
    ) -> SchemaVersion:
        """Return a version of a subject; its text as stored, or in another form.

        The forms are `resolved` for Avro and `serialized` for Protobuf.
        """
        ...

    async def schema(self, schema_id: int, subject: str = "", *, form: str = "") -> SchemaVersion:
        """Return the schema of an id; its text as stored, or in another form.

        For a context other than the default, give a subject in it.
        """
        ...

    async def register(
        self,
        subject: str,
        schema: str,
        schema_type: str = AVRO,
        references: Sequence[SchemaReference] = (),
        *,
        normalize: bool = False,
        metadata: SchemaMetadata | None = None,
        rule_set: SchemaRuleSet | None = None,
    ) -> SchemaVersion:
        """Register a schema; return the existing version if there is one.

        Doing it twice is the same as once. Metadata and rules that are not given are those of the
        version before.
        """
        references = tuple(references)
        submitted = SubmittedSchema(schema, schema_type, references, normalize, metadata, rule_set)
        return await self._submit(subject, submitted)

    async def _submit(self, subject: str, submitted: SubmittedSchema) -> SchemaVersion:
        """Implement `register`."""
        ...

    async def find(
        self,
        subject: str,
        schema: str,
        schema_type: str = AVRO,
        references: Sequence[SchemaReference] = (),
        *,
        normalize: bool = False,
    ) -> SchemaVersion:
        """Return the version of a subject that has a schema."""
        submitted = SubmittedSchema(schema, schema_type, tuple(references), normalize)
        return await self._look_up(subject, submitted)

    async def _look_up(self, subject: str, submitted: SubmittedSchema) -> SchemaVersion:
        """Implement `find`."""
        ...

    async def why_unfit(
        self,
        subject: str,
        schema: str,
        schema_type: str = AVRO,
        references: Sequence[SchemaReference] = (),
        *,
        version: int | str | None = None,
    ) -> list[str]:
        """Return why a schema does not fit a version, or all relevant ones; empty if it does."""
        submitted = SubmittedSchema(schema, schema_type, tuple(references))
        return await self._compare(subject, submitted, version)

    async def _compare(
        self, subject: str, submitted: SubmittedSchema, version: int | str | None
    ) -> list[str]:
        """Implement `why_unfit`."""
        ...

    async def delete(
        self, subject: str, version: int | str | None = None, *, permanent: bool = False
    ) -> list[int]:
        """Delete a version or all of them; return their numbers. Soft first, then permanent."""
        ...

    async def compatibility(self, subject: str = "") -> str:
        """Return the level in effect for a subject, or for the default context."""
        ...

    async def set_compatibility(self, level: str, subject: str = "") -> str:
        """Set the level for a subject, or for the default context; return it."""
        ...

    async def mode(self, subject: str = "") -> str:
        """Return the mode in effect for a subject, or for the default context."""
        ...

    async def set_mode(self, mode: str, subject: str = "", *, force: bool = False) -> str:
        """Set the mode for a subject, or for the default context; return it."""
        ...

    async def status(self) -> RegistryStatus:
        """Return the role of the server that answers, and how far it has read."""
        ...

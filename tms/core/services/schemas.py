"""The schema registry, as a program uses it. The interface that a server offers by REST.

Subjects and versions mean what they mean in Confluent's registry (`docs/registry.md`). A registry
inherits `AsyncSchemas`: a schema that is sent comes to it as one value.
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
"""The greatest id, and the greatest number of a version; the least is 1."""


@dataclass(frozen=True, slots=True)
class SchemaReference:
    """A reference of a schema: a name that means a version of a subject."""

    name: str
    subject: str
    version: Annotated[int, msgspec.Meta(ge=-1, le=NUMBER_MAX)]
    """-1 for the latest."""


@dataclass(frozen=True, slots=True)
class SubmittedSchema:
    """A schema as it is sent to the registry: to register, to look up, or to compare."""

    text: str
    kind: str = AVRO
    references: tuple[SchemaReference, ...] = ()
    normalize: bool = False
    metadata: SchemaMetadata | None = None
    """None: nothing is said of it."""
    rule_set: SchemaRuleSet | None = None


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """A schema as a version of a subject."""

    subject: str
    version: int
    id: int
    schema: str
    """Its text."""
    schema_type: str = AVRO
    references: tuple[SchemaReference, ...] = ()
    guid: str = ""
    is_deleted: bool = False
    """Whether it was deleted softly."""
    metadata: SchemaMetadata | None = None
    rule_set: SchemaRuleSet | None = None


@dataclass(frozen=True, slots=True)
class RegistryStatus:
    """A server's role in the registry, and how far it has read."""

    mode: str
    """`active`: each server writes; `master`: one that is elected."""
    sequence: int
    """The sequence of the last record that was read."""
    versions: int
    subjects: int
    role: str = ""
    """`master` or `follower`, where one is elected."""
    master: str | None = None
    """The URL of the master's registry; None if nobody is known, or each writes."""
    epoch: int = 0
    """The newest master's; 0 if there was none."""


class AsyncSchemas(Protocol):
    """Schemas under subjects. Each method may raise `SchemaRefused`, `Unavailable` too.

    `detail` of `SchemaRefused` has Confluent's `error_code`, 40401 for a subject that is not there.
    """

    async def subjects(self, prefix: str = ALL_SUBJECTS, *, deleted: bool = False) -> list[str]:
        """Return the subjects that begin with a prefix, with `deleted` also soft-deleted ones."""
        ...

    async def versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        """Return the numbers of a subject's versions, in order."""
        ...

    async def version(
        self, subject: str, version: int | str = LATEST, *, deleted: bool = False, form: str = ""
    ) -> SchemaVersion:
        """Return a version of a subject; its text as it is kept, or in another form.

        Forms are `resolved` of Avro and `serialized` of Protobuf.
        """
        ...

    async def schema(self, schema_id: int, subject: str = "", *, form: str = "") -> SchemaVersion:
        """Return the schema of an id; its text as it is kept, or in another form.

        For another context than the default one, give a subject of it.
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
        """Register a schema; one that is a version already is returned as that.

        Doing it twice is the same as once. What is not said of metadata and rules, it has of the
        version before.
        """
        references = tuple(references)
        submitted = SubmittedSchema(schema, schema_type, references, normalize, metadata, rule_set)
        return await self._submit(subject, submitted)

    async def _submit(self, subject: str, submitted: SubmittedSchema) -> SchemaVersion:
        """Do what `register` says."""
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
        """Do what `find` says."""
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
        """Return why a schema does not fit a version, or all that count; nothing if it does."""
        submitted = SubmittedSchema(schema, schema_type, tuple(references))
        return await self._compare(subject, submitted, version)

    async def _compare(
        self, subject: str, submitted: SubmittedSchema, version: int | str | None
    ) -> list[str]:
        """Do what `why_unfit` says."""
        ...

    async def delete(
        self, subject: str, version: int | str | None = None, *, permanent: bool = False
    ) -> list[int]:
        """Delete a version or all of them; return their numbers. Softly, and then for good."""
        ...

    async def compatibility(self, subject: str = "") -> str:
        """Return the level that counts for a subject, or for the default context."""
        ...

    async def set_compatibility(self, level: str, subject: str = "") -> str:
        """Set the level for a subject, or for the default context; return it."""
        ...

    async def mode(self, subject: str = "") -> str:
        """Return the mode that counts for a subject, or for the default context."""
        ...

    async def set_mode(self, mode: str, subject: str = "", *, force: bool = False) -> str:
        """Set the mode for a subject, or for the default context; return it."""
        ...

    async def status(self) -> RegistryStatus:
        """Return what the server is that is asked, and how far it has read."""
        ...

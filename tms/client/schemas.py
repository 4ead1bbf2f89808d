"""`Schemas` for threads, made from `tms.core.services.schemas`.

Do not edit it: change that, and run `python -m dev.sync_client`.
"""

from collections.abc import Sequence

from tms.client.threads.bridge import Bridge
from tms.core.services.schemas import (
    ALL_SUBJECTS,
    LATEST,
    AsyncSchemas,
    RegistryStatus,
    SchemaReference,
    SchemaVersion,
)
from tms.core.values.schema_contracts import SchemaMetadata, SchemaRuleSet
from tms.core.values.schema_types import AVRO


class Schemas:
    """Schemas under subjects. Each method may also raise `SchemaRefused` and `Unavailable`.

    `detail` of `SchemaRefused` has Confluent's `error_code`, such as 40401 if the subject does not
    exist.
    """

    def __init__(self, schemas: AsyncSchemas, bridge: Bridge) -> None:
        """Use `schemas`, called through `bridge`."""
        self._schemas = schemas
        self._bridge = bridge

    def subjects(self, prefix: str = ALL_SUBJECTS, *, deleted: bool = False) -> list[str]:
        """Return the subjects with a prefix; with `deleted`, soft-deleted ones too."""
        return self._bridge.call(self._schemas.subjects, prefix, deleted=deleted)

    def versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        """Return the numbers of a subject's versions, in order."""
        return self._bridge.call(self._schemas.versions, subject, deleted=deleted)

    def version(
        self, subject: str, version: int | str = LATEST, *, deleted: bool = False, form: str = ""
    ) -> SchemaVersion:
        """Return a version of a subject; its text as stored, or in another form.

        The forms are `resolved` for Avro and `serialized` for Protobuf.
        """
        return self._bridge.call(
            self._schemas.version, subject, version, deleted=deleted, form=form
        )

    def schema(self, schema_id: int, subject: str = "", *, form: str = "") -> SchemaVersion:
        """Return the schema of an id; its text as stored, or in another form.

        For a context other than the default, give a subject in it.
        """
        return self._bridge.call(self._schemas.schema, schema_id, subject, form=form)

    def register(
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
        return self._bridge.call(
            self._schemas.register,
            subject,
            schema,
            schema_type,
            references,
            normalize=normalize,
            metadata=metadata,
            rule_set=rule_set,
        )

    def find(
        self,
        subject: str,
        schema: str,
        schema_type: str = AVRO,
        references: Sequence[SchemaReference] = (),
        *,
        normalize: bool = False,
    ) -> SchemaVersion:
        """Return the version of a subject that has a schema."""
        return self._bridge.call(
            self._schemas.find, subject, schema, schema_type, references, normalize=normalize
        )

    def why_unfit(
        self,
        subject: str,
        schema: str,
        schema_type: str = AVRO,
        references: Sequence[SchemaReference] = (),
        *,
        version: int | str | None = None,
    ) -> list[str]:
        """Return why a schema does not fit a version, or all relevant ones; empty if it does."""
        return self._bridge.call(
            self._schemas.why_unfit, subject, schema, schema_type, references, version=version
        )

    def delete(
        self, subject: str, version: int | str | None = None, *, permanent: bool = False
    ) -> list[int]:
        """Delete a version or all of them; return their numbers. Soft first, then permanent."""
        return self._bridge.call(self._schemas.delete, subject, version, permanent=permanent)

    def compatibility(self, subject: str = "") -> str:
        """Return the level in effect for a subject, or for the default context."""
        return self._bridge.call(self._schemas.compatibility, subject)

    def set_compatibility(self, level: str, subject: str = "") -> str:
        """Set the level for a subject, or for the default context; return it."""
        return self._bridge.call(self._schemas.set_compatibility, level, subject)

    def mode(self, subject: str = "") -> str:
        """Return the mode in effect for a subject, or for the default context."""
        return self._bridge.call(self._schemas.mode, subject)

    def set_mode(self, mode: str, subject: str = "", *, force: bool = False) -> str:
        """Set the mode for a subject, or for the default context; return it."""
        return self._bridge.call(self._schemas.set_mode, mode, subject, force=force)

    def status(self) -> RegistryStatus:
        """Return the role of the server that answers, and how far it has read."""
        return self._bridge.call(self._schemas.status)

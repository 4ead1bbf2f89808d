"""The registry for a client in this process (`tms.core.schemas.AsyncSchemas`)."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

from tms.core.caller import SYSTEM
from tms.core.clock import Clock
from tms.core.errors import OutcomeUnknown, SchemaRefused
from tms.core.schema_contracts import SchemaMetadata, SchemaRuleSet
from tms.core.schemas import ALL_SUBJECTS, LATEST, RegistryStatus, SchemaReference, SchemaVersion
from tms.core.topic import TopicId
from tms.registry import deletion, lookup
from tms.registry import setting_commands as settings
from tms.registry.checker import ThreadChecker
from tms.registry.contracts import told_in_order
from tms.registry.log import SCHEMAS_TOPIC, WayToLog
from tms.registry.payload_values import RegistryValues
from tms.registry.refusal import STORE_FAILED, TIMED_OUT, RegistryError
from tms.registry.registration import SchemaToRegister, register
from tms.registry.schema import Reference
from tms.registry.service import Registry, RegistryOptions
from tms.registry.sources import Submitted, references_in
from tms.registry.state import Version


class LocalSchemas:
    """A registry on the topic of a store in this process."""

    def __init__(self, way: WayToLog, clock: Clock) -> None:
        """Read nothing yet."""
        options = RegistryOptions(TopicId(SYSTEM, SCHEMAS_TOPIC))
        checker = ThreadChecker()
        self._registry = Registry(way, options, clock, checker)
        self.values = RegistryValues(self._registry, checker)

    async def subjects(self, prefix: str = ALL_SUBJECTS, *, deleted: bool = False) -> list[str]:
        """Return the subjects that begin with a prefix."""
        async with _told():
            look = partial(lookup.subjects, prefix=prefix, deleted=deleted)
            return await self._registry.list(look)

    async def versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        """Return the numbers of a subject's versions, in order."""
        async with _told():
            look = partial(lookup.versions, given=subject, deleted=deleted)
            return await self._registry.list(look)

    async def version(
        self, subject: str, version: int | str = LATEST, *, deleted: bool = False, form: str = ""
    ) -> SchemaVersion:
        """Return a version of a subject; its text as it is kept, or in another form."""
        async with _told():
            look = partial(lookup.version, given=subject, token=str(version), deleted=deleted)
            return await self._in_form(await self._registry.list(look), form)

    async def schema(self, schema_id: int, subject: str = "", *, form: str = "") -> SchemaVersion:
        """Return the schema of an id; its text as it is kept, or in another form."""
        async with _told():
            look = partial(lookup.version_of_id, schema_id=schema_id, hint=subject)
            return await self._in_form(await self._registry.find(look), form)

    async def _in_form(self, version: Version, form: str) -> SchemaVersion:
        told = _version(version)
        if not form:
            return told
        look = partial(lookup.text_in, schema=version.schema, form=form)
        return replace(told, schema=await self._registry.answer(look))

    async def register(
        self,
        subject: str,
        schema: str,
        schema_type: str = "AVRO",
        references: Sequence[SchemaReference] = (),
        *,
        normalize: bool = False,
        metadata: SchemaMetadata | None = None,
        rule_set: SchemaRuleSet | None = None,
    ) -> SchemaVersion:
        """Register a schema; one that is a version already is returned as that."""
        submitted = replace(
            _submitted(subject, schema, schema_type, references),
            told=told_in_order(metadata, rule_set),
        )
        request = SchemaToRegister(subject, submitted, normalize=normalize)
        async with _told():
            told = await self._registry.write(lambda known: register(known, request))
        return SchemaVersion(
            subject,
            told.version,
            told.id,
            told.schema.text,
            told.schema.kind,
            tuple(SchemaReference(*each) for each in told.schema.references),
            told.schema.guid,
            metadata=told.schema.metadata,
            rule_set=told.schema.rule_set,
        )

    async def find(
        self,
        subject: str,
        schema: str,
        schema_type: str = "AVRO",
        references: Sequence[SchemaReference] = (),
        *,
        normalize: bool = False,
    ) -> SchemaVersion:
        """Return the version of a subject that has a schema."""
        submitted = _submitted(subject, schema, schema_type, references)
        look = partial(lookup.same, given=subject, submitted=submitted, normalize=normalize)
        async with _told():
            return _version(await self._registry.examine(look))

    async def why_unfit(
        self,
        subject: str,
        schema: str,
        schema_type: str = "AVRO",
        references: Sequence[SchemaReference] = (),
        *,
        version: int | str | None = None,
    ) -> list[str]:
        """Return why a schema does not fit a version, or all that count; nothing if it does."""
        look = partial(
            lookup.why_unfit,
            given=subject,
            token=None if version is None else str(version),
            submitted=_submitted(subject, schema, schema_type, references),
        )
        async with _told():
            return await self._registry.examine(look)

    async def delete(
        self, subject: str, version: int | str | None = None, *, permanent: bool = False
    ) -> list[int]:
        """Delete a version or all of them; return their numbers."""
        async with _told():
            if version is None:
                return await self._registry.delete(
                    lambda known: deletion.delete_subject(known.state, subject, permanent=permanent)
                )
            token = str(version)
            deleted = await self._registry.delete(
                lambda known: deletion.delete_version(
                    known.state, subject, token, permanent=permanent
                )
            )
            return [deleted]

    async def compatibility(self, subject: str = "") -> str:
        """Return the level that counts for a subject, or for the default context."""
        async with _told():
            return await self._registry.list(lambda state: settings.level_of(state, subject))

    async def set_compatibility(self, level: str, subject: str = "") -> str:
        """Set the level for a subject, or for the default context; return it."""
        change = {"compatibility": level}
        async with _told():
            config = await self._registry.write(
                lambda known: settings.set_config(known.state, subject, change)
            )
        return config.compatibility or level

    async def mode(self, subject: str = "") -> str:
        """Return the mode that counts for a subject, or for the default context."""
        look = partial(settings.mode_of, given=subject, default_to_global=True)
        async with _told():
            return await self._registry.list(look)

    async def set_mode(self, mode: str, subject: str = "", *, force: bool = False) -> str:
        """Set the mode for a subject, or for the default context; return it."""
        async with _told():
            return await self._registry.write(
                lambda known: settings.set_mode(known.state, subject, mode, force=force)
            )

    async def status(self) -> RegistryStatus:
        """Return how far it has read; it writes itself."""
        async with _told():
            await self._registry.log.read_to_end()
        state = self._registry.state
        return RegistryStatus(
            "active",
            state.last_sequence,
            state.versions_count,
            len(state.subjects),
            epoch=state.epoch,
        )


@asynccontextmanager
async def _told() -> AsyncIterator[None]:
    """Raise the registry's errors as a client knows them."""
    try:
        yield
    except RegistryError as error:
        if error.code in (STORE_FAILED, TIMED_OUT):
            raise OutcomeUnknown(reason=str(error)) from None
        raise SchemaRefused(error_code=error.code, reason=str(error)) from None


def _submitted(
    subject: str, schema: str, kind: str, references: Sequence[SchemaReference]
) -> Submitted:
    named = (Reference(each.name, each.subject, each.version) for each in references)
    return Submitted(schema, kind, references_in(named, subject))


def _version(version: Version) -> SchemaVersion:
    schema = version.schema
    return SchemaVersion(
        subject=version.subject,
        version=version.number,
        id=version.id,
        schema=schema.text,
        schema_type=schema.kind,
        references=tuple(SchemaReference(*each) for each in schema.references),
        guid=schema.guid,
        is_deleted=version.is_deleted,
        metadata=schema.metadata,
        rule_set=schema.rule_set,
    )

"""The registry for a client in this process (`tms.core.services.schemas.AsyncSchemas`)."""

from collections.abc import Awaitable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from tms.core.errors import OutcomeUnknown, SchemaRefused
from tms.core.limits import SchemaLimits
from tms.core.runtime.clock import Clock
from tms.core.services.schemas import (
    ALL_SUBJECTS,
    LATEST,
    AsyncSchemas,
    RegistryStatus,
    SchemaVersion,
    SubmittedSchema,
)
from tms.core.values.caller import SYSTEM
from tms.core.values.topic import TopicId
from tms.registry import deletion, lookup
from tms.registry import setting_commands as settings
from tms.registry.checking.checker import ThreadChecker
from tms.registry.log.schema_log import SCHEMAS_TOPIC, SchemaLog, WayToLog
from tms.registry.log.service import Registry
from tms.registry.payload_values import RegistryValues
from tms.registry.registration import SchemaToRegister, register
from tms.registry.sources import submitted_in
from tms.registry.state.refusal import STORE_FAILED, TIMED_OUT, RegistryError
from tms.registry.state.registry_state import Version
from tms.registry.state.schema import Schema

T = TypeVar("T")


class RegistrySchemas(AsyncSchemas):
    """The schemas of a registry in this process, for a caller that may see them all."""

    def __init__(self, registry: Registry) -> None:
        """Use `registry`."""
        self._registry = registry

    async def subjects(self, prefix: str = ALL_SUBJECTS, *, deleted: bool = False) -> list[str]:
        """Return the subjects that begin with a prefix."""
        look = partial(lookup.subjects, prefix=prefix, deleted=deleted)
        return await _translated(self._registry.list(look))

    async def versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        """Return the numbers of a subject's versions, in order."""
        look = partial(lookup.versions, name=subject, deleted=deleted)
        return await _translated(self._registry.list(look))

    async def version(
        self, subject: str, version: int | str = LATEST, *, deleted: bool = False, form: str = ""
    ) -> SchemaVersion:
        """Return a version of a subject; its text as stored, or in another form."""
        look = partial(lookup.version, name=subject, token=str(version), deleted=deleted)
        return await _translated(self._in_form(self._registry.list(look), form))

    async def schema(self, schema_id: int, subject: str = "", *, form: str = "") -> SchemaVersion:
        """Return the schema of an id; its text as stored, or in another form."""
        look = partial(lookup.version_of_id, schema_id=schema_id, hint=subject)
        return await _translated(self._in_form(self._registry.find(look), form))

    async def _in_form(self, finding: Awaitable[Version], form: str) -> SchemaVersion:
        version = await finding
        answer = _version_answer(version)
        if not form:
            return answer
        look = partial(lookup.text_in, schema=version.schema, form=form)
        return replace(answer, schema=await self._registry.answer(look))

    async def _submit(self, subject: str, submitted: SubmittedSchema) -> SchemaVersion:
        """Register a schema; return the existing version if there is one."""
        request = SchemaToRegister(subject, submitted_in(subject, submitted))
        registered = await _translated(
            self._registry.write(lambda knowledge: register(knowledge, request))
        )
        return _version(subject, registered.version, registered.id, registered.schema)

    async def _look_up(self, subject: str, submitted: SubmittedSchema) -> SchemaVersion:
        """Return the version of a subject that has a schema."""
        look = partial(lookup.same, name=subject, submitted=submitted_in(subject, submitted))
        return _version_answer(await _translated(self._registry.examine(look)))

    async def _compare(
        self, subject: str, submitted: SubmittedSchema, version: int | str | None
    ) -> list[str]:
        """Return why a schema does not fit a version, or all relevant ones; empty if it does."""
        look = partial(
            lookup.why_unfit,
            name=subject,
            token=None if version is None else str(version),
            submitted=submitted_in(subject, submitted),
        )
        return await _translated(self._registry.examine(look))

    async def delete(
        self, subject: str, version: int | str | None = None, *, permanent: bool = False
    ) -> list[int]:
        """Delete a version or all of them; return their numbers."""
        if version is None:
            delete = partial(deletion.delete_subject, name=subject, permanent=permanent)
            return await _translated(
                self._registry.delete(lambda knowledge: delete(knowledge.state))
            )
        one = partial(
            deletion.delete_version, name=subject, token=str(version), permanent=permanent
        )
        return [await _translated(self._registry.delete(lambda knowledge: one(knowledge.state)))]

    async def compatibility(self, subject: str = "") -> str:
        """Return the level in effect for a subject, or for the default context."""
        return await _translated(
            self._registry.list(lambda state: settings.level_of(state, subject))
        )

    async def set_compatibility(self, level: str, subject: str = "") -> str:
        """Set the level for a subject, or for the default context; return it."""
        change = partial(settings.set_config, name=subject, change={"compatibility": level})
        config = await _translated(self._registry.write(lambda knowledge: change(knowledge.state)))
        return config.compatibility or level

    async def mode(self, subject: str = "") -> str:
        """Return the mode in effect for a subject, or for the default context."""
        look = partial(settings.mode_of, name=subject, default_to_global=True)
        return await _translated(self._registry.list(look))

    async def set_mode(self, mode: str, subject: str = "", *, force: bool = False) -> str:
        """Set the mode for a subject, or for the default context; return it."""
        change = partial(settings.set_mode, name=subject, text=mode, force=force)
        return await _translated(self._registry.write(lambda knowledge: change(knowledge.state)))

    async def status(self) -> RegistryStatus:
        """Return how far it has read; it is its own writer."""
        await _translated(self._registry.log.read_to_end())
        state = self._registry.state
        return RegistryStatus(
            "active",
            state.last_sequence,
            state.versions_count,
            len(state.subjects),
            epoch=state.epoch,
        )


class LocalSchemas(RegistrySchemas):
    """A registry on the topic of a store in this process."""

    def __init__(self, way: WayToLog, clock: Clock) -> None:
        """Read nothing yet."""
        checker = ThreadChecker()
        log = SchemaLog(way, TopicId(SYSTEM, SCHEMAS_TOPIC), clock)
        super().__init__(Registry(log, SchemaLimits(), checker))
        self.values = RegistryValues(self._registry, checker)


async def _translated(awaited: Awaitable[T]) -> T:
    """Return what the registry returns, and raise its errors in the form for clients."""
    try:
        return await awaited
    except RegistryError as error:
        if error.code in (STORE_FAILED, TIMED_OUT):
            raise OutcomeUnknown(reason=str(error)) from None
        raise SchemaRefused(error_code=error.code, reason=str(error)) from None


def _version_answer(version: Version) -> SchemaVersion:
    answer = _version(version.subject, version.number, version.id, version.schema)
    return replace(answer, is_deleted=version.is_deleted)


def _version(subject: str, number: int, schema_id: int, schema: Schema) -> SchemaVersion:
    return SchemaVersion(
        subject=subject,
        version=number,
        id=schema_id,
        schema=schema.text,
        schema_type=schema.kind,
        references=schema.references,
        guid=schema.guid,
        metadata=schema.metadata,
        rule_set=schema.rule_set,
    )

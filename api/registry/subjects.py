"""Subjects and their versions: register, look up, show, list, delete."""

from functools import partial

import msgspec

from api.http.exchange import Exchange
from api.http.operation import Operation
from api.registry import parameters as p
from api.registry.requests import (
    Handlers,
    answer,
    answer_registered,
    flag,
    page,
    prefix_of,
    read_json,
    shown,
    subject_of,
    submitted_of,
    tags_of,
    version_body,
)
from api.registry.resources import readable, reader_of, writable
from tms.registry import deletion, lookup
from tms.registry.registration import Registered, SchemaToRegister, register
from tms.registry.state.decision import Decided
from tms.registry.state.knowledge import Knowledge
from tms.registry.state.refusal import INCOMPATIBLE, INVALID_SCHEMA
from tms.registry.state.subjects import ALL_CONTEXTS
from tms.registry.tagging import TagChange, register_tagged
from tms.security.resources import Action
from tms.wire.registry_bodies import SchemaRequest

TAG = "Subjects"
SUBJECT = "/subjects/{subject}"
VERSIONS = f"{SUBJECT}/versions"


class SubjectHandlers(Handlers):
    """Handlers of subjects."""

    async def subjects(self, exchange: Exchange) -> None:
        """Answer with the names of subjects."""
        look = partial(
            lookup.subjects,
            prefix=prefix_of(exchange, ALL_CONTEXTS),
            deleted=flag(exchange, "deleted"),
            deleted_only=flag(exchange, "deletedOnly"),
        )
        names = await self._registry.list(look)
        reads = reader_of(exchange).reads
        await answer(exchange, page(exchange, [each for each in names if reads(each)]))

    async def look_up(self, exchange: Exchange) -> None:
        """Answer with the version that has a schema."""
        request = await read_json(exchange, SchemaRequest, self._body_bytes_max)
        subject = subject_of(exchange)
        submitted = submitted_of(exchange, request, subject)
        look = partial(
            lookup.same,
            name=subject,
            submitted=submitted,
            deleted=flag(exchange, "deleted"),
        )
        version = await self._registry.examine(readable(exchange, subject, look, submitted))
        view = await shown(exchange, self._registry, version.schema)
        body = version_body(version, is_lookup=True)
        await answer(exchange, msgspec.structs.replace(body, schema=view.schema))

    async def delete_subject(self, exchange: Exchange) -> None:
        """Delete all versions of a subject."""
        subject, permanent = subject_of(exchange), flag(exchange, "permanent")
        deleted = await self._registry.delete(
            lambda known: deletion.delete_subject(known.state, subject, permanent=permanent)
        )
        await answer(exchange, deleted)

    async def versions(self, exchange: Exchange) -> None:
        """Answer with the numbers of a subject's versions."""
        subject = subject_of(exchange)
        look = partial(
            lookup.versions,
            name=subject,
            deleted=flag(exchange, "deleted"),
            deleted_only=flag(exchange, "deletedOnly"),
        )
        numbers = await self._registry.list(readable(exchange, subject, look))
        await answer(exchange, page(exchange, numbers))

    async def register(self, exchange: Exchange) -> None:
        """Register a schema."""
        request = await read_json(exchange, SchemaRequest, self._body_bytes_max)
        subject = subject_of(exchange)
        submitted = submitted_of(exchange, request, subject)
        registration = SchemaToRegister(
            subject=subject,
            submitted=submitted,
            id=None if request.id in (None, -1) else request.id,
            version=request.version,
        )
        change = TagChange(
            tags_of(request.schemaTagsToAdd),
            tags_of(request.schemaTagsToRemove),
            from_latest=bool(request.propagateSchemaTags),
        )
        has_tags = change != TagChange()

        def command(knowledge: Knowledge) -> Decided[Registered]:
            if has_tags:
                return register_tagged(knowledge, registration, change)
            return register(knowledge, registration)

        is_of_latest = has_tags or not submitted.text
        telling = (INCOMPATIBLE, INVALID_SCHEMA) if is_of_latest else (INCOMPATIBLE,)
        registered = await self._registry.write(
            writable(exchange, subject, command, submitted, telling)
        )
        await answer_registered(exchange, self._registry, subject, registered)

    def operations(self) -> tuple[Operation, ...]:
        """Return the table."""
        get, post, delete = (partial(row, tag=TAG) for row in (p.GET, p.POST, p.DELETE))
        return (
            get(
                name="subjects",
                path="/subjects",
                handler=self.subjects,
                summary="The subjects",
                description="They are in the order of their bytes; subjects of other contexts have "
                "their full names.",
                query=(p.SUBJECT_PREFIX, p.DELETED, p.DELETED_ONLY, *p.PAGE),
                success="The names of the subjects.",
                answer=p.NAMES,
            ),
            post(
                name="look_up_schema",
                action=Action.READ,
                path=SUBJECT,
                handler=self.look_up,
                summary="Find the version that has a schema",
                description="The answer is the latest version that is equal.",
                query=(p.NORMALIZE, p.DELETED, p.FORMAT),
                request=p.body("SchemaRequest"),
                success="The version.",
                answer=p.body("Version"),
                errors=("40401", "40403", "42201", "42209", "42210"),
            ),
            delete(
                name="delete_subject",
                path=SUBJECT,
                handler=self.delete_subject,
                summary="Delete a subject",
                description="This deletes all its versions, first softly, then permanently.",
                query=(p.PERMANENT,),
                success="The numbers of the versions.",
                answer=p.NUMBERS,
                errors=("40401", "40404", "40405", "42205", "42206"),
            ),
            get(
                name="versions",
                path=VERSIONS,
                handler=self.versions,
                summary="The versions of a subject",
                description="They are in order.",
                query=(p.DELETED, p.DELETED_ONLY, *p.PAGE),
                success="The numbers of the versions.",
                answer=p.NUMBERS,
                errors=("40401",),
            ),
            post(
                name="register_schema",
                action=Action.WRITE,
                path=VERSIONS,
                handler=self.register,
                summary="Register a schema",
                description="If the schema is a version already, the answer is that version. An "
                "`id` is only for importing.",
                query=(p.NORMALIZE, p.FORMAT),
                request=p.body("SchemaRequest"),
                success="The id and the version of the schema.",
                answer=p.body("Registered"),
                errors=("409", "42201", "42202", "42205", "42208", "42209", "42210"),
            ),
        )

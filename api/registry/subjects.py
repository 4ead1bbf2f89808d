"""Subjects and their versions: register, look up, show, list, delete."""

from functools import partial
from urllib.parse import parse_qsl

import msgspec

from api.http.exchange import Exchange
from api.http.operation import BODY_ERRORS, Operation
from api.registry import parameters as p
from api.registry.requests import (
    ESCAPED,
    answer,
    answer_text,
    contract_told,
    flag,
    page,
    prefix_of,
    read_json,
    references_of,
    shown,
    subject_of,
    submitted_of,
    tags_told,
    text_of,
    version_body,
)
from tms.registry import deletion, lookup
from tms.registry.refusal import MALFORMED, RegistryError
from tms.registry.registration import Registered, SchemaToRegister, register
from tms.registry.service import Registry
from tms.registry.state import Version
from tms.registry.tagging import TagChange, TagsToWrite, register_tagged, write_tags
from tms.wire.registry_bodies import RegisteredBody, SchemaRequest, TagsRequest

TAG = "Subjects"
SUBJECT = "/subjects/{subject}"
VERSIONS = f"{SUBJECT}/versions"
VERSION = f"{VERSIONS}/{{version}}"
OTHER_BYTES_MAX = 256 * 1024
"""What the body of a request has besides the text of a schema."""

schema_decoder = msgspec.json.Decoder(SchemaRequest)
tags_decoder = msgspec.json.Decoder(TagsRequest)


class SubjectHandlers:
    """Answers by a registry."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._body_bytes_max = ESCAPED * registry.limits.schema_bytes_max + OTHER_BYTES_MAX

    async def subjects(self, exchange: Exchange) -> None:
        """Answer with the names of subjects."""
        look = partial(
            lookup.subjects,
            prefix=prefix_of(exchange),
            deleted=flag(exchange, "deleted"),
            deleted_only=flag(exchange, "deletedOnly"),
        )
        await answer(exchange, page(exchange, await self._registry.list(look)))

    async def look_up(self, exchange: Exchange) -> None:
        """Answer with the version that has a schema."""
        request = await read_json(exchange, schema_decoder, self._body_bytes_max)
        look = partial(
            lookup.same,
            given=subject_of(exchange),
            submitted=submitted_of(request),
            normalize=flag(exchange, "normalize"),
            deleted=flag(exchange, "deleted"),
        )
        version = await self._registry.examine(look)
        told = await shown(exchange, self._registry, version.schema)
        body = version_body(version, is_lookup=True)
        await answer(exchange, msgspec.structs.replace(body, schema=told.schema))

    async def delete_subject(self, exchange: Exchange) -> None:
        """Delete all versions of a subject."""
        subject, permanent = subject_of(exchange), flag(exchange, "permanent")
        deleted = await self._registry.delete(
            lambda known: deletion.delete_subject(known.state, subject, permanent=permanent)
        )
        await answer(exchange, deleted)

    async def versions(self, exchange: Exchange) -> None:
        """Answer with the numbers of a subject's versions."""
        look = partial(
            lookup.versions,
            given=subject_of(exchange),
            deleted=flag(exchange, "deleted"),
            deleted_only=flag(exchange, "deletedOnly"),
        )
        await answer(exchange, page(exchange, await self._registry.list(look)))

    async def register(self, exchange: Exchange) -> None:
        """Register a schema."""
        request = await read_json(exchange, schema_decoder, self._body_bytes_max)
        registration = SchemaToRegister(
            subject=subject_of(exchange),
            submitted=submitted_of(request),
            id=None if request.id in (None, -1) else request.id,
            version=request.version,
            normalize=flag(exchange, "normalize"),
        )
        change = TagChange(
            tags_told(request.schemaTagsToAdd),
            tags_told(request.schemaTagsToRemove),
            from_latest=bool(request.propagateSchemaTags),
        )
        if change == TagChange():
            registered = await self._registry.write(lambda known: register(known, registration))
        else:
            registered = await self._registry.write(
                lambda known: register_tagged(known, registration, change)
            )
        await self._answer_registered(exchange, registered)

    async def write_tags(self, exchange: Exchange) -> None:
        """Register a version that is an earlier one with other tags."""
        request = await read_json(exchange, tags_decoder, OTHER_BYTES_MAX)
        told = contract_told(request.metadata, request.rule_set)
        wanted = TagsToWrite(
            subject=subject_of(exchange),
            token=exchange.names["version"],
            change=TagChange(tags_told(request.tags_to_add), tags_told(request.tags_to_remove)),
            told=told,
            rules_to_merge=contract_told(None, request.rules_to_merge).rule_set,
            rules_to_remove=tuple(request.rules_to_remove or ()),
            new_version=request.new_version,
        )
        registered = await self._registry.write(lambda known: write_tags(known, wanted))
        await self._answer_registered(exchange, registered)

    async def _answer_registered(self, exchange: Exchange, registered: Registered) -> None:
        schema = registered.schema
        body = RegisteredBody(
            id=registered.id,
            version=registered.version,
            guid=schema.guid,
            schemaType=schema.kind,
            schema=(await shown(exchange, self._registry, schema)).schema,
            references=references_of(schema),
            metadata=schema.metadata,
            ruleSet=schema.rule_set,
        )
        await answer(exchange, body)

    async def version(self, exchange: Exchange) -> None:
        """Answer with a version."""
        await self._answer_version(exchange, await self._version(exchange))

    async def _answer_version(self, exchange: Exchange, version: Version) -> None:
        told = await shown(exchange, self._registry, version.schema)
        body = version_body(version)
        await answer(
            exchange, msgspec.structs.replace(body, schema=told.schema, schemaTags=told.tags)
        )

    async def with_metadata(self, exchange: Exchange) -> None:
        """Answer with the latest version that has some properties."""
        asked = parse_qsl(exchange.query.decode(errors="replace"), keep_blank_values=True)
        names = [value for name, value in asked if name == "key"]
        values = [value for name, value in asked if name == "value"]
        if len(names) != len(values):
            reason = "each `key` in the query wants a `value`"
            raise RegistryError(MALFORMED, reason=reason)
        look = partial(
            lookup.with_properties,
            given=subject_of(exchange),
            wanted=dict(zip(names, values, strict=True)),
        )
        await self._answer_version(exchange, await self._registry.list(look))

    async def version_text(self, exchange: Exchange) -> None:
        """Answer with a version's text."""
        schema = (await self._version(exchange)).schema
        await answer_text(exchange, await text_of(exchange, self._registry, schema))

    async def _version(self, exchange: Exchange) -> Version:
        token = exchange.names["version"]
        look = partial(
            lookup.version,
            given=subject_of(exchange),
            token=token,
            deleted=flag(exchange, "deleted"),
        )
        if deletion.parse_version(token) == deletion.LATEST:
            return await self._registry.list(look)
        return await self._registry.find(look)

    async def delete_version(self, exchange: Exchange) -> None:
        """Delete a version."""
        subject, token = subject_of(exchange), exchange.names["version"]
        permanent = flag(exchange, "permanent")
        deleted = await self._registry.delete(
            lambda known: deletion.delete_version(known.state, subject, token, permanent=permanent)
        )
        await answer(exchange, deleted)

    async def referrers(self, exchange: Exchange) -> None:
        """Answer with the ids of the schemas that refer to a version."""
        look = partial(
            lookup.referrers, given=subject_of(exchange), token=exchange.names["version"]
        )
        await answer(exchange, page(exchange, await self._registry.list(look)))

    def operations(self) -> tuple[Operation, ...]:
        """Return the table."""
        return (*self._of_subjects(), *self._of_versions())

    def _of_subjects(self) -> tuple[Operation, ...]:
        row = partial(Operation, tag=TAG, takes_any_query=True)
        return (
            row(
                name="subjects",
                method="GET",
                path="/subjects",
                handler=self.subjects,
                summary="The subjects",
                description="In the order of their bytes; of another context in full.",
                query=(p.SUBJECT_PREFIX, p.DELETED, p.DELETED_ONLY, *p.PAGE),
                success="Their names.",
                answer=p.NAMES,
            ),
            row(
                name="look_up_schema",
                method="POST",
                path=SUBJECT,
                handler=self.look_up,
                summary="Which version has a schema?",
                description="The latest one that is equal.",
                query=(p.NORMALIZE, p.DELETED, p.FORMAT),
                request=p.body("SchemaRequest"),
                success="The version.",
                answer=p.body("Version"),
                errors=("40401", "40403", "42201", "42209", "42210", *BODY_ERRORS),
            ),
            row(
                name="delete_subject",
                method="DELETE",
                path=SUBJECT,
                handler=self.delete_subject,
                summary="Delete a subject",
                description="All its versions: softly first, then for good.",
                query=(p.PERMANENT,),
                success="The numbers of the versions.",
                answer=p.NUMBERS,
                errors=("40401", "40404", "40405", "42205", "42206"),
            ),
            row(
                name="versions",
                method="GET",
                path=VERSIONS,
                handler=self.versions,
                summary="The versions of a subject",
                description="In order.",
                query=(p.DELETED, p.DELETED_ONLY, *p.PAGE),
                success="Their numbers.",
                answer=p.NUMBERS,
                errors=("40401",),
            ),
            row(
                name="version_with_metadata",
                method="GET",
                path=f"{SUBJECT}/metadata",
                handler=self.with_metadata,
                summary="The latest version that has some properties in its metadata",
                description="`key` and `value` may be given several times, in turn.",
                query=(p.PROPERTY_NAME, p.PROPERTY_VALUE, p.FORMAT),
                success="The version.",
                answer=p.body("Version"),
                errors=("40401", "40403"),
            ),
            row(
                name="register_schema",
                method="POST",
                path=VERSIONS,
                handler=self.register,
                summary="Register a schema",
                description="A schema that is a version already is answered as that. An id is for "
                "importing.",
                query=(p.NORMALIZE, p.FORMAT),
                request=p.body("SchemaRequest"),
                success="Its id and version.",
                answer=p.body("Registered"),
                errors=("409", "42201", "42205", "42208", "42209", "42210", *BODY_ERRORS),
            ),
        )

    def _of_versions(self) -> tuple[Operation, ...]:
        row = partial(Operation, tag=TAG, takes_any_query=True, errors=("40401", "40402", "42202"))
        return (
            row(
                name="version",
                method="GET",
                path=VERSION,
                handler=self.version,
                summary="A version",
                description="By number from memory; `latest` is read from the log.",
                query=(p.DELETED, p.FORMAT, p.FIND_TAGS),
                success="The version.",
                answer=p.body("Version"),
            ),
            row(
                name="version_text",
                method="GET",
                path=f"{VERSION}/schema",
                handler=self.version_text,
                summary="A version's text",
                description="As it is kept, not within JSON.",
                query=(p.DELETED, p.FORMAT),
                success="The text.",
                answer=p.TEXT,
            ),
            row(
                name="delete_version",
                method="DELETE",
                path=VERSION,
                handler=self.delete_version,
                summary="Delete a version",
                description="Softly first, then for good.",
                query=(p.PERMANENT,),
                success="Its number.",
                answer=p.NUMBER,
                errors=("40401", "40402", "40406", "40407", "42202", "42205", "42206"),
            ),
            row(
                name="write_tags",
                method="POST",
                path=f"{VERSION}/tags",
                handler=self.write_tags,
                summary="Write tags into a version's schema",
                description="A new version, or if nothing changes the one that there is.",
                request=p.body("TagsRequest"),
                success="Its id and version.",
                answer=p.body("Registered"),
                errors=(
                    *("409", "40401", "40402", "42201", "42202", "42205", "42209", "42210"),
                    *BODY_ERRORS,
                ),
            ),
            row(
                name="referrers",
                method="GET",
                path=f"{VERSION}/referencedby",
                handler=self.referrers,
                summary="What refers to a version",
                description="Those that were not soft-deleted.",
                query=p.PAGE,
                success="The ids of the schemas.",
                answer=p.NUMBERS,
            ),
        )

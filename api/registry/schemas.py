"""Schemas by id and by guid, and the list of all."""

from collections.abc import Sequence
from functools import partial

import msgspec
from msgspec import UNSET

from api.http.exchange import Exchange
from api.http.operation import Operation
from api.registry import parameters as p
from api.registry.requests import (
    Handlers,
    Shown,
    answer,
    answer_in_parts,
    answer_tagged,
    answer_text,
    facts_of,
    flag,
    hint_of,
    page,
    prefix_of,
    schema_id,
    shown,
    text,
    text_of,
    version_body,
)
from api.registry.resources import reader_of
from tms.core.values.schema_types import SCHEMA_TYPES
from tms.registry import lookup
from tms.registry.state.registry_state import Version
from tms.registry.state.subjects import context_of
from tms.wire.registry_bodies import ContextIdBody, SchemaBody, SubjectVersionBody, VersionBody

TAG = "Schemas"
_AT_ONCE = 500
"""The versions that are encoded before others get a turn."""
_get = partial(p.GET, tag=TAG)


class SchemaHandlers(Handlers):
    """Handlers of schemas."""

    async def by_id(self, exchange: Exchange) -> None:
        """Answer with the schema of an id, from memory if possible."""
        version = await self._of_id(exchange)
        body = _body(version, await shown(exchange, self._registry, version.schema))
        if exchange.query and flag(exchange, "fetchMaxId"):
            greatest = lookup.max_id(self._registry.state, hint_of(exchange))
            body = msgspec.structs.replace(body, maxId=greatest)
        await answer_tagged(exchange, body)

    async def text_by_id(self, exchange: Exchange) -> None:
        """Answer with only the text."""
        schema = (await self._of_id(exchange)).schema
        await answer_text(exchange, await text_of(exchange, self._registry, schema))

    async def _of_id(self, exchange: Exchange) -> Version:
        requested, hint = schema_id(exchange), hint_of(exchange)
        version = await self._registry.find(
            lambda state: lookup.version_of_id(state, requested, hint)
        )
        if exchange.admission is None:
            return version
        uses = lookup.all_uses_of_id(self._registry.state, requested, hint)
        return reader_of(exchange).one_of(version, uses)

    async def subjects_of_id(self, exchange: Exchange) -> None:
        """Answer with the subjects that have an id."""
        uses = await self._uses(exchange)
        subjects = list(dict.fromkeys(version.subject for version in uses))
        await answer(exchange, page(exchange, subjects))

    async def versions_of_id(self, exchange: Exchange) -> None:
        """Answer with the versions that have an id."""
        uses = await self._uses(exchange)
        bodies = [SubjectVersionBody(version.subject, version.number) for version in uses]
        await answer(exchange, page(exchange, bodies))

    async def _uses(self, exchange: Exchange) -> Sequence[Version]:
        requested, hint = schema_id(exchange), hint_of(exchange)
        look = partial(
            lookup.uses_of_id, schema_id=requested, hint=hint, deleted=flag(exchange, "deleted")
        )
        uses = await self._registry.list(look)
        return reader_of(exchange).those_of(uses)

    async def by_guid(self, exchange: Exchange) -> None:
        """Answer with the schema of a guid."""
        look = partial(lookup.version_of_guid, guid=exchange.names["guid"])
        version = await self._registry.find(look)
        uses = lookup.all_uses_of_guid(self._registry.state, exchange.names["guid"])
        version = reader_of(exchange).one_of(version, uses)
        schema = version.schema
        view = await shown(exchange, self._registry, schema)
        body = _body(version, view)
        await answer_tagged(
            exchange,
            msgspec.structs.replace(body, subject=UNSET, version=UNSET, ts=UNSET, deleted=UNSET),
        )

    async def ids_of_guid(self, exchange: Exchange) -> None:
        """Answer with the ids that a guid's schema has."""
        look = partial(lookup.ids_of_guid, guid=exchange.names["guid"])
        ids = await self._registry.list(look)
        if exchange.admission is not None:
            uses = lookup.all_uses_of_guid(self._registry.state, exchange.names["guid"])
            readable = reader_of(exchange).those_of(uses)
            seen = {(each.id, context_of(each.subject)) for each in readable}
            ids = [(context, each) for context, each in ids if (each, context) in seen]
        await answer(exchange, [ContextIdBody(*each) for each in ids])

    async def all(self, exchange: Exchange) -> None:
        """Answer with the versions of all subjects."""
        look = partial(
            lookup.schemas,
            prefix=prefix_of(exchange),
            deleted=flag(exchange, "deleted"),
            latest_only=flag(exchange, "latestOnly"),
            rule_type=text(exchange, "ruleType"),
        )
        all_found = await self._registry.list(look)
        reads = reader_of(exchange).reads
        seen = [version for version in all_found if reads(version.subject)]
        versions = page(exchange, seen)
        aliases = lookup.aliases(self._registry.state) if flag(exchange, "aliases") else {}

        def body_of(version: Version) -> VersionBody:
            names = [each for each in aliases.get(version.subject, ()) if reads(each)]
            return msgspec.structs.replace(version_body(version), aliases=names)

        if len(versions) <= _AT_ONCE:
            await answer(exchange, [body_of(version) for version in versions])
        else:
            await answer_in_parts(exchange, versions, body_of, _AT_ONCE)

    @staticmethod
    async def types(exchange: Exchange) -> None:
        """Answer with the types of schemas."""
        await answer(exchange, sorted(SCHEMA_TYPES))

    def operations(self) -> tuple[Operation, ...]:
        """Return the table."""
        return (*self._of_ids(), *self._of_all())

    def _of_ids(self) -> tuple[Operation, ...]:
        of_id = partial(_get, errors=("40403",))
        return (
            of_id(
                name="schema_by_id",
                path="/schemas/ids/{id}",
                handler=self.by_id,
                is_tagged=True,
                is_taskless=True,
                summary="The schema of an id",
                description="The answer comes from memory; the server reads the log only if "
                "memory does not have the id.",
                query=(p.SUBJECT_HINT, p.FETCH_MAX_ID, p.FORMAT, p.FIND_TAGS),
                success="The schema.",
                answer=p.body("SchemaOfId"),
            ),
            of_id(
                name="schema_text_by_id",
                path="/schemas/ids/{id}/schema",
                handler=self.text_by_id,
                is_tagged=True,
                summary="The text of an id's schema",
                description="The stored text, not wrapped in JSON.",
                query=(p.SUBJECT_HINT, p.FORMAT),
                success="The text.",
                answer=p.TEXT,
            ),
            of_id(
                name="subjects_of_id",
                path="/schemas/ids/{id}/subjects",
                handler=self.subjects_of_id,
                summary="The subjects that have an id",
                description="They are in order.",
                query=(p.SUBJECT_HINT, p.DELETED, *p.PAGE),
                success="The names of the subjects.",
                answer=p.NAMES,
            ),
            of_id(
                name="versions_of_id",
                path="/schemas/ids/{id}/versions",
                handler=self.versions_of_id,
                summary="The versions that have an id",
                description="They are in the order of subject and number.",
                query=(p.SUBJECT_HINT, p.DELETED, *p.PAGE),
                success="The versions.",
                answer=p.bodies("SubjectVersion"),
            ),
        )

    def _of_all(self) -> tuple[Operation, ...]:
        return (
            _get(
                name="schema_by_guid",
                path="/schemas/guids/{guid}",
                handler=self.by_guid,
                is_tagged=True,
                summary="The schema of a guid",
                description="The guid is the MD5 of text, references, metadata and rules.",
                query=(p.FORMAT, p.FIND_TAGS),
                success="The schema.",
                answer=p.body("SchemaOfId"),
                errors=("40403",),
            ),
            _get(
                name="ids_of_guid",
                path="/schemas/guids/{guid}/ids",
                handler=self.ids_of_guid,
                summary="The ids of a guid",
                description="There is one id for each context.",
                success="The ids.",
                answer=p.bodies("ContextId"),
                errors=("40403",),
            ),
            _get(
                name="schemas",
                path="/schemas",
                handler=self.all,
                summary="The versions of all subjects",
                description="They are in the order of subject and number; by default from the "
                "default context.",
                query=(
                    p.SUBJECT_PREFIX_OF_SCHEMAS,
                    p.DELETED,
                    p.LATEST_ONLY,
                    p.RULE_TYPE,
                    p.ALIASES,
                    *p.PAGE,
                ),
                success="The versions.",
                answer=p.bodies("Version"),
            ),
            _get(
                name="schema_types",
                path="/schemas/types",
                handler=self.types,
                summary="The types of schemas",
                description="These types can be registered here.",
                success="The names of the types.",
                answer=p.NAMES,
            ),
        )


def _body(version: Version, view: Shown) -> SchemaBody:
    schema = version.schema
    return SchemaBody(
        schema=view.schema,
        **facts_of(schema),
        schemaTags=view.tags,
        subject=version.subject,
        version=version.number,
        ts=version.written_ms,
        deleted=version.is_deleted,
    )

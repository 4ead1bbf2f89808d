"""Versions of subjects: show, delete, tag."""

from functools import partial
from urllib.parse import parse_qsl

import msgspec

from api.http.exchange import Exchange
from api.http.operation import Operation
from api.registry import parameters as p
from api.registry.requests import (
    OTHER_BYTES_MAX,
    Handlers,
    answer,
    answer_registered,
    answer_tagged,
    answer_text,
    flag,
    page,
    read_json,
    shown,
    subject_of,
    tags_of,
    text_of,
    version_body,
)
from api.registry.resources import readable, reader_of, writable
from api.registry.subjects import SUBJECT, TAG, VERSIONS
from tms.registry import deletion, lookup
from tms.registry.contracts import contract_in_order
from tms.registry.state.refusal import INCOMPATIBLE, INVALID_SCHEMA, MALFORMED, RegistryError
from tms.registry.state.registry_state import Version
from tms.registry.tagging import TagChange, TagsToWrite, write_tags
from tms.security.resources import Action
from tms.wire.registry_bodies import TagsRequest

VERSION = f"{VERSIONS}/{{version}}"


class VersionHandlers(Handlers):
    """Handlers of versions."""

    async def version(self, exchange: Exchange) -> None:
        """Answer with a version."""
        await self._answer_version(exchange, await self._version(exchange))

    async def _answer_version(self, exchange: Exchange, version: Version) -> None:
        view = await shown(exchange, self._registry, version.schema)
        body = version_body(version)
        await answer_tagged(
            exchange, msgspec.structs.replace(body, schema=view.schema, schemaTags=view.tags)
        )

    async def with_metadata(self, exchange: Exchange) -> None:
        """Answer with the latest version that has some properties."""
        parameters = parse_qsl(exchange.query.decode(errors="replace"), keep_blank_values=True)
        names = [value for name, value in parameters if name == "key"]
        values = [value for name, value in parameters if name == "value"]
        if len(names) != len(values):
            reason = "each `key` in the query needs a `value`"
            raise RegistryError(MALFORMED, reason=reason)
        subject = subject_of(exchange)
        look = partial(
            lookup.with_properties,
            subject_name=subject,
            required=dict(zip(names, values, strict=True)),
        )
        await self._answer_version(
            exchange, await self._registry.list(readable(exchange, subject, look))
        )

    async def version_text(self, exchange: Exchange) -> None:
        """Answer with a version's text."""
        schema = (await self._version(exchange)).schema
        await answer_text(exchange, await text_of(exchange, self._registry, schema))

    async def _version(self, exchange: Exchange) -> Version:
        token, subject = exchange.names["version"], subject_of(exchange)
        deleted = flag(exchange, "deleted")
        look = readable(
            exchange,
            subject,
            partial(lookup.version, name=subject, token=token, deleted=deleted),
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
        subject = subject_of(exchange)
        look = partial(
            lookup.referrers,
            name=subject,
            token=exchange.names["version"],
            deleted=flag(exchange, "deleted"),
        )
        referring = await self._registry.list(readable(exchange, subject, look))
        reads = reader_of(exchange).reads
        ids = sorted({each.id for each in referring if reads(each.subject)})
        await answer(exchange, page(exchange, ids))

    async def write_tags(self, exchange: Exchange) -> None:
        """Register a copy of an earlier version with other tags."""
        request = await read_json(exchange, TagsRequest, OTHER_BYTES_MAX)
        subject, contract = (
            subject_of(exchange),
            contract_in_order(request.metadata, request.rule_set),
        )
        to_write = TagsToWrite(
            subject=subject,
            token=exchange.names["version"],
            change=TagChange(tags_of(request.tags_to_add), tags_of(request.tags_to_remove)),
            contract=contract,
            rules_to_merge=contract_in_order(None, request.rules_to_merge).rule_set,
            rules_to_remove=tuple(request.rules_to_remove or ()),
            new_version=request.new_version,
        )
        registered = await self._registry.write(
            writable(
                exchange,
                subject,
                lambda known: write_tags(known, to_write),
                telling=(INCOMPATIBLE, INVALID_SCHEMA),
            )
        )
        await answer_registered(exchange, self._registry, subject, registered)

    def operations(self) -> tuple[Operation, ...]:
        """Return the table."""
        return (*self._reads(), *self._writes())

    def _reads(self) -> tuple[Operation, ...]:
        row = partial(p.GET, tag=TAG, errors=("40401", "40402", "42202"))
        return (
            row(
                name="version",
                path=VERSION,
                handler=self.version,
                is_tagged=True,
                summary="A version",
                description="A number is answered from memory; for `latest` the log is read.",
                query=(p.DELETED, p.FORMAT, p.FIND_TAGS),
                success="The version.",
                answer=p.body("Version"),
            ),
            row(
                name="version_text",
                path=f"{VERSION}/schema",
                handler=self.version_text,
                is_tagged=True,
                summary="A version's text",
                description="The stored text, not wrapped in JSON.",
                query=(p.DELETED, p.FORMAT),
                success="The text.",
                answer=p.TEXT,
            ),
            row(
                name="version_with_metadata",
                path=f"{SUBJECT}/metadata",
                handler=self.with_metadata,
                is_tagged=True,
                summary="The latest version with certain metadata",
                description="`key` and `value` name a property, and may be given several times, in "
                "turn.",
                query=(p.PROPERTY_NAME, p.PROPERTY_VALUE, p.FORMAT),
                success="The version.",
                answer=p.body("Version"),
                errors=("40401", "40403"),
            ),
            row(
                name="referrers",
                path=f"{VERSION}/referencedby",
                handler=self.referrers,
                summary="The schemas that refer to a version",
                description="Soft-deleted ones are omitted by default.",
                query=(p.DELETED, *p.PAGE),
                success="The ids of the schemas.",
                answer=p.NUMBERS,
            ),
        )

    def _writes(self) -> tuple[Operation, ...]:
        return (
            p.DELETE(
                name="delete_version",
                tag=TAG,
                path=VERSION,
                handler=self.delete_version,
                summary="Delete a version",
                description="The first deletion is soft, the second one is permanent.",
                query=(p.PERMANENT,),
                success="The number of the version.",
                answer=p.NUMBER,
                errors=("40401", "40402", "40406", "40407", "42202", "42205", "42206"),
            ),
            p.POST(
                name="write_tags",
                action=Action.WRITE,
                tag=TAG,
                path=f"{VERSION}/tags",
                handler=self.write_tags,
                summary="Write tags into a version's schema",
                description="This creates a new version, or returns the current one if nothing "
                "changes.",
                request=p.body("TagsRequest"),
                success="The id and the version of the schema.",
                answer=p.body("Registered"),
                errors=(*("409", "40401", "40402", "42201", "42202", "42205", "42209", "42210"),),
            ),
        )

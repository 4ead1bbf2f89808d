"""The schema registry over REST (`tms.core.services.schemas.AsyncSchemas`).

All calls except a deletion may be done twice, so they are repeated if the answer is lost.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TypeVar
from urllib.parse import quote, urlencode

import msgspec

from tms.client.remote.calls import JSON, Remote
from tms.core.services.schemas import (
    ALL_SUBJECTS,
    LATEST,
    AsyncSchemas,
    RegistryStatus,
    SchemaVersion,
    SubmittedSchema,
)
from tms.wire import registry_bodies as bodies
from tms.wire.json_values import decode_answer

_PATH = "v1/registry"
_encode = msgspec.json.Encoder().encode
B = TypeVar("B")


class RemoteSchemas(Remote, AsyncSchemas):
    """The schema registry of a server."""

    async def _read(self, kind: type[B], *parts: str, **query: object) -> B:
        return await self._get(_url(parts, query), partial(decode_answer, kind))

    async def _send(
        self, kind: type[B], method: str, parts: Sequence[str], body: object, **query: object
    ) -> B:
        url = _url(parts, query)
        return decode_answer(kind, await self._calls.safely(method, url, _encode(body), JSON))

    async def subjects(self, prefix: str = ALL_SUBJECTS, *, deleted: bool = False) -> list[str]:
        """Return the subjects that begin with a prefix."""
        return await self._read(list[str], "subjects", subjectPrefix=prefix, deleted=deleted)

    async def versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        """Return the numbers of a subject's versions, in order."""
        return await self._read(list[int], "subjects", subject, "versions", deleted=deleted)

    async def version(
        self, subject: str, version: int | str = LATEST, *, deleted: bool = False, form: str = ""
    ) -> SchemaVersion:
        """Return a version of a subject; its text as stored, or in another form."""
        parts = "subjects", subject, "versions", str(version)
        query = {"deleted": deleted, "format": form}
        body = await self._read(bodies.VersionBody, *parts, **query)
        return _version(body, body.subject, body.version, body.id)

    async def schema(self, schema_id: int, subject: str = "", *, form: str = "") -> SchemaVersion:
        """Return the schema of an id; its text as stored, or in another form."""
        parts = "schemas", "ids", str(schema_id)
        query = {"subject": subject, "format": form}
        body = await self._read(bodies.SchemaBody, *parts, **query)
        owner = "" if isinstance(body.subject, msgspec.UnsetType) else body.subject
        version = 0 if isinstance(body.version, msgspec.UnsetType) else body.version
        return _version(body, owner, version, schema_id)

    async def _submit(self, subject: str, submitted: SubmittedSchema) -> SchemaVersion:
        """Register a schema; if it is a version already, return that version."""
        parts, normalize = ("subjects", subject, "versions"), submitted.normalize
        body = _sent(submitted)
        answer = await self._send(bodies.RegisteredBody, "POST", parts, body, normalize=normalize)
        return SchemaVersion(
            subject,
            answer.version,
            answer.id,
            answer.schema or submitted.text,  # empty if the caller may not read it
            answer.schemaType or submitted.kind,
            answer.references,
            answer.guid or "",
            metadata=answer.metadata,
            rule_set=answer.ruleSet,
        )

    async def _look_up(self, subject: str, submitted: SubmittedSchema) -> SchemaVersion:
        """Return the version of a subject that has a schema."""
        parts, normalize = ("subjects", subject), submitted.normalize
        body = _sent(submitted)
        answer = await self._send(bodies.VersionBody, "POST", parts, body, normalize=normalize)
        return _version(answer, answer.subject, answer.version, answer.id)

    async def _compare(
        self, subject: str, submitted: SubmittedSchema, version: int | str | None
    ) -> list[str]:
        """Return why a schema does not fit a version, or those that count; [] if it does."""
        parts = ["compatibility", "subjects", subject, "versions"]
        if version is not None:
            parts.append(str(version))
        body = _sent(submitted)
        answer = await self._send(bodies.CompatibilityBody, "POST", parts, body, verbose=True)
        messages = [] if isinstance(answer.messages, msgspec.UnsetType) else answer.messages
        return messages or ([] if answer.is_compatible else ["it does not fit"])

    async def delete(
        self, subject: str, version: int | str | None = None, *, permanent: bool = False
    ) -> list[int]:
        """Delete a version or all of them; return their numbers."""
        parts = ["subjects", subject]
        if version is not None:
            parts += ["versions", str(version)]
        answer = await self._calls.once("DELETE", _url(parts, {"permanent": permanent}))
        deleted = decode_answer(int | list[int], answer)  # type: ignore[arg-type]
        return deleted if isinstance(deleted, list) else [deleted]

    async def compatibility(self, subject: str = "") -> str:
        """Return the level that applies to a subject, or to the default context."""
        parts = _scoped("config", subject)
        body = await self._read(bodies.ConfigBody, *parts, defaultToGlobal=True)
        return body.compatibility_level

    async def set_compatibility(self, level: str, subject: str = "") -> str:
        """Set the level for a subject, or for the default context; return it."""
        body = {"compatibility": level}
        answer = await self._send(bodies.ConfigSetBody, "PUT", _scoped("config", subject), body)
        return answer.compatibility or level

    async def mode(self, subject: str = "") -> str:
        """Return the mode that applies to a subject, or to the default context."""
        return (
            await self._read(bodies.ModeBody, *_scoped("mode", subject), defaultToGlobal=True)
        ).mode

    async def set_mode(self, mode: str, subject: str = "", *, force: bool = False) -> str:
        """Set the mode for a subject, or for the default context; return it."""
        parts, body = _scoped("mode", subject), {"mode": mode}
        return (await self._send(bodies.ModeBody, "PUT", parts, body, force=force)).mode

    async def status(self) -> RegistryStatus:
        """Return the server's role in the registry, and how far it has read."""
        answer = await self._read(bodies.StatusBody, "status")
        return RegistryStatus(
            mode=answer.mode,
            sequence=answer.sequence,
            versions=answer.versions,
            subjects=answer.subjects,
            role=answer.role or "",
            master=answer.master or None,
            epoch=answer.epoch,
        )


def _scoped(path: str, subject: str) -> list[str]:
    return [path, subject] if subject else [path]


def _url(parts: Sequence[str], query: Mapping[str, object]) -> str:
    path = "/".join([_PATH, *(quote(part, safe="") for part in parts)])
    parameters = {
        name: "true" if value is True else str(value)
        for name, value in query.items()
        if value not in (False, "")
    }
    return f"{path}?{urlencode(parameters)}" if parameters else path


def _sent(submitted: SubmittedSchema) -> bodies.SchemaRequest:
    return bodies.SchemaRequest(
        schema=submitted.text,
        schemaType=submitted.kind,
        references=submitted.references,
        metadata=submitted.metadata,
        ruleSet=submitted.rule_set,
    )


def _version(
    body: bodies.VersionBody | bodies.SchemaBody, subject: str, version: int, schema_id: int
) -> SchemaVersion:
    return SchemaVersion(
        subject,
        version,
        schema_id,
        body.schema,
        body.schemaType,
        body.references,
        body.guid,
        is_deleted=body.deleted is True,
        metadata=body.metadata,
        rule_set=body.ruleSet,
    )

"""Checks whether a schema is compatible with earlier versions."""

from functools import partial

from api.http.exchange import Exchange
from api.http.operation import Operation
from api.registry import parameters as p
from api.registry.requests import Handlers, answer, flag, read_json, subject_of, submitted_of
from api.registry.resources import readable
from tms.registry import lookup
from tms.registry.log.service import Look
from tms.registry.state.refusal import INVALID_SCHEMA, RegistryError
from tms.security.resources import Action
from tms.wire.registry_bodies import CompatibilityBody, SchemaRequest

TAG = "Compatibility"
VERSIONS = "/compatibility/subjects/{subject}/versions"


class CompatibilityHandlers(Handlers):
    """Handlers of compatibility checks."""

    async def check(self, exchange: Exchange) -> None:
        """Answer whether a schema is compatible with a version, or with those of the level."""
        request = await read_json(exchange, SchemaRequest, self._body_bytes_max)
        subject = subject_of(exchange)
        submitted = submitted_of(exchange, request, subject)
        look: Look[list[str]] = partial(
            lookup.why_unfit,
            name=subject,
            token=exchange.names.get("version"),
            submitted=submitted,
        )
        is_verbose = flag(exchange, "verbose")
        look = readable(exchange, subject, look, submitted, is_whole=is_verbose)
        try:
            messages = await self._registry.examine(look)
        except RegistryError as error:
            if error.code != INVALID_SCHEMA or not is_verbose:
                raise
            messages = [str(error)]
        body = CompatibilityBody(not messages)
        if is_verbose:
            body = CompatibilityBody(not messages, messages)
        await answer(exchange, body)

    def operations(self) -> tuple[Operation, ...]:
        """Return the table."""
        row = partial(
            p.POST,
            handler=self.check,
            tag=TAG,
            query=(p.NORMALIZE, p.VERBOSE),
            request=p.body("SchemaRequest"),
            success="Whether the schema is compatible.",
            answer=p.body("Compatibility"),
        )
        return (
            row(
                name="check_version",
                action=Action.READ,
                path=f"{VERSIONS}/{{version}}",
                summary="Check whether a schema is compatible with a version",
                description="The level of the subject decides.",
                errors=("40402", "42201", "42202", "42209"),
            ),
            row(
                name="check_versions",
                action=Action.READ,
                path=VERSIONS,
                summary="Check whether a schema is compatible with the versions",
                description="It is compared with the latest version, or with all if the level is "
                "transitive.",
                errors=("42201", "42209"),
            ),
        )

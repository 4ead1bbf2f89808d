"""Information about the registry itself."""

from functools import partial

import msgspec

from api.http.exchange import JSON_TYPE, NO_CONTENT, OK, Exchange
from api.http.operation import Operation
from api.registry import parameters as p
from api.registry.requests import Handlers, answer, page, text
from api.registry.resources import reader_of
from tms import __version__
from tms.registry import deletion
from tms.wire.registry_bodies import StatusBody

TAG = "Registry"


class AboutHandlers(Handlers):
    """Handlers for information about a registry."""

    @staticmethod
    async def root(exchange: Exchange) -> None:
        """Answer as Confluent's registry does; its clients use this as a probe."""
        await answer(exchange, {})

    async def contexts(self, exchange: Exchange) -> None:
        """Answer with the contexts that have schemas, and the default one."""
        prefix = text(exchange, "contextPrefix") if exchange.query else ""
        reader = reader_of(exchange)

        names = await self._registry.list(
            lambda state: [
                context for context in reader.contexts(state) if context.startswith(prefix)
            ]
        )
        await answer(exchange, page(exchange, names))

    async def delete_context(self, exchange: Exchange) -> None:
        """Delete a context that has no schemas."""
        name = exchange.names["context"]
        await self._registry.delete(lambda known: deletion.delete_context(known.state, name))
        await exchange.answer(NO_CONTENT)

    async def id(self, exchange: Exchange) -> None:
        """Answer with the name of the registry's topic."""
        clusters = {"tms-topic": str(self._registry.log.topic_id)}
        clusters["schema-registry-cluster"] = "schema-registry"
        await answer(exchange, {"scope": {"path": [], "clusters": clusters}})

    async def status(self, exchange: Exchange) -> None:
        """Answer with this server's role, and how far it has read."""
        registry, mastership = self._registry, self._registry.mastership
        body = StatusBody(
            mode="active" if mastership is None else "master",
            sequence=registry.state.last_sequence,
            readings=registry.log.readings,
            versions=registry.state.versions_count,
            subjects=len(registry.state.subjects),
            epoch=registry.state.epoch,
        )
        if mastership is not None:
            body = msgspec.structs.replace(
                body,
                role="master" if mastership.is_master else "follower",
                is_eligible=mastership.is_eligible,
                address=mastership.address,
                master=mastership.master,
                begun=mastership.begun,
            )
        await answer(exchange, body)

    @staticmethod
    async def version(exchange: Exchange) -> None:
        """Answer with the version of the server."""
        await answer(exchange, {"version": __version__, "commitId": ""})

    @staticmethod
    async def openapi(exchange: Exchange) -> None:
        """Answer with the OpenAPI document."""
        await exchange.answer(OK, exchange.context.openapi(), JSON_TYPE)

    def operations(self) -> tuple[Operation, ...]:
        """Return the table."""
        return (*self._of_registry(), *self._of_contexts())

    def _of_registry(self) -> tuple[Operation, ...]:
        get = partial(p.GET, tag=TAG, answer=p.OBJECT)
        return (
            get(
                name="registry",
                path="/",
                handler=self.root,
                is_page=True,
                summary="Check that the registry is running",
                description="The answer is an empty object.",
                success="The registry is running.",
            ),
            get(
                name="registry_id",
                path="/v1/metadata/id",
                handler=self.id,
                summary="Identify the registry",
                description="The answer names the topic that keeps its schemas.",
                success="The name of the topic.",
            ),
            get(
                name="registry_status",
                path="/status",
                handler=self.status,
                summary="This server's role in the registry",
                description="The answer says which server writes the log, and how far this "
                "server has read it.",
                success="The status.",
                answer=p.body("Status"),
            ),
            get(
                name="registry_version",
                path="/v1/metadata/version",
                handler=self.version,
                summary="The version of the server",
                description="This is the version of TMS.",
                success="The version.",
            ),
            get(
                name="registry_openapi",
                path="/openapi.json",
                handler=self.openapi,
                summary="This document",
                description="The document is in OpenAPI 3.1.",
                success="The document.",
                is_compressed=True,
            ),
        )

    def _of_contexts(self) -> tuple[Operation, ...]:
        return (
            p.GET(
                name="contexts",
                tag=TAG,
                path="/contexts",
                handler=self.contexts,
                summary="The contexts",
                description="These are the default context, and each one that has or had schemas, "
                "until it is deleted. With authentication, only contexts with something that the "
                "caller may read are listed.",
                query=(p.CONTEXT_PREFIX, *p.PAGE),
                success="The names of the contexts.",
                answer=p.NAMES,
            ),
            p.DELETE(
                name="delete_context",
                tag=TAG,
                path="/contexts/{context}",
                handler=self.delete_context,
                summary="Delete a context",
                description="The context must be empty. Its settings are deleted too. Its ids "
                "are not used again.",
                success="The context is deleted.",
                success_status=NO_CONTENT,
                errors=("40401", "42205", "42208", "42211"),
            ),
        )

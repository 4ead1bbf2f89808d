"""Namespaces: their settings, which apply to the topics and publishes in them."""

from functools import partial

from api.http.door.guarded import DecidedBy
from api.http.exchange import JSON_TYPE, OK, Exchange
from api.http.operation import Operation
from api.http.request_body import SMALL_BODY_BYTES_MAX, read_body
from api.openapi.parts import json_content
from api.openapi.structs import schemas_of
from api.resources.paths import NAMESPACE
from tms.core.limits import TTL_S_DEFAULT, TTL_S_MAX
from tms.security.resources import Action, topic_resource
from tms.wire.json_fields import reference
from tms.wire.json_namespaces import (
    SettingsBody,
    decode_settings,
    encode_namespace,
    encode_namespaces,
)

NAMESPACES = "/v1/namespaces"


_SETTINGS = schemas_of({"Settings": SettingsBody}, answered=False)["Settings"]
_GIVEN = {"ttl_s_max": 86_400, "message_bytes_max": 100_000, "publish_messages_per_s": 500}
_EXAMPLE = {
    "name": "shop",
    "version": 0,
    "settings": _GIVEN,
    "rules": {
        "ttl_s_default": 86_400,
        "request_bytes_max": 16 * 1024 * 1024,
        "publish_bytes_per_s": None,
        **_GIVEN,
    },
}
_UNDECLARED = {
    "name": "default",
    "version": None,
    "settings": {},
    "rules": {
        "ttl_s_default": TTL_S_DEFAULT,
        "ttl_s_max": TTL_S_MAX,
        "message_bytes_max": 10 * 1024 * 1024,
        "request_bytes_max": 16 * 1024 * 1024,
        "publish_messages_per_s": None,
        "publish_bytes_per_s": None,
    },
}
_SETTINGS_CONTENT = json_content(_SETTINGS, settings=_GIVEN, none={})
_NAMESPACE_CONTENT = json_content(reference("Namespace"), declared=_EXAMPLE, undeclared=_UNDECLARED)
_NAMESPACES_CONTENT = json_content(
    {"type": "array", "items": reference("Namespace")}, namespaces=[_EXAMPLE]
)


async def list_namespaces(exchange: Exchange) -> None:
    """Answer with the declared namespaces."""
    visible = [
        namespace
        for namespace in await exchange.context.services.namespaces.namespaces()
        if exchange.may(Action.DESCRIBE, topic_resource(namespace.name, None))
    ]
    await exchange.answer(OK, encode_namespaces(visible), JSON_TYPE)


async def show(exchange: Exchange) -> None:
    """Answer with a namespace."""
    namespace = await exchange.context.services.namespaces.namespace(exchange.namespace)
    await exchange.answer(OK, encode_namespace(namespace), JSON_TYPE)


async def declare(exchange: Exchange) -> None:
    """Set the settings of a namespace; answer with the namespace."""
    exchange.check_json()
    settings = decode_settings(await read_body(exchange, SMALL_BODY_BYTES_MAX))
    declared = await exchange.context.services.namespaces.declare(exchange.namespace, settings)
    await exchange.answer(OK, encode_namespace(declared), JSON_TYPE)


async def delete(exchange: Exchange) -> None:
    """Delete a namespace's settings."""
    await exchange.context.services.namespaces.delete(exchange.namespace)
    await exchange.answer(OK)


_STORE_ERRORS = ("metadata_unavailable", "metadata_closed", "value_unreadable")

_manage = partial(Operation, action=Action.MANAGE, tag="Namespaces")
_describe = partial(Operation, action=Action.DESCRIBE, method="GET", tag="Namespaces")
OPERATIONS = (
    _describe(
        name="listNamespaces",
        decided_by=DecidedBy.ANSWER,
        path=NAMESPACES,
        handler=list_namespaces,
        summary="List the declared namespaces",
        description=(
            "They are listed by name. A namespace need not be declared: without its own "
            "settings, the server's limits apply."
        ),
        success="The namespaces that have settings.",
        answer=_NAMESPACES_CONTENT,
        errors=_STORE_ERRORS,
    ),
    _describe(
        name="getNamespace",
        path=NAMESPACE,
        handler=show,
        summary="Show a namespace's settings and its limits",
        description="This also works for a namespace that was never declared: it has no settings.",
        success="The namespace.",
        answer=_NAMESPACE_CONTENT,
        errors=_STORE_ERRORS,
    ),
    _manage(
        name="putNamespace",
        method="PUT",
        path=NAMESPACE,
        handler=declare,
        summary="Set a namespace's settings",
        description=(
            "The settings replace the earlier ones; for settings that are missing in the body, "
            "the server's limits apply. They take effect with the answer, for publishes and for "
            "topics that are created or changed; existing topics keep their ttl. The server's "
            "own limits always apply. The body may be empty, and is read as JSON whatever its "
            "Content-Type."
        ),
        request=_SETTINGS_CONTENT,
        is_body_required=False,
        success="The namespace after the change.",
        answer=_NAMESPACE_CONTENT,
        errors=(
            "invalid_namespace_settings",
            "namespace_limit_reached",
            "no_metadata_store",
            *_STORE_ERRORS,
            "unsupported_content_type",
        ),
    ),
    _manage(
        name="deleteNamespace",
        method="DELETE",
        path=NAMESPACE,
        handler=delete,
        summary="Delete a namespace's settings",
        description="Its topics remain, and the server's limits apply.",
        success="The namespace is no longer declared.",
        errors=("namespace_not_declared", "no_metadata_store", *_STORE_ERRORS),
    ),
)

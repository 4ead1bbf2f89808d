"""Namespaces: their settings, and the limits that apply to them."""

from dataclasses import fields

from api.console.first import first_of
from api.console.row import Row
from api.console.typed import check_confirmed
from api.console.visit import Answer, Done, ShownPage, Visit, place
from api.http.door.guarded import DecidedBy
from api.http.protocol.numbers import whole_number
from tms.core.errors import InvalidRequest
from tms.core.values.namespaces import NamespaceSettings
from tms.security.resources import Action

_SETTING_MAX = 10**16 - 1
_SETTINGS = tuple(field.name for field in fields(NamespaceSettings))


async def namespaces(visit: Visit) -> Answer:
    """Show the namespaces that have settings."""
    after = visit.query.get("after", "")
    listed = await first_of(
        await visit.services.namespaces.namespaces(),
        lambda each: each.name,
        after,
        lambda each: visit.may_topic(Action.DESCRIBE, each.name, None),
    )
    return ShownPage("namespaces.html", {"listed": listed, "after": after})


async def look(visit: Visit) -> Answer:
    """Redirect to a namespace by its name, even if it has no settings."""
    return Done(place("namespaces", visit.form.get("name", "").strip() or "default"))


async def namespace(visit: Visit) -> Answer:
    """Show a namespace."""
    shown = await visit.services.namespaces.namespace(visit.names["namespace"])
    values = {
        "namespace": shown,
        "rules": {name: getattr(shown.rules, name) for name in _SETTINGS},
        "settings": shown.settings.given(),
        "may_manage": visit.may_change_namespace(shown.name),
    }
    return ShownPage("namespace.html", values)


async def declare(visit: Visit) -> Answer:
    """Set the settings of a namespace."""
    name, settings = visit.names["namespace"], {}
    for setting in _SETTINGS:
        text = visit.form.get(setting, "").strip()
        if text:
            number = whole_number(text, _SETTING_MAX)
            if number is None:
                raise InvalidRequest(
                    "invalid_namespace_settings", setting=setting, value=text[:100]
                )
            settings[setting] = number
    await visit.services.namespaces.declare(name, NamespaceSettings(**settings))
    return Done(place("namespaces", name), "The settings were changed.")


async def delete(visit: Visit) -> Answer:
    """Delete the settings of a namespace."""
    name = visit.names["namespace"]
    check_confirmed(visit, name)
    await visit.services.namespaces.delete(name)
    return Done(place("namespaces", name), "The settings were deleted. The topics were kept.")


_NAMESPACE = "/namespaces/{namespace}"
ROWS = (
    Row("Namespaces", "/namespaces", namespaces, Action.DESCRIBE, decided_by=DecidedBy.ANSWER),
    Row(
        "LookForNamespace",
        "/namespaces",
        look,
        Action.DESCRIBE,
        decided_by=DecidedBy.ANSWER,
        is_form=True,
        is_change=False,
    ),
    Row("Namespace", _NAMESPACE, namespace, Action.DESCRIBE),
    Row("DeclareNamespace", f"{_NAMESPACE}/declare", declare, Action.MANAGE, is_form=True),
    Row("DeleteNamespace", f"{_NAMESPACE}/delete", delete, Action.MANAGE, is_form=True),
)

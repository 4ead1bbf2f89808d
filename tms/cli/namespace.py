"""`tms namespace`: the settings of namespaces, and the limits that apply to them."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from tms.cli.columns import aligned, in_order
from tms.cli.durations import duration
from tms.cli.target import Target, with_options, with_target
from tms.core.values.namespaces import SCHEMAS, Namespace, NamespaceRules, NamespaceSettings
from tms.core.values.store_access import StoreAccess
from tms.wire.json_namespaces import namespace_record

app = typer.Typer(
    help="List, show, set and delete the settings of namespaces.", no_args_is_help=True
)

_HEADS = ("NAME", "VERSION", "SETTINGS")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The namespace's name.")]


def _option(name: str) -> Any:
    """Return the option of a setting: `--messages-per-s` for `publish_messages_per_s`."""
    help_text = SCHEMAS[name]["description"]
    words = name.removeprefix("publish_").replace("ttl_s", "ttl").replace("bytes_max", "bytes")
    flag = "--" + words.replace("_", "-")
    if words.startswith("ttl"):
        return duration(flag, help_text=help_text, whole=True, show_default=False)
    metavar = "BYTES" if "bytes" in words else "COUNT"
    return typer.Option(flag, metavar=metavar, help=help_text, show_default=False)


def _settings(settings: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items()) or "-"


def _row(namespace: Namespace) -> tuple[str, ...]:
    return (namespace.name, str(namespace.version), _settings(namespace.settings.given()))


@app.command("list")
@with_target
def list_namespaces(target: Target) -> None:
    """List the namespaces that have settings; the server's limits apply to the others."""
    with target.connect(StoreAccess.READ) as client:
        namespaces = in_order(client.namespaces.namespaces())
    target.answer_list(_HEADS, map(_row, namespaces), [*map(namespace_record, namespaces)])


@app.command()
@with_target
def show(target: Target, name: NameArgument) -> None:
    """Show the limits of a namespace, and which of them it sets itself."""
    with target.connect(StoreAccess.READ) as client:
        namespace = client.namespaces.namespace(name)
    settings = namespace.settings.given()
    rows = [
        (rule, "-" if value is None else str(value), "namespace" if rule in settings else "server")
        for rule in NamespaceRules.__slots__
        for value in [getattr(namespace.rules, rule)]
    ]
    state = "not declared" if namespace.version is None else f"version {namespace.version}"
    text = f"{name}: {state}\n" + aligned(("RULE", "VALUE", "SET BY"), rows)
    target.answer(text, namespace_record(namespace))


@app.command(
    "set",
    epilog="\b\nExample:\n  tms namespace set shop --ttl-max 86400 --messages-per-s 500",
)
@with_target
@with_options({name: Annotated[int | None, _option(name)] for name in SCHEMAS})
def declare(
    target: Target,
    name: NameArgument,
    **given: int | None,
) -> None:
    """Replace the settings of a namespace.

    They apply at once; existing topics keep their ttl. For a setting that is not given, the
    server's own limit applies; the server's limits apply in any case.
    """
    settings = NamespaceSettings(**given)
    with target.connect() as client:
        namespace = client.namespaces.declare(name, settings)
    text = f"Set namespace {name}: {_settings(settings.given())} (version {namespace.version})."
    target.answer(text, namespace_record(namespace))


@app.command()
@with_target
def delete(target: Target, name: NameArgument) -> None:
    """Delete a namespace's settings. Its topics remain, with the server's limits."""
    with target.connect() as client:
        client.namespaces.delete(name)
    target.answer(f"Namespace {name} has no settings any more.", {"deleted": name})

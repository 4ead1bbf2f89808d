"""`tms schema`: the schemas of the registry, and their settings."""

import difflib
import json
import re
from pathlib import Path
from typing import Annotated

import typer

from tms.cli.batches import read_whole
from tms.cli.columns import by_number
from tms.cli.confirmation import YesOption, confirm
from tms.cli.failure import stop
from tms.cli.target import Target, with_target
from tms.client import Client
from tms.core.services.schemas import ALL_SUBJECTS, LATEST, SchemaReference, SchemaVersion
from tms.core.values.schema_contracts import SchemaMetadata
from tms.core.values.store_access import StoreAccess

app = typer.Typer(
    help="List, show, register, check and delete the schemas of the registry.",
    no_args_is_help=True,
)

_REFERENCE = re.compile(r"(?P<name>.+)=(?P<subject>.+)/(?P<version>[0-9]+)")

SubjectArgument = Annotated[str, typer.Argument(metavar="SUBJECT", help="The subject's name.")]
FileArgument = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="The file with the schema; - is standard input."),
]
VersionOption = Annotated[
    str | None,
    typer.Option("--version", metavar="VERSION", help="A number, or latest.", show_default=False),
]
TypeOption = Annotated[str, typer.Option("--type", metavar="TYPE", help="AVRO, JSON or PROTOBUF.")]
ReferenceOption = Annotated[
    list[str] | None,
    typer.Option(
        "--reference",
        metavar="NAME=SUBJECT/VERSION",
        help="A schema that this one refers to by NAME; may be given several times.",
        show_default=False,
    ),
]
DeletedOption = Annotated[bool, typer.Option("--deleted", help="Include soft-deleted ones.")]


def _read(file: Path) -> str:
    try:
        return read_whole(file).decode()
    except UnicodeDecodeError as error:
        stop(f"{file} cannot be read: it is not UTF-8: {error}")


def _references(given: list[str] | None) -> list[SchemaReference]:
    references = []
    for text in given or ():
        match = _REFERENCE.fullmatch(text)
        if match is None:
            stop(f"--reference {text}: give NAME=SUBJECT/VERSION, such as Address=address/1")
        references.append(SchemaReference(match["name"], match["subject"], int(match["version"])))
    return references


def _record(version: SchemaVersion) -> dict[str, object]:
    return {
        "subject": version.subject,
        "version": version.version,
        "id": version.id,
        "guid": version.guid,
        "schemaType": version.schema_type,
        "schema": version.schema,
        "references": [
            {"name": each.name, "subject": each.subject, "version": each.version}
            for each in version.references
        ],
        "metadata": version.metadata,
        "ruleSet": version.rule_set,
        "deleted": version.is_deleted,
    }


def _properties(given: list[str] | None) -> SchemaMetadata | None:
    pairs = [text.partition("=") for text in given or ()]
    for name, equals, value in pairs:
        if not name or not equals:
            stop(f"--property {name}{equals}{value}: give NAME=VALUE, such as owner=billing")
    properties = {name: value for name, _, value in pairs}
    return SchemaMetadata(properties=properties) if properties else None


def _pretty(text: str) -> str:
    """Format a schema's text over several lines, if it is JSON."""
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        return text


@app.command("list")
@with_target
def list_subjects(
    target: Target,
    prefix: Annotated[
        str, typer.Argument(metavar="[PREFIX]", help="The prefix of the subjects.")
    ] = ALL_SUBJECTS,
    *,
    deleted: DeletedOption = False,
) -> None:
    """List the subjects, each with its versions."""
    with target.connect(StoreAccess.READ) as client:
        subjects = sorted(client.registry.subjects(prefix, deleted=deleted), key=by_number)
        by_subject = {name: client.registry.versions(name, deleted=deleted) for name in subjects}
    rows = [(name, ", ".join(map(str, numbers))) for name, numbers in by_subject.items()]
    records = [{"subject": name, "versions": numbers} for name, numbers in by_subject.items()]
    target.answer_list(("SUBJECT", "VERSIONS"), rows, records)


@app.command()
@with_target
def show(
    target: Target,
    subject: Annotated[
        str, typer.Argument(metavar="SUBJECT|ID", help="A subject, or with --id a schema's id.")
    ],
    *,
    version: VersionOption = None,
    by_id: Annotated[bool, typer.Option("--id", help="Show the schema with this id.")] = False,
    deleted: DeletedOption = False,
) -> None:
    """Show a schema: the latest version, or another one."""
    if by_id and not subject.isdecimal():
        stop(f"{subject} is not a valid id: with --id, give a number")
    with target.connect(StoreAccess.READ) as client:
        if by_id:
            shown = client.registry.schema(int(subject))
        else:
            shown = client.registry.version(subject, version or LATEST, deleted=deleted)
    state = ", soft-deleted" if shown.is_deleted else ""
    head = f"{shown.subject} version {shown.version}, id {shown.id}, {shown.schema_type}{state}"
    named = [f"{each.name} = {each.subject}/{each.version}" for each in shown.references]
    properties = {} if shown.metadata is None else shown.metadata.own_properties
    named += [f"{name}: {value}" for name, value in properties.items()]
    target.answer("\n".join([head, *named, _pretty(shown.schema)]), _record(shown))


@app.command(epilog="\b\nExample:\n  tms schema register orders-value order.avsc")
@with_target
def register(
    target: Target,
    subject: SubjectArgument,
    file: FileArgument,
    *,
    schema_type: TypeOption = "AVRO",
    reference: ReferenceOption = None,
    property_: Annotated[
        list[str] | None,
        typer.Option(
            "--property",
            metavar="NAME=VALUE",
            help="A property of its metadata; may be given several times.",
            show_default=False,
        ),
    ] = None,
    normalize: Annotated[bool, typer.Option("--normalize", help="Store it normalized.")] = False,
) -> None:
    """Register a schema under a subject. A schema that is registered already is not changed."""
    text, references, metadata = _read(file), _references(reference), _properties(property_)
    with target.connect() as client:
        registered = client.registry.register(
            subject, text, schema_type, references, normalize=normalize, metadata=metadata
        )
    outcome = f"Version {registered.version} of {subject}, id {registered.id}."
    target.answer(outcome, _record(registered))


@app.command(epilog="\b\nExample:\n  tms schema check orders-value order.avsc")
@with_target
def check(
    target: Target,
    subject: SubjectArgument,
    file: FileArgument,
    *,
    version: VersionOption = None,
    schema_type: TypeOption = "AVRO",
    reference: ReferenceOption = None,
) -> None:
    """Check whether a schema is compatible with the subject's versions; exit with 1 if not."""
    text, references = _read(file), _references(reference)
    with target.connect(StoreAccess.READ) as client:
        messages = client.registry.why_unfit(
            subject, text, schema_type, references, version=version
        )
    outcome = "It fits." if not messages else "\n".join(["It does not fit:", *messages])
    target.answer(outcome, {"is_compatible": not messages, "messages": messages})
    if messages:
        raise typer.Exit(1)


@app.command()
@with_target
def delete(
    target: Target,
    subject: SubjectArgument,
    *,
    version: VersionOption = None,
    permanent: Annotated[
        bool,
        typer.Option(
            "--permanent", help="Delete permanently; only versions that were soft-deleted before."
        ),
    ] = False,
    yes: YesOption = False,
) -> None:
    """Delete one version or all, softly or for good. Soft-deleted ones can still be read by id."""
    if permanent:
        named = subject if version is None else f"version {version} of {subject}"
        confirm(f"Delete {named} for good?", is_sure=yes)
    with target.connect() as client:
        numbers = client.registry.delete(subject, version, permanent=permanent)
    how = "for good" if permanent else "softly"
    outcome = f"Deleted {how} of {subject}: version {', '.join(map(str, numbers))}."
    target.answer(outcome, {"subject": subject, "deleted": numbers, "permanent": permanent})


@app.command()
@with_target
def compatibility(
    target: Target,
    subject: Annotated[
        str,
        typer.Argument(metavar="[SUBJECT]", help="The subject; without it, the default context."),
    ] = "",
    *,
    level: Annotated[
        str | None,
        typer.Option("--set", metavar="LEVEL", help="Set the level, such as BACKWARD."),
    ] = None,
) -> None:
    """Show or set with which earlier versions a new one must be compatible."""
    with target.connect(StoreAccess.READ if level is None else StoreAccess.WRITE) as client:
        if level is None:
            counts = client.registry.compatibility(subject)
        else:
            counts = client.registry.set_compatibility(level, subject)
    where = subject or "default context"
    target.answer(f"{where}: {counts}", {"subject": subject or None, "compatibility": counts})


@app.command(epilog="\b\nExample:\n  tms schema diff orders-value 1 latest")
@with_target
def diff(
    target: Target,
    subject: SubjectArgument,
    old: Annotated[str, typer.Argument(metavar="VERSION", help="A number, or latest.")],
    new: Annotated[str, typer.Argument(metavar="VERSION", help="A number, or latest.")] = LATEST,
) -> None:
    """Show line by line what has changed between two versions, and whether they are compatible."""
    with target.connect(StoreAccess.READ) as client:
        before, after = _two(client, subject, old, new)
        messages = client.registry.why_unfit(
            subject, after.schema, after.schema_type, after.references, version=before.version
        )
    names = [f"{subject}/{each.version}" for each in (before, after)]
    lines = [_pretty(each.schema).splitlines() for each in (before, after)]
    changed = list(difflib.unified_diff(lines[0], lines[1], names[0], names[1], lineterm=""))
    fits = "It fits." if not messages else "\n".join(["It does not fit:", *messages])
    outcome = "\n".join([*changed, fits])
    record = {"old": _record(before), "new": _record(after), "messages": messages}
    target.answer(outcome, record)


def _two(client: Client, subject: str, old: str, new: str) -> tuple[SchemaVersion, SchemaVersion]:
    return client.registry.version(subject, old), client.registry.version(subject, new)

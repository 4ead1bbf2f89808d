"""Schemas: subjects, their versions and how these differ, and the check of a pasted text.

A subject is shown to visitors who may read it, under its own name only: an alias needs the right to
read the subject that it stands for. Messages about a wrong text may quote the schemas that a
subject refers to. So they are shown if the subject refers to none, or the visitor may read all
subjects.
"""

import asyncio
import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from api.console.first import first_of
from api.console.payload_forms import in_lines
from api.console.row import Row
from api.console.visit import Answer, ShownPage, Visit
from api.http.door.guarded import DecidedBy
from api.http.protocol.numbers import whole_number
from tms.core.errors import InvalidRequest, SchemaRefused
from tms.core.runtime.extras import install_command
from tms.core.services.schemas import LATEST, NUMBER_MAX, AsyncSchemas, SchemaVersion
from tms.core.values.schema_types import SCHEMA_TYPES
from tms.security.resources import Action, subject_resource

_TEXT_CHARS = 10_000
_JSON_BYTES_MAX = 64 * 1024
"""Larger texts are shown and compared without reformatting."""
_DIFFERENCE_CHARS, _LINE_CHARS = 10_000, 200
_REASONS_MAX, _REASON_CHARS = 20, 300
_TYPED_CHARS = 15_000
"""Longer texts are not shown again in the form that checked them."""
_COMPARED_LINES_MAX = 500
_COMPARISONS_MAX = 4_000_000
"""The highest cost of comparing two texts, as `_comparisons` estimates it: about 0.1 s."""
_OTHER_NAMES = (":.:", ":*:")
"""The starts of names that stand for a subject of another name, or for several."""


class Line(NamedTuple):
    """A line of a difference."""

    text: str
    colour: str
    """A class of the stylesheet; empty for a line that both texts have."""


async def subjects(schemas: AsyncSchemas | None, visit: Visit) -> Answer:
    """Show the subjects."""
    if schemas is None:
        return ShownPage("schemas.html", {"missing": install_command("registry")})
    query = visit.query
    after, search = query.get("after", ""), query.get("search", "")
    listed = await first_of(
        await schemas.subjects(),
        str,
        after,
        lambda name: search in name and visit.may(Action.READ, subject_resource(name)),
    )
    values = {"missing": "", "listed": listed, "search": search, "after": after}
    return ShownPage("schemas.html", values)


async def subject(schemas: AsyncSchemas | None, visit: Visit) -> Answer:
    """Show a subject: its versions, one of them, and how it differs from another."""
    schemas = _there(schemas, visit)
    return ShownPage("schema.html", await _values(schemas, visit, visit.query, {}))


async def check(schemas: AsyncSchemas | None, visit: Visit) -> Answer:
    """Show whether a pasted text is compatible with the versions of a subject."""
    schemas, form = _there(schemas, visit), visit.form
    name, kind = visit.names["subject"], form.get("kind", "")
    if kind not in SCHEMA_TYPES:
        raise InvalidRequest("invalid_body", kind=kind, expected=", ".join(SCHEMA_TYPES))
    values = await _values(schemas, visit, {}, form)
    try:
        reasons = await schemas.why_unfit(name, form.get("text", ""), kind)
    except SchemaRefused as error:
        reasons = [str(error.detail.get("reason", error))]
    may_show = not reasons or await _may_read_all(schemas, visit, name, values["numbers"])
    reasons_shown = _in_words(reasons) if may_show else [_HIDDEN]
    cut = [reason[:_REASON_CHARS] for reason in reasons_shown[:_REASONS_MAX]]
    checked = {"fits": not reasons, "reasons": cut}
    return ShownPage("schema.html", {**values, "checked": checked, "other": ""})


_MISFIT = re.compile(r"\{errorType:'\w*', description:'(.*)', additionalInfo:'(.*)'\}", re.DOTALL)
_OLD_VERSION = re.compile(r"\{oldSchemaVersion: (\d+)\}")
_NO_REASON = ("{oldSchema:", "{validateFields:")
_HIDDEN = "You may not read everything that this subject refers to, so reasons are not shown."
_VERSIONS_LOOKED_AT = 20


def _in_words(reasons: Sequence[str]) -> list[str]:
    """Return the registry's reasons, which are for programs, as sentences."""
    sentences: list[str] = []
    for reason in reasons:
        if (misfit := _MISFIT.fullmatch(reason)) is not None:
            description, more = misfit.groups()
            sentences.append(description if more in description else f"{description}: {more}")
        elif (version := _OLD_VERSION.fullmatch(reason)) is not None:
            sentences.append(f"Compared with version {version[1]}.")
        elif not reason.startswith(_NO_REASON):
            sentences.append(reason)
    return sentences


async def _may_read_all(schemas: AsyncSchemas, visit: Visit, name: str, numbers: list[int]) -> bool:
    if visit.may(Action.READ, subject_resource(None)):
        return True
    looked_at = [await schemas.version(name, number) for number in numbers[:_VERSIONS_LOOKED_AT]]
    return len(looked_at) == len(numbers) and not any(each.references for each in looked_at)


def _there(schemas: AsyncSchemas | None, visit: Visit) -> AsyncSchemas:
    """Return the registry, if the visitor may read the subject in the path.

    Raises `InvalidRequest` (not_found), `NotPermitted`.
    """
    name = visit.names["subject"]
    if schemas is None or name.startswith(_OTHER_NAMES):
        raise InvalidRequest("not_found", path=visit.exchange.path)
    visit.exchange.check_access(Action.READ, subject_resource(name))
    return schemas


async def _version(
    schemas: AsyncSchemas, visit: Visit, number_text: str, otherwise: int | str
) -> SchemaVersion:
    """Return a version of the subject in the path. Raises `InvalidRequest`, `NotPermitted`."""
    number = otherwise
    if number_text:
        number = whole_number(number_text, NUMBER_MAX) or 0
        if not number:
            raise InvalidRequest("invalid_query", version=number_text[:20])
    try:
        version = await schemas.version(visit.names["subject"], number)
    except SchemaRefused:
        raise InvalidRequest("not_found", path=visit.exchange.path) from None
    visit.exchange.check_access(Action.READ, subject_resource(version.subject))
    return version


async def _values(
    schemas: AsyncSchemas, visit: Visit, query: Mapping[str, str], form: Mapping[str, str]
) -> dict[str, Any]:
    name, typed = visit.names["subject"], form.get("text", "")
    shown = await _version(schemas, visit, query.get("version", ""), LATEST)
    numbers = await schemas.versions(name)
    other = query.get("other", "")
    before = [number for number in numbers if number < shown.version]
    compared = None
    if other or before:
        compared = await _version(schemas, visit, other, before[-1] if before else LATEST)
        other = str(compared.version)
    text, difference = await asyncio.to_thread(_compared, shown, compared)
    return {
        "name": name,
        "shown": shown,
        "numbers": numbers[-100:],
        "text": text,
        "other": other,
        "difference": difference,
        "compatibility": await schemas.compatibility(name),
        "kinds": list(SCHEMA_TYPES),
        "kind": form.get("kind", shown.schema_type),
        "typed": typed if len(typed) <= _TYPED_CHARS else "",
        "checked": None,
    }


def _compared(shown: SchemaVersion, other: SchemaVersion | None) -> tuple[str, list[Line] | None]:
    """Return a text, and its difference from another; None if that is unknown. Blocks."""
    text = _pretty(shown)
    cut = text if len(text) <= _TEXT_CHARS else f"{text[:_TEXT_CHARS]}…"
    return cut, None if other is None else _difference(_pretty(other), text)


def _pretty(version: SchemaVersion) -> str:
    """Return a text with a line for each part, if it is JSON; Protobuf has lines already."""
    return in_lines(version.schema.encode("utf-8", "replace"), _JSON_BYTES_MAX).decode()


def _difference(before: str, after: str) -> list[Line] | None:
    """Return the difference of two texts; None if the comparison would be too slow. Blocks."""
    old, new = before.splitlines(), after.splitlines()
    are_whole = max(len(before), len(after)) > _JSON_BYTES_MAX and len(old) == len(new) == 1
    if are_whole or max(len(old), len(new)) > _COMPARED_LINES_MAX:
        return None
    if _comparisons(old, new) > _COMPARISONS_MAX:
        return None
    lines = difflib.unified_diff(old, new, lineterm="", n=3)
    return list(_lines(lines))


def _comparisons(old: list[str], new: list[str]) -> int:
    """Return the most comparisons of lines that `difflib` makes.

    For each run of lines that both texts have, it compares all pairs of equal lines.
    """
    places = difflib.SequenceMatcher(None, old, new).b2j  # type: ignore[attr-defined]  # documented
    return min(len(old), len(new)) * sum(len(places.get(line, ())) for line in old)


def _lines(lines: Iterator[str]) -> Iterator[Line]:
    colours = {"+": "good", "-": "bad"}
    remaining = _DIFFERENCE_CHARS
    for line in islice(lines, len(("---", "+++")), None):
        if remaining <= 0:
            yield Line("…", "")
            return
        remaining -= min(len(line), _LINE_CHARS)
        yield Line(line[:_LINE_CHARS], colours.get(line[:1], ""))


def rows_with(schemas: AsyncSchemas | None) -> tuple[Row, ...]:
    """Return the rows of a server with this registry; None if it has no registry."""
    row = partial(Row, action=Action.READ, decided_by=DecidedBy.ANSWER)
    return (
        row(name="Schemas", path="/schemas", handler=partial(subjects, schemas)),
        row(name="Schema", path="/schemas/{subject}", handler=partial(subject, schemas)),
        row(
            name="CheckSchema",
            path="/schemas/{subject}/check",
            handler=partial(check, schemas),
            is_form=True,
            is_change=False,
        ),
    )

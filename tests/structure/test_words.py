"""Sentences that users or developers read have none of the patterns that must be read twice.

Only some patterns can be found: a clause as the subject (`What is told`), `is no X` instead of `is
not a valid X`, and words that have a plainer one (`voice.py`).
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from api.app import OPERATIONS
from api.openapi.service import service_document
from tests.api.registry.live import served
from tests.structure.sources import ROOT, Source, read
from tests.structure.voice import CODE, QUOTED, banned, found, left, texts_of
from tms.cli.main import app
from tms.core.errors.catalogue import CATALOGUE
from tms.settings import Settings

SUBJECT = r"(?:^|[.:] |\*\*|\| |^- )(?:What|Who|Whose|Whoever|Of) [^?|]*?(?:[.;|]|$)"
"""A sentence, or a cell of a table, that begins with a clause. A question may."""
BANNED = re.compile(
    rf"{SUBJECT}"
    r"|(?<![Tt]here )\b(?:is|are|was|were) no (?!more\b|longer\b)[a-z]+"
    r"|\b[Ww]ho asks\b"
    r"|\b(?:is|are) wanted\b"
    r"|\bnone of what\b"
    r"|\bstand(?:s|ing)? by\b"
    r"|\bhas come\b"
    r"|\bThat alone\b",
    re.MULTILINE,
)
HEADING = re.compile(r"^#.*$", re.MULTILINE)


def wrong(text: str) -> list[str]:
    return [match.group().strip() for match in BANNED.finditer(text)]


def wrong_in(texts: Iterator[tuple[str, str]]) -> dict[str, list[str]]:
    return {place: phrases for place, text in texts if (phrases := wrong(text))}


def test_the_patterns_are_found() -> None:
    assert wrong("What is told is kept.") == ["What is told is kept."]
    assert wrong("A payload is no value of its schema.") == ["is no value"]
    assert wrong("Nothing else. Of a topic; by default `default`.") == [". Of a topic;"]
    assert wrong("There is no leader. What can a client do?") == []


def test_errors_are_plain() -> None:
    texts = ((code, problem.message) for code, problem in CATALOGUE.items())

    assert wrong_in(texts) == {}


def helps(command: Any, name: str) -> Iterator[tuple[str, str]]:
    yield name, command.help or ""
    for parameter in command.params:
        yield f"{name} {parameter.name}", getattr(parameter, "help", None) or ""
    for below in getattr(command, "list_commands", lambda _: ())(None):
        yield from helps(command.get_command(None, below), f"{name} {below}")


def test_help_is_plain() -> None:
    texts = dict(helps(typer.main.get_command(app), "tms"))

    assert len(texts) > len(Settings.model_fields)
    assert wrong_in(iter(texts.items())) == {}


def test_settings_are_plain() -> None:
    texts = ((name, field.description or "") for name, field in Settings.model_fields.items())

    assert wrong_in(texts) == {}


def described(node: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key in ("description", "summary", "title") and isinstance(value, str):
                yield f"{path}/{key}", value
            else:
                yield from described(value, f"{path}/{key}")
    if isinstance(node, list):
        for index, value in enumerate(node):
            yield from described(value, f"{path}/{index}")


@pytest.mark.anyio
async def test_openapi_is_plain() -> None:
    async with served() as registry:
        _, document = await registry.get("/openapi.json")

    assert wrong_in(described(service_document(OPERATIONS))) == {}
    assert wrong_in(described(document)) == {}


def test_docs_are_plain() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    texts = (
        (page.name, re.sub(r"(?<![|.:])\n(?=[^\s|*-])", " ", prose))
        for page in pages
        for prose in [HEADING.sub("", QUOTED.sub('"x"', CODE.sub("x", read(page).text)))]
    )

    assert wrong_in(texts) == {}


def test_voice_is_found_where_it_is_banned() -> None:
    source = Source(
        Path("a.py"),
        '"""Have it told."""\n# Anew.\n_log.info(f"{x} goes on")\nraise E(reason="who asks")\n',
    )

    assert [phrase for _, text in texts_of(source) for phrase in banned(text)] == [
        "Have",
        "told",
        "goes on",
        "who asks",
        "Anew",
    ]
    assert banned("None where `told`; 0: never. It is no bound.") == [
        "None where",
        "0:",
        "is no bound",
    ]
    assert banned("There is no bound, so many times larger that it stands for all.") == ["so many"]


def test_no_file_breaks_the_rules_of_voice() -> None:
    """Each file has at most as many as `voice_left.txt` still allows; new files have none."""
    allowed = left()

    assert {
        place: places for place, places in found().items() if len(places) > allowed.get(place, 0)
    } == {}


def test_the_exceptions_only_shrink() -> None:
    places = found()
    stale = {place: count for place, count in left().items() if count > len(places.get(place, ()))}

    assert stale == {}, "run `python -m tests.structure.voice`, which lowers these numbers"

"""Texts with a count also fit a count of one: no text says "1 rows are"."""

import re
from collections.abc import Iterator

import pytest

from tests.docs.markdown import ROOT

_COUNTED = re.compile(r"(?<!\{)\{(?![A-Z_]+\})[^{}]+\} (?:[a-z]+ )?[a-z]+s (?:are|were|have)\b")
"""A value, a plural and a verb; a value that is a constant of the code is larger than 1."""
_PLACES = ("tms", "api", "cleanup", "tables")
_ALWAYS_SEVERAL = ("{count} requests were",)
"""By the least of `REFUSED_MIN`, a finding is of many."""


def texts() -> Iterator[tuple[str, str]]:
    """Yield the files with texts for users."""
    for place in _PLACES:
        for path in sorted((ROOT / place).rglob("*")):
            if path.suffix in {".py", ".html"}:
                yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


@pytest.mark.parametrize("text", ["{count} rows are", "{a.b(c)} open messages have", "{{n}} x"])
def test_the_pattern_finds_what_it_is_for(text: str) -> None:
    assert bool(_COUNTED.search(text)) == (not text.startswith("{{"))


def test_no_sentence_has_a_count_with_a_plural_and_its_verb() -> None:
    found = [
        f"{place}: {match[0]}"
        for place, text in texts()
        for match in _COUNTED.finditer(text)
        if not match[0].endswith(_ALWAYS_SEVERAL)
    ]

    assert found == []

"""The properties and errors that docs/schemas.md names exist."""

import re

from tests.docs.markdown import ROOT, links
from tms.core.errors.catalogue import CATALOGUE
from tms.core.values.topic_properties import check_meaning

PAGE = "docs/schemas.md"
TEXT = (ROOT / PAGE).read_text(encoding="utf-8")


def test_the_values_that_the_page_names_are_taken() -> None:
    named = {"schema_check": {"off", "id", "full"}, "subject_strategy": {"topic", "record"}}
    for name, values in named.items():
        assert f"`{name}`" in TEXT
        for value in values:
            assert f"`{value}`" in TEXT
            check_meaning({name: value})


def test_the_errors_that_the_page_names_are_there() -> None:
    named = set(re.findall(r"`((?:payload|value|schemas)_\w+)`", TEXT))
    assert len(named) >= 4
    assert named <= CATALOGUE.keys()


def test_links_lead_somewhere() -> None:
    assert [link for link in links(PAGE) if not link.exists()] == []

"""docs/positions.md names only things that exist."""

import re

from api.app import OPERATIONS
from tests.docs.markdown import ROOT, links
from tms.arrow.polled import SCHEMA
from tms.core.errors.catalogue import CATALOGUE
from tms.wire.media_types import POLLED_ARROW_TYPE

PAGE = "docs/positions.md"
TEXT = (ROOT / PAGE).read_text(encoding="utf-8")


def test_columns_and_the_media_type_are_arrows() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([\w(), <>]+) \|", TEXT, re.MULTILINE)
    types = {
        "fixed_size_binary(20)": "fixed_size_binary[20]",
        "timestamp(ms, UTC)": "timestamp[ms, tz=UTC]",
    }

    assert [(name, types.get(kind, kind)) for name, kind in rows] == [
        (field.name, str(field.type)) for field in SCHEMA
    ]
    assert POLLED_ARROW_TYPE in TEXT


def test_requests_and_errors_are_there() -> None:
    paths = {(operation.method, operation.path.rpartition("/")[2]) for operation in OPERATIONS}
    asked = re.findall(r"`(GET|POST) \S*?/(\w+)(?:\?\S*)?`", TEXT)

    assert len(asked) >= 4
    assert set(asked) <= paths
    for status, code in re.findall(r"(\d{3}) `(\w+)`", TEXT):
        assert CATALOGUE[code].status == int(status)


def test_links_lead_somewhere() -> None:
    assert [link for link in links(PAGE) if not link.exists()] == []

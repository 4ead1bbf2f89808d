"""The files that docs/coordination.md names exist."""

from tests.docs.markdown import links

PAGE = "docs/coordination.md"


def test_links_lead_somewhere() -> None:
    assert [link for link in links(PAGE) if not link.exists()] == []

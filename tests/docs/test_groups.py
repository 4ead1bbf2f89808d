"""docs/groups.md: its five minutes are done, and what it names is there."""

import re
from collections.abc import Iterator
from dataclasses import fields

import pytest

from api.app import OPERATIONS
from tests.docs.markdown import ROOT, blocks, links
from tests.docs.newcomer import Newcomer
from tms.core.groups import GroupSettings, LimitedBy

PAGE = "docs/groups.md"
TEXT = (ROOT / PAGE).read_text(encoding="utf-8")


@pytest.fixture
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Newcomer]:
    with Newcomer(tmp_path_factory.mktemp("groups")) as newcomer:
        newcomer.serve()
        yield newcomer


def test_five_minutes_with_two_terminals(newcomer: Newcomer) -> None:
    made, taken, again = [block for block in blocks(PAGE) if block.kind == "sh"][:3]
    address = made.text.splitlines()[:2]
    newcomer.carry_out(made)

    told = newcomer.carry_out(taken._replace(text="\n".join((*address, taken.text))))
    first, second = re.findall(r'"delivery":(\d+)', told)
    assert [each in told for each in ("order 1", "order 2")] == [True, True]
    assert first != second

    text = again.text.replace("DELIVERY", first).replace("wait=60", "wait=5")
    told = newcomer.carry_out(again._replace(text="\n".join((*address, text))))
    assert "order 3" in told
    assert '"settled":1' in told


def test_settings_requests_and_reasons_are_there() -> None:
    for setting in fields(GroupSettings):
        assert f"`{setting.name}`" in TEXT
    paths = {(each.method, each.path.rpartition("/")[2]) for each in OPERATIONS}
    asked = re.findall(r"`(GET|PUT|POST) /(\w+)", TEXT)
    assert len(asked) >= 6
    assert set(asked) <= paths
    assert [each for each in LimitedBy if f"`{each}`" not in TEXT] == []


def test_links_lead_somewhere() -> None:
    assert [link for link in links(PAGE) if not link.exists()] == []

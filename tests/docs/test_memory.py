"""docs/memory.md states the bounds of the code."""

import re
from dataclasses import fields

import pytest
from prometheus_client import CollectorRegistry

from tables.memory import MemoryStore
from tables.store_tables import StoreTables
from tests.api.console.site import site
from tests.api.doors import ROOT as ROOT_USER
from tests.api.doors import Doors, bearer
from tests.docs.markdown import ROOT
from tests.manual_clock import ManualClock
from tms.core.limits import Limits
from tms.core.runtime.memory_kinds import SERVER_KINDS, STORE_KINDS, MemoryEntries
from tms.server.node import services_on

PAGE = (ROOT / "docs/memory.md").read_text(encoding="utf-8")


def test_each_kind_has_its_row() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*) \| (.*) \| (.*) \|$", PAGE, re.MULTILINE)
    assert rows == [(kind, *row) for kind, row in (*STORE_KINDS.items(), *SERVER_KINDS.items())]


def test_the_limits_that_it_names_exist() -> None:
    names = set(re.findall(r"`(\w+_(?:max|s))`", PAGE))
    assert names <= {field.name for field in fields(Limits)}


def test_a_kind_that_is_not_in_the_table_has_no_gauge() -> None:
    with pytest.raises(KeyError):
        MemoryEntries().show("others", lambda: 0)


@pytest.mark.anyio
async def test_a_store_has_gauges_of_all_but_what_cleanup_knows() -> None:
    registry, limits = CollectorRegistry(), Limits()
    clock = ManualClock(1_700_000_000_000)
    services = await services_on(StoreTables(MemoryStore()), limits, clock, registry)
    try:
        kinds = {
            sample.labels["kind"]: sample.value
            for metric in registry.collect()
            if metric.name == "tms_memory_entries"
            for sample in metric.samples
        }
    finally:
        await services.close()
    assert kinds.keys() == STORE_KINDS.keys() - {"cleaned_topics"}
    assert set(kinds.values()) == {0}


@pytest.mark.anyio
async def test_a_server_has_gauges_of_all_that_it_keeps() -> None:
    doors = Doors()
    await doors.open()
    async with site(doors) as served:
        answer = await served.browser.http.get(
            "/metrics", headers=bearer(await doors.token(ROOT_USER))
        )
    kinds = set(
        re.findall(r'^tms_server_memory_entries\{kind="(\w+)"\}', answer.text, re.MULTILINE)
    )
    assert kinds == SERVER_KINDS.keys()

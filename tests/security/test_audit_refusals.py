"""Refusals of strangers are recorded once, then counted; many names cannot grow the records."""

import asyncio
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.manual_clock import ManualClock
from tests.virtual_loop import VirtualLoop
from tests.waiting import passes
from tms.security.audit import AUTHENTICATE
from tms.security.audit_record import AuditRecord
from tms.security.audit_refusals import (
    KINDS_MAX,
    KINDS_OF_ADDRESS_MAX,
    PERIOD_S,
    Refusals,
)
from tms.security.rules import Effect

MINUTE_MS = PERIOD_S * 1000
REFUSED = AuditRecord(
    time_ms=0,
    principal=None,
    mechanism=None,
    address="10.0.0.1",
    via=None,
    action=AUTHENTICATE,
    resource="/v1/x",
    effect=Effect.DENY,
    rule=None,
    status=401,
    reason="wrong",
    tried="ann",
)


class Told:
    """Refusals, and the records of them."""

    def __init__(self) -> None:
        self.clock = ManualClock(1)
        self.records: list[AuditRecord] = []
        self.refusals = Refusals(self.records.append, self.clock)

    def refuse(self, times: int = 1, **other: object) -> None:
        for _ in range(times):
            self.refusals.add(replace(REFUSED, **other))  # type: ignore[arg-type]

    def counts(self) -> list[int]:
        found = [record.count for record in self.records]
        self.records.clear()
        return found


def test_the_first_is_reported_at_once_and_the_others_as_one_line_a_minute() -> None:
    told = Told()
    told.refuse(1000)
    assert told.counts() == [1]
    for _ in range(3):
        told.clock.advance(MINUTE_MS)
        told.refuse(500)
    # The first 999, then the number of each full minute; no refusal of this kind is recorded at
    # once.
    assert told.counts() == [999, 500, 500]
    told.clock.advance(MINUTE_MS)
    told.refusals.tell_counts()
    told.refusals.tell_counts()
    assert told.counts() == [500]
    told.refuse()
    assert told.counts() == [1]


def test_each_kind_is_reported_by_itself() -> None:
    told = Told()
    for other in ({}, {"reason": "other"}, {"tried": "bob"}, {"address": "::1"}, {"action": "x"}):
        told.refuse(3, **other)
    assert told.counts() == [1] * 5
    told.refusals.tell_counts()
    assert told.counts() == [2] * 5


def test_who_picks_other_names_fills_nothing_and_hides_nobody_else() -> None:
    told = Told()
    for n in range(10_000):
        told.refuse(tried=f"name{n}")
    assert len(told.records) == KINDS_OF_ADDRESS_MAX + 1
    assert told.records[-1].reason == "others"
    told.refuse(address="10.0.0.2")
    assert told.records[-1].address == "10.0.0.2"
    told.refusals.tell_counts()
    assert told.records[-1].count == 10_000 - KINDS_OF_ADDRESS_MAX - 1


def test_many_addresses_fill_nothing_either() -> None:
    told = Told()
    for n in range(10 * KINDS_MAX):
        told.refuse(address=f"10.0.{n // 256}.{n % 256}")
        told.refuse(address=f"2001:db8::{n:x}")  # one customer's network
    assert len(told.records) <= KINDS_MAX + 1
    assert len(told.refusals._seen) <= KINDS_MAX + 1
    assert told.records[-1].address == "*"
    told.refusals.tell_counts()
    assert sum(record.count for record in told.records) == 20 * KINDS_MAX


async def _goes_silent(told: Told) -> None:
    told.refuse(5)
    await passes(PERIOD_S)


def test_the_count_is_reported_although_no_more_come() -> None:
    told = Told()
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(_goes_silent(told))
    assert told.counts() == [1, 4]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["10.0.0.1", "10.0.0.2", "::1"]),
            st.integers(0, 20),
            st.sampled_from([0, 0, 0, MINUTE_MS // 2]),
        )
    )
)
def test_each_refusal_is_in_the_counts_once(given: list[tuple[str, int, int]]) -> None:
    told = Told()
    for address, tried, later_ms in given:
        told.clock.advance(later_ms)
        told.refuse(address=address, tried=str(tried))
    told.refusals.tell_counts()
    assert sum(record.count for record in told.records) == len(given)

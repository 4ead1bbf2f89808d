"""The records of the audit, and that serving requests never waits for the audit."""

import asyncio
import json
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.manual_clock import ManualClock
from tests.waiting import WAIT_S_MAX, until
from tms.core.errors import NoLeader
from tms.security import audit_destinations
from tms.security.audit import (
    ALWAYS,
    AUTHENTICATE,
    QUEUE_MAX,
    USES_MAX,
    Audit,
    Drops,
)
from tms.security.audit_destinations import Publisher, WriterThread, open_audit
from tms.security.audit_record import AuditRecord
from tms.security.credentials import Scheme
from tms.security.resources import Action, Resource, topic_resource
from tms.security.rules import Effect

pytestmark = pytest.mark.anyio
TOPIC = topic_resource("ns", "t")


@pytest.fixture
def sink() -> Iterator["Blocked"]:
    sink = Blocked()
    yield sink
    sink.may_write.set()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_700_000_000_000)


def record(**other: Any) -> AuditRecord:
    told: dict[str, Any] = {
        "time_ms": 1_700_000_000_000,
        "principal": "ann",
        "mechanism": Scheme.TOKEN,
        "address": "10.0.0.1",
        "via": None,
        "action": Action.PUBLISH,
        "resource": str(TOPIC),
        "effect": Effect.ALLOW,
        "rule": "r1",
        "status": 200,
    }
    return AuditRecord(**{**told, **other})


class Blocked(logging.Handler):
    """A disk that hangs until a test releases it."""

    def __init__(self) -> None:
        super().__init__()
        self.is_writing = threading.Event()
        self.may_write = threading.Event()
        self.lines: list[str] = []
        self.is_closed = False

    def emit(self, record: logging.LogRecord) -> None:
        self.is_writing.set()
        self.may_write.wait()
        self.lines.append(record.getMessage())

    def close(self) -> None:
        super().close()
        self.is_closed = True


def test_a_line_says_it_all() -> None:
    assert json.loads(record().line()) == {
        "time_ms": 1_700_000_000_000,
        "principal": "ann",
        "mechanism": "token",
        "address": "10.0.0.1",
        "via": None,
        "action": "publish",
        "resource": "ns:t",
        "effect": "allow",
        "rule": "r1",
        "status": 200,
    }


@given(st.text(), st.text(st.sampled_from('\n\r\x00\x85\u2028\ud800"\\,{}')))
def test_no_name_can_end_a_line(principal: str, resource: str) -> None:
    line = record(principal=principal, resource=resource).line()
    assert line.isascii()
    assert line.decode().splitlines() == [line.decode()[:-1]]
    told = json.loads(line)
    assert told["principal"] == principal[:1024]
    assert told["resource"] == resource[:1024]


def test_long_texts_are_cut() -> None:
    assert len(record(principal="x" * 10**6, resource="\U0001f600" * 10**6).line()) < 15_000


def test_a_use_is_reported_once_a_minute_and_some_things_always(clock: ManualClock) -> None:
    audit = Audit([], clock, Drops(clock))

    def is_wanted(
        action: str, who: str = "ann", what: Resource = TOPIC, *, ok: bool = True
    ) -> bool:
        return audit.is_wanted(who, action, str(what), Effect.ALLOW if ok else Effect.DENY)

    assert is_wanted(Action.PUBLISH)
    assert not is_wanted(Action.PUBLISH)
    assert is_wanted(Action.CONSUME)
    assert is_wanted(Action.PUBLISH, who="bob")
    assert is_wanted(Action.PUBLISH, what=topic_resource("ns", "other"))
    for _ in range(2):
        assert is_wanted(Action.PUBLISH, ok=False)
        assert is_wanted(AUTHENTICATE, ok=False)
        assert all(is_wanted(action) for action in ALWAYS)
    assert not is_wanted(Action.PUBLISH)
    clock.advance(60_000)
    assert is_wanted(Action.PUBLISH)


def test_what_is_remembered_of_uses_is_bounded(clock: ManualClock) -> None:
    audit = Audit([], clock, Drops(clock))
    for n in range(3 * USES_MAX):
        assert audit.is_wanted(f"{n}", Action.CONSUME, f"ns:{n:010000}", Effect.ALLOW)
    assert len(audit._uses) <= USES_MAX
    assert sum(len(resource) for _, _, resource in audit._uses) <= USES_MAX * 512


async def test_lines_are_added_to_a_file_and_published(clock: ManualClock, tmp_path: Path) -> None:
    published: list[bytes] = []

    async def publish(lines: list[bytes]) -> None:
        published.extend(lines)

    audit = open_audit(str(tmp_path / "audit"), clock, publish)
    for n in range(3000):
        audit.note(record(status=n, effect=Effect.DENY))
        audit.note(record(status=n))
    await audit.close()
    with open(tmp_path / "audit", "rb") as file:  # noqa: ASYNC230, PTH123  # a test
        lines = file.readlines()
    assert len(lines) == 3001
    assert [json.loads(line)["status"] for line in lines] == [0, *range(3000)]
    assert published == lines
    assert audit.dropped == 0


async def test_without_a_file_it_goes_to_the_log(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "tms.audit"):
        audit = open_audit("", clock)
        audit.add(record(principal="a\nb%s"))
        await audit.close()
    (told,) = (each.getMessage() for each in caplog.records)
    assert json.loads(told)["principal"] == "a\nb%s"
    assert "\n" not in told


async def test_a_file_that_cannot_be_opened_is_reported_at_the_start(
    clock: ManualClock, tmp_path: Path
) -> None:
    with pytest.raises(FileNotFoundError):
        open_audit(str(tmp_path / "none/audit"), clock)


async def test_a_disk_that_hangs_holds_up_nobody(
    sink: Blocked, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    drops = Drops(clock)
    audit = Audit([WriterThread(sink, drops)], clock, drops)
    audit.add(record())
    assert await asyncio.to_thread(sink.is_writing.wait, WAIT_S_MAX)
    with caplog.at_level(logging.WARNING, "tms.security.audit"):
        for _ in range(QUEUE_MAX + 5):
            audit.add(record())
        assert audit.dropped == 5
        clock.advance(60_000)
        audit.add(record())
    assert ["1 lines" in each.getMessage() for each in caplog.records] == [True, False]
    assert "lost 6 lines of the audit" in caplog.text
    sink.may_write.set()
    await audit.close()
    assert len(sink.lines) == QUEUE_MAX + 1
    assert sink.is_closed
    audit.add(record())
    assert audit.dropped == 7


async def test_a_server_ends_although_a_disk_hangs(
    sink: Blocked, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_destinations, "CLOSE_S_MAX", 0.01)
    drops = Drops(clock)
    audit = Audit([WriterThread(sink, drops)], clock, drops)
    audit.add(record())
    assert await asyncio.to_thread(sink.is_writing.wait, WAIT_S_MAX)
    audit.add(record())
    await audit.close()
    assert audit.dropped == 1


async def test_a_disk_that_fails_loses_lines_and_nothing_else(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    class Full(Blocked):
        def emit(self, record: logging.LogRecord) -> None:
            raise OSError(28, "No space left on device")

    drops = Drops(clock)
    audit = Audit([WriterThread(Full(), drops)], clock, drops)
    audit.add(record())
    await until(lambda: audit.dropped == 1)
    audit.add(record())
    await audit.close()
    assert audit.dropped == 2
    assert caplog.text.count("No space left on device") == 1


async def test_a_topic_that_is_away_gets_the_lines_later(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_destinations, "RETRY_S", 0)
    errors: list[Exception] = [NoLeader(), NoLeader(), ValueError("never")]
    published: list[bytes] = []
    drops = Drops(clock)

    async def publish(lines: list[bytes]) -> None:
        if errors:
            raise errors.pop(0)
        published.extend(lines)

    publisher = Publisher(publish, drops)
    publisher.put(b"lost\n")
    await until(lambda: drops.count == 1)
    errors = [NoLeader()]
    publisher.put(b"told\n")
    await publisher.close()
    assert published == [b"told\n"]
    publisher.put(b"late\n")
    assert drops.count == 2


async def test_what_waits_for_a_topic_is_bounded(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_destinations, "CLOSE_S_MAX", 0.01)
    drops = Drops(clock)

    async def publish(lines: list[bytes]) -> None:
        await asyncio.Event().wait()

    publisher = Publisher(publish, drops)
    for _ in range(QUEUE_MAX + 5):
        publisher.put(b"line\n")
    assert drops.count == 5
    await publisher.close()
    assert drops.count == QUEUE_MAX + 5


async def test_the_program_ends_although_a_disk_hangs(sink: Blocked, clock: ManualClock) -> None:
    """When a program ends, `logging` acquires the lock of each handler."""
    drops = Drops(clock)
    audit = Audit([WriterThread(sink, drops)], clock, drops)
    audit.add(record())
    assert await asyncio.to_thread(sink.is_writing.wait, WAIT_S_MAX)
    assert sink.lock is not None
    assert sink.lock.acquire(blocking=False)
    sink.lock.release()
    sink.may_write.set()
    await audit.close()

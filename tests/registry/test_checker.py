"""The processes that check schemas: bounded in time and memory, and restarted if they end."""

import asyncio
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import uvloop
from anyio import BrokenWorkerProcess, current_effective_deadline, to_process

from tests.registry.harm import die, eat_memory, hang, parse_and_die
from tests.scale import scaled
from tests.virtual_loop import VIRTUAL
from tests.waiting import WAIT_S_MAX, until
from tms.core.errors import SchemasUnavailable
from tms.core.values.caller import ASKING, Caller
from tms.registry.checking import checker as checker_module
from tms.registry.checking import kept_parses, kinds
from tms.registry.checking.checker import ProcessChecker, ThreadChecker
from tms.registry.checking.kept_parses import KeptParses
from tms.registry.questions.questions import (
    Answer,
    Compared,
    Comparison,
    NoSchema,
    Parsed,
    Question,
    Source,
)

pytestmark = pytest.mark.anyio

INT, LONG = Source("AVRO", '{"type":"int"}'), Source("AVRO", '"long"')


@pytest.mark.parametrize("kind", [ProcessChecker, ThreadChecker])
async def test_questions_are_answered_in_order(kind: type) -> None:
    checker = kind(WAIT_S_MAX) if kind is ProcessChecker else kind()

    answers = await checker.answers([INT, Comparison(LONG, INT), Comparison(INT, LONG), LONG])

    assert answers[0] == Parsed('"int"', '"int"')
    assert answers[1] == Compared(())
    assert isinstance(answers[2], Compared)
    assert [each.kind for each in answers[2].incompatibilities] == ["TYPE_MISMATCH"]
    assert answers[3] == Parsed('"long"', '"long"')
    assert await checker.answers([Source("AVRO", "{")])
    assert checker.killed == 0


async def test_one_caller_does_not_hold_up_the_checks_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checker = ProcessChecker(WAIT_S_MAX)

    async def asked_by(name: str) -> object:
        ASKING.set(Caller(name))
        return await checker.answers([INT])

    with monkeypatch.context() as patched:
        patched.setattr(checker_module, "_answers_in_worker", hang)
        hostile = [asyncio.create_task(asked_by("ann")) for _ in range(8)]
        await until(lambda: checker._turns._shares.used == 2)
    assert await asyncio.create_task(asked_by("bob")) == [Parsed('"int"', '"int"')]
    assert not any(task.done() for task in hostile)
    for task in hostile:
        task.cancel()
    await asyncio.gather(*hostile, return_exceptions=True)
    assert await checker.answers([LONG]) == [Parsed('"long"', '"long"')]


@pytest.mark.parametrize("anyio_backend", [VIRTUAL], ids=["virtual"])
async def test_who_waits_too_long_behind_others_is_refused_and_none_is_left_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checker = ProcessChecker(1.0, 1)
    monkeypatch.setattr(checker, "_asked", lambda _: asyncio.Event().wait())
    begun_s = asyncio.get_running_loop().time()
    waiting = [asyncio.create_task(checker.answers([INT])) for _ in range(5)]
    told = await asyncio.gather(*waiting, return_exceptions=True)
    assert asyncio.get_running_loop().time() - begun_s < 2.5, "they wait at the same time"
    assert [type(each) for each in told] == [SchemasUnavailable] * 5
    assert checker._turns._shares.used == 0


async def test_who_takes_too_long_is_killed_and_others_continue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checker = ProcessChecker(1.0)
    patient = ProcessChecker(WAIT_S_MAX)
    await patient.answers([INT])
    with monkeypatch.context() as patched:
        patched.setattr(checker_module, "_answers_in_worker", hang)
        hostile = asyncio.create_task(checker.answers([INT, LONG]))
        await until(lambda: checker._turns._shares.used == 1)
    assert await patient.answers([LONG]) == [Parsed('"long"', '"long"')]

    with pytest.raises(SchemasUnavailable, match="checking the schema took more than 1 s") as told:
        await hostile
    assert told.value.status == 503
    assert checker.killed == 1
    assert await patient.answers([INT]) == [Parsed('"int"', '"int"')]


async def test_a_process_has_only_so_much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    checker = ProcessChecker(WAIT_S_MAX)
    monkeypatch.setattr(checker_module, "_answers_in_worker", eat_memory)
    assert await checker.answers([INT]) == [NoSchema("too much")]


async def test_a_process_that_dies_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    checker = ProcessChecker(WAIT_S_MAX)
    with monkeypatch.context() as patched:
        patched.setattr(checker_module, "_answers_in_worker", die)
        with pytest.raises(SchemasUnavailable, match="checks schemas died twice"):
            await checker.answers([INT])
    assert await checker.answers([INT]) == [Parsed('"int"', '"int"')]


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_process_that_dies_for_another_reason_makes_no_schema_invalid(
    loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """The question is repeated in a new process. uvloop reports a dead one by its own error."""

    async def ask() -> None:
        checker = ProcessChecker(WAIT_S_MAX)
        ended: list[None] = []
        asked = checker._asked

        async def ending_once(questions: Sequence[Question]) -> list[Answer]:
            if not ended:
                ended.append(None)
                await to_process.run_sync(die, questions, cancellable=True)
            return await asked(questions)

        checker._asked = ending_once  # type: ignore[method-assign]
        assert await checker.answers([INT]) == [Parsed('"int"', '"int"')]
        assert ended
        assert checker.killed == 0

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(ask())


async def test_a_process_that_cannot_be_started_makes_no_schema_invalid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def no_process(*_: object, **__: object) -> None:
        raise BlockingIOError("no more processes")

    checker = ProcessChecker(WAIT_S_MAX)
    with monkeypatch.context() as patched:
        patched.setattr(to_process, "run_sync", no_process)
        with pytest.raises(SchemasUnavailable, match="try again"):
            await checker.answers([INT])
    assert await checker.answers([INT]) == [Parsed('"int"', '"int"')]


async def test_both_tries_share_the_time_that_one_check_has() -> None:
    checker, ends = ProcessChecker(WAIT_S_MAX), []

    async def die_at_once(questions: Sequence[Question]) -> list[Answer]:
        ends.append(current_effective_deadline())
        raise BrokenWorkerProcess

    checker._asked = die_at_once  # type: ignore[method-assign]
    with pytest.raises(SchemasUnavailable, match="died twice"):
        await checker.answers([INT])
    assert len(ends) == 2
    assert ends[0] == ends[1] < math.inf


def of_68_kb(kind: str, version: int) -> Source:
    """Return a schema of 68 KB, with a little more in each version."""
    count = 760 + version
    if kind == "PROTOBUF":
        fields = "string field_number_one = 1; repeated int64 b = 2; map<string, M0> c = 3;"
        messages = "\n".join(f"message M{number} {{ {fields} }}" for number in range(count))
        return Source(kind, f'syntax = "proto3";\n{messages}\n')
    if kind == "AVRO":
        default: dict[str, Any] = {"type": ["null", "string"], "default": None, "doc": "x" * 20}
        fields = json.dumps([{"name": f"field_{number}", **default} for number in range(count)])
        return Source(kind, f'{{"type":"record","name":"R","fields":{fields}}}')
    inner = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"$ref": "#/$defs/b"}}}
    properties = {f"property_{number}": inner for number in range(count)}
    schema = {"$defs": {"b": {"type": "integer"}}, "properties": properties}
    return Source(kind, json.dumps(schema | {"additionalProperties": False}))


@pytest.mark.parametrize("name", ["AVRO", "JSON", "PROTOBUF"])
def test_a_large_text_is_parsed_once_however_many_versions_come_after_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    """Under a transitive level a new version is compared with all; here, each in a new process."""
    real, parsed = kinds._PARSES[name], []

    def parse(text: str, references: Sequence[tuple[str, str]]) -> object:
        parsed.append(text)
        return real(text, references)

    monkeypatch.setitem(kinds._PARSES, name, parse)
    monkeypatch.setattr(kept_parses, "PARSE_S_MIN", 0.0)
    monkeypatch.setattr(kinds._KEPT, "folder", str(tmp_path))
    versions = [of_68_kb(name, number) for number in range(scaled(12, 3))]
    assert len(versions[0].text) > 68_000
    for number, version in enumerate(versions):
        kinds._parsed.cache_clear()
        earlier = versions[:number] if number == len(versions) - 1 else ()
        questions = [Comparison(version, each) for each in (version, *earlier)]
        assert kinds.answers_to(questions) == [Compared(())] * len(questions)
    kinds._parsed.cache_clear()
    assert parsed == [each.text for each in versions]


async def test_what_a_process_had_parsed_is_not_parsed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A caller that retries finally gets the answer, however many schemas are compared."""
    monkeypatch.setattr(checker_module, "_answers_in_worker", parse_and_die)
    sources = [Source("AVRO", text) for text in ("first", "second", "last")]
    assert await ProcessChecker(WAIT_S_MAX).answers(sources) == [NoSchema("last")]


def test_kept_parses_are_bounded_and_may_be_damaged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(kept_parses, "PARSE_S_MIN", 0.0)
    kept = KeptParses(bytes_max=1_000)
    kept.folder = str(tmp_path)
    parses: list[str] = []

    def parse(size: int) -> str:
        parses.append(str(size))
        return "x" * size

    def parsed(size: int) -> str:
        found: str = kept.parsed(Source("AVRO", str(size)), lambda: parse(size))
        return found

    assert [parsed(size) for size in (400, 400, 450)] == ["x" * 400, "x" * 400, "x" * 450]
    assert parses == ["400", "450"]
    assert parsed(300) == "x" * 300
    assert sum(each.stat().st_size for each in tmp_path.iterdir()) <= 1_000
    assert parsed(2_000) == parsed(2_000)
    assert parses[2:] == ["300", "2000", "2000"]
    for each in tmp_path.iterdir():
        each.write_bytes(b"\x80")
    assert parsed(300) == "x" * 300
    assert parses[-1] == "300"
    kept.folder = str(tmp_path / "nosuch")
    assert parsed(300) == "x" * 300


def test_memory_that_is_short_because_of_what_is_kept_makes_no_schema_invalid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Question] = []

    def found(question: Question) -> Answer:
        asked.append(question)
        if len(asked) == 1:
            raise MemoryError
        return Parsed("a", "a")

    monkeypatch.setattr(kinds, "_found", found)
    kinds._parsed(INT)
    assert kinds.answers_to([INT]) == [Parsed("a", "a")]
    assert kinds._parsed.cache_info().currsize == 0

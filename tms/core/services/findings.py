"""Problems of a server now, and their remedies. Pure: facts in, findings out.

A finding lasts as long as its facts. At most `OF_A_KIND` findings of one kind are listed; the rest
are counted.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from math import inf
from typing import NamedTuple

from tms.core.errors import TmsError
from tms.core.limits import MS_PER_S
from tms.core.services.transactions import TransactionInfo, standing
from tms.core.text.durations import span
from tms.core.values.cleanup import CleanupState
from tms.core.values.lags import ReaderLag
from tms.core.values.room import Room

OF_A_KIND = 20
BEHIND_S = 300
"""A reader is far behind if its oldest message is older."""
HELD_S = 60
"""A transaction that has published something blocks readers if it is older."""
CLEANUP_HELD_S = 600
"""A transaction blocks cleanup if it is older."""
FREE_SHARE_MIN = 0.05
FULL_S = 86_400
"""A disk is filling up if it will be full in less."""
ENDS_S = 14 * 86_400
REFUSED_MIN: Mapping[int, int] = {401: 10, 403: 10, 429: 1, 503: 1}
"""This many refusals with one status are reported."""
_REFUSED: Mapping[int, tuple[str, str]] = {
    401: ("because credentials were missing or invalid", "The audit shows the callers"),
    403: (
        "because no rule allows them",
        "The audit shows the callers; `tms auth explain` says why",
    ),
    429: ("because principals exceeded their limits", "Raise these limits, or reduce their load"),
    503: ("because the server could not handle them", "Check its log, disk and write queue"),
}
OUT_OF_MEMORY = "out of memory"
"""A part of what a finding says of a store that lacks memory."""
_MIB = 1024 * 1024
_YEAR_S = 365 * 86_400


class FindingKind(StrEnum):
    """The kind of something that is wrong."""

    READER_BEHIND = "reader_behind"
    GROUP_HINDERED = "group_hindered"
    SCHEDULE_FAILING = "schedule_failing"
    TRANSACTION_HOLDS = "transaction_holds"
    CLEANUP_HELD = "cleanup_held"
    DISK_FILLING = "disk_filling"
    REQUESTS_REFUSED = "requests_refused"
    ENDS_SOON = "ends_soon"
    TASK_FAILING = "task_failing"
    SCARCE = "scarce"
    SHARD_AWAY = "shard_away"
    WRITES_REFUSED = "writes_refused"
    SERVER_UNREACHED = "server_unreached"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A problem with the server."""

    kind: FindingKind
    where: str
    """The subject: a reader, a transaction, the disk."""
    text: str
    advice: str
    """The action to take."""
    is_urgent: bool = False
    """Whether something fails already, or will within the hour."""


class Ending(NamedTuple):
    """A credential that expires."""

    what: str
    ends_ms: int
    fails: bool
    """Whether it matters once it has expired, because it is in use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts from which findings are made. Unknown facts are left out."""

    now_ms: int
    lags: Sequence[ReaderLag] = ()
    in_progress: Sequence[TransactionInfo] = ()
    """Oldest first."""
    cleanup: CleanupState | None = None
    room: Room | None = None
    growth_bytes_s: float = 0.0
    """How fast the store grows, in bytes a second."""
    refused: Mapping[int, int] = field(default_factory=dict)
    """Requests refused recently, by status."""
    refused_s: int = 0
    """The seconds that `refused` covers."""
    endings: Sequence[Ending] = ()
    failing: Sequence[tuple[str, str]] = ()
    """Failing tasks of the server, each with its last error."""
    warnings: Sequence[str] = ()
    missing_shards: Sequence[int] = ()
    """The shards whose transactions are omitted, because no server leads them now."""
    others: Sequence[Finding] = ()
    """Findings that parts of the server report themselves."""


def findings(facts: Facts) -> list[Finding]:
    """Return what is wrong, the urgent findings first."""
    problems = [
        *_tasks(facts),
        *_bounded(facts.others),
        *_disk(facts),
        *_bounded(_transactions(facts)),
        *_bounded(_readers(facts)),
        *_bounded(_groups(facts)),
        *_cleanup(facts),
        *_refused(facts),
        *_bounded(_endings(facts)),
        *(
            Finding(
                kind=FindingKind.SCARCE,
                where="the server",
                text=warning,
                advice="Raise the limit that the warning names, or use less.",
            )
            for warning in facts.warnings
        ),
    ]
    return sorted(problems, key=lambda finding: not finding.is_urgent)


def writes_refused(kind: FindingKind, where: str, error: TmsError) -> Finding:
    """Return that a store, or a shard, takes no writes."""
    advice = "Check the server's log and the store: its disk, or HBase's servers and their memory."
    if OUT_OF_MEMORY in str(error):
        advice = (
            "Give HBase's region servers more heap, or the store fewer regions: `tms init` prints "
            "the heap that its regions need (docs/hbase.md)."
        )
    text = f"It accepts no writes: {error}. Requests for it get 503."
    return Finding(kind=kind, where=where, text=text, advice=advice, is_urgent=True)


def full_in_s(room: Room, growth_bytes_s: float) -> float | None:
    """Return when a disk is full at a rate of growth; None if not within a year."""
    left_s = room.free_bytes / growth_bytes_s if growth_bytes_s > 0 else inf
    return left_s if left_s < _YEAR_S else None


def _bounded(similar: Iterable[Finding]) -> Iterator[Finding]:
    """Return some findings of one kind, and a count of the others."""
    rest = iter(similar)
    yield from islice(rest, OF_A_KIND)
    first = next(rest, None)
    if first is not None:
        more = 1 + sum(1 for _ in rest)
        yield Finding(
            kind=first.kind,
            where="others",
            text=f"There are {more} more of this kind.",
            advice=first.advice,
        )


def _tasks(facts: Facts) -> Iterator[Finding]:
    for task, reason in facts.failing:
        yield Finding(
            kind=FindingKind.TASK_FAILING,
            where=task,
            text=f"The task failed and was restarted: {reason}",
            advice="Check the server's log.",
            is_urgent=True,
        )


def _readers(facts: Facts) -> Iterator[Finding]:
    late = [lag for lag in facts.lags if lag.seconds >= BEHIND_S]
    held = {topic: info for info in reversed(facts.in_progress) for topic in info.topics}
    for lag in sorted(late, key=lambda lag: -lag.seconds):
        more = " at least" if lag.is_at_least else ""
        advice = (
            "Check that its consumer is running and fast enough; if nobody needs it, delete it."
        )
        if lag.place in held:
            advice = f"If it waits for {standing(held[lag.place])}, end that transaction."
        yield Finding(
            kind=FindingKind.READER_BEHIND,
            where=f"{lag.place} {lag.name}",
            text=f"It is{more} {lag.messages:,} messages behind; the oldest is "
            f"{span(int(lag.seconds * MS_PER_S))} old.",
            advice=advice,
        )


def _groups(facts: Facts) -> Iterator[Finding]:
    for lag in facts.lags:
        for hindrance in lag.hindrances:
            yield Finding(
                kind=FindingKind.GROUP_HINDERED,
                where=f"{lag.place} {lag.name}",
                text=hindrance.text,
                advice=hindrance.advice,
            )


def _transactions(facts: Facts) -> Iterator[Finding]:
    for info in facts.in_progress:
        if info.age_ms < HELD_S * MS_PER_S:
            return
        if info.topics:
            who = f" Principal: {info.principal}." if info.principal else ""
            yield Finding(
                kind=FindingKind.TRANSACTION_HOLDS,
                where=f"transaction {info.transaction_id}",
                text=f"Readers of {', '.join(info.topics[:OF_A_KIND])} wait for "
                f"{standing(info)}.{who}",
                advice="End it in its program, or invalidate it so that readers skip its messages.",
            )


def _cleanup(facts: Facts) -> Iterator[Finding]:
    state = facts.cleanup
    if state is None:
        return

    def finding(text: str, advice: str) -> Finding:
        return Finding(kind=FindingKind.CLEANUP_HELD, where="cleanup", text=text, advice=advice)

    if state.last_failure is not None:
        yield finding(
            f"The last pass failed: {state.last_failure}",
            "Check the server's log, and whether its store accepts writes.",
        )
    if state.clock_step_s:
        yield finding(
            f"Cleanup waits because a clock step of {state.clock_step_s} s is in doubt.",
            "Correct the clock, or accept the step: `tms clock`.",
        )
    held_by = None if state.invalid is None else state.invalid.held_by
    for info in facts.in_progress:
        is_old = info.age_ms >= CLEANUP_HELD_S * MS_PER_S
        if is_old and held_by is not None and info.transaction_id <= held_by:
            yield finding(
                f"Invalid transactions stay on their list because of {standing(info)}.",
                "End it in its program, or invalidate it.",
            )
            return


def _disk(facts: Facts) -> Iterator[Finding]:
    room = facts.room
    if room is None:
        return
    left_s = full_in_s(room, facts.growth_bytes_s)
    is_short = room.free_bytes < room.disk_bytes * FREE_SHARE_MIN
    is_filling = left_s is not None and left_s < FULL_S
    if is_short or is_filling:
        soon = (
            ""
            if left_s is None
            else f"; at this rate the disk is full in {span(int(left_s * 1000))}"
        )
        yield Finding(
            kind=FindingKind.DISK_FILLING,
            where="the store's disk",
            text=f"{room.free_bytes // _MIB:,} MiB are free, and the store uses "
            f"{room.used_bytes // _MIB:,} MiB{soon}.",
            advice="Shorten the ttl of topics, trim topics, or enlarge the disk. If it is full, "
            "delete the file `reserve` in the data folder first.",
            is_urgent=is_short or (left_s is not None and left_s < FULL_S / 24),
        )


def _refused(facts: Facts) -> Iterator[Finding]:
    for status, least in REFUSED_MIN.items():
        count = facts.refused.get(status, 0)
        if count >= least:
            what, advice = _REFUSED[status]
            yield Finding(
                kind=FindingKind.REQUESTS_REFUSED,
                where=f"status {status}",
                text=f"In the last {span(facts.refused_s * 1000)}, {count} requests were refused "
                f"{what}.",
                advice=f"{advice}.",
            )


def _endings(facts: Facts) -> Iterator[Finding]:
    for ending in sorted(facts.endings, key=lambda ending: ending.ends_ms):
        left_ms = ending.ends_ms - facts.now_ms
        has_ended = left_ms <= 0
        if left_ms > ENDS_S * MS_PER_S or (has_ended and not ending.fails):
            continue
        when = f"expired {span(-left_ms)} ago" if has_ended else f"expires in {span(left_ms)}"
        yield Finding(
            kind=FindingKind.ENDS_SOON,
            where=ending.what,
            text=f"It {when}.",
            advice="Replace it with a new one.",
            is_urgent=has_ended,
        )

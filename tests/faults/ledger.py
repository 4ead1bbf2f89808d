"""The answers that publishers of one topic got, and the messages that pollers got: do they agree?

The rules, for a log polled from its start:
1. Ids ascend strictly.
2. The log starts with all messages polled before, ids and payloads: it is repeatable. The same
   holds for the messages of a follower, which skips none.
3. Every acknowledged message exists once. Those of any other request exist at most once, all or
   none of them, in order and adjacent.
4. A request that was acknowledged before another began is before it in the log.
5. Once settled (nothing in flight, store healthy), missing messages never appear. Nor do those of
   requests that were answered as not done.
6. A reader that skips rolled back entries sees the rest of the log; an acknowledged rollback stays.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

from tms.core.errors import TmsError, Unavailable
from tms.core.values.message import Message


class Outcome(Enum):
    """How much a caller knows of a request's outcome."""

    NOT_ASKED = "not asked"
    UNKNOWN = "unknown"
    DONE = "done"
    NEVER = "never"
    """It failed, and turned out not to have been done."""


@dataclass
class Request:
    """One publish."""

    name: str
    payloads: Sequence[bytes]
    started: int
    ended: int | None = None
    published: Outcome = Outcome.UNKNOWN
    rolled_back: Outcome = Outcome.NOT_ASKED


class Ledger:
    """The requests to one topic, and the log as last polled."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.acknowledged = 0
        self.seen: list[Message] = []
        self.followed: list[Message] = []
        """The messages of a reader that continues after the last one it has."""
        self._by_payload: dict[bytes, Request] = {}
        self._ticks = 0

    def begin(self, name: str, payloads: Sequence[bytes]) -> Request:
        """Note a publish that is about to be sent; no payload may have been used before."""
        request = Request(name, payloads, self._tick())
        for payload in payloads:
            assert self._by_payload.setdefault(payload, request) is request
        self.requests.append(request)
        return request

    def acknowledge(self, request: Request) -> None:
        """Record that a publish was answered with 200."""
        request.published = Outcome.DONE
        request.ended = self._tick()
        self.acknowledged += 1

    def failed(self, request: Request, error: TmsError) -> None:
        """Record the error of a publish, or of the rollback of an acknowledged one.

        `Unavailable` means that it was not done and never will be.
        """
        if not isinstance(error, Unavailable):
            return
        if request.published is Outcome.DONE:
            request.rolled_back = Outcome.NEVER
        else:
            request.published = Outcome.NEVER

    def _tick(self) -> int:
        self._ticks += 1
        return self._ticks

    def check(self, log: Sequence[Message], visible: Iterable[Message], *, settled: bool) -> None:
        """Check a poll of everything, and one that skips rolled back messages."""
        ids = [message.id for message in log]
        assert all(a < b for a, b in pairwise(ids)), "ids do not ascend"
        assert log[: len(self.seen)] == self.seen, "what was polled before has changed"
        assert log[: len(self.followed)] == self.followed, "a follower was given another log"
        found = self._check_requests(log)
        self._check_rollbacks(log, visible, found, settled=settled)
        if settled:
            for request in self.requests:
                if request.name not in found:
                    request.published = Outcome.NEVER
        self.seen = list(log)

    def _check_requests(self, log: Sequence[Message]) -> set[str]:
        """Return the names of the requests whose messages are there."""
        found: set[str] = set()
        last_started = at = 0
        while at < len(log):
            request = self._by_payload.get(log[at].payload)
            assert request is not None, f"nobody published {log[at]}"
            assert request.name not in found, f"{request.name} is there twice"
            assert request.published is not Outcome.NEVER, f"{request.name} came after all"
            there = [message.payload for message in log[at : at + len(request.payloads)]]
            assert there == list(request.payloads), f"{request.name} is there in part"
            assert request.ended is None or request.ended > last_started, (
                f"{request.name} stands behind a request that began after it was acknowledged"
            )
            last_started = max(last_started, request.started)
            found.add(request.name)
            at += len(there)
        missing = [r.name for r in self.requests if r.published is Outcome.DONE]
        missing = [name for name in missing if name not in found]
        assert not missing, f"{len(missing)} acknowledged requests are missing: {missing[:5]}"
        return found

    def _check_rollbacks(
        self,
        log: Sequence[Message],
        visible: Iterable[Message],
        found: set[str],
        *,
        settled: bool,
    ) -> None:
        shown = {message.id for message in visible}
        assert shown <= {message.id for message in log}, "a transaction sees what is not in the log"
        hidden = {m.payload for m in log if m.id not in shown}
        for request in self.requests:
            if request.name not in found:
                continue
            gone = sum(payload in hidden for payload in request.payloads)
            assert gone in (0, len(request.payloads)), f"{request.name} is rolled back in part"
            if gone:
                assert request.rolled_back in (Outcome.UNKNOWN, Outcome.DONE), (
                    f"{request.name} is rolled back, {request.rolled_back.value}"
                )
            else:
                assert request.rolled_back is not Outcome.DONE, f"{request.name} is back"
            if settled and request.rolled_back is Outcome.UNKNOWN:
                request.rolled_back = Outcome.DONE if gone else Outcome.NEVER

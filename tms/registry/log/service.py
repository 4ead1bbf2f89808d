"""The registry: decides on requests by the log's content in memory, and writes the decisions.

1. A decision is written only directly after the log that it is based on; if the log has moved, it
   is made again. So ids and versions are assigned once, even if others write.
2. Refusals, and answers that write nothing, come from memory that was read to the end.
3. A server makes one write at a time; the slow part, checking texts, comes before.
4. A deletion of more versions than fit in one publish is written in parts. If a server dies in
   between, some versions are deleted, and a repeated request deletes the rest.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from tms.core.errors import TmsError, TooLarge, TopicMoved
from tms.core.limits import SchemaLimits
from tms.registry.checking.checker import Checker
from tms.registry.log.schema_log import REACHED_S_MAX, LogMemory, SchemaLog
from tms.registry.questions.questions import Findings, Unanswered
from tms.registry.state.decision import Decided, Part
from tms.registry.state.ids import IdsWanted, StoreIds
from tms.registry.state.knowledge import Knowledge
from tms.registry.state.records import (
    EpochWritten,
    Key,
    ModeWritten,
    Purged,
    SchemaWritten,
    VersionDeleted,
)
from tms.registry.state.refusal import STORE_FAILED, TIMED_OUT, TOO_LARGE, RegistryError
from tms.registry.state.registry_state import State

A = TypeVar("A")
Command = Callable[[Knowledge], Decided[A]]
"""Decides from knowledge. Raises `RegistryError`, `Unanswered`."""
Look = Callable[[Knowledge], A]
"""Looks something up in knowledge. Raises as a command."""


class NotMaster(Exception):
    """Raised by a write at a server that may not write: nothing was written."""


class Authority(Protocol):
    """The role of a server if only one of them writes (`mastership`)."""

    address: str
    """The URL at which others reach it."""
    is_eligible: bool
    begun: int
    """How often it became the master."""

    def may_write(self) -> bool:
        """Whether it may write, by the log as far as it was read."""
        ...

    @property
    def is_master(self) -> bool:
        """Whether it is the writer, as far as it knows."""
        ...

    @property
    def master(self) -> str | None:
        """The URL of the writer; None if unknown."""
        ...


class Registry:
    """Schemas, on a topic. Used only on one event loop."""

    def __init__(
        self,
        log: SchemaLog,
        limits: SchemaLimits,
        checker: Checker,
        mastership: Authority | None = None,
        ids: StoreIds | None = None,
    ) -> None:
        """Read nothing yet. With `ids`, use only ids assigned to this server."""
        self.log = log
        self.checker = checker
        self.mastership = mastership
        """This server's role if only one server writes."""
        self._ids = ids
        self._batches: dict[str, range] = {}
        self.limits = limits
        self._writing = asyncio.Lock()

    @property
    def state(self) -> State:
        """The current state."""
        return self.log.memory.state

    # Reads.

    async def find(self, look: Callable[[State], A]) -> A:
        """Return the result from memory, or from the end of the log. Raises `RegistryError`."""
        try:
            return look(self.state)
        except RegistryError:
            await self.log.read_to_end()
        return look(self.state)

    async def list(self, look: Callable[[State], A]) -> A:
        """Return the result at the end of the log. Raises `RegistryError`."""
        await self.log.read_to_end()
        return look(self.state)

    async def examine(self, look: Look[A]) -> A:
        """Return the result about a text at the end of the log. Raises `RegistryError`."""
        await self.log.read_to_end()
        return await self.answer(look)

    async def answer(self, look: Look[A]) -> A:
        """Return the result about a text from memory. Raises `RegistryError`."""
        findings = Findings()
        while True:
            try:
                return look(self._knowledge(findings))
            except Unanswered as unanswered:
                await self._find_out(unanswered, findings)

    # Writes.

    async def delete(self, command: Command[A]) -> A:
        """Write a deletion; things that were deleted before the request count as deleted.

        Concurrent deletions of the same thing all succeed; a later one does not.
        """
        await self.log.read_to_end()
        return await self.write(command)

    async def write(self, command: Command[A]) -> A:
        """Return the answer of a command, once its records are in the log.

        Raises `RegistryError`, `NotMaster`.
        """
        attempt = _Attempt(command)
        if not self.log.readings:
            await self.log.read_to_end()
        while True:
            try:
                async with self._writing:
                    return await self._decide(attempt)
            except Unanswered as unanswered:
                await self._find_out(unanswered, attempt.findings)
            except IdsWanted as wanted:
                await self._get_ids(wanted)

    async def begin_epoch(self, master: str) -> int:
        """Write to the end of the log that this server is master; return the epoch.

        `master` is the URL of its registry. Raises `RegistryError`.
        """
        async with self._writing:
            self._batches.clear()
            while True:
                await self.log.read_to_end()
                memory = self.log.memory
                epoch = memory.state.epoch + 1
                try:
                    await self.log.append([EpochWritten(epoch, master)], memory)
                except TopicMoved as moved:
                    await self.log.catch_up(memory, moved)
                    continue
                return epoch

    async def _get_ids(self, request: IdsWanted) -> None:
        assert self._ids is not None
        try:
            async with asyncio.timeout(REACHED_S_MAX):
                self._batches[request.context] = await self._ids.batch(
                    request.context, request.above
                )
        except TimeoutError:
            raise RegistryError(
                TIMED_OUT, reason="the metadata store did not assign an id"
            ) from None
        except TmsError as error:
            raise RegistryError(STORE_FAILED, reason=str(error)) from error

    async def _decide(self, attempt: "_Attempt[A]") -> A:
        """Decide and write until all is in the log. Raises `Unanswered`, `RegistryError`."""
        is_at_end = False
        while True:
            if self.mastership is not None and not self.mastership.may_write():
                raise NotMaster
            memory = self.log.memory
            try:
                decision = attempt.decide(self._knowledge(attempt.findings))
            except RegistryError:
                if is_at_end:
                    raise
            else:
                if decision.parts:
                    try:
                        await self._write(attempt, decision, memory)
                    except TopicMoved as moved:
                        await self.log.catch_up(memory, moved)
                        is_at_end = True
                        continue
                    return decision.answer
                if is_at_end:
                    return decision.answer
            await self.log.read_to_end()
            is_at_end = True

    async def _write(self, attempt: "_Attempt[A]", decision: Decided[A], memory: LogMemory) -> None:
        """Write a decision, in several publishes if it does not fit in one.

        Raises `TopicMoved`, `RegistryError`.
        """
        parts, at_once = decision.parts, len(decision.parts)
        while parts:
            chosen = parts[:at_once]
            try:
                await self.log.append(_in_order(chosen), memory)
            except TooLarge as error:
                if len(chosen) == 1:
                    raise RegistryError(TOO_LARGE, reason=str(error)) from None
                at_once = len(chosen) // 2
                continue
            attempt.is_begun = True
            parts = parts[at_once:]

    def _knowledge(self, findings: Findings) -> Knowledge:
        batches = None if self._ids is None else self._batches
        return Knowledge(self.state, findings, self.limits, batches)

    async def _find_out(self, unanswered: Unanswered, findings: Findings) -> None:
        questions = unanswered.questions
        answers = await self.checker.answers(questions)
        findings.answers.update(zip(questions, answers, strict=True))


class _Attempt(Generic[A]):
    """A command, decided as often as needed."""

    def __init__(self, command: Command[A]) -> None:
        self.findings = Findings()
        self.is_begun = False
        """Whether some of the decision is written."""
        self._command = command
        self._last: Decided[A] | None = None

    def decide(self, knowledge: Knowledge) -> Decided[A]:
        """Decide; if a part was written before, decide on the rest, but keep the first answer.

        Two permanent deletions of the same thing both succeed: if the other was faster, nothing
        remains to be done. Raises as a command.
        """
        last = self._last
        if last is not None and _is_done(knowledge.state, last, is_begun=self.is_begun):
            return Decided(last.answer)
        decided = self._command(knowledge)
        if last is not None and self.is_begun:
            return Decided(last.answer, decided.parts)
        self._last = decided
        return decided


def _is_done(state: State, decision: Decided[A], *, is_begun: bool) -> bool:
    """Whether a decision only deletes, and everything it deletes is already deleted.

    Soft deletions do not say who made them, so they count only once some is written.
    """
    purged = [record.key for record in decision.records if isinstance(record, Purged)]
    versions = [key for key in purged if key.version is not None]
    hidden = [record for record in decision.records if isinstance(record, VersionDeleted)]
    adds = any(isinstance(record, SchemaWritten | ModeWritten) for record in decision.records)
    if adds or not (versions or (hidden and is_begun)):
        return False
    return not any(_has(state, key) for key in versions) and not any(
        _is_live(state, each) for each in hidden
    )


def _in_order(parts: Sequence[Part]) -> Part:
    """Return the records of parts; tombstones alone in the order of what they remove."""
    records = [record for part in parts for record in part]
    keys = [record.key for record in records if isinstance(record, Purged)]
    if len(keys) < len(records):
        return records
    keys.sort(key=lambda key: (key.version is None, key.sequence or 0))
    return [Purged(key) for key in keys]


def _has(state: State, key: Key) -> bool:
    version = state.version(key.subject or "", key.version or 0)
    return version is not None and key in version.keys


def _is_live(state: State, deleted: VersionDeleted) -> bool:
    version = state.version(deleted.subject, deleted.version)
    return version is not None and not version.is_deleted

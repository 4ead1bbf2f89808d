"""The registry: decides on requests by the memory of the log, and writes what was decided.

1. A decision is written behind the very log that it was made by; if the log has moved, it is made
   again. So ids and versions are given once, whoever else writes.
2. A refusal, and an answer that writes nothing, come from memory that was read to the end.
3. Writes are made one at a time in a server; what takes long, checking texts, happens before.
4. A deletion of more versions than the log takes messages at once is written in parts. If a server
   dies in between, some versions are deleted, and a repeated request deletes the rest.
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
"""Decides by what is known. Raises `RegistryError`, `Unanswered`."""
Look = Callable[[Knowledge], A]
"""Finds something in what is known. Raises as a command."""


class NotMaster(Exception):
    """Raised by a write at a server that may not write: nothing was written."""


class Authority(Protocol):
    """The part of a server if only one of them writes (`mastership`)."""

    address: str
    """The URL at which others reach it."""
    is_eligible: bool
    begun: int
    """How often it began as master."""

    def may_write(self) -> bool:
        """Whether it may write, by what the log says that was read."""
        ...

    @property
    def is_master(self) -> bool:
        """Whether it writes, as far as it knows."""
        ...

    @property
    def master(self) -> str | None:
        """Where writes are done; None: nobody is known."""
        ...


class Registry:
    """Schemas, on a topic. Used on one event loop alone."""

    def __init__(
        self,
        log: SchemaLog,
        limits: SchemaLimits,
        checker: Checker,
        mastership: Authority | None = None,
        ids: StoreIds | None = None,
    ) -> None:
        """Read nothing yet. With `ids`, give only ids that it has given to this server."""
        self.log = log
        self.checker = checker
        self.mastership = mastership
        """Where one server alone writes: whether it is this one."""
        self._ids = ids
        self._batches: dict[str, range] = {}
        self.limits = limits
        self._writing = asyncio.Lock()

    @property
    def state(self) -> State:
        """The state now."""
        return self.log.memory.state

    # Reads.

    async def find(self, look: Callable[[State], A]) -> A:
        """Return what is found in memory, or else at the end of the log. Raises `RegistryError`."""
        try:
            return look(self.state)
        except RegistryError:
            await self.log.read_to_end()
        return look(self.state)

    async def list(self, look: Callable[[State], A]) -> A:
        """Return what is found at the end of the log. Raises `RegistryError`."""
        await self.log.read_to_end()
        return look(self.state)

    async def examine(self, look: Look[A]) -> A:
        """Return what is found at the end of the log about a text. Raises `RegistryError`."""
        await self.log.read_to_end()
        return await self.answer(look)

    async def answer(self, look: Look[A]) -> A:
        """Return what is found in memory about a text. Raises `RegistryError`."""
        findings = Findings()
        while True:
            try:
                return look(self._knowledge(findings))
            except Unanswered as unanswered:
                await self._find_out(unanswered, findings)

    # Writes.

    async def delete(self, command: Command[A]) -> A:
        """Do as `write`, for a deletion: what was deleted before the request is known to be gone.

        So that both succeed who delete the same at once, and a later one does not.
        """
        await self.log.read_to_end()
        return await self.write(command)

    async def write(self, command: Command[A]) -> A:
        """Return what a command answers, once what it decided is in the log.

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
        """Say in the log, behind all that it has, that this server is master; return the epoch.

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

    async def _get_ids(self, wanted: IdsWanted) -> None:
        assert self._ids is not None
        try:
            async with asyncio.timeout(REACHED_S_MAX):
                self._batches[wanted.context] = await self._ids.batch(wanted.context, wanted.above)
        except TimeoutError:
            raise RegistryError(
                TIMED_OUT, reason="the metadata store did not assign an id"
            ) from None
        except TmsError as error:
            raise RegistryError(STORE_FAILED, reason=str(error)) from error

    async def _decide(self, attempt: "_Attempt[A]") -> A:
        """Decide, and write that, until it is written. Raises `Unanswered`, `RegistryError`."""
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
        """Write a decision, in several publishes if the log does not take it in one.

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
    """A command, which is decided as often as it takes."""

    def __init__(self, command: Command[A]) -> None:
        self.findings = Findings()
        self.is_begun = False
        """Whether some of what was decided is written."""
        self._command = command
        self._last: Decided[A] | None = None

    def decide(self, known: Knowledge) -> Decided[A]:
        """Decide by what is known; once it is begun, on the rest, with the answer of then.

        Two who delete the same for good both succeed: if the other was quicker, there is nothing
        left to be done. Raises as a command.
        """
        last = self._last
        if last is not None and _is_done(known.state, last, is_begun=self.is_begun):
            return Decided(last.answer)
        decided = self._command(known)
        if last is not None and self.is_begun:
            return Decided(last.answer, decided.parts)
        self._last = decided
        return decided


def _is_done(state: State, decision: Decided[A], *, is_begun: bool) -> bool:
    """Whether all that a decision deletes is deleted, and that is all it does.

    Nobody knows who has deleted softly, so that counts only for what is begun.
    """
    purged = [each.key for each in decision.records if isinstance(each, Purged)]
    versions = [key for key in purged if key.version is not None]
    hidden = [each for each in decision.records if isinstance(each, VersionDeleted)]
    adds = any(isinstance(each, SchemaWritten | ModeWritten) for each in decision.records)
    if adds or not (versions or (hidden and is_begun)):
        return False
    return not any(_has(state, key) for key in versions) and not any(
        _is_live(state, each) for each in hidden
    )


def _in_order(parts: Sequence[Part]) -> Part:
    """Return the records of parts; tombstones alone in the order of what they take away."""
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

"""Which schemas a caller may read.

This is the only place that decides it: all code that returns a schema, or a part of one, calls it.

1. A version is for callers that may read its subject; an id or a guid is for those that may read a
   subject that has it.
2. Some answers depend on a schema and its references: another form, a comparison, a value. They are
   for callers that may read everything that the references lead to.
3. A context is shown to callers that may read something in it.

Pure; it relies on parsed names (`subjects`), so a subject has one name here.
"""

from collections.abc import Callable, Iterable
from typing import Never

from tms.core.errors import NotPermitted
from tms.core.services.schemas import SchemaReference
from tms.core.values.caller import Caller
from tms.registry.state.registry_state import State, Version
from tms.registry.state.subjects import context_of, scope_of_context

READ, WRITE = "read", "write"
"""Actions on subjects, as rules name them."""
Refuse = Callable[[str | None], Never]


def _refuse(subject: str | None) -> Never:
    resource = f"subject {subject}" if subject else "all subjects"
    raise NotPermitted(action=READ, resource=resource)


class SchemaReader:
    """A caller that reads schemas."""

    def __init__(
        self, may_read: Callable[[str], bool] | None = None, refuse: Refuse | None = None
    ) -> None:
        """Call `may_read` with subjects, "" for all of them; if None, everything is readable.

        `refuse` raises `NotPermitted` for a subject, or without naming one for None.
        """
        self._may_read = may_read
        self._refuse = refuse or _refuse

    def reads(self, subject: str) -> bool:
        """Whether a subject may be read."""
        return self._may_read is None or self._may_read(subject)

    def contexts(self, state: State) -> list[str]:
        """Return the contexts in which something is readable, in order."""
        if self._may_read is None:
            return state.contexts()
        seen = {context_of(subject) for subject in state.subjects if self._may_read(subject)}
        return [
            context
            for context in state.contexts()
            if context in seen or self.reads(scope_of_context(context))
        ]

    def refused_in(self, state: State, references: Iterable[SchemaReference]) -> str | None:
        """Return the first unreadable subject that references lead to, or None."""
        if self._may_read is None:
            return None
        met: set[tuple[str, int]] = set()
        ahead = [*references]
        while ahead:
            reference = ahead.pop()
            subject, number = reference.subject, reference.version
            if (subject, number) in met:
                continue
            if not self.reads(subject):
                return subject
            met.add((subject, number))
            version = state.latest(subject) if number < 0 else state.version(subject, number)
            ahead += () if version is None else version.schema.references
        return None

    def reads_whole(self, state: State, versions: Iterable[Version]) -> bool:
        """Whether versions are readable with everything they refer to."""
        return all(
            self.reads(version.subject)
            and self.refused_in(state, version.schema.references) is None
            for version in versions
        )

    def check_references(self, state: State, references: Iterable[SchemaReference]) -> None:
        """Raise `NotPermitted` unless everything that references lead to is readable."""
        refused = self.refused_in(state, references)
        if refused is not None:
            self._refuse(refused)

    def check(self, subject: str) -> None:
        """Raise `NotPermitted` unless a subject is readable."""
        if not self.reads(subject):
            self._refuse(subject)

    def check_whole(self, state: State, version: Version) -> None:
        """Raise `NotPermitted` unless a version is readable with everything it refers to."""
        self.check(version.subject)
        self.check_references(state, version.schema.references)

    def those_of(self, uses: Iterable[Version]) -> list[Version]:
        """Return the readable versions, by subject and number.

        Raises `NotPermitted` if none is, without naming a subject, because ids can be guessed.
        """
        readable = [version for version in uses if self.reads(version.subject)]
        if not readable and self._may_read is not None:
            self._refuse(None)
        return sorted(readable, key=lambda each: (each.subject, each.number))

    def one_of(self, version: Version, uses: Iterable[Version]) -> Version:
        """Return `version`, or if it is unreadable another of its uses. Raises `NotPermitted`."""
        return version if self.reads(version.subject) else self.those_of(uses)[0]


EVERYTHING = SchemaReader()
"""A caller that may read all schemas."""


def reader_of(caller: Caller, *actions: str) -> SchemaReader:
    """Return the reader for a caller; permission for any of `actions` counts as read."""
    may = caller.may_on_subject
    if may is None:
        return EVERYTHING
    needed = actions or (READ,)
    return SchemaReader(lambda subject: any(may(action, subject) for action in needed))

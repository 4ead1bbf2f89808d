"""The state from the log: subjects with versions, ids, settings. Pure: entries in, state out.

A record counts if its sequence is greater than the last one; a tombstone always counts. So every
reader of the same log has the same state, even after compaction.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tms.registry.state.records import (
    CONFIG,
    MODE,
    SCHEMA,
    ConfigWritten,
    CountersWritten,
    Entry,
    EpochWritten,
    Key,
    ModeWritten,
    Origin,
    Purged,
    Record,
    SchemaWritten,
    VersionDeleted,
    VersionLost,
)
from tms.registry.state.schema import Schema
from tms.registry.state.settings import LEVEL_DEFAULT, MODE_DEFAULT, Config, Level, Mode, within
from tms.registry.state.subjects import (
    DEFAULT_CONTEXT,
    DEFAULT_SCOPE,
    EVERYWHERE,
    context_of,
    qualified,
    resolved_in,
    scope_of_context,
    scopes_of,
)

FIRST_ID = 1
IMPORTED_ID_MAX = 2**30
"""New ids continue after an imported one up to this, so imports cannot use up all ids."""

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Version:
    """A version of a subject."""

    subject: str
    number: int
    id: int
    schema: Schema
    written_ms: int
    origin: Origin
    deletion: Origin | None = None
    """The write that soft-deleted it."""

    @property
    def is_deleted(self) -> bool:
        """Whether it is soft-deleted."""
        return self.deletion is not None

    @property
    def keys(self) -> list[Key]:
        """The keys of its records."""
        origins = [self.origin] if self.deletion is None else [self.origin, self.deletion]
        return [
            Key(SCHEMA, node, sequence, self.subject, self.number) for sequence, node in origins
        ]


@dataclass(slots=True)
class IdSpace:
    """The ids of one context."""

    next_id: int = FIRST_ID
    """The id of the next new schema, which no version has."""
    uses: dict[int, dict[tuple[str, int], Version]] = field(default_factory=dict)
    """By id, its versions in the order of the log, including soft-deleted ones."""
    ids: dict[bytes, set[int]] = field(default_factory=dict)
    """By a schema's identity; several only after imports."""

    def add(self, version: Version) -> None:
        """Add a version."""
        uses = self.uses.setdefault(version.id, {})
        if not uses:
            self.ids.setdefault(version.schema.identity, set()).add(version.id)
        uses[version.subject, version.number] = version
        if version.id <= IMPORTED_ID_MAX or version.id == self.next_id:
            self.go_on_from(version.id + 1)

    def go_on_from(self, next_id: int) -> None:
        """Assign no id below `next_id` to a new schema."""
        self.next_id = self.free_from(max(self.next_id, next_id))

    def free_from(self, first: int) -> int:
        """Return the first unused id from `first` on."""
        while first in self.uses:
            first += 1
        return first

    def remove(self, version: Version) -> None:
        """Remove a version; an id without versions has no schema."""
        uses = self.uses[version.id]
        del uses[version.subject, version.number]
        if uses:
            return
        del self.uses[version.id]
        identity = version.schema.identity
        self.ids[identity].remove(version.id)
        if not self.ids[identity]:
            del self.ids[identity]

    def schema(self, schema_id: int) -> Schema | None:
        """Return the schema of an id, None if there is none."""
        uses = self.uses.get(schema_id)
        return next(iter(uses.values())).schema if uses else None


@dataclass(frozen=True, slots=True)
class Written(Generic[T]):
    """A setting, and the write that it comes from."""

    value: T
    origin: Origin


class State:
    """The complete state of the schemas. Only `take` changes it."""

    def __init__(self) -> None:
        self.last_sequence = 0
        self.subjects: dict[str, dict[int, Version]] = {}
        """By subject, its versions by number, in the order of the log."""
        self.spaces: dict[str, IdSpace] = {}
        """By context."""
        self.configs: dict[str, Written[Config]] = {}
        """By scope."""
        self.modes: dict[str, Written[Mode]] = {}
        self.lost: dict[str, set[int]] = {}
        """By subject, the numbers of unreadable versions, which stay taken."""
        self._referrers: dict[tuple[str, int], dict[Version, None]] = {}
        self._by_guid: dict[bytes, dict[tuple[str, int], None]] = {}
        """By the bytes of a guid, the contexts and ids of its schemas."""
        self.versions_count = 0
        self.epoch = 0
        """The epoch of the newest master; 0 if there was none."""
        self.master = ""
        """The URL of its registry."""
        self.deleted_contexts: set[str] = set()
        """The deleted contexts without any schema since."""

    # Queries.

    def versions(self, subject: str, *, deleted: bool = False) -> list[Version]:
        """Return a subject's versions in order; soft-deleted ones only on request."""
        versions = self.subjects.get(subject, {}).values()
        live = [each for each in versions if deleted or not each.is_deleted]
        return sorted(live, key=lambda each: each.number)

    def version(self, subject: str, number: int) -> Version | None:
        """Return a version, soft-deleted or not; None if there is none."""
        return self.subjects.get(subject, {}).get(number)

    def last_number(self, subject: str) -> int:
        """Return the greatest number that a subject's versions ever had; 0 without any."""
        numbers = (self.subjects.get(subject, ()), self.lost.get(subject, ()))
        return max((number for each in numbers for number in each), default=0)

    def latest(self, subject: str) -> Version | None:
        """Return the latest version that is not soft-deleted."""
        live = (each for each in self.subjects.get(subject, {}).values() if not each.is_deleted)
        return max(live, key=lambda each: each.number, default=None)

    def space(self, context: str) -> IdSpace:
        """Return the ids of a context."""
        return self.spaces.get(context) or IdSpace()

    def referrers(self, version: Version, *, deleted: bool = False) -> list[Version]:
        """Return the versions that refer to a version, in the log's order.

        Soft-deleted ones only on request.
        """
        referrers = self._referrers.get((version.subject, version.number), ())
        return [each for each in referrers if deleted or not each.is_deleted]

    def ids_of_guid(self, guid: bytes) -> list[tuple[str, int]]:
        """Return the contexts and ids of the schemas that have a guid."""
        return sorted(self._by_guid.get(guid, ()))

    def config(self, subject: str) -> Config:
        """Return the settings in effect for a subject or scope; the narrowest scope wins."""
        own_config = self.configs.get(subject)
        config = Config() if own_config is None else own_config.value
        for scope in scopes_of(subject)[1:]:
            wider = self.configs.get(scope)
            if wider is not None:
                config = within(config, wider.value)
        return config

    def level(self, subject: str) -> Level:
        """Return the compatibility level in effect for a subject or scope."""
        return self.config(subject).compatibility or LEVEL_DEFAULT

    def resolved(self, name: str) -> str:
        """Return the subject behind a name: the target of its alias, or itself."""
        subject = qualified(name)
        written = self.configs.get(subject)
        if written is None or not written.value.alias:
            return subject
        return resolved_in(written.value.alias, context_of(subject))

    def mode(self, subject: str) -> Mode:
        """Return the mode in effect for a subject or scope."""
        widest = (self.modes.get(scope) for scope in (DEFAULT_SCOPE, EVERYWHERE))
        if any(each is not None and each.value is Mode.READONLY_OVERRIDE for each in widest):
            return Mode.READONLY_OVERRIDE
        modes = (self.modes.get(scope) for scope in scopes_of(subject))
        return next((each.value for each in modes if each is not None), MODE_DEFAULT)

    def subjects_of(self, scope: str) -> Iterator[str]:
        """Yield the subjects that the settings of a scope affect, ordered by name."""
        context = context_of(scope)
        if scope == EVERYWHERE:
            yield from sorted(self.subjects)
        elif scope == scope_of_context(context):
            yield from sorted(
                subject for subject in self.subjects if context_of(subject) == context
            )
        elif scope in self.subjects:
            yield scope

    def contexts(self) -> list[str]:
        """Return the contexts that have or had schemas and are not deleted; and the default."""
        return sorted({DEFAULT_CONTEXT, *self.spaces} - self.deleted_contexts)

    def next_ids(self) -> Mapping[str, int]:
        """Return the next id of each context."""
        return {context: space.next_id for context, space in sorted(self.spaces.items())}

    def counters(self) -> CountersWritten:
        """Return the counters for tombstones, so that no id is reused."""
        return CountersWritten(self.next_ids(), frozenset(self.deleted_contexts))

    # Additions from the log.

    def take(self, entry: Entry) -> None:
        """Apply the next entry of the log."""
        if entry.origin is None:
            assert isinstance(entry.record, Purged)
            self._purge(entry.record.key)
        elif entry.origin.sequence > self.last_sequence:
            self.last_sequence = entry.origin.sequence
            self._apply(entry.record, entry.origin, entry.written_ms)

    def _apply(
        self, record: Record | Purged | VersionLost, origin: Origin, written_ms: int
    ) -> None:
        match record:
            case SchemaWritten():
                self._add(record, origin, written_ms)
            case VersionLost(subject, number):
                self.lost.setdefault(subject, set()).add(number)
            case VersionDeleted(subject, number):
                version = self.version(subject, number)
                if version is not None:
                    version.deletion = origin
            case ConfigWritten(scope, config):
                self.configs[scope] = Written(config, origin)
            case ModeWritten(scope, mode):
                self.modes[scope] = Written(mode, origin)
            case EpochWritten(epoch, master):
                self.epoch, self.master = epoch, master
            case CountersWritten(next_ids, deleted_contexts):
                self.deleted_contexts = set(deleted_contexts)
                for context, next_id in next_ids.items():
                    self.spaces.setdefault(context, IdSpace()).go_on_from(next_id)

    def _add(self, record: SchemaWritten, origin: Origin, written_ms: int) -> None:
        replaced = self.version(record.subject, record.version)
        if replaced is not None:
            self._remove(replaced)
        context = context_of(record.subject)
        space = self.spaces.setdefault(context, IdSpace())
        self.deleted_contexts.discard(context)
        present = space.schema(record.id)
        schema = present if present is not None and present == record.schema else record.schema
        version = Version(record.subject, record.version, record.id, schema, written_ms, origin)
        self.subjects.setdefault(record.subject, {})[record.version] = version
        space.add(version)
        self.versions_count += 1
        for reference in schema.references:
            target = reference.subject, reference.version
            self._referrers.setdefault(target, {})[version] = None
        self._by_guid.setdefault(schema.guid_bytes, {})[context, record.id] = None

    # Removals.

    def _purge(self, key: Key) -> None:
        subject, origin = key.subject or "", Origin(key.sequence or 0, key.node or "")
        if key.keytype == SCHEMA:
            version = self.version(subject, key.version or 0)
            if version is not None and version.origin == origin:
                self._remove(version)
            elif version is not None and version.deletion == origin:
                version.deletion = None
        elif key.keytype == CONFIG:
            _forget(self.configs, subject, origin)
        elif key.keytype == MODE:
            _forget(self.modes, subject, origin)

    def _remove(self, version: Version) -> None:
        versions = self.subjects[version.subject]
        del versions[version.number]
        if not versions:
            del self.subjects[version.subject]
        self.versions_count -= 1
        context = context_of(version.subject)
        space = self.spaces[context]
        space.remove(version)
        for reference in version.schema.references:
            target = reference.subject, reference.version
            self._referrers.get(target, {}).pop(version, None)
            if not self._referrers.get(target, True):
                del self._referrers[target]
        if version.id not in space.uses:
            guid = version.schema.guid_bytes
            self._by_guid[guid].pop((context, version.id), None)
            if not self._by_guid[guid]:
                del self._by_guid[guid]


def _forget(written: dict[str, Written[T]], scope: str, origin: Origin) -> None:
    if scope in written and written[scope].origin == origin:
        del written[scope]

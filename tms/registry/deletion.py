"""Decides on deletions: soft ones hide a version, permanent ones remove its records from the log.

A permanent deletion writes tombstones for the keys of the version's records, together with the
counters (`counters`), so that no id is reused. Pure.
"""

import re
from collections.abc import Sequence

from tms.registry.state.decision import Decided, Part
from tms.registry.state.records import (
    CONFIG,
    MODE,
    CountersWritten,
    Key,
    Purged,
    VersionDeleted,
)
from tms.registry.state.refusal import (
    CONTEXT_NOT_EMPTY,
    INVALID_VERSION,
    NOT_PERMITTED,
    REFERENCED,
    SUBJECT_NOT_FOUND,
    SUBJECT_NOT_SOFT_DELETED,
    SUBJECT_SOFT_DELETED,
    VERSION_NOT_FOUND,
    VERSION_NOT_SOFT_DELETED,
    VERSION_SOFT_DELETED,
    RegistryError,
)
from tms.registry.state.registry_state import State, Version
from tms.registry.state.schema import is_number
from tms.registry.state.subjects import (
    DEFAULT_CONTEXT,
    check_context,
    context_of,
    qualified,
    scope_of_context,
)

LATEST = -1
_NUMBER = re.compile(r"0*([1-9][0-9]{0,9})", re.ASCII)


def parse_version(text: str) -> int:
    """Return the number in a version token, `LATEST` for the latest.

    Raises `RegistryError` (42202).
    """
    token = text.strip().lower()
    if token in ("latest", "-1"):
        return LATEST
    match = _NUMBER.fullmatch(token)
    if match is None or not is_number(int(match[1])):
        raise RegistryError(INVALID_VERSION, version=text)
    return int(match[1])


def delete_version(state: State, name: str, token: str, *, permanent: bool) -> Decided[int]:
    """Decide on deleting a version. Raises `RegistryError`."""
    subject = qualified(name)
    number = parse_version(token)
    if subject not in state.subjects:
        raise RegistryError(SUBJECT_NOT_FOUND, subject=name)
    version = state.latest(subject) if number == LATEST else state.version(subject, number)
    if version is None:
        raise RegistryError(VERSION_NOT_FOUND, version=number)
    if permanent and not version.is_deleted:
        raise RegistryError(VERSION_NOT_SOFT_DELETED, subject=name, version=version.number)
    if not permanent and version.is_deleted:
        raise RegistryError(VERSION_SOFT_DELETED, subject=name, version=version.number)
    check_writable(state, subject)
    _check_unreferenced(state, version)
    if not permanent:
        return Decided(version.number, [[VersionDeleted(subject, version.number)]])
    return Decided(version.number, purge(state, [version]))


def delete_subject(state: State, name: str, *, permanent: bool) -> Decided[list[int]]:
    """Decide on deleting all versions of a subject. Raises `RegistryError`."""
    subject = qualified(name)
    if subject not in state.subjects:
        raise RegistryError(SUBJECT_NOT_FOUND, subject=name)
    live = state.versions(subject)
    if permanent and live:
        raise RegistryError(SUBJECT_NOT_SOFT_DELETED, subject=name)
    if not permanent and not live:
        raise RegistryError(SUBJECT_SOFT_DELETED, subject=name)
    check_writable(state, subject)
    versions = state.versions(subject, deleted=True) if permanent else live
    for version in versions:
        _check_unreferenced(state, version, except_from=subject)
    numbers = [version.number for version in versions]
    if any(state.referrers(version) for version in versions):
        # Versions that refer to others of the subject go first: a crash may come between two parts.
        versions = sorted(versions, key=lambda each: each.origin.sequence, reverse=True)
    if permanent:
        return Decided(numbers, purge(state, versions))
    return Decided(numbers, [[VersionDeleted(subject, each.number)] for each in versions])


def check_writable(state: State, subject: str) -> None:
    """Raise `RegistryError` (42205) if a subject or scope is read-only."""
    if state.mode(subject).is_read_only:
        context = context_of(subject).removeprefix(".")
        reason = f"Subject {subject} in context {context} is in read-only mode"
        raise RegistryError(NOT_PERMITTED, reason=reason)


def _check_unreferenced(state: State, version: Version, except_from: str | None = None) -> None:
    """Raise `RegistryError` (42206) if a version refers to one, except from a subject."""
    if any(referrer.subject != except_from for referrer in state.referrers(version)):
        raise RegistryError(REFERENCED, subject=version.subject, version=version.number)


def purge(state: State, versions: Sequence[Version], *, with_settings: bool = True) -> list[Part]:
    """Return the parts that remove versions from the log, one each.

    The settings of a subject go with its last version, if requested.
    """
    remaining = {version.subject: len(state.subjects[version.subject]) for version in versions}
    parts: list[Part] = []
    for version in versions:
        remaining[version.subject] -= 1
        is_last = with_settings and not remaining[version.subject]
        keys = [*version.keys, *(settings_keys(state, version.subject) if is_last else ())]
        parts.append([Purged(key) for key in keys])
    return parts


def settings_keys(state: State, scope: str) -> list[Key]:
    """Return the keys of the settings of a scope."""
    keys = []
    if scope in state.configs:
        sequence, node = state.configs[scope].origin
        keys.append(Key(CONFIG, node, sequence, scope))
    if scope in state.modes:
        sequence, node = state.modes[scope].origin
        keys.append(Key(MODE, node, sequence, scope))
    return keys


def delete_context(state: State, name: str) -> Decided[None]:
    """Decide on deleting a context without schemas, together with its settings.

    Its ids are not reused. Raises `RegistryError` (40401, 42205, 42211).
    """
    context = check_context(name)
    if context == DEFAULT_CONTEXT:
        raise RegistryError(NOT_PERMITTED, reason="The default context cannot be deleted")
    scope = scope_of_context(context)
    settings = [each for each in {*state.configs, *state.modes} if context_of(each) == context]
    if context not in state.contexts() and not settings:
        raise RegistryError(SUBJECT_NOT_FOUND, subject=scope)
    if any(context_of(subject) == context for subject in state.subjects):
        raise RegistryError(CONTEXT_NOT_EMPTY, context=context)
    check_writable(state, scope)
    keys = [key for setting in sorted(settings) for key in settings_keys(state, setting)]
    deleted = frozenset({*state.deleted_contexts, context})
    gone = [Purged(key) for key in keys]
    return Decided(None, [[*gone, CountersWritten(state.next_ids(), deleted)]])

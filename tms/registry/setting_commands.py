"""Decides on settings: compatibility and mode, of a subject, a context or everywhere. Pure.

A new record of a setting replaces the one before, whose tombstone is written with it.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from tms.core.values.schema_contracts import (
    SchemaMetadata,
    SchemaRuleSet,
    ordered_metadata,
    ordered_rules,
)
from tms.registry.contracts import Contract, kept
from tms.registry.deletion import check_writable, purge
from tms.registry.state.decision import Decided, Part
from tms.registry.state.records import (
    CONFIG,
    MODE,
    ConfigWritten,
    Key,
    ModeWritten,
    Purged,
    Record,
)
from tms.registry.state.refusal import (
    NO_SUBJECT_CONFIG,
    NO_SUBJECT_MODE,
    NOT_PERMITTED,
    SUBJECT_NOT_FOUND,
    RegistryError,
)
from tms.registry.state.registry_state import State, Written
from tms.registry.state.settings import Config, Level, Mode, parse_level, parse_mode
from tms.registry.state.subjects import (
    DEFAULT_SCOPE,
    EVERYWHERE,
    check_scope,
    check_subject,
    qualified,
    scopes_of,
)

_ALWAYS_SET = (DEFAULT_SCOPE, EVERYWHERE)
Change = Mapping[str, object]
"""The settings of a request, by the names of `Config`'s fields. None removes a setting."""


def changed(config: Config, change: Change) -> Config:
    """Return settings with a change. Raises `RegistryError` (42203, 42208, 42210)."""
    return msgspec.structs.replace(
        config, **{name: _checked(name, value) for name, value in change.items()}
    )


def _checked(name: str, value: object) -> object:
    """Return the stored value of a setting. Raises `RegistryError`."""
    if value is None:
        return None
    if name == "compatibility":
        return parse_level(str(value))
    if name == "alias":
        return check_subject(str(value)) if value else None
    if isinstance(value, SchemaMetadata):
        return kept(Contract(metadata=ordered_metadata(value))).metadata
    if isinstance(value, SchemaRuleSet):
        return kept(Contract(rule_set=ordered_rules(value))).rule_set
    return value


def set_config(state: State, name: str, change: Change) -> Decided[Config]:
    """Decide on a change of settings; answer the resulting ones. Raises `RegistryError`."""
    scope = check_scope(name)
    old = state.configs.get(scope)
    config = changed(Config() if old is None else old.value, change)
    check_writable(state, scope)
    if old is not None and old.value == config:
        return Decided(config)
    records: list[Record | Purged] = [] if config.is_empty else [ConfigWritten(scope, config)]
    records += _gone(CONFIG, scope, old)
    return Decided(config, [records] if records else [])


def delete_config(state: State, name: str) -> Decided[Config]:
    """Decide on deleting settings; answer the former ones. Raises `RegistryError` (40401)."""
    scope = qualified(name)
    old = state.configs.get(scope)
    if old is None and scope not in _ALWAYS_SET:
        raise RegistryError(SUBJECT_NOT_FOUND, subject=name)
    check_writable(state, scope)
    was = Config() if old is None else old.value
    shown = msgspec.structs.replace(was, compatibility=was.compatibility or state.level(scope))
    return Decided(shown, [] if old is None else [_gone(CONFIG, scope, old)])


def config_of(state: State, name: str, *, default_to_global: bool) -> Config:
    """Return the settings of a scope. Raises `RegistryError` (40408)."""
    scope = qualified(name)
    written = state.configs.get(scope)
    if written is None and scope not in _ALWAYS_SET and not default_to_global:
        raise RegistryError(NO_SUBJECT_CONFIG, subject=name)
    config = state.config(scope) if default_to_global or written is None else written.value
    return msgspec.structs.replace(config, compatibility=state.level(scope))


def level_of(state: State, name: str) -> Level:
    """Return the level in effect for a subject."""
    return state.level(qualified(name))


def set_mode(state: State, name: str, text: str, *, force: bool) -> Decided[str]:
    """Decide on a mode; answer its name as it was sent.

    Imports need an empty scope, so its soft-deleted versions are removed. Raises `RegistryError`.
    """
    scope = check_scope(name)
    mode = parse_mode(text)
    old = state.modes.get(scope)
    if old is not None and old.value is mode:
        return Decided(text)
    emptied = _emptied(state, scope, force=force) if mode is Mode.IMPORT else []
    return Decided(text, [*emptied, [*_gone(MODE, scope, old), ModeWritten(scope, mode)]])


def _emptied(state: State, scope: str, *, force: bool) -> list[Part]:
    """Return the parts that remove soft-deleted versions, but no settings.

    Raises `RegistryError` (42205).
    """
    subjects = list(state.subjects_of(scope))
    if not force and any(state.latest(subject) is not None for subject in subjects):
        raise RegistryError(NOT_PERMITTED, reason="Cannot import since found existing subjects")
    deleted = [
        version
        for subject in subjects
        for version in state.versions(subject, deleted=True)
        if version.is_deleted
    ]
    return purge(state, deleted, with_settings=False)


def delete_mode(state: State, scope_name: str, *, recursive: bool = False) -> Decided[str]:
    """Decide on deleting a mode; answer the former one. Raises `RegistryError` (40401).

    With `recursive`, the modes of all subjects in the scope are deleted, too, each in its own part.
    """
    scope = qualified(scope_name)
    old = state.modes.get(scope)
    within = [name for name in sorted(state.modes) if scope in scopes_of(name)[1:]]
    gone = [_gone(MODE, name, state.modes[name]) for name in within if recursive]
    if old is None and not gone and scope not in _ALWAYS_SET:
        raise RegistryError(SUBJECT_NOT_FOUND, subject=scope_name)
    if old is None:
        return Decided(state.mode(scope).value, gone)
    return Decided(old.value.value, [*gone, _gone(MODE, scope, old)])


def mode_of(state: State, name: str, *, default_to_global: bool) -> Mode:
    """Return the mode of a scope. Raises `RegistryError` (40409)."""
    scope = qualified(name)
    if scope not in {*state.modes, *_ALWAYS_SET} and not default_to_global:
        raise RegistryError(NO_SUBJECT_MODE, subject=name)
    return state.mode(scope)


def _gone(kind: str, scope: str, old: Written[Any] | None) -> list[Purged]:
    """Return the tombstone of a setting, if it is set."""
    return [] if old is None else [Purged(Key(kind, old.origin.node, old.origin.sequence, scope))]

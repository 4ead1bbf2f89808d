"""Measures how far the groups of one store are behind their topics, for operators.

A group that is not in memory is loaded first. A refresh takes about `SECONDS_MAX`. Groups that it
does not reach keep their numbers, and are first in the next one. A group without numbers gets a
glance: it finds the oldest message, and that others follow.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from tms.core.errors import TmsError
from tms.core.limits import MS_PER_S
from tms.core.runtime.shares import share_of
from tms.core.values.lags import Hindrance, ReaderLag
from tms.core.values.message import published_ms
from tms.core.values.subscriptions import SharedSubscription
from tms.core.values.table_rows import StoredPosition
from tms.core.values.topic import TopicId
from tms.messaging.groups.hindrances import hindrances_of
from tms.messaging.groups.loaded import HeldGroup, LoadedGroups
from tms.messaging.lags import Lag, SubscriptionLags, reader_lag
from tms.messaging.store_runtime import StoreRuntime

SECONDS_MAX = 0.5
_Name = tuple[TopicId, str]


class _Measured(NamedTuple):
    stored: StoredPosition
    lag: Lag
    opened: int
    """How many messages are open."""
    hindrances: list[Hindrance]


class GroupLags:
    """The lags of groups at the last refresh."""

    def __init__(
        self, engine: StoreRuntime, subscriptions: SubscriptionLags, groups: LoadedGroups
    ) -> None:
        """Measure the groups that `subscriptions` found at its last refresh."""
        self._clock = engine.clock
        self._subscriptions = subscriptions
        self._groups = groups
        self._open_max = engine.limits.groups_open_max
        self._lags: dict[_Name, _Measured] = {}
        self._turn = 0
        self._looking = asyncio.Lock()

    def lags(self) -> list[ReaderLag]:
        """Return the lags."""
        now_ms = self._clock.expiry_ms()
        return [
            replace(
                reader_lag(measured.stored.position, measured.lag, now_ms),
                messages=measured.lag.messages + measured.opened,
                open=measured.opened,
                hindrances=measured.hindrances,
            )
            for measured in self._lags.values()
        ]

    async def refresh(self) -> None:
        """Measure again, unless a refresh is running."""
        if self._looking.locked():
            return
        async with self._looking:
            rows = {
                (row.position.topic_id, row.position.name): row
                for row in self._subscriptions.shared
            }
            self._groups.counts.keep(rows.keys() | self._groups.names)
            self._lags = {
                name: measured
                for name, measured in self._lags.items()
                if name in rows and _created(rows[name]) == _created(measured.stored)
            }
            ends_ms = self._clock.steady_ms() + SECONDS_MAX * MS_PER_S
            await self._glance(rows, ends_ms - SECONDS_MAX * MS_PER_S / 2)
            names = list(rows)
            self._turn %= max(1, len(names))
            for name in names[self._turn :] + names[: self._turn]:
                if self._clock.steady_ms() > ends_ms:
                    return
                with suppress(TmsError):  # it was deleted in the meantime, or cannot be read now
                    await self._look(name, rows[name])
                self._turn += 1

    async def _glance(self, rows: Mapping[_Name, StoredPosition], ends_ms: float) -> None:
        """Count a little of groups that have no numbers yet, so that all are reported."""
        for name in rows.keys() - self._lags.keys():
            if self._clock.steady_ms() > ends_ms:
                return
            with suppress(TmsError):
                await self._look(name, rows[name], is_glance=True)

    async def _look(self, name: _Name, stored: StoredPosition, *, is_glance: bool = False) -> None:
        async with HeldGroup(self._groups, *name) as group:
            if group.created != _created(stored):
                return  # it was deleted, and created again
            self._groups.expire(group)
            state = group.commands.state
            opened = len(state.open)
            oldest = next(iter(state.open), None)
            is_full = share_of(self._open_max, opened, self._groups.open_count - opened) == 0
            settings = group.commands.settings
            hindrances = hindrances_of(
                state, settings, is_server_full=is_full, burial_error=group.burial_error
            )
            unread = replace(stored.position, after=state.through)
            lag = await self._subscriptions.behind(
                stored._replace(position=unread), is_glance=is_glance
            )
        if lag is None:
            self._lags.pop(name, None)
            return
        if oldest is not None:
            oldest_ms = published_ms(oldest)
            lag = replace(lag, first_ms=min(oldest_ms, lag.first_ms or oldest_ms))
        self._lags[name] = _Measured(stored, lag, opened, hindrances)


def _created(stored: StoredPosition) -> int:
    """Return the version that created a row's group."""
    assert isinstance(stored.position, SharedSubscription)
    return stored.position.created

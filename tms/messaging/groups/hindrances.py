"""Finds what hinders a group: messages that fail again and again, a key, a limit. Pure."""

from collections.abc import Iterator
from typing import Final

from tms.core.values.group_settings import GroupSettings
from tms.core.values.lags import Hindrance
from tms.messaging.groups.state import OpenMessages

ATTEMPTS_MIN: Final = 10
"""After this number of failed attempts, a message is reported."""
_KEY_PART: Final = 2
"""A key is reported if it has one in this number of the messages that may be open."""


def hindrances_of(
    state: OpenMessages,
    settings: GroupSettings,
    *,
    is_server_full: bool,
    burial_error: str = "",
) -> list[Hindrance]:
    """Return what hinders a group.

    `is_server_full` says that the server's groups may not open more messages, and `burial_error`
    why dead letters cannot be written.
    """
    return [
        *_dead_letters(state, settings, burial_error),
        *_failing(state),
        *_key(state, settings),
        *_bound(state, settings, is_server_full=is_server_full),
    ]


def _dead_letters(
    state: OpenMessages, settings: GroupSettings, burial_error: str
) -> Iterator[Hindrance]:
    if state.dying and burial_error:
        yield Hindrance(
            f"{len(state.dying)} messages cannot be written to topic {settings.dead_letter}: "
            f"{burial_error}",
            "Create the topic again, or name another one with `tms group set --dead-letter`.",
        )
    if not (settings.paused and settings.dead_letter):
        return
    failed = sum(1 for opened in state.open.values() if opened.attempts)
    if failed:
        yield Hindrance(
            f"It is paused, and {failed} of its messages have failed. It pauses itself before more "
            f"than {settings.dead_letters_max} messages become dead letters within "
            f"{settings.dead_letters_per_s} seconds.",
            "Fix its workers, then run `tms group resume`.",
        )


def _failing(state: OpenMessages) -> Iterator[Hindrance]:
    worst, attempts, count = None, 0, 0
    for message_id, opened in state.open.items():
        if opened.attempts >= ATTEMPTS_MIN:
            count += 1
            if opened.attempts > attempts:
                worst, attempts = message_id, opened.attempts
    if worst is not None:
        reason = state.reasons.get(worst)
        because = f": {reason}" if reason else "."
        messages = "1 message keeps" if count == 1 else f"{count:,} messages keep"
        yield Hindrance(
            f"{messages} failing. Message {worst.hex()} has failed {attempts} times{because}",
            "Fix the worker, or acknowledge the message.",
        )


def _key(state: OpenMessages, settings: GroupSettings) -> Iterator[Hindrance]:
    longest = max(state.keys.values(), key=lambda key: len(key.open), default=None)
    if longest is not None and len(longest.open) * _KEY_PART >= settings.open_max:
        yield Hindrance(
            f"Open messages with the same key: {len(longest.open):,}. It is the key of message "
            f"{longest.open[0].hex()}; at {settings.open_max:,} the group stops.",
            "Process these messages, or raise open_max.",
        )


def _bound(
    state: OpenMessages, settings: GroupSettings, *, is_server_full: bool
) -> Iterator[Hindrance]:
    if len(state.open) >= settings.open_max:
        yield Hindrance(
            f"It has {len(state.open):,} open messages, the maximum.",
            "Add workers, or raise open_max.",
        )
    elif is_server_full and state.open:
        yield Hindrance(
            f"The groups of this server have the maximum of open messages; {len(state.open):,} "
            "of them belong to this group.",
            "Add workers, lower the open_max of other groups, or raise groups_open_max.",
        )

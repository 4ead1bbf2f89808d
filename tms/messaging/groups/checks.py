"""Checks of what members and those who look after groups ask for. Pure."""

from tms.core.errors import InvalidRequest
from tms.core.groups import Acks, GroupSettings, Nacks, Order, Releases, Settle, Take
from tms.core.limits import JSON_INTEGER_MAX, Limits
from tms.core.message import check_id

_DELAY_S_MAX = 86_400 * 30


def check_settings(settings: GroupSettings, limits: Limits) -> None:
    """Raise `InvalidRequest` (invalid_group)."""
    bounds = {
        "lease_s": (1, limits.group_lease_s_max),
        "retry_s": (0, _DELAY_S_MAX),
        "retry_s_max": (0, _DELAY_S_MAX),
        "open_max": (1, limits.group_open_max),
        "member_max": (1, limits.group_open_max),
    }
    for name, (least, most) in bounds.items():
        value = getattr(settings, name)
        if value is None:
            raise InvalidRequest("invalid_group", **{name: value})
        _check_number(name, value, least, most)
    if not isinstance(settings.paused, bool) or not isinstance(settings.order, Order):
        raise InvalidRequest("invalid_group", paused=settings.paused, order=settings.order)


def check_take(take: Take, wait_s: float, limits: Limits) -> None:
    """Raise `InvalidRequest` (invalid_group, invalid_wait)."""
    if wait_s < 0:
        raise InvalidRequest("invalid_wait", wait_s=wait_s)
    _check_number("messages", take.messages, 1, limits.take_messages_max)
    _check_number("lease_s", take.lease_s, 1, limits.group_lease_s_max)
    _check_number("bytes", take.bytes_max, 1, JSON_INTEGER_MAX)
    _check_number("sequence", take.sequence, 0, JSON_INTEGER_MAX)


def check_settle(settle: Settle, limits: Limits) -> None:
    """Raise `InvalidRequest` (invalid_group, invalid_message_id)."""
    _check_number("lease_s", settle.lease_s, 1, limits.group_lease_s_max)
    for nacks in settle.nacks:
        delay_s = nacks.delay_s
        if delay_s is not None and not 0 <= delay_s <= _DELAY_S_MAX:
            raise InvalidRequest("invalid_group", delay_s=delay_s, delay_s_max=_DELAY_S_MAX)
    named: list[Acks | Nacks | Releases] = [*settle.acks, *settle.nacks, *settle.releases]
    for each in named:
        for message_id in each.ids or ():
            check_id(message_id)


def _check_number(name: str, value: object, least: int, most: int) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidRequest("invalid_group", **{name: value}, least=least, most=most)

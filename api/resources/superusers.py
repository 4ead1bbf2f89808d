"""Checks of operations for which no rule is enough: only superusers may do them."""

from api.http.exchange import Exchange
from tms.security.resources import SERVER, Action
from tms.security.rules import Identity


def is_superuser(exchange: Exchange) -> bool:
    """Whether the caller is a superuser, or there is no access control."""
    access = exchange.context.access
    asks = Identity(exchange.caller.principal or "")
    return access is None or access.grants.book.is_superuser(asks)


def check_superuser(exchange: Exchange) -> None:
    """Raise `NotPermitted`, which the audit reports, unless the caller is a superuser."""
    access = exchange.context.access
    if access is not None and not is_superuser(exchange):
        access.refuse(exchange, Action.OPERATE, SERVER)

"""The allowed names of principals and groups, for every mechanism of authentication.

1. Reserved names are not allowed: `*` and `group:…` (in rules), `anonymous` (callers without
   credentials), and `server:…` (a server of the cluster itself).
2. Names are shown in logs and rules, so they are one line of visible text.
3. Groups are few and short enough to be forwarded in a header.
"""

from collections.abc import Iterable

from tms.core.errors import NotAuthenticated
from tms.security.rules import ANONYMOUS, EVERYBODY, GROUP, Identity

SERVER = "server:"
"""A prefix of an instance's id: that server itself. Only a sealed forward may claim it."""
NAME_CHARS_MAX = 255
GROUPS_MAX = 100
GROUPS_BYTES_MAX = 4096
"""The most bytes of UTF-8 of all groups of one principal."""


def reason_against(name: str) -> str | None:
    """Return why a name is not allowed; None if it is."""
    reason = _reason_against_text(name)
    if reason is not None:
        return f"a principal {reason}"
    if name in (EVERYBODY, ANONYMOUS) or name.startswith((GROUP, SERVER)):
        kept = f"{EVERYBODY}, {ANONYMOUS}, and names that begin with {GROUP} or {SERVER}"
        return f"these names have another meaning and cannot be principals: {kept}"
    return None


def check_principal(name: str) -> str:
    """Return the name. Raises `NotAuthenticated` if it is not allowed."""
    reason = reason_against(name)
    if reason is not None:
        raise NotAuthenticated("credentials_invalid", reason=reason)
    return name


def reason_against_groups(groups: Iterable[str]) -> str | None:
    """Return why these groups are not allowed; None if they are."""
    names = frozenset(groups)
    if len(names) > GROUPS_MAX:
        return f"a principal must not be in more than {GROUPS_MAX} groups"
    for name in names:
        reason = _reason_against_text(name)
        if reason is not None:
            return f"a group {reason}"
    if sum(len(name.encode()) for name in names) > GROUPS_BYTES_MAX:
        return (
            f"the groups of a principal must not have more than {GROUPS_BYTES_MAX} bytes together"
        )
    return None


def checked_identity(principal: str, groups: Iterable[str] = ()) -> Identity:
    """Return the identity. Raises `NotAuthenticated` if the name or a group is not allowed."""
    names = frozenset(groups)
    reason = reason_against_groups(names)
    if reason is not None:
        raise NotAuthenticated("credentials_invalid", reason=reason)
    return Identity(check_principal(principal), names)


def _reason_against_text(name: str) -> str | None:
    if not 0 < len(name) <= NAME_CHARS_MAX:
        return f"has a name of 1 to {NAME_CHARS_MAX} characters"
    if not name.isprintable() or name != name.strip():
        return "has a name of visible characters, without spaces around it"
    return None

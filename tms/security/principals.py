"""The names that somebody may be authenticated under, and the groups; every mechanism asks here.

1. A name that means something else is nobody's: `*`, `group:…` (rules are for them), `anonymous`
   (those who did not say who they are), and `server:…` (a server of the cluster itself).
2. Names are shown in logs and rules, so they are one line of text that can be seen.
3. Groups are few and short enough to be passed on in a header.
"""

from collections.abc import Iterable

from tms.core.errors import NotAuthenticated
from tms.security.rules import ANONYMOUS, EVERYBODY, GROUP, Identity

SERVER = "server:"
"""With an instance's id behind it: that server by itself. Only a sealed forward says so."""
NAME_CHARS_MAX = 255
GROUPS_MAX = 100
GROUPS_BYTES_MAX = 4096
"""The most that the groups of one principal may have together, in UTF-8."""


def reason_against(name: str) -> str | None:
    """Return why nobody may be authenticated under a name; None if somebody may."""
    reason = _reason_against_text(name)
    if reason is not None:
        return f"a principal {reason}"
    if name in (EVERYBODY, ANONYMOUS) or name.startswith((GROUP, SERVER)):
        kept = f"{EVERYBODY}, {ANONYMOUS}, and names that begin with {GROUP} or {SERVER}"
        return f"these names have another meaning and cannot be principals: {kept}"
    return None


def check_principal(name: str) -> str:
    """Return the name. Raises `NotAuthenticated` if nobody may be authenticated under it."""
    reason = reason_against(name)
    if reason is not None:
        raise NotAuthenticated("credentials_invalid", reason=reason)
    return name


def reason_against_groups(groups: Iterable[str]) -> str | None:
    """Return why nobody may be in all of these groups; None if somebody may."""
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
    """Return who it is. Raises `NotAuthenticated` if the name or a group is none."""
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
